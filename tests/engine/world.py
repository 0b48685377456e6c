"""A small world that goes wrong in every way at once: jobs, nodes and agents drawn from a seed drive the engine.

Agents answer after a while, twice, or not at all; nodes are lost and come back; people change their minds; the
scheduler crashes. What the agents really run is kept apart from what the engine believes.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from optsched.clock import StoppedClock
from optsched.engine import events as ev
from optsched.engine.commands import Command, Verb
from optsched.engine.decide import decide
from optsched.engine.draft import Step
from optsched.engine.log import LogEntry
from optsched.engine.settings import Settings
from optsched.engine.state import State, initial
from optsched.engine.step import step
from optsched.engine.tables import ENDS
from optsched.engine.timers import next_wake
from optsched.errors import Conflict
from optsched.planner.plan import PlanOptions, plan_round
from optsched.solve.ladder import SolverChoice
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, LevelName, NodeId, ReservationId
from optsched.values.job import JobState, gpus_on
from tests.builders import team, window
from tests.engine.drawn import drawn_cluster, drawn_job
from tests.engine.invariants import faults_of
from tests.engine.promises import broken_promises

GREEDY = partial(
    plan_round,
    options=PlanOptions(budget_s=1e9, solver=SolverChoice.GREEDY, deterministic_s=1.0, prove=0),
    clock=StoppedClock(),
)
"""Rounds in milliseconds."""


CLOSED = frozenset({NodeState.CORDONED, NodeState.DRAINING, NodeState.SUSPECT})


class World:
    """Drives the engine from a seed. `crashes`: commands are lost now and then, and another scheduler takes over."""

    def __init__(self, seed: int, *, crashes: bool = False, planner=GREEDY) -> None:
        self.seed = seed
        self.draw = np.random.default_rng(seed)
        self.planner = planner
        self.crashes = crashes
        self.calm = False
        self.names = [f"n{i:02}" for i in range(12)]
        self.start = initial(drawn_cluster(self.draw, self.names), Settings(round_every_s=240.0))
        self.state: State = self.start
        self.log: list[LogEntry] = []
        self.answers: list[tuple[float, int, object]] = []
        self.count = itertools.count()
        self.holds: dict[NodeId, dict[tuple[JobId, int], int]] = {NodeId(name): {} for name in self.names}
        self.heard: dict[NodeId, int] = {NodeId(name): 0 for name in self.names}
        self.began: set[tuple[NodeId, tuple[JobId, int]]] = set()
        self.dead: set[NodeId] = set()
        self.displaced: set[tuple[JobId, int]] = set()
        self.jobs = 0
        self.rounds = 0

    # Time

    def live(self, steps: int) -> State:
        """Let so many things happen, and return the state then."""
        for _ in range(steps):
            self._pass_time(float(self.draw.exponential(60.0)))
            self._something()
            self._decide()
        return self.state

    def calm_down(self) -> State:
        """Let every agent answer and every timer run for a day, with nothing new: all that is under way ends."""
        self.calm, self.crashes = True, False
        for node in sorted(self.dead):
            self._take(ev.Fenced(node))
            self.holds[node].clear()
        for _ in range(3):
            self._pass_time(4000.0)
            self._decide()
        return self.state

    def _pass_time(self, seconds: float) -> None:
        until = self.state.now + seconds
        while True:
            wake = next_wake(self.state)
            answer = self.answers[0][0] if self.answers else None
            at = min((each for each in (wake, answer) if each is not None), default=None)
            if at is None or at > until:
                break
            if answer is not None and answer <= at:
                _, _, event = heapq.heappop(self.answers)
                self._take(event, at)
            else:
                self._take(ev.Tick(), at)
            self._decide()
        self._take(ev.Tick(), until)

    def _decide(self) -> None:
        for _ in range(30):
            decision = decide(self.state, self.planner)
            if decision is None:
                return
            self.rounds += 1
            if not self.calm and self.draw.random() < 0.15:
                self._something()
            if self.crashes and self.draw.random() < 0.1:
                self._crash()
                continue
            self._take(decision)
        raise AssertionError(f"seed {self.seed}: not settled at {self.state.now}")

    def _crash(self) -> None:
        """The decision is lost; another scheduler takes over, and every agent tells what it holds."""
        self._take(ev.Lead(self.state.epoch + 1))
        for node in self.names:
            if node not in self.dead:
                self._take(ev.Inventory(NodeId(node), frozenset(self.holds[NodeId(node)])))

    # Events and what the agents do

    def _take(self, event: object, at: float | None = None) -> Step | None:
        now = self.state.now if at is None else at
        if isinstance(event, _Gone):
            job_id, run = event.key
            self.holds[event.node].pop(event.key, None)
            event = ev.Report(job_id, event.node, ev.Outcome.RELEASED, run)
        before = self.state
        try:
            found = step(before, event, now)
        except Conflict:
            assert self.state is before
            return None
        self.log.append(LogEntry(len(self.log) + 1, now, event))
        faults = [*faults_of(before, found, self.displaced), *broken_promises(before, found.state, event)]
        assert not faults, f"seed {self.seed}, at {now:g}: {faults} by {event}"
        self.state = found.state
        crash = self.crashes and found.commands and self.draw.random() < 0.03
        for command in found.commands if not crash else ():
            self._obey(command)
        if crash:
            self._crash()
        return found

    def _obey(self, command: Command) -> None:
        node, key = command.node, (command.job, command.run)
        if node in self.dead or command.epoch < self.heard[node]:
            return
        self.heard[node] = command.epoch
        here, delay = self.holds[node], float(self.draw.exponential(3.0))
        if command.verb is Verb.PROBE:
            self._later(delay, ev.Probed(node, ok=bool(self.draw.random() < 0.9)))
        elif command.verb in (Verb.RESERVE, Verb.START):
            fresh = {name: gpus for name, gpus in here.items() if name != key}
            used = sum(fresh.values()) + gpus_on(command.gpus)
            limit = 8
            assert used <= limit, f"seed {self.seed}: {node} is given {used} GPUs by {command}, it holds {here}"
            old = [(where, each) for where, each in self.began if each[0] == command.job and each != key]
            alive = [where for where, each in old if where not in self.dead and each in self.holds[where]]
            assert not alive, f"seed {self.seed}: {command} while an older run works on {alive}"
            if command.verb is Verb.START:
                self.began.add((node, key))
            here[key] = gpus_on(command.gpus)
            chance = self.draw.random()
            outcome = ev.Outcome.RESERVED if command.verb is Verb.RESERVE else ev.Outcome.STARTED
            if chance < 0.005:
                return
            if chance < 0.02:
                outcome = ev.Outcome.REFUSED
            self._later(delay, ev.Report(command.job, node, outcome, command.run, epoch=command.epoch))
        else:
            grace = command.grace_s if command.verb is Verb.SIGNAL else 0.0
            stubborn = command.verb is Verb.SIGNAL and self.draw.random() < 0.2
            if not stubborn:
                self._later(float(self.draw.uniform(0, min(grace, 60.0))) + delay, _Gone(node, key))

    def _later(self, delay: float, event: object) -> None:
        at = self.state.now + delay
        heapq.heappush(self.answers, (at, next(self.count), event))
        if isinstance(event, ev.Report) and self.draw.random() < 0.1:
            heapq.heappush(self.answers, (at + delay, next(self.count), event))

    def _something(self) -> None:
        """One thing happens, drawn at random."""
        kinds = [
            (6, self._submit),
            (4, self._finish),
            (1, self._fail),
            (1, self._cancel),
            (1, self._update),
            (1, self._preempt),
            (0.6, self._node),
            (2, self._operator),
            (1, self._stale),
            (2, self._checkpoint),
            (0.5, self._rules),
            (0.5, self._describe),
        ]
        weights = np.array([weight for weight, _ in kinds])
        kinds[self.draw.choice(len(kinds), p=weights / weights.sum())][1]()

    def _some_job(self, *states: JobState) -> JobId | None:
        found = [name for name, each in self.state.jobs.items() if not states or each.state in states]
        return found[self.draw.integers(len(found))] if found else None

    def _some_node(self) -> NodeId:
        return NodeId(self.names[self.draw.integers(len(self.names))])

    def _submit(self) -> None:
        self.jobs += 1
        self._take(ev.Submit(drawn_job(self.draw, f"j{self.jobs:03}", self.state.now)))

    def _finish(self) -> None:
        name = self._some_job(JobState.RUNNING)
        if name is not None:
            record = self.state.jobs[name]
            for node in record.job.placement:
                if node not in self.dead:
                    self._later(0.1, ev.Report(name, node, ev.Outcome.OK, record.run))

    def _fail(self) -> None:
        name = self._some_job(JobState.RUNNING, JobState.STARTING)
        if name is not None:
            record = self.state.jobs[name]
            node = sorted(record.job.placement)[0]
            outcome = ev.Outcome.FAILED if self.draw.random() < 0.5 else ev.Outcome.INFRA
            self._take(ev.Report(name, node, outcome, record.run, "drawn"))

    def _cancel(self) -> None:
        name = self._some_job()
        if name is not None:
            self._take(ev.Cancel(name))
            self._take(ev.Cancel(name))

    def _update(self) -> None:
        name = self._some_job(JobState.QUEUED, JobState.RUNNING)
        if name is not None:
            self._take(ev.Update(name, {"priority": int(self.draw.choice([0, 1000, 2000]))}))

    def _preempt(self) -> None:
        name = self._some_job()
        if name is not None:
            self._take(ev.Preempt(name, "drawn"))

    def _node(self) -> None:
        node = self._some_node()
        if node in self.dead:
            if self.draw.random() < 0.5:
                self._take(ev.Fenced(node))
            self.dead.discard(node)
            self.holds[node].clear()
            self._take(ev.NodeBack(node))
        else:
            self.dead.add(node)
            self.answers = [each for each in self.answers if getattr(each[2], "node", None) != node]
            heapq.heapify(self.answers)
            self._take(ev.NodeLost(node, "drawn"))

    def _operator(self) -> None:
        node = self._some_node()
        chance = self.draw.random()
        closed = [name for name, each in self.state.nodes.items() if each.node.state in CLOSED]
        if closed and chance >= 0.15:
            node = closed[self.draw.integers(len(closed))]
        if chance < 0.15:
            self._take(ev.Cordon(node, "drawn"))
        elif chance < 0.9:
            self._take(ev.Uncordon(node))
        elif chance < 0.95:
            self._take(ev.Drain(node))
        else:
            self._take(ev.Slow(node, 0.7))

    def _stale(self) -> None:
        name = self._some_job()
        node = self._some_node()
        outcome = list(ev.Outcome)[self.draw.integers(len(ev.Outcome))]
        before = self.state
        run = 0 if name is None else max(0, before.jobs[name].run - 1)
        for report in (
            ev.Report(JobId("nobody"), node, outcome, 1),
            *(() if name is None or run == 0 else (ev.Report(name, node, outcome, run, epoch=None),)),
            *(() if name is None else (ev.Report(name, node, outcome, before.jobs[name].run, epoch=0),)),
        ):
            if report.outcome is ev.Outcome.RELEASED and report.epoch is None and report.job == name:
                continue
            self._take(report)
            assert replace(self.state, now=before.now) == before, f"seed {self.seed}: {report} changed something"

    def _checkpoint(self) -> None:
        name = self._some_job(JobState.RUNNING)
        if name is not None:
            taken = self.state.now + float(self.draw.choice([-50, 0, 500]))
            self._take(ev.Checkpointed(name, taken_at=taken))

    def _describe(self) -> None:
        """A node reports another number of GPUs, has other CPUs, or is said to be in another rack."""
        name = self._some_node()
        record, chance = self.state.nodes[name], self.draw.random()
        if chance < 0.6:
            self._take(ev.GpusChanged(name, int(self.draw.choice([4, 6, 8, 8, 8]))))
        elif chance < 0.8:
            self._take(ev.SetNode(replace(record.node, cpus=float(self.draw.choice([32, 64, 64])))))
        else:
            rack = str(self.draw.choice(["r1", "r2", "r3"]))
            self.displaced |= {(each.job, each.run) for each in record.bookings}
            self._take(ev.SetNode(replace(record.node, domains={**record.node.domains, LevelName("rack"): rack})))

    def _rules(self) -> None:
        chance = self.draw.random()
        if chance < 0.7:
            each = str(self.draw.choice(["a", "b", "c"]))
            self._take(ev.SetTeam(team(each).quota(int(self.draw.choice([0, 8, 16, 32]))).made))
        elif chance < 0.8:
            ratio = None if self.draw.random() < 0.5 else 1.0
            self._take(ev.SetProfile(replace(self.state.profile, max_loss_ratio=ratio)))
        elif chance < 0.95:
            start = self.state.now + float(self.draw.choice([100, 600, 4000]))
            self._take(ev.SetReservation(window(f"w{self.draw.integers(3)}", start, start + 1200, self._some_node())))
        else:
            self._take(ev.DropReservation(ReservationId(f"w{self.draw.integers(3)}")))


@dataclass(frozen=True)
class _Gone:
    """An agent's task ends: its GPUs are free in truth, and it says so."""

    node: NodeId
    key: tuple[JobId, int]


def ended(state: State) -> int:
    """How many jobs have ended."""
    return sum(each.state in ENDS for each in (*state.jobs.values(), *state.ended.values()))


def up(state: State) -> int:
    """How many nodes are in service."""
    return sum(each.node.state is NodeState.UP for each in state.nodes.values())
