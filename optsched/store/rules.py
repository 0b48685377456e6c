"""What every store refuses, so that all of them say it alike."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.engine.ports import RoundRecord
from optsched.errors import InternalError
from optsched.store.packed import Packed


def check_next(last: int, entries: Sequence[Packed]) -> None:
    """Raise InternalError where entries do not follow the last one and each other."""
    for wanted, entry in enumerate(entries, last + 1):
        if entry.sequence != wanted:
            raise InternalError(f"entry {entry.sequence} is not the next: that is {wanted}")


def check_state(sequence: int, saved: int, last: int) -> None:
    """Raise InternalError for a state from before the last saved one, or from after the last entry."""
    if not saved <= sequence <= last:
        raise InternalError(f"a state after entry {sequence} cannot be saved: allowed are {saved} to {last}")


def check_round(record: RoundRecord, last: int) -> None:
    """Raise InternalError for a round that is not later than the last."""
    if record.number <= last:
        raise InternalError(f"round {record.number} is not later than the last, {last}")
