"""The order of the queue."""

from __future__ import annotations

import math

from optsched.values.cluster import NodeState
from optsched.values.job import Job
from tests.oracle.facts import Round, usage, wanted_type

DEADLINE, GUARANTEED, FAIR, OPPORTUNISTIC = range(4)
TIERS = ("deadline", "guaranteed", "fair", "opportunistic")


def queue_order(round_: Round) -> list[str]:
    """Return the queued jobs, first in line first: by tier, then priority, then age.

    Near deadlines stand first, the nearest ahead. Opportunistic jobs of equal priority come from the team with the
    lowest weighted dominant share, again and again; what a team has given so far counts in its share.
    """
    tier = nominal_tiers(round_)
    held = {team: _holdings(round_, team) for team in round_.teams}
    line: list[Job] = []

    def put(job: Job) -> None:
        line.append(job)
        gpu_type = wanted_type(round_, job, lambda *_: True)
        _add(round_, held[job.team], job, job.min_gpus, gpu_type)

    for level in (DEADLINE, GUARANTEED, FAIR, OPPORTUNISTIC):
        here = [job for job in round_.queue if tier[job.id] == level]
        if level == DEADLINE:
            here.sort(key=lambda job: (job.start_deadline_at, -round_.priority(job), job.submitted_at, job.id))
        else:
            here.sort(key=lambda job: (-round_.priority(job), job.submitted_at, job.id))
        while here:
            first = here[0]
            if level == OPPORTUNISTIC:
                rivals = [job for job in here if round_.priority(job) == round_.priority(first)]
                first = min(rivals, key=lambda job: (_share(round_, job.team, held), job.submitted_at, job.id))
            here.remove(first)
            put(first)
    return [job.id for job in line]


def nominal_tiers(round_: Round) -> dict[str, int]:
    """Return the tier of each queued job's last minimum GPU, if all of its team ran before it in the team's order."""
    tiers: dict[str, int] = {}
    for team in round_.teams.values():
        laid = sum(round_.size(job) for job in round_.running if job.team == team.id and not round_.near(job))
        quota = 0
        if team.quota is not None:
            quota = team.quota.gpus if team.quota.gpus is not None else sum(team.quota.gpus_by_type.values())
        entitled = max(quota, sum(round_.entitlement[team.id].values()))
        own = [job for job in round_.queue if job.team == team.id]
        for job in sorted(own, key=lambda job: (-round_.priority(job), job.submitted_at, job.id)):
            if round_.near(job):
                tiers[job.id] = DEADLINE
                continue
            laid += job.min_gpus
            tiers[job.id] = GUARANTEED if laid <= quota else FAIR if laid <= entitled else OPPORTUNISTIC
    return tiers


def _holdings(round_: Round, team: str) -> dict[str, float]:
    held: dict[str, float] = {}
    for job in round_.running:
        if job.team == team:
            _add(round_, held, job, round_.size(job), round_.type_now(job))
    return held


def _add(round_: Round, held: dict[str, float], job: Job, gpus: int, gpu_type: str | None) -> None:
    for resource in [*(f"gpus:{name}" for name in round_.types), "cpus", "memory"]:
        held[resource] = held.get(resource, 0.0) + float(usage(round_, job, gpus, gpu_type, resource))


def _share(round_: Round, team: str, held: dict[str, dict[str, float]]) -> float:
    """Return a team's dominant share of the healthy cluster divided by its weight; infinite for weight 0."""
    weight = round_.teams[team].weight
    if weight == 0:
        return math.inf
    healthy = [node for node in round_.nodes.values() if node.state is not NodeState.DOWN]
    totals = {f"gpus:{t}": float(sum(n.healthy_gpus for n in healthy if n.gpu_type == t)) for t in round_.types}
    totals["cpus"] = sum(math.inf if n.cpus is None else n.cpus - n.cpus_reserved for n in healthy)
    totals["memory"] = sum(math.inf if n.memory_gb is None else n.memory_gb for n in healthy)
    return max((used / totals[name] for name, used in held[team].items() if totals[name] > 0), default=0.0) / weight
