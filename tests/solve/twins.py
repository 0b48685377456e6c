"""The same round seen by the code and by the oracle: plans there and back, and one reading of what the text leaves
open.
"""

from __future__ import annotations

from optsched.rounds.assignment import Assignment
from optsched.rounds.build import build_problem
from optsched.rounds.problem import Cut, Problem, What
from optsched.rounds.score import Score
from optsched.values.cluster import ReservationKind
from optsched.values.job import Job, JobState
from optsched.values.snapshot import Snapshot
from tests.oracle.brute import Plan, Round
from tests.oracle.shapes import shapes


class SharedRound(Round):
    """The oracle's round with the queue order, the entitlements and the fewest domains that the problem works with.

    A start deadline is met once a job runs; and a node that takes nothing new gives a job that it holds no more GPUs.
    """

    def __init__(self, problem: Problem) -> None:
        entitlement = {
            name: {
                str(problem.gpu_types[item.gpu_type]): item.amount
                for item in problem.lines.entitlement[t]
                if item.what is What.GPUS and item.gpu_type is not None
            }
            for t, name in enumerate(problem.team_names[: problem.real_teams])
        }
        order = [str(job.job.id) for job in problem.queued]
        super().__init__(problem.snapshot, order=order, entitlement=entitlement)
        self.problem = problem
        for job in problem.jobs:
            if job.preferred is not None:
                self.cache["fewest", job.job.id] = job.preferred_fewest
        for job in problem.running:
            closed = {problem.tree.node_ids[n] for n, _ in job.spread_now if not job.nodes[n]}
            if not closed:
                continue
            for size in self.sizes(job.job):
                for gpu_type in self.types:
                    placed = shapes(self, job.job, size, gpu_type)
                    kept = [where for where in placed if not self.gains_on(job.job, where, closed)]
                    self.cache["shapes", job.job.id, size, gpu_type] = kept

    def gains_on(self, job: Job, where, closed) -> bool:
        """Whether a placement has more on a closed node than the job has there now."""
        return any(where.get(node, 0) > self.before[job.id].get(node, 0) for node in closed)

    def near(self, job: Job) -> bool:
        """A running job's start deadline is met."""
        return job.state is JobState.QUEUED and super().near(job)


def both(snapshot: Snapshot) -> tuple[Problem, SharedRound]:
    """The problem and the oracle's round of a snapshot."""
    problem = build_problem(snapshot)
    return problem, SharedRound(problem)


def plan_of(problem: Problem, assignment: Assignment) -> Plan:
    """An assignment in the oracle's words; what stays as it was is left out."""
    names = problem.tree.node_ids
    placements = {
        str(problem.jobs[j].job.id): {str(names[n]): gpus for n, gpus in spread}
        for j, spread in assignment.changed.items()
        if spread != problem.jobs[j].spread_now
    }
    return Plan(placements, frozenset(str(problem.jobs[j].job.id) for j in assignment.stopped))


def assignment_of(problem: Problem, plan: Plan) -> Assignment:
    """The oracle's plan in the indices of the problem."""
    index = {str(job.job.id): job.index for job in problem.jobs}
    node = problem.tree.node_index
    changed = {
        index[job]: tuple(sorted((node[name], gpus) for name, gpus in where.items()))
        for job, where in plan.placements.items()
    }
    return Assignment(changed, frozenset(index[job] for job in plan.stopped))


def rows_of(problem: Problem, score: Score) -> dict[tuple[int, int, int], int]:
    """The rows of a score as the oracle names them: (part, tier, -priority), without the empty ones."""
    priorities = len(problem.priorities)
    rows = {}
    for index, gpus in enumerate(score.rows):
        part, rest = divmod(index, 4 * priorities)
        tier, priority = divmod(rest, priorities)
        if gpus:
            rows[part, tier, -problem.priorities[priority]] = gpus
    return rows


def agreed(problem: Problem, round_: SharedRound) -> bool:
    """Whether code and oracle read everything in the round alike.

    They differ about grants to whole teams, quotas of any type over several types, quotas that name no GPUs, the cut
    of a
    job without one where large nodes are closed, and the sizes of elastic jobs on whole nodes.
    """
    snap = problem.snapshot
    quotas = [team.quota for team in snap.teams if team.quota is not None]
    if any(each.kind is ReservationKind.GRANT for each in snap.reservations):
        return False
    if any(not quota.names_gpus for quota in quotas):
        return False
    if len(problem.gpu_types) > 1 and any(quota.gpus is not None for quota in quotas):
        return False
    uncut = [job for job in problem.jobs if job.cut in (Cut.ONE_NODE, Cut.WHOLE_NODES)]
    if any((job.cut is Cut.ONE_NODE) != round_.on_one_node(job.job) for job in uncut):
        return False
    return not any(job.cut is Cut.WHOLE_NODES and job.job.elastic for job in uncut)
