"""Whatever happens in whatever order: what must never happen does not.

A seed draws everything; a failing one is named in the message. `make soak` runs many more of them: SOAK_SEEDS for each
property, from SOAK_FROM on.
"""

from __future__ import annotations

import json
import os

import pytest

from optsched.engine.codec import from_plain, restore, save, to_plain
from optsched.engine.events import Decided
from optsched.engine.log import rebuild
from optsched.engine.state import StopCause
from optsched.engine.step import fold, step
from optsched.engine.tables import ENDS, HOLDS_RUN
from optsched.values.job import JobState
from tests.engine.world import World

FEW = 3
FIRST = int(os.environ.get("SOAK_FROM", 0))
SEEDS = int(os.environ.get("SOAK_SEEDS", FEW))
STEPS = 150


def seeds(property_no: int) -> range:
    """The seeds of one property: no two share any."""
    return range(1000 * property_no + FIRST, 1000 * property_no + FIRST + SEEDS)


@pytest.mark.parametrize("seed", seeds(0))
def test_nothing_impossible_happens_and_everything_ends(seed: int) -> None:
    """The invariants hold after each of about a thousand events; and once the world is calm, nothing is left half done:
    no gang half started or half stopped, no room promised that nobody will use, no GPU booked to a run that is over.
    """
    world = World(seed)
    world.live(STEPS)
    state = world.calm_down()
    assert len(world.log) > 3 * STEPS
    states = {each.state for each in state.jobs.values()}
    assert states <= {JobState.QUEUED, JobState.RUNNING}, (seed, states)
    assert not state.claims, (seed, state.claims)
    for node in state.nodes.values():
        for each in node.bookings:
            assert state.jobs[each.job].run == each.run, (seed, each)
    assert len(state.jobs) + len(state.ended) == world.jobs, seed


@pytest.mark.parametrize("seed", seeds(1))
def test_a_crash_between_deciding_and_committing_gives_no_gpu_two_owners(seed: int) -> None:
    """Decisions and commands are lost now and then, and another scheduler takes over: the agents, which keep books of
    their own, are never asked to run two things on one GPU, and in the end run just what the scheduler thinks.
    """
    world = World(seed, crashes=True)
    world.live(STEPS)
    state = world.calm_down()
    assert state.epoch > 1, seed
    for name, runs in world.holds.items():
        booked = {(each.job, each.run) for each in state.nodes[name].bookings}
        assert set(runs) == booked, (seed, name)


@pytest.mark.parametrize("seed", seeds(2))
def test_the_same_seed_tells_the_same_story_and_the_log_rebuilds_the_state(seed: int) -> None:
    """Twice the same world ends in the same state; so does its log, without anything being decided anew."""
    first, again = World(seed), World(seed)
    assert first.live(STEPS // 2) == again.live(STEPS // 2), seed
    assert first.log == again.log, seed
    assert rebuild(first.start, first.log) == first.state, seed


@pytest.mark.parametrize("seed", seeds(3))
def test_a_state_that_is_saved_and_restored_has_the_same_future(seed: int) -> None:
    """At a step in the middle, through JSON: what is restored goes through the rest of the log alike, command by
    command. So does every entry of the log.
    """
    world = World(seed)
    world.live(STEPS // 2)
    middle = len(world.log) // 2
    before = rebuild(world.start, world.log[:middle])
    restored = restore(json.loads(json.dumps(save(before), allow_nan=False)))
    assert restored == before, seed
    rest = [(entry.at, entry.event) for entry in world.log[middle:]]
    assert fold(restored, rest) == fold(before, rest), seed
    for entry in world.log:
        assert from_plain(json.loads(json.dumps(to_plain(entry)))) == entry, seed


@pytest.mark.parametrize("seed", seeds(4))
def test_every_preemption_had_a_beneficiary_that_started_or_gave_the_room_back(seed: int) -> None:
    """Followed through the log: of the jobs for which a run was stopped at least one started afterwards, or all of them
    were withdrawn, failed or lost their room and said so.
    """
    world = World(seed)
    world.live(STEPS)
    world.calm_down()
    state, waiting = world.start, []
    for entry in world.log:
        found = step(state, entry.event, entry.at)
        if isinstance(entry.event, Decided):
            for name, record in found.state.jobs.items():
                old = state.jobs.get(name)
                if (
                    record.stop is not None
                    and record.stop.cause is StopCause.PLAN
                    and (old is None or old.stop is None)
                ):
                    runs = {job: found.state.jobs[job].run for job in record.stop.beneficiaries}
                    already = any(found.state.jobs[job].state in HOLDS_RUN for job in runs)
                    waiting += [] if already else [(name, runs)]
        dropped = {note.job for note in found.notes if note.kind.value in ("dropped", "cancelled")}
        left = []
        for name, runs in waiting:
            started = any((r := found.state.record(job)) is not None and r.run > run for job, run in runs.items())
            gone = [job for job in runs if job in dropped or found.state.record(job).state in ENDS]
            rest = {job: run for job, run in runs.items() if job not in gone}
            if not started and rest:
                left.append((name, rest))
        waiting, state = left, found.state
    assert not waiting, (seed, waiting)
