"""The store on a database: what SQLite and PostgreSQL have in common.

Every change is one transaction that begins with the head: no other writer gets in between, and one that was deposed
gets nowhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from sqlalchemy import Connection, Engine, Row, bindparam, delete, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from optsched.engine.codec import FORMAT
from optsched.engine.log import LogEntry
from optsched.engine.ports import NO_KEYS, Recovered, RoundRecord, digest_of_key
from optsched.errors import InternalError, StoreDamaged, StoreDeposed, StoreError, StoreLost, StoreTooNew
from optsched.store.migrations import STEPS, Step, migrate
from optsched.store.packed import (
    Packed,
    checksum,
    pack_bill,
    pack_blob,
    pack_entry,
    round_checksum,
    round_size,
    unpack_blob,
    unpack_entry,
)
from optsched.store.pruning import Part, Pruning
from optsched.store.reading import checked_entry, recover, round_of
from optsched.store.retention import Retention
from optsched.store.rows import Rows
from optsched.store.rules import check_next, check_round, check_state
from optsched.store.tables import concerns, head, keys, log, plans, rounds, state, waiting
from optsched.values.ids import JobId


class Database(Protocol):
    """What the two databases do differently. `name` is how people are told of it, without a password."""

    name: str

    def lead(self) -> tuple[Engine, Connection]:
        """Become the one writer; return where to read, and the connection to write with. Raises StoreInUse."""
        ...

    def fault(self, error: DBAPIError) -> StoreError:
        """Return what an error of the database means."""
        ...

    def leave(self) -> None:
        """Let another one write; nothing happens where this one does not."""
        ...


_TAKE = (
    select(head.c.sequence, head.c.at, head.c.saved, head.c.round, head.c.round_bytes)
    .where(head.c.epoch == bindparam("mine"))
    .with_for_update()
)
"""Takes the lock and shows whose epoch it is; SQLite has the lock already, by how its transactions begin."""
_GROW = update(head).values(
    {
        head.c.sequence: bindparam("last"),
        head.c.at: bindparam("newest"),
        head.c.log_bytes: head.c.log_bytes + bindparam("more_bytes"),
        head.c.key_count: head.c.key_count + bindparam("more_keys"),
    }
)
_LOG, _WAITING, _CONCERNS, _KEYS = (Rows(table) for table in (log, waiting, concerns, keys))
_KNOWN = select(keys.c.key, keys.c.answer).where(keys.c.key.in_(bindparam("wanted", expanding=True)))
_HISTORY = (
    select(log.c.sequence, log.c.at, log.c.crc, log.c.body)
    .join(concerns, concerns.c.sequence == log.c.sequence)
    .where(concerns.c.job == bindparam("wanted"), concerns.c.sequence > bindparam("after"))
    .order_by(concerns.c.sequence)
)
_ROUND = (
    select(rounds, plans.c.body.label("plan"))
    .outerjoin(plans, plans.c.number == rounds.c.number)
    .where(rounds.c.number == bindparam("wanted"))
)
PAUSE_S = 0.002
"""Between two transactions that only let go of old things."""


class SqlStore:
    """What `optsched.engine.ports.Store` promises, on a database."""

    def __init__(
        self,
        database: Database,
        retention: Retention | None = None,
        steps: Sequence[Step] = STEPS,
        slice_rows: int = 500,
    ) -> None:
        self.name = database.name
        self._database = database
        self._steps = steps
        self._retention = retention or Retention()
        self._prune = Pruning(self._retention, slice_rows)
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._writer: Connection | None = None
        self._lost = ""
        self._epoch = 0

    def open(self) -> Recovered:
        """Become the one writer, bring the tables up to date, and return what is there."""
        with self._lock:
            if self._writer is not None:
                raise InternalError("the store is open")
            try:
                with self._faults():
                    self._engine, self._writer = self._database.lead()
                    migrate(self._writer, self._steps)
                    with self._writer.begin():
                        self._epoch = self._new_epoch(self._writer)
                    with self._writer.begin():
                        found = recover(self._writer, self._epoch)
            except BaseException:
                self._leave()
                raise
            self._lost = ""
            return found

    def append(self, entries: Sequence[LogEntry], keys: Mapping[str, bytes] = NO_KEYS) -> None:
        """Store entries and answers in one transaction."""
        packed = [pack_entry(entry) for entry in entries]
        if not packed and not keys:
            return
        rows = [(each.sequence, each.at, int(each.passing), each.size, _crc(each), each.body) for each in packed]
        who_waits = [
            (each.sequence, checksum(each.sequence, each.at, each.waiting), each.waiting)
            for each in packed
            if each.waiting is not None
        ]
        concerned = [(job, each.sequence) for each in packed for job in each.jobs]
        with self._change() as (writer, now):
            check_next(now.sequence, packed)
            at = packed[-1].at if packed else now.at
            values = {
                "last": now.sequence + len(packed),
                "newest": at,
                "more_bytes": sum(each.size for each in packed),
                "more_keys": len(keys),
            }
            writer.execute(_GROW, values)
            _LOG.put(writer, rows)
            _WAITING.put(writer, who_waits)
            _CONCERNS.put(writer, concerned)
            _add_keys(writer, keys, at)

    def known_keys(self, wanted: Collection[str]) -> Mapping[str, bytes]:
        """Return the answers that were given under keys."""
        names = {digest_of_key(key): key for key in wanted}
        found: dict[str, bytes] = {}
        with self._look() as reader:
            for some in _slices(list(names)):
                rows = reader.execute(_KNOWN, {"wanted": some}).all()
                found |= {names[bytes(key)]: bytes(answer) for key, answer in rows}
        return found

    def key_prints(self) -> Collection[int]:
        """Return the prints of all keys that are kept."""
        with self._look() as reader:
            return {int.from_bytes(bytes(key)[:8]) for (key,) in reader.execute(select(keys.c.key))}

    def save_state(self, sequence: int, state_bytes: bytes) -> None:
        """Store a state in place of the last, then let go of what the retention does not keep, a little at a time."""
        body = pack_blob(state_bytes)
        with self._change() as (writer, now):
            check_state(sequence, max(now.saved, 0), now.sequence)
            writer.execute(delete(state))
            writer.execute(insert(state), {"sequence": sequence, "crc": checksum(sequence, 0.0, body), "body": body})
            writer.execute(update(head).values(saved=sequence))
        self._let_go(self._prune.parts())

    def _let_go(self, parts: Sequence[Part]) -> None:
        for part in parts:
            more = True
            while more:
                with self._change() as (writer, _):
                    more = part(writer)
                # A lock goes to whoever asks first: without this, who waits with an append would not get it in between.
                time.sleep(PAUSE_S)

    def add_round(self, record: RoundRecord) -> None:
        """Store a round in a transaction of its own; the oldest go where there is no room for them any more."""
        plan = None if record.plan is None else pack_blob(record.plan)
        bill = pack_bill(record.bill)
        row = {
            "number": record.number,
            "at": record.at,
            "source": record.source.value,
            "gap": record.gap,
            "bill": bill,
            "size": round_size(record, None),
            "crc": round_checksum(record),
        }
        with self._change() as (writer, now):
            check_round(record, now.round)
            writer.execute(insert(rounds), row)
            if plan is not None:
                writer.execute(insert(plans), {"number": record.number, "body": plan})
            size = now.round_bytes + round_size(record, plan)
            writer.execute(update(head).values(round=record.number, round_bytes=size))
        if size > self._retention.round_bytes:
            self._let_go(self._prune.round_parts())

    def rounds(self, before: int | None, limit: int) -> list[RoundRecord]:
        """Return rounds without their plans, the newest first."""
        wanted = select(rounds).order_by(rounds.c.number.desc()).limit(limit)
        if before is not None:
            wanted = wanted.where(rounds.c.number < before)
        with self._look() as reader:
            return [round_of(row, None) for row in reader.execute(wanted)]

    def round(self, number: int) -> RoundRecord | None:
        """Return a round with its plan."""
        with self._look() as reader:
            row = reader.execute(_ROUND, {"wanted": number}).one_or_none()
        if row is None:
            return None
        return round_of(row, None if row.plan is None else unpack_blob(row.plan, f"the plan of round {number}"))

    def history(self, job: JobId, after: int, limit: int) -> list[LogEntry]:
        """Return entries that concern a job, in order."""
        with self._look() as reader:
            rows = reader.execute(_HISTORY.limit(limit), {"wanted": job, "after": after}).all()
        return [unpack_entry(sequence, at, checked_entry(sequence, at, crc, body)) for sequence, at, crc, body in rows]

    def close(self) -> None:
        """Let another process write."""
        with self._lock:
            self._leave()

    def _new_epoch(self, writer: Connection) -> int:
        found = writer.execute(select(head.c.epoch, head.c.format).with_for_update()).one_or_none()
        if found is None:
            raise StoreDamaged("the store has lost its head")
        epoch, stored = found
        if stored > FORMAT:
            raise StoreTooNew(f"what is stored is in format {stored}, and this optsched reads formats up to {FORMAT}")
        writer.execute(update(head).values(epoch=epoch + 1, format=FORMAT))
        return int(epoch) + 1

    @contextmanager
    def _change(self) -> Iterator[tuple[Connection, Row[tuple[int, float, int, int, int]]]]:
        """Begin a transaction as the leader; yield the connection and the head."""
        with self._lock, self._faults():
            writer = self._writer
            if writer is None:
                raise InternalError("the store is not open")
            if self._lost:
                raise StoreLost(self._lost)
            with writer.begin():
                now = writer.execute(_TAKE, {"mine": self._epoch}).one_or_none()
                if now is None:
                    raise StoreDeposed(f"{self.name}: another scheduler has opened the store since")
                yield writer, now

    @contextmanager
    def _look(self) -> Iterator[Connection]:
        engine = self._engine
        if engine is None:
            raise InternalError("the store is not open")
        with self._faults(reading=True), engine.connect() as reader:
            yield reader

    @contextmanager
    def _faults(self, *, reading: bool = False) -> Iterator[None]:
        """Turn what the database says into an error of the store, which says of which; remember what is in doubt."""
        try:
            yield
        except DBAPIError as error:
            fault = self._database.fault(error)
            if isinstance(fault, StoreLost) and not reading:
                self._lost = str(fault)
            raise fault from error
        except (StoreDamaged, StoreTooNew) as error:
            if str(error).startswith(self.name):
                raise
            raise type(error)(f"{self.name}: {error}") from error

    def _leave(self) -> None:
        engine, writer = self._engine, self._writer
        self._engine = self._writer = None
        # A connection that is broken says so once more when it is closed; there is nothing to lose any more.
        with suppress(DBAPIError):
            if writer is not None:
                writer.close()
        if engine is not None:
            engine.dispose()
        self._database.leave()


def _crc(each: Packed) -> int:
    return checksum(each.sequence, each.at, each.body)


def _add_keys(writer: Connection, given: Mapping[str, bytes], at: float) -> None:
    try:
        _KEYS.put(writer, [(digest_of_key(key), at, answer) for key, answer in given.items()])
    except IntegrityError as error:
        raise InternalError("an idempotency key is known") from error


def _slices(items: list[bytes], most: int = 500) -> Iterator[list[bytes]]:
    """Yield items, as many at once as a statement may hold."""
    for first in range(0, len(items), most):
        yield items[first : first + most]
