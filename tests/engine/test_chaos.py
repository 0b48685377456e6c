"""Whatever happens in whatever order: what must never happen does not.

A seed draws everything; a failing one is named in the message. `make soak` runs many more of them: SOAK_SEEDS, from
SOAK_FROM on. The invariants are checked after every single event, by `invariants.py` and `promises.py`; that each of
them can fail is in `test_invariants.py`.
"""

from __future__ import annotations

import json
import os

import pytest

from optsched.engine.codec import from_plain, restore, save, to_plain
from optsched.engine.events import Decided
from optsched.engine.log import rebuild
from optsched.engine.state import State
from optsched.engine.step import fold, step
from optsched.values.job import JobState
from tests.engine.followed import Followed
from tests.engine.world import World

FEW = 3
FIRST = int(os.environ.get("SOAK_FROM", 0))
COUNT = int(os.environ.get("SOAK_SEEDS", FEW))
SEEDS = range(FIRST, FIRST + COUNT)
STEPS = 150
CRASHING = 1_000_000
"""Added to a seed in worlds with crashes, so that they are not the same worlds once more."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world_without_crashes(seed: int) -> None:
    """About a thousand events, none of which breaks an invariant. Afterwards, once the world is calm, nothing is left
    half done; the log rebuilds the state; a state that was saved on the way has the same future; and every preemption
    had somebody who started, or gave the room back and said so.
    """
    world = World(seed)
    world.live(STEPS)
    state = world.calm_down()
    assert len(world.log) > 3 * STEPS
    nothing_is_half_done(world, state)
    the_log_rebuilds_the_state(world)
    what_is_restored_has_the_same_future(world)
    every_preemption_was_of_use(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crash_between_deciding_and_committing_gives_no_gpu_two_owners(seed: int) -> None:
    """Decisions and commands are lost now and then, and another scheduler takes over: the agents, which keep books of
    their own, are never asked to run two things on one GPU, and in the end run just what the scheduler thinks.
    """
    world = World(seed + CRASHING, crashes=True)
    world.live(STEPS)
    state = world.calm_down()
    assert state.epoch > 1, seed
    nothing_is_half_done(world, state)
    for name, runs in world.holds.items():
        booked = {(each.job, each.run) for each in state.nodes[name].bookings}
        assert set(runs) == booked, (seed, name)


@pytest.mark.parametrize("seed", SEEDS[: max(FEW, COUNT // 10)])
def test_the_same_seed_tells_the_same_story(seed: int) -> None:
    """Twice the same world has the same log and ends in the same state."""
    first, again = World(seed), World(seed)
    assert first.live(STEPS // 3) == again.live(STEPS // 3), seed
    assert first.log == again.log, seed


def nothing_is_half_done(world: World, state: State) -> None:
    """No gang half started or half stopped, no room promised that nobody will use, no GPU booked to a run that is over,
    no job lost.
    """
    states = {each.state for each in state.jobs.values()}
    assert states <= {JobState.QUEUED, JobState.RUNNING}, (world.seed, states)
    assert not state.claims, (world.seed, state.claims)
    for node in state.nodes.values():
        for each in node.bookings:
            assert state.jobs[each.job].run == each.run, (world.seed, each)
    assert len(state.jobs) + len(state.ended) == world.jobs, world.seed


def the_log_rebuilds_the_state(world: World) -> None:
    """Without anything being decided anew."""
    assert rebuild(world.start, world.log) == world.state, world.seed


def what_is_restored_has_the_same_future(world: World) -> None:
    """At a step in the middle, through JSON: what is restored goes through the rest of the log alike, command by
    command. So does every entry of the log.
    """
    middle = int(world.draw.integers(len(world.log)))
    before = rebuild(world.start, world.log[:middle])
    restored = restore(json.loads(json.dumps(save(before), allow_nan=False)))
    assert restored == before, (world.seed, middle)
    rest = [(entry.at, entry.event) for entry in world.log[middle:]]
    assert fold(restored, rest) == fold(before, rest), (world.seed, middle)
    for entry in world.log[::7]:
        assert from_plain(json.loads(json.dumps(to_plain(entry)))) == entry, world.seed


def every_preemption_was_of_use(world: World) -> None:
    """Followed through the log from the first stop to the last start."""
    state, followed = world.start, Followed()
    for entry in world.log:
        found = step(state, entry.event, entry.at)
        if isinstance(entry.event, Decided):
            followed.note_stops(state, found.state)
        followed.note_ends(found)
        state = found.state
    assert not followed.waiting, (world.seed, followed.waiting)
