"""The simulation: a calendar of what happens, the engine that a service runs, and a simulated cluster below it.

Nothing of the scheduler is in here. Time goes from one entry of the calendar to the next; whatever happens goes through
`step`, every decision is one of `decide`, and commands go to the simulated cluster, whose answers lie ahead.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, field, replace

from optsched.clock import Clock
from optsched.engine import events
from optsched.engine.decide import decide
from optsched.engine.state import State, initial
from optsched.engine.step import step
from optsched.engine.timers import Dutiful, next_wake
from optsched.errors import InternalError
from optsched.sim import happenings as hap
from optsched.sim.accounts import Account, Books
from optsched.sim.collect import Collector, Notes
from optsched.sim.figures import Ended, gpu_time
from optsched.sim.physics import Physics
from optsched.sim.policies.policy import Planning
from optsched.sim.runs import Run
from optsched.sim.settings import SimSettings
from optsched.sim.workload import Ending, Workload
from optsched.sim.world import World, WorldState
from optsched.topology.tree import build_tree
from optsched.values.altered import altered
from optsched.values.cluster import Cluster
from optsched.values.job import JobState
from optsched.values.profile import Profile
from optsched.values.snapshot import Snapshot

MOST_ROUNDS = 100
"""After so many decisions at one instant something goes round in circles: a bug."""

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Setup:
    """All that a simulation is made from, beside its planner.

    `truth` says how fast gangs train where they lie; `profile` is what the scheduler goes by.
    """

    cluster: Cluster
    workload: Workload
    profile: Profile
    truth: Profile
    settings: SimSettings = SimSettings()


@dataclass(slots=True)
class Calendar:
    """What lies ahead, by instant in ms, then in the order in which it was put in; `arrived` jobs are in by now.

    `awaited` counts what is no failure: where nothing else lies ahead, nothing moves any more.
    """

    entries: list[tuple[int, int, hap.Happening]] = field(default_factory=list)
    count: int = 0
    awaited: int = 0
    arrived: int = 0
    decided_at: int = -1

    def push(self, at: int, what: hap.Happening) -> None:
        """Put something in."""
        self.count += 1
        self.awaited += not isinstance(what, hap.Fails)
        heapq.heappush(self.entries, (at, self.count, what))

    def pop(self) -> hap.Happening:
        """Take out what comes first."""
        what = heapq.heappop(self.entries)[2]
        self.awaited -= not isinstance(what, hap.Fails)
        return what

    @property
    def first(self) -> float:
        """The instant of what comes first, inf where nothing does."""
        return self.entries[0][0] if self.entries else math.inf


class Simulation:
    """One policy on one workload. `now` is the simulated instant in whole milliseconds."""

    def __init__(self, setup: Setup, planner: Planning, clock: Clock) -> None:
        self.setup = setup
        self.now = 0
        self.happened: list[tuple[float, events.Event]] = []
        self.planner = planner
        self._clock = clock
        self._every = round(setup.settings.round_every_s * 1000)
        self._wake: tuple[State | None, float] = (None, math.inf)
        self._dutiful = Dutiful()
        self.state = initial(self.start, setup.settings.engine)
        self._tree = tree = build_tree(setup.cluster)
        physics = Physics(setup.cluster, tree, setup.truth, setup.settings.failures)
        self.collector = Collector(setup.workload, setup.cluster, tree, setup.settings)
        self.calendar = Calendar()
        by_id = {each.job.id: each for each in setup.workload.arrivals}
        self.world = World(by_id, physics, setup.settings, self.calendar.push, self.collector)
        self.account = Account(self.state)
        self.world.breaks.set_off(self.state.nodes)
        self._next_arrival()
        if not self._every:
            self._decide()
            self._settled()

    @property
    def start(self) -> Snapshot:
        """Return the cluster before anybody has asked for anything."""
        setup = self.setup
        return Snapshot(0.0, setup.cluster, setup.workload.teams, (), (), setup.profile)

    def restore(self, state: State, world: WorldState, books: Books, notes: Notes, now: int) -> None:
        """Go on from where another simulation of the same setup stood; its calendar is in place already."""
        self.now, self.state, self.world.now, self.collector.notes = now, state, world, notes
        self.account = Account(state, books)

    def begin_midway(self, state: State, runs: Iterable[Run], present: int) -> None:
        """Begin with a state, at its instant, in which these runs have their GPUs.

        The first `present` jobs of the workload are in by then.
        """
        self.now, self.state, self.account = round(state.now * 1000), state, Account(state)
        calendar = self.calendar
        ahead = [entry for entry in calendar.entries if not isinstance(entry[2], hap.Arrives)]
        calendar.awaited -= len(calendar.entries) - len(ahead)
        heapq.heapify(ahead)
        calendar.entries, calendar.arrived = ahead, present
        for arrival in self.setup.workload.arrivals[:present]:
            self.collector.submitted(arrival.job, round(arrival.job.submitted_at * 1000))
        for run in runs:
            self.world.already_runs(run, state.jobs[run.job].job, self.now)
        for record in state.nodes.values():
            self.world.out_of_service(record, self.now)
        self._next_arrival()

    def _next_arrival(self) -> None:
        arrivals, index = self.setup.workload.arrivals, self.calendar.arrived
        if index < len(arrivals):
            self.calendar.push(max(self.now, round(arrivals[index].at * 1000)), hap.Arrives(index))

    # Time

    def run(self, progress: Progress = lambda stage, fraction: None, stop_at_s: float | None = None) -> bool:
        """Let time pass until the end, or until `stop_at_s`; return whether the end was reached."""
        limit = self.setup.settings.until_s
        end = math.inf if limit is None else round(limit * 1000)
        pause = math.inf if stop_at_s is None else round(stop_at_s * 1000)
        total = max(1, len(self.setup.workload.arrivals))
        while True:
            at = min(self._next(), end)
            if at > pause:
                return False
            if at >= end or math.isinf(at):
                self._pass(int(end) if at >= end and not math.isinf(end) else self.now)
                return True
            self._pass(int(at))
            self._instant()
            ended = len(self.state.ended)
            far = max(ended / total, self.now / max(1, min(end, pause)))
            progress(f"{ended:,} of {total:,} jobs have ended, day {self.now / 86_400_000:.1f}", far)

    def pass_time(self, to_s: float) -> None:
        """Let time pass to an instant before which nothing more happens, in seconds, for the books."""
        self._pass(round(to_s * 1000))

    def _next(self) -> float:
        """Return the instant at which something happens next, inf where nothing moves any more."""
        first = self.calendar.first
        look = self._next_look(first)
        if look is not None:
            return min(first, look)
        idle = not self.calendar.awaited and not self.world.now.runs
        return math.inf if idle else first

    def _next_look(self, first: float) -> float | None:
        """Return the instant of the next round or tick, None where none is known before what comes first."""
        every = self._every
        if not every:
            return None if (wake := self._wakes()) == math.inf else wake
        soonest = -(-self.now // every) * every
        if soonest == self.calendar.decided_at:
            soonest += every
        if first <= soonest:
            return soonest
        if self.state.due and not self.state.paused:
            return soonest
        wake = self._wakes()
        return None if math.isinf(wake) else max(soonest, math.ceil(wake / every) * every)

    def _wakes(self) -> float:
        """Return when time alone may change something, in ms."""
        known, at = self._wake
        if known is not self.state:
            wake = next_wake(self.state, self._dutiful)
            # It lies after the state's own instant, whatever rounding makes of it.
            least = round(self.state.now * 1000) + 1
            at = math.inf if wake is None else max(least, math.ceil(wake * 1000 - 1e-6))
            self._wake = (self.state, at)
        return at

    def _pass(self, at: int) -> None:
        """Let time pass to an instant."""
        self.collector.pass_time(at, self.state, self.account)
        self.account.pass_time(at)
        self.now = at

    def _instant(self) -> None:
        """Let everything happen that lies at this instant, and decide where that is due."""
        happened = False
        while self.calendar.first <= self.now:
            happened = True
            what = self.calendar.pop()
            if isinstance(what, hap.Arrives):
                self._arrives(what.index)
                continue
            for event in self.world.happens(what, self.now, lambda: self.state):
                self._happens(event)
        if not self._every:
            self._decide()
        elif self.now % self._every == 0 and (self.state.due or not happened or self._wakes() <= self.now):
            self._decide()
            self.calendar.decided_at = self.now
        elif self.now % self._every == 0:
            self.calendar.decided_at = self.now
        self._settled()

    def _arrives(self, index: int) -> None:
        arrival = self.setup.workload.arrivals[index]
        self.calendar.arrived = index + 1
        job = altered(arrival.job, submitted_at=self.now / 1000.0, state=JobState.QUEUED)
        if arrival.ending is Ending.FAILED:
            # It has failed for good in the end: what the workload tells of is its last attempt.
            job = replace(job, retries=replace(job.retries, job=0))
        self.collector.submitted(job, self.now)
        if index + 1 == len(self.setup.workload.arrivals):
            self.collector.notes.by_last = astuple(gpu_time(self.end()))
        self._happens(events.Submit(job))
        self._next_arrival()

    # The engine

    def _happens(self, event: events.Event) -> None:
        """Take in something that is no decision."""
        if self.setup.settings.keep_log:
            self.happened.append((self.now / 1000.0, event))
        self._take(event)

    def _take(self, event: events.Event) -> None:
        """Take in an event, and what the agents answer at once to what it leads to."""
        now_s = self.now / 1000.0
        todo: deque[events.Event] = deque((event,))
        while todo:
            each = todo.popleft()
            found = step(self.state, each, now_s)
            self.state = found.state
            if isinstance(each, events.Report | events.Reports):
                self.world.heard(each, self.now)
            if not found.commands:
                continue
            later: dict[int, list[events.Report]] = {}
            for command in found.commands:
                answer = self.world.answer(command, self.state, self.now)
                if answer is None:
                    continue
                delay, says = answer
                if isinstance(says, hap.Probes):
                    if delay:
                        self.calendar.push(self.now + delay, says)
                    else:
                        todo.append(events.Probed(says.node))
                elif delay:
                    later.setdefault(delay, []).append(says)
                else:
                    todo.append(says)
            for delay, reports in later.items():
                self.calendar.push(self.now + delay, hap.Answers(tuple(reports)))

    def _decide(self) -> None:
        """Look at the time, and decide until there is nothing left to decide at this instant."""
        self._take(events.Tick())
        for _ in range(MOST_ROUNDS):
            began = self._clock.monotonic_s()
            decision = decide(self.state, self.planner)
            if decision is None:
                return
            self.collector.decided(decision, self.state, self._clock.monotonic_s() - began)
            self._take(decision)
        raise InternalError(f"at {self.now / 1000:g} s the scheduler did not settle within {MOST_ROUNDS} decisions")

    def end(self) -> Ended:
        """Return what there is to make figures of, as things stand."""
        works = {each.job.id: each.work_s for each in self.setup.workload.arrivals}
        runs, notes = self.world.now.runs, self.collector.notes
        return Ended(notes, self.account.books, self.state, runs, works, self._tree, self.setup.settings, self.now)

    def _settled(self) -> None:
        """Follow in the books what an instant has changed."""
        before = self.state
        for node in self.account.follow(before):
            record = before.nodes.get(node)
            if record is not None:
                self.world.notice(record, self.now)
        for job in self.account.jobs:
            self.collector.look(job, before, self.now)
            if job not in before.jobs:
                self.world.forget(job)
        self.account.jobs = []
        if self.setup.settings.checked and self.account.expected() != self.account.books.now:
            raise InternalError(f"at {self.now / 1000:g} s the books do not agree with the state")
