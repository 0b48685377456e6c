"""Section 4: what a plan is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import total_ordering

from optsched.values.job import Job, JobState
from optsched.values.profile import PriorityMode
from tests.oracle.facts import ABOVE, GROW, KEEP, MINIMUM, MOVE, SHRINK, START, STOP, After, Placement, Round
from tests.oracle.order import DEADLINE, FAIR, GUARANTEED, OPPORTUNISTIC, TIERS
from tests.oracle.rights import takers_of

Row = tuple[int, int, int]
"""(part, tier, -priority): rows sort as they are compared."""


@total_ordering
@dataclass(frozen=True, eq=False)
class Score:
    """What a plan is worth: the larger the better. `rows` are GPUs, `value` is Σ rows · w · H."""

    mode: PriorityMode
    rows: Mapping[Row, int]
    stays: int
    older: int
    bill: Mapping[str, int]
    value: float = 0.0
    order: tuple[Row, ...] = field(default=(), repr=False)

    @property
    def total_bill(self) -> int:
        """The sum of the bill."""
        return sum(self.bill.values())

    @property
    def key(self) -> tuple:
        """What is compared; the weighted sum to a thousandth of a GPU-second, as good as floats are."""
        if self.mode is PriorityMode.WEIGHTED:
            return (round(self.value - self.total_bill, 3),)
        return (*(self.rows.get(row, 0) for row in self.order), self.stays, self.older, -self.total_bill)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Score) and self.key == other.key

    def __lt__(self, other: Score) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)


def score(a: After, mode: PriorityMode | None = None) -> Score:
    """Return the score of a plan, in the profile's mode or another."""
    r = a.round
    rows, value = rows_and_value(r, a.outcome)
    return Score(
        mode or r.profile.priority_mode, rows, stays(r, a.outcome), older(r, a.outcome), bill(a), value, row_order(r)
    )


# Ranks


def row_order(r: Round) -> tuple[Row, ...]:
    """Return all rows, first row first."""
    if "rows" not in r.cache:
        priorities = sorted({-r.priority(job) for job in r.snapshot.jobs})
        r.cache["rows"] = tuple((part, tier, p) for part in (MINIMUM, ABOVE) for tier in range(4) for p in priorities)
    return r.cache["rows"]


def rows_and_value(r: Round, outcome: Mapping) -> tuple[Counter, float]:
    """Return the GPUs of each row, and Σ rows · w · H + Σ started minimum GPUs · aging · H."""
    rows: Counter = Counter()
    granted = _covered_by_grants(r, outcome) if r.granted else {}
    for team in r.teams:
        jobs = tuple(job for job in r.snapshot.jobs if job.team == team and outcome[job.id][1])
        key = ("team rows", team, tuple((job.id, *outcome[job.id][1:]) for job in jobs))
        if granted or key not in r.cache:
            r.cache[key] = _team_rows(r, team, jobs, outcome, granted)
        rows.update(r.cache[key])
    value = sum(gpus * row_weight(r, row) for row, gpus in rows.items())
    value += sum(job.min_gpus * aging(r, job) for job in r.queue if outcome[job.id][0] == START)
    return +rows, value * r.profile.horizon_s


def _covered_by_grants(r: Round, outcome: Mapping) -> dict[tuple[str, int], int]:
    """Return how many GPUs of each part of each job stand on grants: by part, priority, age, up to the grant."""
    covered: dict[tuple[str, int], int] = {}
    for grant in r.grants():
        left = grant.gpus
        jobs = [r.jobs[job] for job in r.named_by(grant) if outcome[job][1] and not r.near(r.jobs[job])]
        jobs.sort(key=lambda job: (-r.priority(job), job.state is JobState.QUEUED, job.submitted_at, job.id))
        for part in (MINIMUM, ABOVE):
            for job in jobs:
                minimum = r.minimum(job, outcome[job.id][1])
                gpus = minimum if part == MINIMUM else outcome[job.id][1] - minimum
                take = min(left, gpus - covered.get((job.id, part), 0))
                covered[job.id, part] = covered.get((job.id, part), 0) + take
                left -= take
    return covered


def _team_rows(r: Round, team: str, jobs: tuple[Job, ...], outcome: Mapping, granted: Mapping) -> Counter:
    """Lay a team's GPUs along its line: quota first (a number of any type, or by type), then entitlement (by type)."""
    rows: Counter = Counter()
    quota = r.teams[team].quota
    any_type = quota.gpus if quota is not None else None
    guaranteed = dict(quota.gpus_by_type) if quota is not None else {}
    laid: Counter = Counter()
    for part in (MINIMUM, ABOVE):
        for priority in sorted({r.priority(job) for job in jobs}, reverse=True):
            here: Counter = Counter()
            for job in jobs:
                if r.priority(job) != priority:
                    continue
                _, size, gpu_type = outcome[job.id]
                minimum = r.minimum(job, size)
                gpus = minimum if part == MINIMUM else size - minimum
                if r.near(job):
                    rows[part, DEADLINE, -priority] += gpus
                    continue
                outside = granted.get((job.id, part), 0)
                rows[part, GUARANTEED, -priority] += outside
                here[gpu_type] += gpus - outside
            counts = _tiers_at(laid, here, any_type, guaranteed, r.entitlement[team])
            for tier, count in zip((GUARANTEED, FAIR, OPPORTUNISTIC), counts, strict=True):
                rows[part, tier, -priority] += count
            laid.update(here)
    return +rows


def _tiers_at(
    laid: Mapping[str, int], here: Mapping[str, int], any_type: int | None, by_type: Mapping, entitled: Mapping
) -> tuple[int, int, int]:
    """Return how many of the GPUs `here` (per type), laid behind `laid`, are guaranteed, fair and opportunistic."""

    def up_to(line: int, before: int, more: int) -> int:
        return max(0, min(line, before + more) - before)

    total, before = sum(here.values()), sum(laid.values())
    in_entitlement = sum(up_to(entitled.get(t, 0), laid.get(t, 0), gpus) for t, gpus in here.items())
    if any_type is not None:
        in_quota = up_to(any_type, before, total)
    else:
        in_quota = sum(up_to(by_type.get(t, 0), laid.get(t, 0), gpus) for t, gpus in here.items())
    fair = max(0, in_entitlement - in_quota)
    return in_quota, fair, total - in_quota - fair


def class_weight(r: Round, priority: int) -> float:
    """Return the weight of a priority: that of its class, on a straight line between classes."""
    known = sorted((p, r.profile.weights.get(name, 1.0)) for name, p in r.profile.classes.items())
    below = [(p, w) for p, w in known if p <= priority]
    above = [(p, w) for p, w in known if p >= priority]
    if not below or not above:
        return (above[0] if above else below[-1])[1] if known else 1.0
    (p0, w0), (p1, w1) = below[-1], above[0]
    return w0 if p0 == p1 else w0 + (w1 - w0) * (priority - p0) / (p1 - p0)


def row_weight(r: Round, row: Row) -> float:
    """Return w of a row: class weight · tier weight; above the minimum no class weighs more than the least one does."""
    part, tier, priority = row
    weight = class_weight(r, -priority) * r.profile.tier_weights.get(TIERS[tier], 1.0)
    if part == MINIMUM:
        return weight
    weights = [r.profile.weights.get(name, 1.0) for name in r.profile.classes] or [1.0]
    return weight * min(weights) / max(weights)


def aging(r: Round, job: Job) -> float:
    """Return what a queued job's weight has gained by waiting."""
    grown = min(r.profile.max_aging, r.profile.aging_per_h * r.waited(job) / 3600.0)
    return class_weight(r, r.priority(job)) * grown


def stays(r: Round, outcome: Mapping) -> int:
    """Return the GPUs of the running jobs that are not stopped, as they had them."""
    return sum(r.size(job) for job in r.running if outcome[job.id][0] != STOP)


def older(r: Round, outcome: Mapping) -> int:
    """Return Σ over started jobs of minimum GPUs · (queued jobs behind it + 1)."""
    behind = {job: len(r.order) - place for place, job in enumerate(r.order)}
    return sum(job.min_gpus * behind[job.id] for job in r.queue if outcome[job.id][0] == START)


# Bill


def bill(a: After) -> dict[str, int]:
    """Return the entries of the bill, in whole GPU-seconds."""
    r = a.round
    entries: Counter = Counter(placement=0, preemption=0, migration=0, resize=0, hold=0, domain=0)
    for job, where in a.where.items():
        entries["placement"] += placement_loss(r, r.jobs[job], where)
    for job in r.running:
        done = a.done(job.id)
        if done != KEEP:
            name = {STOP: "preemption", MOVE: "migration", SHRINK: "resize", GROW: "resize"}[done]
            entries[name] += change_cost(r, job)
    entries["hold"] = drain_cost(a) + reservation_cost(a)
    entries["domain"] = domain_cost(a)
    return dict(entries)


def change_cost(r: Round, job: Job) -> int:
    """Return what it costs to stop, move or resize a running job: its size · (lost work + checkpoint + restart)."""
    return r.size(job) * round(r.cost[job.id].per_gpu_s)


def placement_loss(r: Round, job: Job, where: Placement) -> int:
    """Return what a job that runs loses by its GPU type, by its span and by too many domains of its preferred level."""
    gpus, horizon = sum(where.values()), r.profile.horizon_s
    gpu_type = next(r.nodes[node].gpu_type for node in where)
    speed = job.gpu_types.get(gpu_type, 1.0) * span_speed(r, job, where)
    loss = gpus * round(horizon * (1 - speed))
    if job.preferred is not None:
        fewest = fewest_domains(r, job)
        more = max(0, len(domains_used(r, where, job.preferred)) - fewest)
        loss += gpus * round(horizon * r.profile.preferred_price / fewest) * more
    return loss


def domains_used(r: Round, where: Placement, level: str) -> set:
    """Return the domains of a level that a placement uses; a node outside the level counts as one by itself."""
    return {r.domain(node, level) or ("outside", node) for node in where}


def span_speed(r: Round, job: Job, where: Placement) -> float:
    """Return the speed of the narrowest level one domain of which holds all the nodes, or of the whole cluster."""
    table = {**r.profile.speed, **job.speed}
    known = {-1: r.profile.speed_widest, len(r.levels) - 1: 1.0}
    known |= {i: table[level] for i, level in enumerate(r.levels) if level in table}
    span = -1
    for i, level in enumerate(r.levels):
        domains = {r.domain(node, level) for node in where}
        if len(domains) == 1 and None not in domains:
            span = i
    if span in known:
        return known[span]
    low, high = max(i for i in known if i < span), min(i for i in known if i > span)
    return known[low] + (known[high] - known[low]) * (span - low) / (high - low)


def fewest_domains(r: Round, job: Job) -> int:
    """Return the least number of domains of the preferred level that could hold the job's `gpus` when empty.

    Counted on one GPU type, over the nodes that it may use, with the GPUs of each that its cut can use.
    """
    key = ("fewest", job.id)
    if key in r.cache:
        return r.cache[key]
    found = []
    for gpu_type in r.types:
        room: Counter = Counter()
        for node in r.may_use(job):
            if r.nodes[node].gpu_type == gpu_type:
                room[r.domain(node, job.preferred) or ("outside", node)] += _usable(r, job, node)
        total, count = 0, 0
        for gpus in sorted(room.values(), reverse=True):
            if total >= job.gpus:
                break
            total, count = total + gpus, count + 1
        if total >= job.gpus:
            found.append(count)
    r.cache[key] = max(1, min(found, default=1))
    return r.cache[key]


def _usable(r: Round, job: Job, node: str) -> int:
    gpus = r.capacity[node]
    if job.gpus_per_node is not None:
        return job.gpus_per_node if gpus >= job.gpus_per_node else 0
    if job.gpus_per_task is not None:
        return gpus - gpus % job.gpus_per_task
    if r.on_one_node(job):
        return job.gpus if gpus >= job.gpus else 0
    return gpus


def drain_cost(a: After) -> int:
    """Return what takers' GPUs cost while their givers write checkpoints."""
    r = a.round
    longest: dict[str, float] = {}
    for v in a.supply:
        for b in takers_of(a, v):
            longest[b] = max(longest.get(b, 0.0), r.cost[v].checkpoint_s)
    return sum(a.size(b) * round(seconds) for b, seconds in longest.items())


def reservation_cost(a: After) -> int:
    """Return what GPUs cost that a binding hold leaves idle until its shadow time."""
    r = a.round
    used, total = a.used(), 0
    for hold in r.holds:
        if hold.shadow_at is None or (hold.unless is not None and a.done(hold.unless) == START):
            continue
        seconds = min(r.profile.horizon_s, max(0.0, hold.shadow_at - r.now))
        for node, gpus in hold.gpus.items():
            total += min(gpus, max(0, r.capacity[node] - used[node])) * round(seconds)
    return total


def domain_cost(a: After) -> int:
    """Return the price of the domains, wholly free and taking work before, that are neither empty nor full after."""
    r = a.round
    used, total = a.used(), 0
    for level, nodes in all_domains(r):
        capacity = sum(r.capacity[node] for node in nodes)
        whole = all(r.takes_work(node) and r.booked[node] == 0 for node in nodes)
        if whole and 0 < sum(used[node] for node in nodes) < capacity:
            total += round(domain_price(r, level))
    return total


def domain_price(r: Round, level: str) -> float:
    """Return the level's price; a level that the profile does not name has none."""
    return r.profile.domain_price.get(level, 0.0)


def all_domains(r: Round) -> list[tuple[str, list[str]]]:
    """Return every domain of every level, the nodes too."""
    if "domains" not in r.cache:
        found: dict[tuple, list[str]] = {}
        for level in r.levels:
            for node in r.nodes:
                domain = r.domain(node, level)
                if domain is not None:
                    found.setdefault((level, domain), []).append(node)
        r.cache["domains"] = [(level, nodes) for (level, _), nodes in found.items()]
    return r.cache["domains"]
