"""The judge of plans: by the rules of the round first, then by what they are worth. Knows neither solver nor policy.

A plan that breaks a rule is not carried out, so that the round stays as it is, and is worth just that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from optsched.files.plans import GivenPlan
from optsched.policy.victims import median_reporting_start, stop_cost
from optsched.rounds.assignment import NO_CHANGE, Assignment, Change, flow_of
from optsched.rounds.check import check
from optsched.rounds.problem import Problem, Spread
from optsched.rounds.score import score
from optsched.values.job import JobState, Placement, gpus_on
from optsched.values.plan import Plan, Tier

TIERS = tuple(Tier)


@dataclass(frozen=True, slots=True)
class Worth:
    """What a plan is worth. `ranks`: GPUs that run, by the names of `rank_names`; all costs in GPU-seconds.

    `stay_gpus` of running jobs are not stopped; `age` is the larger the older those that start are. `lost_work` is of
    stopped jobs, since the checkpoint that survives; `preemption` adds the time to save and to come back.
    """

    ranks: tuple[int, ...]
    stay_gpus: int
    age: int
    bill: int
    run_value: int = 0
    placement_loss: int = 0
    preemption: int = 0
    lost_work: int = 0
    started: int = 0
    preempted: int = 0
    moved: int = 0
    resized: int = 0

    @property
    def gpus(self) -> int:
        """The GPUs that run."""
        return sum(self.ranks)

    @property
    def key(self) -> tuple[int, ...]:
        """A tuple that is larger for the better plan, under strict priorities."""
        return (*self.ranks, self.stay_gpus, self.age, -self.bill)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a plan: every rule that it breaks, as sentences (none: it is valid), and its worth."""

    faults: tuple[str, ...]
    worth: Worth

    @property
    def valid(self) -> bool:
        """Whether the plan could be carried out."""
        return not self.faults


def given_of(plan: Plan) -> GivenPlan:
    """Return what a plan of one of our planners does."""
    moved = (*plan.migrations, *plan.resizes)
    return GivenPlan(
        {each.job: each.placement for each in plan.starts},
        {each.job: each.placement for each in moved},
        frozenset(each.job for each in plan.preemptions),
    )


def judge(problem: Problem, plan: GivenPlan) -> Verdict:
    """Return what a plan is worth in a round, or what is wrong with it."""
    assignment = _assignment(problem, plan)
    faults = (*index_faults(problem, plan), *check(problem, assignment))
    return Verdict(faults, worth_of(problem, NO_CHANGE if faults else assignment))


def _assignment(problem: Problem, plan: GivenPlan) -> Assignment:
    """Return a plan in the indices of the round."""
    index = {job.job.id: job.index for job in problem.jobs}
    placed = {**plan.starts, **plan.changes}
    changed = {index[job]: _spread(problem, placement) for job, placement in placed.items()}
    return Assignment(changed, frozenset(index[job] for job in plan.stopped))


def _spread(problem: Problem, placement: Placement) -> Spread:
    return tuple(sorted((problem.tree.node_index[node], gpus_on(booked)) for node, booked in placement.items()))


def index_faults(problem: Problem, plan: GivenPlan) -> list[str]:
    """Return what is wrong with the very GPUs that a plan names: they exist, are healthy, and nobody else has them."""
    placed = {**plan.starts, **plan.changes}
    nodes = {node.id: node for node in problem.snapshot.cluster.nodes}
    owner: dict[tuple[str, int], str] = {}
    for job in problem.snapshot.jobs:
        stays = job.state is JobState.RUNNING and job.id not in placed and job.id not in plan.stopped
        for node_id, booked in job.placement.items() if stays else ():
            owner |= {(node_id, i): job.id for i in ([] if isinstance(booked, int) else booked)}
    faults = []
    for job_id, placement in placed.items():
        for node_id, booked in placement.items():
            for i in () if isinstance(booked, int) else booked:
                node = nodes[node_id]
                if i >= node.gpus or i in node.gpus_bad:
                    what = "is bad" if i < node.gpus else f"does not exist: it has {node.gpus}"
                    faults.append(f"{job_id}: GPU {i} of {node_id} {what}")
                elif (other := owner.setdefault((node_id, i), job_id)) != job_id:
                    faults.append(f"{job_id}: GPU {i} of {node_id} belongs to {other}")
    return faults


def worth_of(problem: Problem, assignment: Assignment) -> Worth:
    """Return what a valid assignment is worth."""
    found, flow = score(problem, assignment), flow_of(problem, assignment)
    snapshot = problem.snapshot
    median = median_reporting_start(snapshot.jobs) if assignment.stopped else None
    lost = (
        problem.jobs[j].size_now * stop_cost(problem.jobs[j].job, snapshot.now, problem.profile, median).lost_work_s
        for j in sorted(assignment.stopped)
    )

    def number(*kinds: Change) -> int:
        return sum(change in kinds for change in flow.changes.values())

    return Worth(
        ranks=found.rows,
        stay_gpus=found.stay_gpus,
        age=found.age,
        bill=found.costs.total,
        run_value=found.run_gpus * problem.horizon_s,
        placement_loss=found.costs.placement_loss,
        preemption=found.costs.preemption,
        lost_work=round(sum(lost)),
        started=number(Change.START),
        preempted=number(Change.STOP),
        moved=number(Change.MOVE),
        resized=number(Change.GROW, Change.SHRINK),
    )


def rank_names(problem: Problem) -> tuple[str, ...]:
    """Return what the ranks of a round are called, the most protected first: tier, priority, which part of a job."""
    return tuple(
        f"{tier.value} {priority}{part}"
        for part in ("", " above minimum")
        for tier in TIERS
        for priority in problem.priority_names
    )


def missed(best: Iterable[int], ranks: Iterable[int]) -> int:
    """Return how many GPUs a plan is short of: the most by which it falls behind at any rank and those above it."""
    behind = most = 0
    for wanted, given in zip(best, ranks, strict=True):
        behind += wanted - given
        most = max(most, behind)
    return most
