"""The coarse model: who starts, who stops, and how each gang is split over cells.

It is a relaxation, so its optimum is a bound: every valid plan gives a solution of this model with the same ranks and a
bill that is no higher.

* **room**: a node with s free GPUs holds at most floor(s / g) pieces of g GPUs, so in every set of nodes, for every
  piece size g, sum over pieces of floor(piece / g) is at most the sum over its nodes of floor(free / g). `free` counts
  what stops, moves and shrinks free there. Pieces are what a job has on one node at least: its unit, its task, or all
  of it.
* **moves** free their old nodes; what they need elsewhere counts only in the sums over the whole cluster, and what they
  may keep on a node that takes no new work does not. A move to another GPU type shifts room between the types.
* **rights** hold in the sums of a team and of the cluster: what a group of takers uses comes from free GPUs, from its
  own team's less urgent jobs, or from the pools of what other teams have above their quotas and entitlements, the
  latter only while the group is inside its line.
* **ranks, limits, claims** are linear in who starts, stops and changes size, and are the same as in the exact model.
* **bill**: stops, moves and resizes cost what they cost; placement loss is the least that the split over cells allows;
  draining, broken domains and idle holds count nothing.
"""

from __future__ import annotations

from optsched.rounds.problem import UNLIMITED, Problem
from optsched.solve.cpsat import objective
from optsched.solve.cpsat.claims import Claims
from optsched.solve.cpsat.coarse_jobs import CoarseJobs
from optsched.solve.cpsat.coarse_rights import Rights
from optsched.solve.cpsat.coarse_room import Room
from optsched.solve.cpsat.constraints import add_ceilings, add_stop_limit
from optsched.solve.cpsat.decisions import Scope, full_scope
from optsched.solve.cpsat.symmetry import order_equal_jobs
from optsched.solve.cpsat.terms import Linear, total


class CoarseModel:
    """The relaxation of a round over cells; see the module's text for why it is one."""

    def __init__(self, problem: Problem, scope: Scope | None = None, *, payment: bool = True) -> None:
        jobs = CoarseJobs(problem, scope or full_scope(problem))
        self.problem, self.model, self.decisions = problem, jobs.model, jobs.decisions
        self.cells, self.split = jobs.cells, jobs.split
        Room(jobs).add()
        claims = Claims(problem, self.decisions)
        add_ceilings(problem, self.decisions, claims)
        add_stop_limit(problem, self.decisions)
        Rights(jobs, claims).add()
        if payment:
            self._add_payment()
        order_equal_jobs(problem, self.decisions)
        self.ladder = objective.add_ladder(problem, self.decisions, claims)
        self.bill = self._bill()

    def _add_payment(self) -> None:
        """What stopped jobs lose is at most what all starts are worth."""
        problem = self.problem
        if problem.profile.max_loss_ratio is None or not self.decisions.stops:
            return
        pays = [(problem.jobs[j].pays_gpu_s, gang.active) for j, gang in self.decisions.starts.items()]
        if any(amount >= UNLIMITED for amount, _ in pays) or any(
            problem.jobs[j].pays_gpu_s >= UNLIMITED for j in self.decisions.moves
        ):
            return
        worth: list[Linear] = [amount * active for amount, active in pays]
        worth += [problem.jobs[j].pays_gpu_s * gang.active for j, gang in self.decisions.moves.items()]
        lost = total([problem.jobs[j].costs.stop * stop for j, stop in self.decisions.stops.items()])
        self.model.add(lost <= total(worth))

    def _bill(self) -> Linear:
        problem, decisions = self.problem, self.decisions
        parts: list[Linear] = [sum(problem.loss_now)]
        parts += [gang.loss for gang in decisions.starts.values()]
        for j, stop in decisions.stops.items():
            job = problem.jobs[j]
            parts.append((job.costs.stop - problem.loss_now[j]) * stop)
        for j, gang in decisions.moves.items():
            job = problem.jobs[j]
            parts.append(gang.loss + (job.costs.move - problem.loss_now[j]) * gang.active)
        for j, gang in decisions.resizes.items():
            job = problem.jobs[j]
            parts.append(gang.loss + (job.costs.move - problem.loss_now[j]) * gang.active)
        return total(parts)
