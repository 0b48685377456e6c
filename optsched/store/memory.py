"""A store that lives as long as its process: for tests, simulations, and trying things out."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from optsched.engine.log import LogEntry
from optsched.engine.ports import NO_KEYS, Recovered, RoundRecord, print_of
from optsched.errors import InternalError
from optsched.store.packed import Packed, pack_blob, pack_entry, round_size, unpack_blob, unpack_entry
from optsched.store.retention import Retention
from optsched.store.rules import check_next, check_round, check_state
from optsched.values.ids import JobId


class MemoryStore:
    """What `optsched.engine.ports.Store` promises, as far as it can be had without a disk: closing it keeps all."""

    def __init__(self, retention: Retention | None = None) -> None:
        self._retention = retention or Retention()
        self._lock = threading.RLock()
        self._opened = False
        self._epoch = 0
        self._last = 0
        self._at = 0.0
        self._state: tuple[int, bytes] | None = None
        self._log: dict[int, Packed] = {}
        self._keys: dict[str, tuple[float, bytes]] = {}
        self._rounds: dict[int, RoundRecord] = {}
        self._round = 0

    def open(self) -> Recovered:
        """Return what is there."""
        with self._lock:
            if self._opened:
                raise InternalError("the store is open")
            self._opened = True
            self._epoch += 1
            sequence, state = self._state or (0, None)
            found = [self._log[each] for each in sorted(self._log) if each > sequence]
            entries = tuple(unpack_entry(each.sequence, each.at, each.body, each.waiting) for each in found)
            return Recovered(self._epoch, sequence, None if state is None else unpack_blob(state, "the state"), entries)

    def append(self, entries: Sequence[LogEntry], keys: Mapping[str, bytes] = NO_KEYS) -> None:
        """Keep entries and answers, all or nothing."""
        packed = [pack_entry(entry) for entry in entries]
        with self._ready():
            check_next(self._last, packed)
            for key in keys:
                if key in self._keys:
                    raise InternalError("an idempotency key is known")
            for each in packed:
                self._log[each.sequence] = each
                self._last, self._at = each.sequence, each.at
            self._keys |= {key: (self._at, answer) for key, answer in keys.items()}

    def known_keys(self, wanted: Collection[str]) -> Mapping[str, bytes]:
        """Return the answers that were given under keys."""
        with self._ready():
            return {key: self._keys[key][1] for key in wanted if key in self._keys}

    def key_prints(self) -> Collection[int]:
        """Return the prints of all keys that are kept."""
        with self._ready():
            return {print_of(key) for key in self._keys}

    def save_state(self, sequence: int, state: bytes) -> None:
        """Keep a state in place of the last, and drop what goes by the retention."""
        body = pack_blob(state)
        with self._ready():
            check_state(sequence, self._state[0] if self._state else 0, self._last)
            self._state = (sequence, body)
            self._prune_log(sequence)
            self._prune_rounds()
            self._prune_keys()

    def add_round(self, record: RoundRecord) -> None:
        """Keep a round."""
        with self._ready():
            check_round(record, self._round)
            self._round = record.number
            self._rounds[record.number] = (
                record if record.plan is None else replace(record, plan=pack_blob(record.plan))
            )
            self._fit_rounds()

    def rounds(self, before: int | None, limit: int) -> list[RoundRecord]:
        """Return rounds without their plans, the newest first."""
        with self._ready():
            numbers = [number for number in sorted(self._rounds, reverse=True) if before is None or number < before]
            return [replace(self._rounds[number], plan=None) for number in numbers[:limit]]

    def round(self, number: int) -> RoundRecord | None:
        """Return a round with its plan."""
        with self._ready():
            found = self._rounds.get(number)
            if found is None or found.plan is None:
                return found
            return replace(found, plan=unpack_blob(found.plan, f"the plan of round {number}"))

    def history(self, job: JobId, after: int, limit: int) -> list[LogEntry]:
        """Return entries that concern a job, in order."""
        with self._ready():
            found = [each for number, each in sorted(self._log.items()) if number > after and job in each.jobs]
            return [unpack_entry(each.sequence, each.at, each.body) for each in found[:limit]]

    def close(self) -> None:
        """Nothing is lost: it may be opened again."""
        self._opened = False

    def _ready(self) -> threading.RLock:
        if not self._opened:
            raise InternalError("the store is not open")
        return self._lock

    def _prune_log(self, upto: int) -> None:
        """Drop what is not needed after a saved state, then the oldest of the rest."""
        folded = [self._log[number] for number in sorted(self._log) if number <= upto]
        for each in folded:
            if each.passing:
                del self._log[each.sequence]
            else:
                self._log[each.sequence] = replace(each, waiting=None)
        over = sum(each.size for each in self._log.values()) - self._retention.history_bytes
        for each in folded:
            if each.passing:
                continue
            if each.at >= self._at - self._retention.history_s and over <= 0:
                break
            del self._log[each.sequence]
            over -= each.size

    def _prune_rounds(self) -> None:
        keep = self._retention
        for number in sorted(self._rounds):
            if self._rounds[number].at < self._at - keep.rounds_s:
                del self._rounds[number]
        self._fit_rounds()

    def _fit_rounds(self) -> None:
        keep = self._retention
        over = sum(round_size(each, each.plan) for each in self._rounds.values()) - keep.round_bytes
        for number in sorted(self._rounds):
            if over > 0:
                over -= len(self._rounds[number].plan or b"")
                self._rounds[number] = replace(self._rounds[number], plan=None)
        for number in sorted(self._rounds):
            if over > 0:
                over -= round_size(self._rounds[number], None)
                del self._rounds[number]

    def _prune_keys(self) -> None:
        keep = self._retention
        self._keys = {key: each for key, each in self._keys.items() if each[0] >= self._at - keep.keys_s}
        for key in list(self._keys)[: max(0, len(self._keys) - keep.keys)]:
            del self._keys[key]
