"""Saving a simulation where it stands, and going on from there: to the same future."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from optsched.engine import codec
from optsched.errors import Fault, InputError, InternalError
from optsched.sim import happenings as hap
from optsched.sim.accounts import Books
from optsched.sim.collect import Notes
from optsched.sim.kernel import Setup, Simulation
from optsched.sim.world import WorldState

FORMAT = 1
"""Grows when what is written can no longer be read by what was there before."""

_KINDS: Mapping[str, type] = {
    each.__name__: each
    for each in (
        *(hap.Arrives, hap.Answers, hap.Reaches, hap.Saves, hap.Fails),
        *(hap.HangEnds, hap.Missed, hap.Fences, hap.Repaired, hap.Probes),
    )
}


@dataclass(frozen=True, slots=True)
class Saved:
    """A simulation as plain data. `setup` tells what it was of; `entries` are the calendar's, `state` the engine's."""

    format: int
    setup: str
    policy_turn: int | None
    now: int
    count: int
    awaited: int
    arrived: int
    decided_at: int
    entries: list[tuple[int, int, str, dict[str, object]]]
    world: WorldState
    books: Books
    notes: Notes
    state: dict[str, object]


_adapters: dict[type, TypeAdapter[object]] = {}


def _adapter(kind: type) -> TypeAdapter[object]:
    found = _adapters.get(kind)
    if found is None:
        found = _adapters[kind] = TypeAdapter(kind)
    return found


def print_of(setup: Setup) -> str:
    """Return a print of all that a future depends on, beside where the simulation stands."""
    parts = [codec.to_plain(setup.cluster), codec.to_plain(setup.profile), codec.to_plain(setup.truth)]
    parts += [[each.at, each.work_s, each.ending.value, codec.to_plain(each.job)] for each in setup.workload.arrivals]
    settings = repr(replace(setup.settings, until_s=None, checked=False, keep_log=False)).encode()
    return hashlib.blake2b(json.dumps(parts).encode() + settings, digest_size=16).hexdigest()


def save(simulation: Simulation, path: str | os.PathLike[str]) -> None:
    """Write a simulation to a file, gzipped."""
    calendar = simulation.calendar
    saved = Saved(
        FORMAT,
        print_of(simulation.setup),
        simulation.planner.turn,
        simulation.now,
        calendar.count,
        calendar.awaited,
        calendar.arrived,
        calendar.decided_at,
        [(at, number, type(what).__name__, _plain(what)) for at, number, what in calendar.entries],
        simulation.world.now,
        simulation.account.books,
        simulation.collector.notes,
        codec.save(simulation.state),
    )
    text = json.dumps(_adapter(Saved).dump_python(saved, mode="json"), separators=(",", ":"))
    Path(path).write_bytes(gzip.compress(text.encode(), compresslevel=3, mtime=0))


def _plain(what: hap.Happening) -> dict[str, object]:
    found = _adapter(type(what)).dump_python(what, mode="json")
    assert isinstance(found, dict), "a dataclass becomes a mapping"
    return found


def load(simulation: Simulation, path: str | os.PathLike[str]) -> None:
    """Let a simulation that has not begun go on from a file. Raises InputError for one of another setup."""
    name = os.fspath(path)
    try:
        saved = _adapter(Saved).validate_json(gzip.decompress(Path(path).read_bytes()))
        assert isinstance(saved, Saved), "what the adapter is for"
        if saved.format != FORMAT:
            raise InputError([Fault(name, None, "format", f"is {saved.format}", f"{FORMAT}")])
        entries = [(at, number, _happening(kind, data)) for at, number, kind, data in saved.entries]
        state = codec.restore(saved.state)
    except (OSError, EOFError, ValidationError, InternalError, KeyError) as error:
        what = str(error).splitlines()[0]
        raise InputError([Fault(name, None, "(file)", what, "what optsched simulate --save writes")]) from error
    if saved.setup != print_of(simulation.setup):
        wrong = "was saved from another trace, cluster, profile, seed or settings"
        raise InputError([Fault(name, None, "setup", wrong, "the same as when it was saved")])
    calendar = simulation.calendar
    calendar.entries, calendar.count, calendar.awaited = entries, saved.count, saved.awaited
    calendar.arrived, calendar.decided_at = saved.arrived, saved.decided_at
    simulation.restore(state, saved.world, saved.books, saved.notes, saved.now)
    simulation.planner.go_on(saved.policy_turn)


def _happening(kind: str, data: dict[str, object]) -> hap.Happening:
    found = _adapter(_KINDS[kind]).validate_python(data)
    assert isinstance(found, hap.Happening), "one of the kinds"
    return found
