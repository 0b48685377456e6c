"""Rows as what they stand for: checked, so that a store that is damaged says so."""

from __future__ import annotations

import struct
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from optsched.engine.log import LogEntry
from optsched.engine.ports import Recovered, RoundRecord
from optsched.errors import StoreDamaged
from optsched.store.packed import checksum, round_checksum, unpack_bill, unpack_blob, unpack_entry
from optsched.store.tables import head, log, state, waiting
from optsched.values.plan import Source

_AFTER_STATE = (
    select(log.c.sequence, log.c.at, log.c.crc, log.c.body, waiting.c.crc.label("waiting_crc"), waiting.c.body)
    .outerjoin(waiting, waiting.c.sequence == log.c.sequence)
    .where(log.c.sequence > bindparam("after"))
    .order_by(log.c.sequence)
)


def recover(connection: Connection, epoch: int) -> Recovered:
    """Return the saved state and all entries after it. Raises StoreDamaged where one is missing or damaged."""
    last, kept = connection.execute(select(head.c.sequence, head.c.saved)).one()
    row = connection.execute(select(state.c.sequence, state.c.crc, state.c.body)).one_or_none()
    if kept != (-1 if row is None else row.sequence):
        raise StoreDamaged("the saved state is missing")
    saved, body = 0, None
    if row is not None:
        saved = row.sequence
        body = unpack_blob(_checked("the saved state", saved, 0.0, row.crc, row.body), "the saved state")
    entries: list[LogEntry] = []
    for sequence, at, crc, packed, waiting_crc, queued in connection.execute(_AFTER_STATE, {"after": saved}):
        if sequence != saved + len(entries) + 1:
            raise StoreDamaged(f"entry {saved + len(entries) + 1} of the log is missing")
        if queued is not None:
            queued = checked_entry(sequence, at, waiting_crc, queued)
        entries.append(unpack_entry(sequence, at, checked_entry(sequence, at, crc, packed), queued))
    if saved + len(entries) != last:
        raise StoreDamaged(f"entry {saved + len(entries) + 1} of the log is missing")
    return Recovered(epoch, saved, body, tuple(entries))


def _checked(where: str, number: int, at: object, crc: int, body: object) -> bytes:
    """Return a body as bytes. Raises StoreDamaged where a part of its row is not what was written."""
    right = isinstance(at, float | int) and not isinstance(body, str)
    found = bytes(body) if right else b""  # type: ignore[call-overload]
    if not right or checksum(number, float(at), found) != crc:  # type: ignore[arg-type]
        raise StoreDamaged(f"{where} is not what was written: its checksum differs")
    return found


def checked_entry(sequence: int, at: object, crc: int, body: object) -> bytes:
    """Return the body of an entry. Raises StoreDamaged where its row is not what was written."""
    return _checked(f"entry {sequence} of the log", sequence, at, crc, body)


def round_of(row: Row[Any], plan: bytes | None) -> RoundRecord:
    """Return the round of a row. Raises StoreDamaged where that is not what was written."""
    try:
        found = RoundRecord(row.number, row.at, Source(row.source), row.gap, unpack_bill(row.number, row.bill), plan)
        right = round_checksum(found) == row.crc
    except (TypeError, ValueError, struct.error):
        right = False
    if not right:
        raise StoreDamaged(f"round {row.number} is not what was written: its checksum differs")
    return found
