"""What a plan is worth: ranks, who stays, who is older, and the bill. Knows no solver; section 4 of the formulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.rounds.assignment import Assignment, Change, Flow, flow_of
from optsched.rounds.line import Use, row_gpus, use_of
from optsched.rounds.problem import Problem, RoundJob, Spread
from optsched.rounds.rights import NOTHING, Claim, claim_of, has_right
from optsched.values.profile import PriorityMode


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


def placement_loss(problem: Problem, job: RoundJob, spread: Spread) -> int:
    """Return what running at `spread` loses against full speed, in whole GPU-seconds over the horizon."""
    if not spread:
        return 0
    nodes = np.fromiter((n for n, _ in spread), dtype=np.int64, count=len(spread))
    size = size_of(spread)
    span = int(problem.tree.spans(nodes, np.zeros(1, dtype=np.int64))[0])
    return loss_at(problem, job, size, span, gpu_type_of(problem, spread)) + scatter_loss(problem, job, size, nodes)


def placement_losses(problem: Problem, jobs: Sequence[RoundJob]) -> tuple[int, ...]:
    """Return the placement loss of each running job where it is: `placement_loss` of many at once."""
    placed = [job for job in jobs if job.spread_now]
    counts = np.array([len(job.spread_now) for job in placed], dtype=np.int64)
    nodes = np.array([n for job in placed for n, _ in job.spread_now], dtype=np.int64)
    ends = np.cumsum(counts)
    starts = ends - counts
    spans = problem.tree.spans(nodes, starts).tolist()
    types = problem.nodes.gpu_type[nodes[starts]].tolist()
    losses = dict.fromkeys((job.index for job in jobs), 0)
    for job, start, end, span, gpu_type in zip(placed, starts.tolist(), ends.tolist(), spans, types, strict=True):
        losses[job.index] = loss_at(problem, job, job.size_now, span, gpu_type)
        if job.preferred is not None:
            losses[job.index] += scatter_loss(problem, job, job.size_now, nodes[start:end])
    return tuple(losses.values())


def loss_at(problem: Problem, job: RoundJob, size: int, span: int, gpu_type: int) -> int:
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


def scatter_loss(problem: Problem, job: RoundJob, size: int, nodes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Return the price of using more domains of the preferred level than could be."""
    if job.preferred is None:
        return 0
    domains: list[int] = problem.tree.domain_of[job.preferred][nodes].tolist()
    count = len({domain for domain in domains if domain >= 0}) + sum(domain < 0 for domain in domains)
    return scatter_price(problem, job, size) * max(0, count - job.preferred_fewest)


def scatter_price(problem: Problem, job: RoundJob, size: int) -> int:
    """Return the price of one domain of the preferred level beyond the fewest, rounded per GPU."""
    return size * round(problem.horizon_s * problem.profile.preferred_price / job.preferred_fewest)


def use_after(problem: Problem, assignment: Assignment, by_line: bool) -> Use:
    """Return what teams use after the plan, along their lines (`by_line`) or as claims are judged."""
    shape = (len(problem.team_names), len(problem.priorities), len(problem.gpu_types))

    def sizes() -> Iterable[tuple[int, RoundJob, int, int]]:
        for job in problem.jobs:
            after = assignment.after(job)
            if after:
                team = job.line_team if by_line else job.claim_team
                size = job.size_now if after is job.spread_now else size_of(after)
                yield team, job, size, gpu_type_of(problem, after)

    return use_of(shape, sizes())


def score(problem: Problem, assignment: Assignment) -> Score:
    """Return the worth of a valid assignment."""
    flow = flow_of(problem, assignment)
    rows = row_gpus(problem.lines, use_after(problem, assignment, by_line=True).gpus, problem.deadline_team)
    stay = sum(job.size_now for job in problem.running if job.index not in assignment.stopped)
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
    assignment = flow.assignment
    loss = sum(_loss_after(problem, job, assignment) for job in problem.jobs)
    by_change = dict.fromkeys(Change, 0)
    for j, change in flow.changes.items():
        job = problem.jobs[j]
        by_change[change] += job.costs.stop if change is Change.STOP else job.costs.move
    return Costs(
        placement_loss=loss,
        preemption=by_change[Change.STOP],
        migration=by_change[Change.MOVE],
        resize=by_change[Change.SHRINK] + by_change[Change.GROW],
        hold=sum(drain_cost(problem, flow).values()) + idle_hold_cost(problem, flow),
        domain=domain_cost(problem, flow),
    )


def _loss_after(problem: Problem, job: RoundJob, assignment: Assignment) -> int:
    if job.index in assignment.changed or job.index in assignment.stopped:
        return placement_loss(problem, job, assignment.after(job))
    return problem.loss_now[job.index] if job.running else 0


def claims(problem: Problem, flow: Flow) -> dict[int, Claim]:
    """Return every taker's claim after the plan."""
    if not flow.shared:
        return {}
    use = use_after(problem, flow.assignment, by_line=False)
    meeting = {taker for _, taker, _ in flow.shared}
    result = {}
    for j in meeting:
        job = problem.jobs[j]
        result[j] = claim_of(problem, job, size_of(flow.assignment.after(job)), use)
    return result


def served_by(problem: Problem, flow: Flow) -> dict[int, set[int]]:
    """Return, for each taker, the givers that it has a right over on a node they share."""
    known = claims(problem, flow)
    served: dict[int, set[int]] = {}
    for _, taker, giver in flow.shared:
        change = flow.changes[giver]
        if flow.changes[taker] is Change.MOVE and change is not Change.MOVE:
            continue
        if change is Change.STOP and not _starts_at_minimum(problem, flow, taker):
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
    net: dict[int, int] = {}
    for n in flow.takes.keys() | flow.gives.keys():
        net[n] = sum(flow.takes.get(n, {}).values()) - sum(flow.gives.get(n, {}).values())
    total = 0
    for level, price in enumerate(problem.domain_price):
        if not price:
            continue
        used: dict[int, int] = {}
        for n, count in net.items():
            domain = int(problem.tree.domain_of[level][n])
            if domain >= 0 and problem.empty_domains[level][domain]:
                used[domain] = used.get(domain, 0) + count
        full = problem.domain_gpus[level]
        total += price * sum(0 < count < full[domain] for domain, count in used.items())
    return total
