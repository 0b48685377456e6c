"""Rules 11 and 13: who has a right over whom."""

from __future__ import annotations

from collections.abc import Mapping

from optsched.values.job import Job, JobState
from optsched.values.profile import Reclaim
from tests.oracle.facts import ABOVE, GROW, MINIMUM, MOVE, SHRINK, START, STOP, After, Outcome, Round, amounts_of, usage


class Rights:
    """Who has a right over whom, given what becomes of every job (not where): `may_take(b, v)` says so."""

    def __init__(self, r: Round, outcome: Mapping[str, Outcome]) -> None:
        self.r, self.outcome = r, outcome
        self.now = {job.id: ("", r.size(job), r.type_now(job)) for job in r.running}
        self._known: dict[tuple[str, str], bool] = {}

    def may_take(self, b: str, v: str) -> bool:
        """Return whether taker b has a right over giver v (rule 11) that it may use (rule 13)."""
        if (b, v) not in self._known:
            self._known[b, v] = (
                b != v and not self._not_by_force(b, v) and self._has_right(self.r.jobs[b], self.r.jobs[v])
            )
        return self._known[b, v]

    def _not_by_force(self, b: str, v: str) -> bool:
        """A stopped job serves nothing that grows or starts above its minimum; a job that moves displaces nobody."""
        if "rule_13_minimum_by_force" in self.r.without:
            return False
        done, size, _ = self.outcome[b]
        if done == MOVE and self.outcome[v][0] != MOVE:
            return True
        big = done == START and size > self.r.jobs[b].min_gpus
        return self.outcome[v][0] == STOP and (done == GROW or big)

    def _has_right(self, b: Job, v: Job) -> bool:
        r = self.r
        p_b, p_v = r.priority(b), r.priority(v)
        part = (ABOVE if self.outcome[v.id][0] == SHRINK else MINIMUM, p_v)
        same_team = b.team == v.team
        if r.emergency(b) and p_v < p_b:
            return True
        if r.due(b) and p_v <= p_b and (self.breaks_guarantees(b) or self._above_quota(v, part)):
            return True
        if self.outcome[v.id][0] == MOVE:
            return same_team or not self.inside_quota_now(v) or self._makes_way(b, v)
        if same_team:
            return p_v < p_b or (r.due(b) and p_v == p_b)
        if not self._above_quota(v, part):
            return False
        if self._inside_quota_after(b):
            return True
        fair = r.profile.reclaim is Reclaim.FAIR_SHARE
        return fair and self._inside_entitlement_after(b) and self._above_entitlement(v, part)

    def _makes_way(self, b: Job, v: Job) -> bool:
        """A starved job that requires a level is inside its quota or entitlement, and v loses little by a move."""
        r = self.r
        starved = b.state is JobState.QUEUED and b.required is not None and r.waited(b) >= r.profile.starve_after_s
        most_s = r.profile.starved_move_s
        light = most_s is not None and r.cost[v.id].per_gpu_s <= most_s
        return starved and light and (self._inside_quota_after(b) or self._inside_entitlement_after(b))

    def breaks_guarantees(self, b: Job) -> bool:
        """Its class may, and the team's GPUs lifted by deadlines of such classes are no more than it may have."""
        r = self.r
        if b.priority_class not in r.profile.deadline_classes:
            return False
        lifted = [
            job
            for job in r.snapshot.jobs
            if job.team == b.team and r.near(job) and job.priority_class in r.profile.deadline_classes
        ]
        return sum(self.outcome[job.id][1] for job in lifted) <= r.teams[b.team].max_deadline_gpus

    def _quota(self, job: Job) -> dict | None:
        """Return the quota line of the job's team; None where it names no GPUs, and so guarantees none."""
        quota = self.r.teams[job.team].quota
        return None if quota is None or not quota.names_gpus else amounts_of(quota)

    def _entitlement(self, job: Job) -> dict:
        return {f"gpus:{name}": self.r.entitlement[job.team].get(name, 0) for name in self.r.types}

    def inside_quota_now(self, v: Job) -> bool:
        """The quota names GPUs, and the minimum part of the running job does not lie above it."""
        return not self._above_quota(v, (MINIMUM, self.r.priority(v)))

    def _above_quota(self, v: Job, part: tuple[int, int]) -> bool:
        line = self._quota(v)
        return line is None or self._lies_above(v, part, line)

    def _above_entitlement(self, v: Job, part: tuple[int, int]) -> bool:
        return self._lies_above(v, part, self._entitlement(v))

    def _lies_above(self, v: Job, part: tuple[int, int], line: Mapping) -> bool:
        """The team's GPUs up to the part, before the plan, exceed the line in a resource that the job uses."""
        r = self.r
        gpu_type = r.type_now(v)
        if types_in(line) and f"gpus:{gpu_type}" not in line:
            return True
        return any(
            usage(r, v, 1, gpu_type, resource) > 0 and up_to(r, v.team, part, self.now, resource) > most
            for resource, most in line.items()
        )

    def _inside_quota_after(self, b: Job) -> bool:
        line = self._quota(b)
        return line is not None and self._inside(b, line)

    def _inside_entitlement_after(self, b: Job) -> bool:
        return self._inside(b, self._entitlement(b))

    def _inside(self, b: Job, line: Mapping) -> bool:
        """The team's GPUs up to the taker's own key, after the plan, are within the line in all that it names."""
        _, size, gpu_type = self.outcome[b.id]
        if types_in(line) and f"gpus:{gpu_type}" not in line:
            return False
        part = (ABOVE if size > b.min_gpus else MINIMUM, self.r.priority(b))
        return all(up_to(self.r, b.team, part, self.outcome, resource) <= most for resource, most in line.items())


def types_in(line: Mapping) -> bool:
    """Return whether a line names GPUs by type: a type that it does not name has nothing of it."""
    return any(resource.startswith("gpus:") for resource in line)


def up_to(r: Round, team: str, key: tuple[int, int], state: Mapping[str, Outcome], resource: str):
    """Return what a team uses at keys up to and including (part, priority), in a state of its jobs."""
    part, priority = key
    total = 0
    for job in r.snapshot.jobs:
        if job.team != team or job.id not in state or not state[job.id][1]:
            continue
        _, size, gpu_type = state[job.id]
        minimum = r.minimum(job, size)
        gpus = minimum if part == ABOVE or r.priority(job) >= priority else 0
        if part == ABOVE and r.priority(job) >= priority:
            gpus += size - minimum
        total += usage(r, job, gpus, gpu_type, resource)
    return total


def rights(a: After) -> Rights:
    """Return the rights of a plan, worked out once for all plans that do the same to every job."""
    key = ("rights", tuple(a.outcome.values()))
    if key not in a.round.cache:
        a.round.cache[key] = Rights(a.round, a.outcome)
    return a.round.cache[key]


def takers_of(a: After, v: str) -> list[str]:
    """Return the takers with a right over a giver on a node that they share."""
    may_take = rights(a).may_take
    return [b for b, gains in a.gains.items() if not a.supply[v].keys().isdisjoint(gains) and may_take(b, v)]
