"""The core as the specification has it: commands in any order, twice, late and out of date; no process is started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optsched.agent import messages as m
from optsched.agent.core import idle_gpus, next_due, step
from optsched.agent.values import Key, Outcome, Phase, Probed, RunEnd, Said, Saved, StartSpec, State, Task, TaskEnd

A1, A2, B1 = Key("a", 1), Key("a", 2), Key("b", 1)
Out = Outcome


def spec(gpus: tuple[int, ...] = (0,), **more: Any) -> StartSpec:
    made = StartSpec(("train",), {}, "", "ada", "vision", (Task(0, 0, gpus, len(gpus)),), 1, 1, 0, 1, "n1", 29500)
    return replace(made, **more)


class Told:
    """A state that messages are told to, at instants that pass by a second each; what it did and said is kept."""

    def __init__(self, gpus: int = 4, epoch: int = 1) -> None:
        self.state, self.now = State(gpus, epoch), 0.0
        self.did: list[m.Action] = []

    def tell(self, *messages: m.Message) -> Told:
        for message in messages:
            self.now += 1
            self.state, actions = step(self.state, message, self.now)
            self.did += actions
        return self

    def reserve(self, key: Key = A1, gpus: tuple[int, ...] = (0,), epoch: int = 1) -> Told:
        self.tell(m.Reserve(epoch, key, len(gpus), gpus))
        for action in self.took():
            if isinstance(action, m.HoldPort):
                self.tell(m.PortHeld(action.key, 20001))
        return self

    def working(self, key: Key = A1, gpus: tuple[int, ...] = (0,)) -> Told:
        return self.reserve(key, gpus).tell(m.Start(1, key, spec(gpus)), m.Launched(key))

    def took(self) -> list[m.Action]:
        """What it was asked to do since the last time."""
        did, self.did = self.did, []
        return did

    @property
    def said(self) -> list[tuple[Key, Outcome]]:
        return [(each.key, each.outcome) for each in self.state.outbox if isinstance(each, Said)]

    def acked(self) -> Told:
        """Everything that waits is heard."""
        return self.tell(*(m.Acked(each.id) for each in self.state.outbox))

    def phase(self, key: Key = A1) -> Phase | None:
        run = self.state.runs.get(key)
        return None if run is None else run.phase


BAD = RunEnd((TaskEnd(0, 3),), TaskEnd(0, 3))
GOOD = RunEnd((TaskEnd(0, 0),))


# The course of a run


def test_a_run_is_reserved_with_a_port_started_and_ended() -> None:
    t = Told().reserve()
    assert t.said == [(A1, Out.RESERVED)]
    assert t.state.outbox[0].port == 20001  # type: ignore[union-attr]
    t.tell(m.Start(1, A1, spec()))
    assert t.took() == [m.Launch(A1)]
    t.tell(m.Launched(A1), m.Ended(A1, GOOD))
    assert t.said == [(A1, Out.RESERVED), (A1, Out.STARTED), (A1, Out.OK)]
    t.acked()
    assert t.phase() is Phase.ENDED, "its GPUs stay set aside until the scheduler says that the whole gang is done"
    assert t.reserve(B1).said == [(B1, Out.REFUSED)]
    t.acked().tell(m.Release(1, A1))
    assert t.said == [(A1, Out.RELEASED)]
    t.acked()
    assert t.took() == [m.Forget(A1)]
    assert t.state.runs == {}


def test_a_run_that_ends_badly_is_released_by_the_same_breath() -> None:
    t = Told().working().acked().tell(m.Ended(A1, BAD))
    assert t.said == [(A1, Out.FAILED), (A1, Out.RELEASED)]
    assert t.state.outbox[0].exit_code == 3  # type: ignore[union-attr]


def over_two_nodes() -> Told:
    t = Told().reserve().tell(m.Start(1, A1, spec(node_count=2)), m.Launched(A1)).acked()
    t.took()
    return t


def test_in_a_gang_over_several_nodes_the_cause_of_a_failure_may_be_told_first() -> None:
    """Its tasks may have failed because those elsewhere are gone. If nobody says so in 2 s, it is their fault."""
    t = over_two_nodes().tell(m.Ended(A1, BAD))
    assert t.said == []
    due = next_due(t.state)
    assert due == t.now + 2.0
    t.now = due - 1.0
    assert t.tell(m.Tick()).said == [(A1, Out.FAILED), (A1, Out.RELEASED)]
    assert next_due(t.state) is None


def test_where_the_cause_was_told_meanwhile_the_consequence_is_not() -> None:
    """The gang has failed by another node's fault, and is killed everywhere."""
    for message in (m.Kill(1, A1), m.Release(1, A1), m.Signal(1, A1, 5.0), m.Reserve(1, A2, 1, (1,))):
        t = over_two_nodes().tell(m.Ended(A1, BAD), message)
        assert (A1, Out.RELEASED) in t.said
        assert (A1, Out.FAILED) not in t.acked().said
        t.now += 10
        assert (A1, Out.FAILED) not in t.tell(m.Tick()).said


def test_a_machines_fault_and_a_good_end_are_told_at_once() -> None:
    assert over_two_nodes().tell(m.Ended(A1, GOOD)).said == [(A1, Out.OK)]
    lost = RunEnd(lost="the node was restarted")
    assert over_two_nodes().tell(m.Ended(A1, lost)).said == [(A1, Out.INFRA), (A1, Out.RELEASED)]


def test_one_that_was_told_to_stop_has_no_end_but_its_release() -> None:
    for end in (GOOD, BAD, RunEnd((TaskEnd(0, None, 15),), TaskEnd(0, None, 15))):
        t = Told().working().acked().tell(m.Signal(1, A1, 30.0), m.Ended(A1, end))
        assert t.said == [(A1, Out.RELEASED)]


def test_one_that_says_that_it_is_done_is_done_though_it_was_told_to_stop() -> None:
    t = Told().working().acked().tell(m.Signal(1, A1, 30.0), m.JobSaid(A1, 10, (), done=True), m.Ended(A1, GOOD))
    assert t.said == [(A1, Out.OK)]


def test_the_kill_waits_behind_the_grace_and_no_longer() -> None:
    t = Told().working().tell(m.Signal(1, A1, 30.0))
    assert t.took()[-1:] == [m.SignalTasks(A1)]
    due = next_due(t.state)
    assert due == t.now + 30.0
    # The same again with more grace gives no more of it, and no second signal.
    t.tell(m.Signal(1, A1, 300.0))
    assert (next_due(t.state), t.took()) == (due, [])
    t.now = due - 1.5
    t.tell(m.Tick())
    assert t.took() == []
    t.tell(m.Tick())
    assert t.took() == [m.KillTasks(A1)]
    assert next_due(t.state) is None


def test_what_is_told_while_it_starts_is_done_once_it_works() -> None:
    t = Told().reserve().tell(m.Start(1, A1, spec()), m.Signal(1, A1, 30.0))
    t.took()
    assert t.tell(m.Launched(A1)).took() == [m.SignalTasks(A1)]
    t = Told().reserve().tell(m.Start(1, A1, spec()), m.Kill(1, A1))
    t.took()
    assert t.tell(m.Launched(A1)).took() == [m.KillTasks(A1)]
    assert (A1, Out.STARTED) not in t.said


def test_what_is_only_reserved_is_released_at_once_by_whatever_ends_it() -> None:
    for message in (m.Signal(1, A1, 30.0), m.Kill(1, A1), m.Release(1, A1)):
        t = Told().reserve().acked().tell(message)
        assert t.said == [(A1, Out.RELEASED)]
        assert m.FreePort(A1) in t.took()


def test_to_end_what_is_not_there_is_done_already() -> None:
    for message in (m.Signal(1, A1, 30.0), m.Kill(1, A1), m.Release(1, A1)):
        assert Told().tell(message).said == [(A1, Out.RELEASED)]


def test_a_start_that_fails_is_told_with_whose_fault_it_is() -> None:
    t = Told().reserve().acked().tell(m.Start(1, A1, spec()))
    t.tell(m.NotLaunched(A1, Out.FAILED, "no such program", 127, 0))
    assert t.said == [(A1, Out.FAILED), (A1, Out.RELEASED)]


# GPUs


def test_gpus_are_refused_that_are_taken_unknown_or_bad() -> None:
    t = Told().reserve().acked().tell(m.Inventory(4, frozenset({3})))
    for number, gpus in enumerate(((0, 1), (4,), (3,))):
        key = Key(f"b{number}", 1)
        assert t.reserve(key, gpus).said == [(key, Out.REFUSED)]
        t.acked()
    assert idle_gpus(t.state) == (1, 2)


def test_where_no_indices_are_named_the_agent_chooses_and_deals_them_to_the_tasks() -> None:
    t = Told().reserve(A1, (1,))
    t.tell(m.Reserve(1, B1, 2), m.PortHeld(B1, 20002))
    assert t.state.runs[B1].gpus == (0, 2)
    tasks = (Task(0, 0, (), 1), Task(1, 1, (), 1))
    t.tell(m.Start(1, B1, spec(tasks=tasks)))
    start = t.state.runs[B1].start
    assert start is not None
    assert [task.gpus for task in start.tasks] == [(0,), (2,)]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"command": ()}, "no command"),
        ({"tasks": ()}, "no task"),
        ({"tasks": (Task(0, 0, (1,), 1),)}, "not set aside"),
        ({"tasks": (Task(0, 0, (0,), 1), Task(1, 1, (0,), 1))}, "one GPU twice"),
        ({"tasks": (Task(0, 0, (), 2),)}, "more GPUs than were set aside"),
    ],
)
def test_a_start_that_cannot_be_followed_is_refused_with_the_reason(more: dict[str, Any], why: str) -> None:
    t = Told().reserve().acked().tell(m.Start(1, A1, spec(**more)))
    assert t.said == [(A1, Out.REFUSED), (A1, Out.RELEASED)]
    assert why in t.state.outbox[0].why  # type: ignore[union-attr]
    assert m.Launch(A1) not in t.took()


def test_gpus_of_a_run_that_is_being_killed_are_waited_for() -> None:
    t = Told().working().acked().tell(m.Kill(1, A1))
    t.reserve(B1)
    assert (t.said, t.phase(B1)) == ([], Phase.RESERVING)
    t.tell(m.Ended(A1, BAD))
    assert m.HoldPort(B1) in t.took()
    t.tell(m.PortHeld(B1, 20005))
    assert t.said == [(A1, Out.RELEASED), (B1, Out.RESERVED)]


# Fencing and repetition


def test_a_command_of_an_older_epoch_is_fenced_and_changes_nothing() -> None:
    t = Told(epoch=7).tell(m.Registered(7))
    for message in (
        m.Reserve(6, A1, 1, (0,)),
        m.Start(6, A1, spec()),
        m.Signal(6, A1, 1.0),
        m.Kill(6, A1),
        m.Release(6, A1),
    ):
        t.tell(message)
        assert t.said == [(A1, Out.FENCED)]
        t.acked()
    assert (t.state.runs, t.took()) == ({}, [])


def test_a_command_of_a_larger_epoch_is_followed_and_the_older_one_is_over() -> None:
    t = Told(epoch=1).reserve(epoch=4)
    assert t.state.epoch == 4
    assert t.acked().tell(m.Kill(1, A1)).said == [(A1, Out.FENCED)]


def test_an_epoch_never_falls() -> None:
    assert Told(epoch=5).tell(m.Registered(3)).state.epoch == 5


def test_a_newer_run_ends_the_older_one_and_fences_what_comes_for_it() -> None:
    t = Told().working().acked()
    t.took()
    t.reserve(A2, (1,))
    assert t.phase() is Phase.KILLING
    t.acked().tell(m.Start(1, A1, spec()))
    assert t.said == [(A1, Out.FENCED)]
    t.acked().tell(m.Ended(A1, BAD)).acked()
    # Somebody may still wait for the word that nothing of it is left.
    assert t.tell(m.Release(1, A1)).said == [(A1, Out.FENCED), (A1, Out.RELEASED)]


def test_a_command_that_comes_twice_is_answered_twice_and_done_once() -> None:
    t = Told().reserve().acked()
    t.took()
    assert t.reserve().said == [(A1, Out.RESERVED)]
    t.acked().tell(m.Start(1, A1, spec()), m.Start(1, A1, spec()))
    assert t.took() == [m.Launch(A1)]
    t.tell(m.Launched(A1)).acked().tell(m.Start(1, A1, spec()))
    assert (t.said, t.took()) == ([(A1, Out.STARTED)], [])
    t.acked().tell(m.Kill(1, A1), m.Kill(1, A1))
    assert t.took() == [m.KillTasks(A1)]


def test_what_waits_is_not_said_twice() -> None:
    t = Told().tell(m.Kill(1, A1), m.Kill(1, A1), m.Release(1, A1))
    assert t.said == [(A1, Out.RELEASED)]


def test_a_reserve_that_comes_after_its_run_is_over_sets_nothing_aside() -> None:
    t = Told().working().acked().tell(m.Ended(A1, BAD)).acked()
    assert t.reserve().said == [(A1, Out.REFUSED)]
    assert t.state.runs == {}


def test_a_start_again_after_the_end_is_answered_with_the_end() -> None:
    t = Told().working().tell(m.Ended(A1, GOOD)).acked().tell(m.Start(1, A1, spec()))
    assert t.said == [(A1, Out.OK)]


# What jobs and probes say


def test_checkpoints_wait_until_they_are_heard_and_of_very_many_the_newest_stay() -> None:
    t = Told().working().acked()
    for number in range(100):
        t.tell(m.JobSaid(A1, 10 * (number + 1), (m.Checkpoint(f"v{number}", float(number)),)))
    kept = [each.version for each in t.state.outbox if isinstance(each, Saved)]
    assert kept == [f"v{number}" for number in range(36, 100)]
    # The same bytes again, after a restart that had read them: nothing new.
    t.tell(m.JobSaid(A1, 1000, (m.Checkpoint("v99", 99.0),)))
    assert len(t.state.outbox) == 64


def test_a_probe_tests_idle_gpus_and_only_its_newest_answer_waits() -> None:
    t = Told().working()
    t.took()
    assert t.tell(m.Probe(1, 5)).took() == [m.RunProbe(5, (1, 2, 3))]
    t.acked().tell(m.ProbeEnded(5, ok=False, why="slow"), m.ProbeEnded(6, ok=True))
    assert [each for each in t.state.outbox if isinstance(each, Probed)] == [Probed(t.state.next_id - 1, 6, True)]


# Any order


def random_message(draw: np.random.Generator, t: Told) -> m.Message:
    """A message as a scheduler, a second one that has lost the lead, and a shell could send it, in any order."""
    key = Key("abc"[draw.integers(3)], int(draw.integers(1, 4)))
    epoch = int(t.state.epoch + draw.integers(-1, 1)) + bool(draw.random() < 0.02)
    gpus = tuple(sorted({int(g) for g in draw.integers(0, 4, size=2)}))
    kind = int(draw.integers(12))
    if kind < 3:
        return m.Reserve(epoch, key, len(gpus), gpus)
    if kind < 6:
        run = t.state.runs.get(key)
        return m.Start(epoch, key, spec(run.gpus if run else gpus))
    if kind == 6:
        return m.Signal(epoch, key, float(draw.integers(5)))
    if kind == 7:
        return (m.Kill if draw.random() < 0.5 else m.Release)(epoch, key)
    if kind == 8 and t.state.outbox:
        return m.Acked(t.state.outbox[int(draw.integers(len(t.state.outbox)))].id)
    if kind == 9:
        return m.Inventory(4, frozenset({3} if draw.random() < 0.1 else ()))
    return m.Tick()


class Shell:
    """Does what actions ask, as the real one promises: one answer to each launch, one end after that."""

    def __init__(self, draw: np.random.Generator) -> None:
        self.draw = draw
        self.starting: list[Key] = []
        self.working: set[Key] = set()
        self.doomed: set[Key] = set()
        self.launched: list[Key] = []

    def take(self, action: m.Action) -> m.Message | None:
        match action:
            case m.HoldPort(key):
                return m.PortHeld(key, 20000)
            case m.Launch(key):
                self.starting.append(key)
                self.launched.append(key)
            case m.KillTasks(key):
                if key in self.working:
                    self.doomed.add(key)
            case m.RunProbe(probe, _):
                return m.ProbeEnded(probe, ok=True)
            case _:
                pass
        return None

    def moves(self, *, all_now: bool = False) -> list[m.Message]:
        found: list[m.Message] = []
        for key in list(self.starting):
            if all_now or self.draw.random() < 0.4:
                self.starting.remove(key)
                if self.draw.random() < 0.2:
                    found.append(m.NotLaunched(key, Outcome.REFUSED, "full"))
                else:
                    self.working.add(key)
                    found.append(m.Launched(key))
        for key in sorted(self.working):
            if (key in self.doomed and (all_now or self.draw.random() < 0.5)) or self.draw.random() < 0.05:
                self.working.discard(key)
                self.doomed.discard(key)
                found.append(m.Ended(key, GOOD if self.draw.random() < 0.5 else BAD))
        return found


@pytest.mark.parametrize("seed", range(60))
def test_in_any_order_no_gpu_works_for_two_and_all_can_be_ended(seed: int) -> None:
    draw = np.random.default_rng(seed)
    t, shell = Told(), Shell(draw)
    epochs = [t.state.epoch]

    def tell(*messages: m.Message) -> None:
        for message in messages:
            t.tell(message)
            for action in t.took():
                answer = shell.take(action)
                if answer is not None:
                    tell(answer)
            epochs.append(t.state.epoch)
            busy = [gpu for key in {*shell.starting, *shell.working} for gpu in t.state.runs[key].gpus]
            assert len(busy) == len(set(busy)), "a GPU that works for two runs"
            assert len(set(shell.launched)) == len(shell.launched), "a run that was started twice"

    for _ in range(300):
        tell(random_message(draw, t), *shell.moves())
    assert epochs == sorted(epochs)
    for key in list(t.state.runs):
        tell(m.Kill(t.state.epoch, key))
    while shell.starting or shell.working:
        tell(*shell.moves(all_now=True))
    released = {each.key for each in t.state.outbox if isinstance(each, Said) and each.outcome is Out.RELEASED}
    assert set(t.state.runs) <= released, "every run that was ended is released"
    tell(*(m.Acked(each.id) for each in t.state.outbox))
    assert t.state.runs == {}
