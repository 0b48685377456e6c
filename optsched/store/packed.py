"""Entries and rounds as the rows that are kept, and back.

Bodies are what `engine.codec` makes, deflated where they are long: JSON begins with `{`, deflated data never does;
states and plans are deflated always. Each carries a checksum, since neither database checks what it reads.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from optsched.engine.codec import decode, encode, from_plain, to_plain
from optsched.engine.events import Decided, Event
from optsched.engine.log import LogEntry, is_passing, jobs_of
from optsched.engine.ports import RoundRecord
from optsched.errors import InternalError, StoreDamaged
from optsched.values.ids import JobId
from optsched.values.plan import Bill, Waiting

LONG_BYTES = 512
"""A body longer than this is deflated."""

ENTRY_BYTES, CONCERN_BYTES, ROUND_BYTES = 56, 44, 100
"""What a row takes beside its texts, indexes and room left in pages included; measured, and rather too much."""


@dataclass(frozen=True, slots=True)
class Packed:
    """An entry as it is kept.

    `waiting` is the list of who waits of a decision, which is kept for replay only. `size` is what the rest takes in
    the store, about, in bytes.
    """

    sequence: int
    at: float
    body: bytes
    waiting: bytes | None
    jobs: tuple[JobId, ...]
    passing: bool
    size: int


def pack_entry(entry: LogEntry) -> Packed:
    """Return an entry as it is kept. Raises InternalError for an event that cannot be stored."""
    event, waiting = entry.event, None
    if isinstance(event, Decided) and event.plan.queued:
        waiting = deflated(_rows(event.plan.queued))
        event = replace(event, plan=replace(event.plan, queued=()))
    body = deflated(encode(event))
    jobs = jobs_of(event)
    # Each job is named twice: in the table and in its index.
    size = ENTRY_BYTES + len(body) + sum(CONCERN_BYTES + 2 * len(job) for job in jobs)
    return Packed(entry.sequence, entry.at, body, waiting, jobs, is_passing(event), size)


def unpack_entry(sequence: int, at: float, body: bytes, waiting: bytes | None = None) -> LogEntry:
    """Return the entry that was packed. Raises StoreDamaged for what is none."""
    where = f"entry {sequence} of the log"
    try:
        event = decode(inflated(body, where))
        if not isinstance(event, Event):
            raise StoreDamaged(f"{where} is no event")
        if waiting is not None:
            assert isinstance(event, Decided)
            event = replace(event, plan=replace(event.plan, queued=_from_rows(inflated(waiting, where))))
    except (InternalError, ValueError) as error:
        raise StoreDamaged(f"{where} cannot be read: {error}") from error
    return LogEntry(sequence, at, event)


def _rows(queued: Sequence[Waiting]) -> bytes:
    """Return who waits as a table with a head: a round may leave 100,000 jobs waiting."""
    names = [field.name for field in fields(Waiting)]
    table = [[_cell(getattr(each, name)) for name in names] for each in queued]
    return json.dumps({"fields": names, "rows": table}, separators=(",", ":")).encode("ascii")


def _cell(value: object) -> object:
    return value if isinstance(value, str) else to_plain(value)


def _from_rows(data: bytes) -> tuple[Waiting, ...]:
    table = json.loads(data)
    names = table["fields"]
    return tuple(Waiting(**dict(zip(names, map(from_plain, row), strict=True))) for row in table["rows"])


def pack_bill(bill: Bill) -> bytes:
    """Return a bill as it is kept."""
    return encode(bill)


def unpack_bill(number: int, data: bytes) -> Bill:
    """Return the bill of a round. Raises StoreDamaged for what is none."""
    try:
        bill = decode(data)
    except InternalError as error:
        raise StoreDamaged(f"the bill of round {number} cannot be read: {error}") from error
    if not isinstance(bill, Bill):
        raise StoreDamaged(f"the bill of round {number} is none")
    return bill


def round_size(record: RoundRecord, plan: bytes | None) -> int:
    """Return what a round takes in the store, about, in bytes."""
    return ROUND_BYTES + len(pack_bill(record.bill)) + len(plan or b"")


def deflated(data: bytes) -> bytes:
    """Return a body (JSON, an object) as it is kept: deflated where it is long."""
    return zlib.compress(data, 1) if len(data) > LONG_BYTES else data


def inflated(data: bytes, where: str) -> bytes:
    """Return the body that is kept so. Raises StoreDamaged for what is neither JSON nor deflated."""
    return data if data.startswith(b"{") else unpack_blob(data, where)


def pack_blob(data: bytes) -> bytes:
    """Return a state or a plan, whatever its bytes are, as it is kept."""
    return zlib.compress(data, 1)


def unpack_blob(data: bytes, where: str) -> bytes:
    """Return the bytes that were packed. Raises StoreDamaged for what never was."""
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise StoreDamaged(f"{where} cannot be read: {error}") from error


def checksum(number: int, at: float, body: bytes) -> int:
    """Return the CRC-32 of what belongs together: the number and the instant of a row, and its body."""
    return zlib.crc32(body, zlib.crc32(struct.pack(">qd", number, at)))


def round_checksum(record: RoundRecord) -> int:
    """Return the CRC-32 of a round without its plan; deflated data has a checksum of its own."""
    return checksum(record.number, record.at, encode((record.source, record.gap, record.bill)))
