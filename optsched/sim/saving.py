"""Saving a simulation where it stands, and going on from there: to the same future."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from optsched.engine import codec
from optsched.errors import Fault, InputError, InternalError
from optsched.sim import happenings as hap
from optsched.sim.accounts import Books
from optsched.sim.collect import Notes
from optsched.sim.kernel import Setup, Simulation
from optsched.sim.world import WorldState

FORMAT = 2
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
    """A simulation as plain data. `prints` tell what it was of; `entries` are the calendar's, `state` the engine's."""

    format: int
    prints: dict[str, str]
    policy_turn: int | None
    now: Annotated[int, Field(ge=0)]
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


def prints_of(setup: Setup, who: str) -> dict[str, str]:
    """Return prints of all that a future depends on beside where the simulation stands; `who` decides.

    They are named by what is said where one differs.
    """
    arrivals = [[each.at, each.work_s, each.ending.value, codec.to_plain(each.job)] for each in setup.workload.arrivals]
    settings = replace(setup.settings, until_s=None, checked=False, keep_log=False, maps_at=())
    parts = {
        "another trace": arrivals,
        "another cluster": codec.to_plain(setup.cluster),
        "another profile": [codec.to_plain(setup.profile), codec.to_plain(setup.truth)],
        "other options": repr(settings),
        "another policy": who,
    }
    return {
        name: hashlib.blake2b(json.dumps(part).encode(), digest_size=16).hexdigest() for name, part in parts.items()
    }


def save(simulation: Simulation, who: str) -> bytes:
    """Return a simulation as what a file of it has, gzipped; `who` decides."""
    calendar = simulation.calendar
    saved = Saved(
        FORMAT,
        prints_of(simulation.setup, who),
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
    return gzip.compress(text.encode(), compresslevel=3, mtime=0)


def _plain(what: hap.Happening) -> dict[str, object]:
    found = _adapter(type(what)).dump_python(what, mode="json")
    assert isinstance(found, dict), "a dataclass becomes a mapping"
    return found


def load(simulation: Simulation, path: str | os.PathLike[str], who: str) -> None:
    """Let a simulation that has not begun go on from a file. Raises InputError for one of another setup."""
    name, allowed = os.fspath(path), "what optsched simulate --save writes"
    try:
        text = gzip.decompress(Path(path).read_bytes())
        written = json.loads(text)
        if isinstance(written, dict) and written.get("format") != FORMAT:
            raise InputError([Fault(name, None, "format", f"is {written.get('format')!r:.40}", f"{FORMAT}")])
        saved = _adapter(Saved).validate_json(text)
        assert isinstance(saved, Saved), "what the adapter is for"
        entries = [(at, number, _happening(kind, plain)) for at, number, kind, plain in saved.entries]
        state = codec.restore(saved.state)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "(file)"
        raise InputError([Fault(name, None, where, first["msg"], allowed)]) from error
    except (OSError, EOFError, zlib.error, ValueError, KeyError, InternalError) as error:
        raise InputError([Fault(name, None, "(file)", str(error).splitlines()[0], allowed)]) from error
    differ = [part for part, value in prints_of(simulation.setup, who).items() if saved.prints.get(part) != value]
    if differ:
        wrong = f"was saved with {' and '.join(differ)}"
        raise InputError([Fault(name, None, "setup", wrong, "the same as when it was saved")])
    calendar = simulation.calendar
    calendar.entries, calendar.count, calendar.awaited = entries, saved.count, saved.awaited
    calendar.arrived, calendar.decided_at = saved.arrived, saved.decided_at
    simulation.restore(state, saved.world, saved.books, saved.notes, saved.now)
    simulation.collector.skip_maps(saved.now)
    simulation.planner.go_on(saved.policy_turn)


def _happening(kind: str, data: dict[str, object]) -> hap.Happening:
    found = _adapter(_KINDS[kind]).validate_python(data)
    assert isinstance(found, hap.Happening), "one of the kinds"
    return found
