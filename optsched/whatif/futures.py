"""One future of a snapshot: run times, arrivals and failures drawn with one seed, then simulated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from optsched.clock import Clock
from optsched.sim.collect import JobNotes
from optsched.sim.draws import exponential, uniform
from optsched.sim.kernel import Setup
from optsched.sim.midway import begin_midway, moved
from optsched.sim.policies.policy import Planning
from optsched.sim.settings import SimSettings
from optsched.sim.simulate import Task
from optsched.sim.workload import Arrival, Workload
from optsched.topology.tree import CLUSTER_NAME, Tree, build_tree
from optsched.values.ids import JobId, NodeId
from optsched.values.job import Job, JobState
from optsched.values.plan import Plan
from optsched.values.snapshot import Snapshot
from optsched.whatif.changes import FailureRates
from optsched.whatif.runtimes import RunTimes

LOOK_S = 300.0
"""So much time is simulated between two looks at whether all that was asked has started."""

MOST_ARRIVALS = 200_000
"""No future has more arrivals."""


@dataclass(frozen=True, slots=True)
class FutureRules:
    """What futures are drawn from.

    They last until all jobs that were asked for have started, at most `horizon_s`. `arrivals`: whether the jobs that
    run are taken for what keeps coming. `policy` decides, with `deterministic_s` of counted search in a round.
    """

    horizon_s: float = 86_400.0
    run_times: RunTimes = RunTimes()
    arrivals: bool = True
    failures: FailureRates = FailureRates()
    round_every_s: float = 60.0
    policy: str = "greedy"
    deterministic_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Stopped:
    """A run that was stopped so that a job could start; what it lost in GPU-seconds, with saving and restarting."""

    job: str
    team: str
    cost_gpu_s: float


@dataclass(frozen=True, slots=True)
class Future:
    """What one future came to, in seconds from now; `starts` None: not within the horizon.

    `domains` is where each job that was asked for started: the narrowest domain that held it, "cluster" for none.
    `stopped` are the runs that made room for those jobs. `held_gpus` is what each team held in the mean until
    `until_s`, `lost_gpu_s` all work that was lost, `waiting` how many jobs waited in the end.
    """

    seed: int
    starts: Mapping[str, float | None]
    domains: Mapping[str, str]
    stopped: tuple[Stopped, ...]
    held_gpus: Mapping[str, float]
    lost_gpu_s: float
    waiting: int
    until_s: float


class _Watching:
    """A planner that remembers where the jobs that were asked for start, and who was stopped for them."""

    def __init__(self, planner: Planning, asked: frozenset[JobId], tree: Tree) -> None:
        self._planner = planner
        self._asked = asked
        self._tree = tree
        self.stopped: list[tuple[JobId, float]] = []
        self.domains: dict[str, str] = {}

    @property
    def turn(self) -> int | None:
        """What a successor must know."""
        return self._planner.turn

    def go_on(self, turn: int | None) -> None:
        """Go on where another one stood."""
        self._planner.go_on(turn)

    def __call__(self, snapshot: Snapshot) -> Plan:
        """Return the plan of a round."""
        plan = self._planner(snapshot)
        for each in plan.preemptions:
            if not self._asked.isdisjoint(each.beneficiaries):
                self.stopped.append((each.job, each.cost_gpu_s))
        for start in plan.starts:
            if start.job in self._asked:
                self.domains[str(start.job)] = domain_of(self._tree, start.placement)
        return plan


def future(snapshot: Snapshot, asked: Sequence[JobId], rules: FutureRules, seed: int, clock: Clock) -> Future:
    """Return what one future comes to; `snapshot` stays as it is."""
    # Rounds are at whole minutes, or whatever their period is; now is somewhere between two of them.
    now = round(uniform(seed, "now") * rules.round_every_s, 3)
    start = moved(snapshot, now)
    present = [Arrival(now, job, rules.run_times.draw(job, _elapsed_s(job, now), seed)) for job in start.jobs]
    later = (
        sorted(_arrivals(start.jobs, now, rules, seed), key=lambda each: (each.at, each.job.id))
        if rules.arrivals
        else []
    )
    settings = SimSettings(
        seed=seed,
        round_every_s=rules.round_every_s,
        until_s=now + rules.horizon_s,
        sample_every_s=max(600.0, rules.horizon_s / 200),
        gantt_gpus=1 << 40,
        failures=rules.failures.rates(),
    )
    setup = Setup(start.cluster, Workload("", ()), start.profile, start.profile, settings)
    task = Task(setup, rules.policy, start.profile.name, rules.deterministic_s)
    simulation = begin_midway(start, present, later, task, clock)
    names = frozenset(asked)
    simulation.planner = watching = _Watching(simulation.planner, names, build_tree(start.cluster))
    notes = simulation.collector.notes
    jobs = notes.jobs
    at, ended = now, False
    while not ended and not (names and all(_started(jobs[name]) for name in names)):
        at += LOOK_S if names else rules.horizon_s
        ended = simulation.run(stop_at_s=min(at, now + rules.horizon_s))
    teams = {str(team.id): 0.0 for team in start.teams}
    for team in teams:
        samples = notes.series.get(f"held {team}", [])
        teams[team] = math.fsum(samples) / len(samples) if samples else 0.0
    return Future(
        seed=seed,
        starts={str(name): _started_at(jobs[name], now) for name in asked},
        domains={name: domain for name, domain in watching.domains.items() if _started(jobs[JobId(name)])},
        stopped=tuple(Stopped(str(job), str(jobs[job].team), cost) for job, cost in watching.stopped),
        held_gpus=teams,
        lost_gpu_s=notes.split[4] / 1000.0,
        waiting=sum(1 for record in simulation.state.jobs.values() if record.state is JobState.QUEUED),
        until_s=simulation.now / 1000.0 - now,
    )


def _started(known: JobNotes) -> bool:
    """Return whether a job has had GPUs since now, the instant 0."""
    return known.started >= 0


def domain_of(tree: Tree, nodes: Iterable[NodeId]) -> str:
    """Return the path of the narrowest domain that holds some nodes: a node's id, or "cluster" where only that does."""
    places = [tree.node_index[node] for node in nodes]
    level = tree.span_level(places)
    return CLUSTER_NAME if level < 0 else tree.domain_names[level][int(tree.domain_of[level, places[0]])]


def _started_at(known: JobNotes, now: float) -> float | None:
    """Return when a job was given GPUs, in seconds from now."""
    return max(0.0, known.started / 1000.0 - now) if _started(known) else None


def _elapsed_s(job: Job, now: float) -> float:
    """Return for how long a job has run, 0 where it waits."""
    return 0.0 if job.started_at is None else max(0.0, now - job.started_at)


def _arrivals(jobs: Iterable[Job], now: float, rules: FutureRules, seed: int) -> Iterator[Arrival]:
    """Yield jobs that are submitted from `now` on: the like of those that run, so often that as many run.

    By Little's law jobs of a kind of which n run at a time, each for d in the mean, come n/d times a second.
    """
    count = 0
    for job in jobs:
        if job.state is not JobState.RUNNING:
            continue
        mean_s = rules.run_times.mean(job)
        at, number = now, 0
        while count < MOST_ARRIVALS:
            at += exponential(mean_s, seed, "arrival", job.id, number)
            if at > now + rules.horizon_s:
                break
            number += 1
            count += 1
            # No file has this sign in an id.
            new = replace(_like(job), id=JobId(f"{job.id}~{number}"), submitted_at=at)
            yield Arrival(at, new, rules.run_times.draw(new, 0.0, seed))


def _like(job: Job) -> Job:
    """Return the request of a job that runs, as one that has just come."""
    return replace(
        job,
        state=JobState.QUEUED,
        placement={},
        started_at=None,
        last_checkpoint_at=None,
        start_deadline_at=None,
        run=0,
        preemptions=0,
    )
