"""What a plan is worth: ranks, who stays, who is older, and the bill. Knows no solver; section 4 of the formulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from optsched.rounds.assignment import Assignment, Change, Flow, flow_of
from optsched.rounds.line import Use, row_gpus, use_now
from optsched.rounds.problem import Nodes, Problem, Spread
from optsched.rounds.rights import NOTHING, Claim, claim_key, claim_of, has_right
from optsched.topology.tree import Tree
from optsched.values.profile import PriorityMode, Profile


@dataclass(frozen=True, slots=True)
class Costs:
    """The bill in whole GPU-seconds."""

    placement_loss: int
    preemption: int
    migration: int
    resize: int
    hold: int
    domain: int

    @property
    def total(self) -> int:
        """The sum of all entries."""
        return self.placement_loss + self.preemption + self.migration + self.resize + self.hold + self.domain


@dataclass(frozen=True, slots=True)
class Score:
    """A plan's worth.

    `rows` are GPUs by rank (8P,), `stay_gpus` of running jobs not stopped, `age` what is older starts.
    `weighted` is the one sum of the weighted mode, in thousandths of GPU-seconds.
    """

    rows: tuple[int, ...]
    stay_gpus: int
    age: int
    costs: Costs
    run_gpus: int
    weighted: int

    def key(self, mode: PriorityMode) -> tuple[int, ...]:
        """Return a tuple that is larger for the better plan."""
        if mode is PriorityMode.WEIGHTED:
            return (self.weighted,)
        return (*self.rows, self.stay_gpus, self.age, -self.costs.total)


def gpu_type_of(problem: Problem, spread: Spread) -> int:
    """Return the GPU type of a placement (of its first node); 0 for an empty one."""
    return int(problem.nodes.gpu_type[spread[0][0]]) if spread else 0


def size_of(spread: Spread) -> int:
    """Return the GPUs of a placement."""
    return sum(count for _, count in spread)


class Ground(Protocol):
    """What the loss of a placement depends on but for the job; `problem.Problem` is one."""

    @property
    def tree(self) -> Tree:
        """The topology."""
        ...

    @property
    def nodes(self) -> Nodes:
        """The nodes, of which the GPU types count."""
        ...

    @property
    def horizon_s(self) -> int:
        """Seconds over which losses are counted."""
        ...

    @property
    def profile(self) -> Profile:
        """The profile, of which the price of scattering counts."""
        ...


class Placed(Protocol):
    """What of a job decides what a placement loses; `problem.RoundJob` is one."""

    @property
    def type_speed(self) -> tuple[float, ...]:
        """Its relative speed by GPU type."""
        ...

    @property
    def span_speed(self) -> tuple[float, ...]:
        """Its speed by level, then for the whole cluster."""
        ...

    @property
    def preferred(self) -> int | None:
        """The level that it would rather not leave."""
        ...

    @property
    def preferred_fewest(self) -> int:
        """The least number of domains of that level that could hold it."""
        ...


def placement_loss(problem: Ground, job: Placed, spread: Spread) -> int:
    """Return what running at `spread` loses against full speed, in whole GPU-seconds over the horizon."""
    return placement_losses(problem, [(job, spread)])[0]


def placement_losses(problem: Ground, placed: Sequence[tuple[Placed, Spread]]) -> tuple[int, ...]:
    """Return the placement loss of many jobs, each at a placement; an empty one loses nothing."""
    somewhere = [spread for _, spread in placed if spread]
    counts = np.array([len(spread) for spread in somewhere], dtype=np.int64)
    nodes = np.array([n for spread in somewhere for n, _ in spread], dtype=np.int64)
    ends = np.cumsum(counts)
    starts = ends - counts
    spans = iter(problem.tree.spans(nodes, starts).tolist())
    types = iter(problem.nodes.gpu_type[nodes[starts]].tolist())
    bounds = iter(zip(starts.tolist(), ends.tolist(), strict=True))
    losses = []
    for job, spread in placed:
        if not spread:
            losses.append(0)
            continue
        size, span, gpu_type, (start, end) = size_of(spread), next(spans), next(types), next(bounds)
        loss = loss_at(problem, job, size, span, gpu_type)
        losses.append(loss if job.preferred is None else loss + scatter_loss(problem, job, size, nodes[start:end]))
    return tuple(losses)


def loss_at(problem: Ground, job: Placed, size: int, span: int, gpu_type: int) -> int:
    """Return the loss of `size` GPUs of a type at a span (-1: the whole cluster), rounded per GPU."""
    speed = job.type_speed[gpu_type] * job.span_speed[span]
    return size * round(problem.horizon_s * (1.0 - speed))


def least_bill(problem: Problem) -> int:
    """Return a number that no plan's bill is below: 0, unless some span or type is faster than full speed."""
    fastest = {
        (job.type_speed, job.span_speed): max(job.type_speed, default=1.0) * max(job.span_speed) for job in problem.jobs
    }
    if all(speed <= 1.0 for speed in fastest.values()):
        return 0
    return sum(
        min(
            0,
            max(job.maximum, job.size_now) * round(problem.horizon_s * (1.0 - fastest[job.type_speed, job.span_speed])),
        )
        for job in problem.jobs
    )


def scatter_loss(problem: Ground, job: Placed, size: int, nodes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Return the price of using more domains of the preferred level than could be."""
    if job.preferred is None:
        return 0
    domains: list[int] = problem.tree.domain_of[job.preferred][nodes].tolist()
    count = len({domain for domain in domains if domain >= 0}) + sum(domain < 0 for domain in domains)
    return scatter_price(problem, job, size) * max(0, count - job.preferred_fewest)


def scatter_price(problem: Ground, job: Placed, size: int) -> int:
    """Return the price of one domain of the preferred level beyond the fewest, rounded per GPU."""
    return size * round(problem.horizon_s * problem.profile.preferred_price / job.preferred_fewest)


def use_after(problem: Problem, assignment: Assignment, by_line: bool) -> Use:
    """Return what teams use after the plan, along their lines (`by_line`) or as claims are judged.

    That is what runs now, less what is stopped or placed anew, plus what is placed.
    """
    use = use_now(problem.occupancy)
    touched = [problem.jobs[j] for j in assignment.changed.keys() | assignment.stopped]
    gone = np.array([job.index for job in touched if job.running], dtype=np.int64)
    use.book_all(tuple(column[gone] for column in problem.occupancy.columns), sign=-1)
    placed = [
        (team, job.priority, job.minimum, size_of(after), after[0][0], job.cpus_per_gpu_u, job.memory_per_gpu_u)
        for job in touched
        for team, after in [(job.line_team if by_line else job.claim_team, assignment.after(job))]
        if after
    ]
    team, priority, minimum, size, first, cpus_u, memory_u = np.array(placed, dtype=np.int64).reshape(-1, 7).T
    use.book_all((team, priority, minimum, size, problem.nodes.gpu_type[first], cpus_u, memory_u))
    return use


def score(problem: Problem, assignment: Assignment) -> Score:
    """Return the worth of a valid assignment."""
    flow = flow_of(problem, assignment)
    rows = row_gpus(problem.lines, use_after(problem, assignment, by_line=True).gpus, problem.deadline_team)
    stay = int(problem.occupancy.size.sum()) - sum(problem.jobs[j].size_now for j in assignment.stopped)
    started = [problem.jobs[j] for j, change in flow.changes.items() if change is Change.START]
    costs = bill(problem, flow)
    waited = sum(job.aging_milli * job.minimum for job in started) * problem.horizon_s
    value = int((rows * problem.row_weight_milli).sum()) * problem.horizon_s + waited
    return Score(
        rows=tuple(rows.tolist()),
        stay_gpus=stay,
        age=sum(job.minimum * job.ahead_of for job in started),
        costs=costs,
        run_gpus=int(rows.sum()),
        weighted=value - 1000 * costs.total,
    )


def bill(problem: Problem, flow: Flow) -> Costs:
    """Return the bill of an assignment."""
    jobs = [problem.jobs[j] for j in flow.changes]
    before = sum(problem.loss_now[job.index] for job in jobs if job.running)
    after = sum(placement_losses(problem, [(job, flow.assignment.after(job)) for job in jobs]))
    by_change = dict.fromkeys(Change, 0)
    for j, change in flow.changes.items():
        job = problem.jobs[j]
        by_change[change] += job.costs.stop if change is Change.STOP else job.costs.move
    return Costs(
        placement_loss=sum(problem.loss_now) - before + after,
        preemption=by_change[Change.STOP],
        migration=by_change[Change.MOVE],
        resize=by_change[Change.SHRINK] + by_change[Change.GROW],
        hold=sum(drain_cost(problem, flow).values()) + idle_hold_cost(problem, flow),
        domain=domain_cost(problem, flow),
    )


def claims(problem: Problem, flow: Flow) -> dict[int, Claim]:
    """Return every taker's claim after the plan."""
    if not flow.shared:
        return {}
    use = use_after(problem, flow.assignment, by_line=False)
    # What a team uses through a key is the same for all its takers there.
    known: dict[tuple[int, int], Claim] = {}
    result = {}
    for j in {taker for taker, _ in flow.meetings}:
        job, size = problem.jobs[j], size_of(flow.assignment.after(problem.jobs[j]))
        where = (job.claim_team, claim_key(problem, job, size))
        if where not in known:
            known[where] = claim_of(problem, job, size, use)
        result[j] = known[where]
    return result


def served_by(problem: Problem, flow: Flow) -> dict[int, set[int]]:
    """Return, for each taker, the givers that it has a right over on a node they share."""
    known = claims(problem, flow)
    may_stop = {taker for taker in known if _starts_at_minimum(problem, flow, taker)}
    served: dict[int, set[int]] = {}
    for taker, giver in flow.meetings:
        change = flow.changes[giver]
        if flow.changes[taker] is Change.MOVE and change is not Change.MOVE:
            continue
        if change is Change.STOP and taker not in may_stop:
            continue
        if has_right(problem, problem.jobs[taker], problem.jobs[giver], change, known.get(taker, NOTHING)):
            served.setdefault(taker, set()).add(giver)
    return served


def _starts_at_minimum(problem: Problem, flow: Flow, taker: int) -> bool:
    """Return whether a taker starts at its minimum: only then it may take from stopped jobs."""
    job = problem.jobs[taker]
    if flow.changes[taker] is not Change.START:
        return False
    return size_of(flow.assignment.after(job)) == job.minimum


def drain_cost(problem: Problem, flow: Flow) -> dict[int, int]:
    """Return, for each taker that waits, its GPUs times the longest checkpoint that its givers write before they go."""
    result = {}
    for taker, givers in served_by(problem, flow).items():
        wait_s = max(problem.jobs[giver].costs.drain_s for giver in givers)
        result[taker] = size_of(flow.assignment.after(problem.jobs[taker])) * wait_s
    return result


def idle_hold_cost(problem: Problem, flow: Flow) -> int:
    """Return the price of GPUs that holds in force leave idle."""
    total = 0
    for hold in problem.holds:
        if hold.unless is not None and hold.unless in flow.assignment.changed:
            continue
        for n, held in hold.gpus.items():
            taken = sum(flow.takes.get(n, {}).values()) - sum(flow.gives.get(n, {}).values())
            total += min(held, max(0, int(problem.nodes.free[n]) - taken)) * hold.until_s
    return total


def domain_cost(problem: Problem, flow: Flow) -> int:
    """Return the price of domains that were empty and are now neither empty nor full."""
    net = np.zeros(len(problem.nodes.capacity), dtype=np.int64)
    for sign, side in ((1, flow.takes), (-1, flow.gives)):
        for n, on in side.items():
            net[n] += sign * sum(on.values())
    total = 0
    for level, price in enumerate(problem.domain_price):
        if price:
            used = problem.tree.sum_per_domain(level, net)
            broken_up = problem.empty_domains[level] & (used > 0) & (used < problem.domain_gpus[level])
            total += price * int(broken_up.sum())
    return total
