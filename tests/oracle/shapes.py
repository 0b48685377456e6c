"""What one job's placement must keep: its cut, its required level, its slices; and every placement that does."""

from __future__ import annotations

from optsched.values.job import Job
from tests.oracle.facts import Placement, Round


def keeps_cut(r: Round, job: Job, where: Placement) -> bool:
    """Return whether a placement follows the job's cut."""
    if job.gpus_per_node is not None:
        return all(gpus == job.gpus_per_node for gpus in where.values())
    if job.gpus_per_task is not None:
        return all(gpus % job.gpus_per_task == 0 for gpus in where.values())
    if r.on_one_node(job):
        return len(where) == 1
    return all(gpus == r.capacity[node] for node, gpus in where.items())


def keeps_required(r: Round, job: Job, where: Placement) -> bool:
    """Return whether one domain of the job's required level holds all of a placement."""
    if job.required is None:
        return True
    domains = {r.domain(node, job.required) for node in where}
    return len(domains) == 1 and None not in domains


def keeps_slices(r: Round, job: Job, where: Placement) -> bool:
    """Return whether every slice of the job can lie inside one domain."""
    for part in job.slices:
        inside: dict[tuple | None, int] = {}
        for node, gpus in where.items():
            domain = r.domain(node, part.within)
            inside[domain] = inside.get(domain, 0) + gpus
        if None in inside or any(gpus % part.gpus for gpus in inside.values()):
            return False
    return True


def shapes(r: Round, job: Job, size: int, gpu_type: str) -> list[Placement]:
    """Return every placement of a size on one GPU type that rules 2 to 6 allow on empty nodes."""
    key = ("shapes", job.id, size, gpu_type)
    if key in r.cache:
        return r.cache[key]
    nodes = [n for n in r.nodes if n in r.may_use(job) and r.nodes[n].gpu_type == gpu_type and r.capacity[n]]
    found: list[Placement] = []

    def lay(index: int, left: int, where: dict[str, int]) -> None:
        if left == 0:
            if keeps_cut(r, job, where) and keeps_required(r, job, where) and keeps_slices(r, job, where):
                found.append(dict(where))
            return
        if index == len(nodes):
            return
        node = nodes[index]
        for gpus in range(min(left, max(r.capacity[node], r.before.get(job.id, {}).get(node, 0))) + 1):
            lay(index + 1, left - gpus, {**where, node: gpus} if gpus else where)

    lay(0, size, {})
    r.cache[key] = found
    return found


def could_run(r: Round, job: Job, gpu_type: str) -> bool:
    """Return whether empty nodes of a GPU type could hold the job (large clusters: whether they have enough GPUs)."""
    nodes = [n for n in r.may_use(job) if r.nodes[n].gpu_type == gpu_type]
    if len(r.nodes) > 8:
        return sum(r.capacity[node] for node in nodes) >= job.gpus
    return bool(shapes(r, job, job.min_gpus, gpu_type))
