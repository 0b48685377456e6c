"""The round that would be planned now, in figures by team."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from optsched.clock import Clock
from optsched.planner.plan import PlanOptions, plan_round
from optsched.sim.failures import FAILURES
from optsched.sim.physics import Physics
from optsched.sim.runs import FULL
from optsched.topology.tree import build_tree
from optsched.values.ids import JobId
from optsched.values.job import Job, JobState, Placement, gpus_on
from optsched.values.plan import Plan
from optsched.values.snapshot import Snapshot
from optsched.whatif.futures import domain_of


@dataclass(frozen=True, slots=True)
class TeamNow:
    """What a round does for one team.

    `gpus` run once it is carried out. `stopped` jobs lose `lost_gpu_s`, by preemption, moves and resizes, with what
    saving and restarting takes. `placement_loss_gpu_s` is what its jobs lose to their spans within the horizon.
    """

    gpus: int = 0
    stopped: int = 0
    lost_gpu_s: float = 0.0
    placement_loss_gpu_s: float = 0.0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class StoppedNow:
    """A job that the round stops, for whom, and its cost in GPU-seconds."""

    job: str
    team: str
    gpus: int
    beneficiaries: tuple[str, ...]
    cost_gpu_s: float


@dataclass(frozen=True, slots=True)
class JobNow:
    """What the round does with a job that was asked for.

    `fate` is starts, waits or runs; `domain` holds it whole, where it starts ("" else); `why` says why it waits;
    `estimate_at_s` is when the scheduler itself reckons that it starts, in seconds from now, where it does.
    """

    fate: str
    domain: str = ""
    why: str = ""
    estimate_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class RoundNow:
    """A round, as a dry run."""

    source: str
    gpus: int
    gpus_in_use: int
    starts: int
    moves: int
    stopped: tuple[StoppedNow, ...]
    total_cost_gpu_s: float
    placement_loss_gpu_s: float
    teams: Mapping[str, TeamNow] = field(default_factory=dict)
    jobs: Mapping[str, JobNow] = field(default_factory=dict)


def round_now(snapshot: Snapshot, asked: Iterable[JobId], options: PlanOptions, clock: Clock) -> RoundNow:
    """Plan the next round and carry it out nowhere."""
    plan = plan_round(snapshot, options, clock)
    jobs = {job.id: job for job in snapshot.jobs}
    return RoundNow(
        source=plan.round.source.value,
        gpus=sum(node.healthy_gpus for node in snapshot.cluster.nodes),
        gpus_in_use=sum(sum(map(gpus_on, placement.values())) for placement in _after(snapshot, plan).values()),
        starts=len(plan.starts),
        moves=len(plan.migrations) + len(plan.resizes),
        stopped=tuple(
            StoppedNow(
                str(e.job),
                str(jobs[e.job].team),
                jobs[e.job].placed_gpus,
                tuple(map(str, e.beneficiaries)),
                e.cost_gpu_s,
            )
            for e in plan.preemptions
        ),
        total_cost_gpu_s=plan.bill.total,
        placement_loss_gpu_s=plan.bill.placement_loss,
        teams=_by_team(snapshot, plan, jobs),
        jobs={str(job): _fate(job, snapshot, plan) for job in asked},
    )


def _after(snapshot: Snapshot, plan: Plan) -> Mapping[JobId, Placement]:
    """Return where what runs lies once the plan is carried out."""
    placed = {job.id: job.placement for job in snapshot.jobs if job.state is JobState.RUNNING}
    for gone in plan.preemptions:
        placed.pop(gone.job, None)
    placed |= {start.job: start.placement for start in plan.starts}
    placed |= {move.job: move.placement for move in (*plan.migrations, *plan.resizes)}
    return placed


def _by_team(snapshot: Snapshot, plan: Plan, jobs: Mapping[JobId, Job]) -> Mapping[str, TeamNow]:
    physics = Physics(snapshot.cluster, build_tree(snapshot.cluster), snapshot.profile, FAILURES["none"])
    teams = [str(team.id) for team in snapshot.teams]
    gpus, stopped, waiting = dict.fromkeys(teams, 0), dict.fromkeys(teams, 0), dict.fromkeys(teams, 0)
    lost, loss = dict.fromkeys(teams, 0.0), dict.fromkeys(teams, 0.0)
    for name, placement in _after(snapshot, plan).items():
        job = jobs[name]
        size = sum(map(gpus_on, placement.values()))
        gpus[job.team] += size
        _, rate = physics.place(job, placement, size)
        loss[job.team] += snapshot.profile.horizon_s * (size - rate / FULL)
    for gone in plan.preemptions:
        stopped[jobs[gone.job].team] += 1
        lost[jobs[gone.job].team] += gone.cost_gpu_s
    for move in (*plan.migrations, *plan.resizes):
        lost[jobs[move.job].team] += move.cost_gpu_s
    for entry in plan.queued:
        waiting[jobs[entry.job].team] += 1
    return {team: TeamNow(gpus[team], stopped[team], lost[team], loss[team], waiting[team]) for team in teams}


def _fate(job: JobId, snapshot: Snapshot, plan: Plan) -> JobNow:
    for start in plan.starts:
        if start.job == job:
            return JobNow("starts", domain_of(build_tree(snapshot.cluster), start.placement))
    room = next((room for room in plan.reservations if room.job == job), None)
    at = None if room is None or room.start_estimate_at is None else room.start_estimate_at - snapshot.now
    for entry in plan.queued:
        if entry.job == job:
            return JobNow("waits", "" if room is None else room.domain, entry.detail, at)
    return JobNow("runs")
