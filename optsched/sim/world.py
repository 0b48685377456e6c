"""The simulated cluster: what agents do when they are asked, how runs really go, and what fails.

It hears the engine's commands and says what happens; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

from optsched.engine import events
from optsched.engine.commands import Command, Verb
from optsched.engine.events import Outcome
from optsched.engine.state import JobRecord, NodeRecord, State, goes_on
from optsched.engine.tables import ENDS
from optsched.policy.victims import grace_s
from optsched.sim import happenings as hap
from optsched.sim.breaks import Breaks, Push
from optsched.sim.draws import below, exponential
from optsched.sim.happenings import Mile, Part
from optsched.sim.physics import HOUR_MS, Physics
from optsched.sim.runs import FULL, Run, Split
from optsched.sim.settings import SimSettings
from optsched.sim.workload import Arrival, Ending
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId
from optsched.values.job import Job


class Listener(Protocol):
    """Hears what becomes of runs."""

    def began(self, run: Run, job: Job) -> None:
        """A run has its GPUs."""
        ...

    def over(self, run: Run, now: int, split: Split, why: str) -> None:
        """A run is over, and what its time came to."""
        ...

    def failed(self, part: str) -> None:
        """Something failed by itself."""
        ...


@dataclass(slots=True)
class WorldState:
    """All of a world that changes, times in ms.

    `owed` are the units of work that a job still has to do, `down` the nodes that are lost until an instant, `sick`
    those that are closed until they were looked at.
    """

    runs: dict[JobId, Run] = field(default_factory=dict)
    owed: dict[JobId, int] = field(default_factory=dict)
    down: dict[NodeId, int] = field(default_factory=dict)
    sick: set[NodeId] = field(default_factory=set)


class World:
    """Agents, runs and failures of one cluster; `push` puts into the kernel's calendar."""

    def __init__(
        self, arrivals: Mapping[JobId, Arrival], physics: Physics, settings: SimSettings, push: Push, hears: Listener
    ) -> None:
        self.now = WorldState()
        self._arrivals = arrivals
        self._physics = physics
        self._settings = settings
        self._push = push
        self._hears = hears
        times = settings.agents
        self._exit, self._start = _ms(times.exit_s), _ms(times.start_s)
        self._reserve, self._probe = _ms(times.reserve_s), _ms(times.probe_s)
        self._drain: tuple[JobId, int, int, int] = (JobId(""), 0, 0, 0)
        self.breaks = Breaks(physics.tree, settings, push)

    # Failures

    def _fails(self, event: hap.Fails, now: int, state: State) -> Iterator[events.Event]:
        if event.part is Part.DOMAIN:
            self.breaks.next(event.part, event.name, 1, now, event.count + 1)
            inside = self.breaks.domains[event.name]
            nodes = [node for node in inside if node in state.nodes and node not in self.now.down]
            if nodes:
                self._hears.failed("domain")
            yield from self._lose(nodes, now, event)
            return
        node = NodeId(event.name)
        record = state.nodes.get(node)
        if record is None:
            return
        self.breaks.next(event.part, event.name, record.node.gpus, now, event.count + 1)
        if node in self.now.down:
            return
        if event.part is Part.NODE:
            self._hears.failed("node")
            yield from self._lose([node], now, event)
        elif node not in self.now.sick:
            self._hears.failed("gpu")
            yield from self._lose_gpu(record, now, event)

    def _lose(self, nodes: list[NodeId], now: int, event: hap.Fails) -> Iterator[events.Event]:
        """Let nodes die; what runs there hangs until that is noticed."""
        notice = _ms(self._settings.agents.notice_s)
        until = now + notice + self.breaks.repair_ms(event.part.value, event.name, event.count)
        gone = set(nodes)
        for run in self.now.runs.values():
            if run.hung_at is None and not gone.isdisjoint(run.nodes):
                run.hung_at = now
        for node in nodes:
            self.now.down[node] = until
            self._push(until, hap.Repaired(node))
            if notice:
                self._push(now + notice, hap.Missed(node))
            else:
                yield from self._missed(node, now)

    def _lose_gpu(self, record: NodeRecord, now: int, event: hap.Fails) -> Iterator[events.Event]:
        """Let one GPU of a node die; the run that has it hangs until that is noticed."""
        node = record.node.id
        self.now.sick.add(node)
        index = below(record.node.gpus, self._settings.seed, "which", event.name, event.count)
        owner = _owner(record, index)
        run = None if owner is None else self.now.runs.get(owner[0])
        hit = run is not None and owner is not None and run.number == owner[1]
        if hit and run is not None and run.hung_at is None:
            run.hung_at = now
        noticed = hap.HangEnds(node, run.job if hit and run else None, run.number if hit and run else 0)
        wait = _ms(self._settings.agents.hang_s)
        if wait:
            self._push(now + wait, noticed)
        else:
            yield from self._hang_ends(noticed, now)

    def _hang_ends(self, event: hap.HangEnds, now: int) -> Iterator[events.Event]:
        run = self._run(event.job, event.run) if event.job is not None else None
        if run is not None:
            self._over(run, now, run.saved(now), "gpu")
            yield events.Report(run.job, event.node, Outcome.INFRA, run.number, "a GPU failed")
        yield events.Probed(event.node, ok=False, why="a GPU failed")
        self._push(now + self.breaks.repair_ms("gpu", event.node, now), hap.Repaired(event.node))

    def _missed(self, node: NodeId, now: int) -> Iterator[events.Event]:
        for run in [each for each in self.now.runs.values() if node in each.nodes]:
            self._over(run, now, run.saved(now), "node")
        yield events.NodeLost(node, "no sign of life")
        fence = _ms(self._settings.agents.fence_s)
        if fence:
            self._push(now + fence, hap.Fences(node))
        else:
            yield events.Fenced(node)

    def _repaired(self, node: NodeId, now: int, state: State) -> Iterator[events.Event]:
        until = self.now.down.get(node)
        record = state.nodes.get(node)
        if (until is not None and until > now) or record is None:
            return
        self.now.sick.discard(node)
        if until is not None:
            del self.now.down[node]
            yield events.NodeBack(node)
        elif record.node.state is NodeState.SUSPECT:
            yield events.Uncordon(node)

    def notice(self, record: NodeRecord, now: int) -> None:
        """Have somebody look at a node that the scheduler suspects by itself."""
        node = record.node.id
        if record.node.state is NodeState.SUSPECT and node not in self.now.sick:
            self.now.sick.add(node)
            self._push(now + _ms(self._settings.agents.inspect_s), hap.Repaired(node))

    # What happens

    def happens(self, what: hap.Happening, now: int, state: Callable[[], State]) -> Iterator[events.Event]:
        """Yield what the engine hears of something; `state` is the engine's as it is by then."""
        if isinstance(what, hap.Answers):
            yield from _together(each for each in what.reports if each.node not in self.now.down)
        elif isinstance(what, hap.Arrives):
            raise AssertionError("the kernel submits")
        elif isinstance(what, hap.Reaches):
            yield from self._reaches(what, now, state)
        elif isinstance(what, hap.Saves):
            yield from self._saves(what, now)
        elif isinstance(what, hap.Fails):
            yield from self._fails(what, now, state())
        elif isinstance(what, hap.HangEnds):
            yield from self._hang_ends(what, now)
        elif isinstance(what, hap.Missed):
            yield from self._missed(what.node, now)
        elif isinstance(what, hap.Fences):
            yield events.Fenced(what.node)
        elif isinstance(what, hap.Repaired):
            yield from self._repaired(what.node, now, state())
        elif what.node not in self.now.down:
            yield events.Probed(what.node)

    def _run(self, job: JobId, number: int) -> Run | None:
        run = self.now.runs.get(job)
        return run if run is not None and run.number == number else None

    def _reaches(self, what: hap.Reaches, now: int, state: Callable[[], State]) -> Iterator[events.Event]:
        run = self._run(what.job, what.run)
        if run is None or run.hung_at is not None:
            return
        ending = self._arrivals[run.job].ending
        if what.mile is Mile.PROCESS:
            self._hears.failed("process")
            node = run.nodes[below(len(run.nodes), self._settings.seed, "process on", run.job, run.number)]
            self._over(run, now, run.saved(now), "process")
            yield events.Report(run.job, node, Outcome.INFRA, run.number, "communication failed")
        elif what.mile is Mile.END and ending is Ending.COMPLETED:
            self._over(run, now, run.trained(now), "completed")
            yield events.Finished(run.job, run.number)
        elif what.mile is Mile.END and ending is Ending.CANCELLED:
            self._over(run, now, run.trained(now), "cancelled")
            yield events.Cancel(run.job)
        else:
            # What counts depends on what the scheduler makes of it: tried again, it goes on from what it saved.
            del self.now.runs[run.job]
            yield events.Report(run.job, run.nodes[0], Outcome.FAILED, run.number, "its own fault")
            record = state().record(run.job)
            final = record is None or record.state in ENDS
            self._settle(run, now, run.trained(now) if final else run.saved(now), "failed" if final else "own")

    def _saves(self, what: hap.Saves, now: int) -> Iterator[events.Event]:
        run = self._run(what.job, what.run)
        if run is None or run.hung_at is not None:
            return
        tiers = self._arrivals[run.job].job.checkpoint.tiers
        tier = tiers[0].tier if tiers else None
        taken = (now - run.cost) / 1000.0
        yield events.Checkpointed(run.job, run.number, f"{run.number}.{what.count}", tier, taken)
        if now + run.cycle <= run.ends_at():
            self._push(now + run.cycle, hap.Saves(run.job, run.number, what.count + 1))

    # Agents

    def answer(self, command: Command, state: State, now: int) -> tuple[int, events.Report | hap.Probes] | None:
        """Return what an agent says to a command, and after how many ms; None where it never says anything."""
        if command.verb is Verb.PROBE:
            return None if command.node in self.now.down else (self._probe, hap.Probes(command.node))
        record = state.record(command.job)
        assert record is not None, "the engine knows whom it asks for"
        delay, outcome = self._exit, Outcome.RELEASED
        if command.verb is Verb.RESERVE:
            self._begin(record, command, now)
            delay, outcome = self._reserve, Outcome.RESERVED
        elif command.verb is Verb.START:
            delay, outcome = self._start, Outcome.STARTED
        elif not goes_on(state.jobs, command.job, command.run):
            delay += self._drain_ms(record, command, state, now)
        if command.node in self.now.down:
            return None
        return delay, events.Report(command.job, command.node, outcome, command.run, epoch=command.epoch)

    def _begin(self, record: JobRecord, command: Command, now: int) -> None:
        """A run has its GPUs, or some of them elsewhere than at first."""
        job, run = record.job, self._run(command.job, command.run)
        if run is not None and command.node in run.nodes:
            return
        nodes = tuple(job.placement)
        span, rate = self._physics.place(job, nodes, job.placed_gpus)
        if run is not None:
            run.nodes, run.span, run.rate = nodes, span, rate
            return
        arrival = self._arrivals[job.id]
        owed = self.now.owed.setdefault(job.id, max(1, round(arrival.work_s * 1000)) * arrival.job.gpus * FULL)
        every, cost, durable = self._physics.saving(job)
        restore = _ms(job.checkpoint.restart_s) if job.run > 1 else 0
        run = Run(job.id, job.run, job.placed_gpus, nodes, span, rate, now, owed, every, cost, durable, restore)
        if any(node in self.now.down for node in nodes):
            run.hung_at = now
        self.now.runs[job.id] = run
        self._hears.began(run, job)

    def _drain_ms(self, record: JobRecord, command: Command, state: State, now: int) -> int:
        """Return how much longer than the exit a node of a run takes that is told to stop: all its nodes the same."""
        run = self._run(command.job, command.run)
        if run is not None:
            self._drain = (run.job, run.number, now, self._stop(run, record, command, state, now))
        return self._drain[3] if self._drain[:3] == (command.job, command.run, now) else 0

    def _stop(self, run: Run, record: JobRecord, command: Command, state: State, now: int) -> int:
        """End a run that is told to stop; return how long it goes on saving, in ms."""
        config = record.job.checkpoint
        fits = config.on_signal and config.cost_s <= grace_s(record.job, state.profile)
        trains = run.trains_from is not None and run.trains_from <= now
        saves = command.verb is Verb.SIGNAL and fits and run.hung_at is None and trains
        cause = "stopped" if record.stop is None else record.stop.cause.value
        self._over(run, now, run.trained(now) if saves else run.saved(now), cause)
        return _ms(config.cost_s) if saves else 0

    # What becomes of runs

    def heard(self, report: events.Report | events.Reports, now: int) -> None:
        """A report was taken in: with the last task that works, training begins."""
        if report.outcome is not Outcome.STARTED or report.run is None:
            return
        run = self._run(report.job, report.run)
        if run is None or run.trains_from is not None:
            return
        run.working += sum(node in run.nodes for node in _nodes_of(report))
        if run.working == len(run.nodes):
            run.trains_from = now + run.restore
            if run.hung_at is None:
                self._plan(run)

    def already_runs(self, run: Run, job: Job, now: int) -> None:
        """A run has its GPUs, and trains, since before the simulation began."""
        self.now.runs[run.job] = run
        self.now.owed[run.job] = run.owed
        self._hears.began(run, job)
        self._plan(run, now)

    def out_of_service(self, record: NodeRecord, now: int) -> None:
        """A node is lost or suspected since before the simulation began: it comes back as others do."""
        node, state = record.node.id, record.node.state
        if state is NodeState.DOWN:
            self.now.down[node] = now + self.breaks.repair_ms("already", node)
            self._push(self.now.down[node], hap.Repaired(node))
        elif state is NodeState.PROBING:
            self._push(now + self._probe, hap.Probes(node))
        else:
            self.notice(record, now)

    def _plan(self, run: Run, now: int | None = None) -> None:
        """Put into the calendar what a run that works will come to, from `now` on where it has trained before."""
        assert run.trains_from is not None, "it trains"
        done = 0 if now is None else run.trained(now)
        rates, seed = self._settings.failures, self._settings.seed
        miles = [(run.ends_at(), Mile.END)]
        for mile, rate in ((Mile.PROCESS, rates.process), (Mile.OWN, rates.job)):
            if rate > 0:
                after = exponential(HOUR_MS / (rate * run.gpus), seed, mile.value, run.job, run.number)
                miles.append((run.at_training(done + max(1, round(after))), mile))
        at, mile = min(miles, key=lambda each: each[0])
        if run.every:
            count = 1 if now is None else max(0, now - run.trains_from) // run.cycle + 1
            saved_at = run.trains_from + count * run.cycle
            if saved_at <= run.ends_at():
                self._push(saved_at, hap.Saves(run.job, run.number, count))
        self._push(at, hap.Reaches(run.job, run.number, mile))

    def _over(self, run: Run, now: int, kept: int, why: str) -> None:
        """A run is over, and so many ms of its training count."""
        del self.now.runs[run.job]
        self._settle(run, now, kept, why)

    def _settle(self, run: Run, now: int, kept: int, why: str) -> None:
        self.now.owed[run.job] = run.owed - run.units(kept)
        self._hears.over(run, now, run.split(now, kept), why)

    def forget(self, job: JobId) -> None:
        """A job has ended: nothing is owed any more."""
        self.now.owed.pop(job, None)


def _nodes_of(report: events.Report | events.Reports) -> tuple[NodeId, ...]:
    return report.nodes if isinstance(report, events.Reports) else (report.node,)


def _together(said: Iterable[events.Report]) -> Iterator[events.Event]:
    """Yield reports that follow one another, and say the same of one run, as one."""
    for (job, outcome, run, epoch), alike in groupby(said, lambda each: (each.job, each.outcome, each.run, each.epoch)):
        yield events.Reports(job, tuple([each.node for each in alike]), outcome, run, epoch)


def _owner(record: NodeRecord, index: int) -> tuple[JobId, int] | None:
    """Return who has a GPU of a node; where only numbers are booked, they are counted from the first on."""
    first = 0
    for each in record.bookings:
        if isinstance(each.gpus, int):
            if first <= index < first + each.gpus:
                return each.job, each.run
            first += each.gpus
        elif index in each.gpus:
            return each.job, each.run
    return None


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
