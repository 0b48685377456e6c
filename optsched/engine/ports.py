"""What the engine needs of the world around it, for whoever provides it: so far a store."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from optsched.engine.log import LogEntry
from optsched.values.ids import JobId
from optsched.values.plan import Bill, Source

NO_KEYS: Mapping[str, bytes] = {}


def digest_of_key(key: str) -> bytes:
    """Return what an idempotency key is stored as: of one length, and telling nothing, whatever the key is."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def print_of(key: str) -> int:
    """Return the first 64 bits of a key's digest."""
    return int.from_bytes(digest_of_key(key)[:8])


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a store held when it was opened.

    `state` is the newest that was saved, as it stood after entry `sequence` (None and 0: none ever was); `entries` are
    all that follow. `epoch` grows with every time that the store is opened; it begins at 1.
    """

    epoch: int
    sequence: int
    state: bytes | None
    entries: tuple[LogEntry, ...]


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """A round that was decided at an instant: whose plan went out, the gap (None: no bound), the bill in GPU-seconds.

    `plan` is the whole plan as JSON; None in lists, and of rounds whose plan is kept no longer.
    """

    number: int
    at: float
    source: Source
    gap: float | None
    bill: Bill
    plan: bytes | None = None


class Store(Protocol):
    """Keeps what must outlive the process. One process writes at a time; its threads may call at the same time.

    What is durable outlives the process, a kill, and, where the disk keeps its promises, the loss of power. A call
    that raises has stored nothing, except for StoreLost: then nobody knows before the store is opened again.
    Ages are told by the instants of the entries: a store reads no clock.
    """

    def open(self) -> Recovered:
        """Become the one writer and return what is there; an empty store is made where there is none.

        A store of an older version is brought up to date. Raises StoreInUse while another process writes (one that
        stands by tries again), StoreTooNew, StoreDamaged, or StoreError where it cannot be reached or written.
        """
        ...

    def append(self, entries: Sequence[LogEntry], keys: Mapping[str, bytes] = NO_KEYS) -> None:
        """Store entries, and the answers given under idempotency keys, all or nothing; durable when it returns.

        Raises InternalError where an entry is not the next or a key is known, StoreDeposed where another process has
        opened the store since, StoreFull, StoreLost.
        """
        ...

    def known_keys(self, wanted: Collection[str]) -> Mapping[str, bytes]:
        """Return the answers that were given under keys, by key; those not known or kept no longer are left out."""
        ...

    def key_prints(self) -> Collection[int]:
        """Return the prints of all keys that are kept: a key whose print is not among them is not known."""
        ...

    def save_state(self, sequence: int, state: bytes) -> None:
        """Store the state as it stood after an entry (0: before the first), in place of the last one; durable.

        What lies before is replayed no more, and goes as the retention says. Raises as `append` does; InternalError
        for a sequence before the last saved state or beyond the last entry.
        """
        ...

    def add_round(self, record: RoundRecord) -> None:
        """Store a round, its plan included; durable. The oldest go as the retention says, plans first.

        Raises as `append` does; InternalError for no later number.
        """
        ...

    def rounds(self, before: int | None, limit: int) -> list[RoundRecord]:
        """Return up to `limit` rounds without their plans, the newest first, only those numbered below `before`."""
        ...

    def round(self, number: int) -> RoundRecord | None:
        """Return a round with its plan, as far as that is kept; None where it is not known."""
        ...

    def history(self, job: JobId, after: int, limit: int) -> list[LogEntry]:
        """Return up to `limit` entries that concern a job, in order, only those after entry `after`.

        A decision comes without the list of who waits, which is kept for replay only.
        """
        ...

    def close(self) -> None:
        """Let another process write. Nothing is lost without it; after it the store may be opened again."""
        ...
