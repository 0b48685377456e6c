"""What already runs, held against nodes, limits and cuts: never refused, only told.

Every check is a warning that names the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from optsched.files.known import Known
from optsched.files.report import Report
from optsched.values.ids import ANY_TYPE, NODE_LEVEL, GpuType, JobId, NodeId, TeamId
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.resources import Amounts


def warn_of_running(jobs: Iterable[Job], about: Known, report: Report) -> None:
    """Warn of all that the running jobs hold and should not."""
    running = [job for job in jobs if job.state is JobState.RUNNING]
    _warn_of_nodes(running, about, report)
    for job in running:
        _warn_of_size(job, report)
        _warn_of_level(job, about, report)
    _warn_of_teams(running, about, report)


def _warn_of_nodes(running: list[Job], about: Known, report: Report) -> None:
    """A node is booked above its GPUs, or one of its GPUs twice."""
    booked: dict[NodeId, int] = {}
    owners: dict[tuple[NodeId, int], JobId] = {}
    for job in running:
        for node, held in job.placement.items():
            booked[node] = booked.get(node, 0) + gpus_on(held)
            if isinstance(held, int):
                continue
            for index in held:
                owner = owners.setdefault((node, index), job.id)
                if owner != job.id:
                    report.warn("GPUs booked twice", f"GPU {index} of node {node} is booked by {owner} and by {job.id}")
                if index >= about.nodes[node].gpus:
                    text = f"job {job.id} holds GPU {index} of node {node}, which has {about.nodes[node].gpus} GPUs"
                    report.warn("bookings of GPUs that a node does not have", text)
    for node, count in booked.items():
        if count > about.nodes[node].gpus:
            text = f"node {node}: {count} GPUs are booked, it has {about.nodes[node].gpus}"
            report.warn("nodes booked above their GPUs", text)


def _warn_of_size(job: Job, report: Report) -> None:
    """A running gang has a size that it may have, cut as it should be."""
    placed = job.placed_gpus
    if not job.min_gpus <= placed <= job.max_gpus:
        size = f"{job.gpus}" if not job.elastic else f"{job.min_gpus} to {job.max_gpus}"
        report.warn("running jobs of another size", f"job {job.id} holds {placed} GPUs, its size is {size}")
    for held in job.placement.values():
        count = gpus_on(held)
        if job.gpus_per_node is not None and count != job.gpus_per_node:
            text = f"job {job.id} holds {count} GPUs on a node, its gpus_per_node is {job.gpus_per_node}"
            report.warn("running jobs that are cut otherwise", text)
            return
        if job.gpus_per_task is not None and count % job.gpus_per_task:
            text = f"job {job.id} holds {count} GPUs on a node, its gpus_per_task is {job.gpus_per_task}"
            report.warn("running jobs that are cut otherwise", text)
            return


def _warn_of_level(job: Job, about: Known, report: Report) -> None:
    """A gang with a required level lies in one domain of it."""
    if job.required is None:
        return
    if job.required == NODE_LEVEL:
        places = len(job.placement)
        outside = False
    else:
        above = about.levels[: about.rank_of[job.required] + 1]
        nodes = [about.nodes[node] for node in job.placement]
        places = len({tuple(node.domains.get(level) for level in above) for node in nodes})
        outside = any(job.required not in node.domains for node in nodes)
    if places > 1 or outside:
        where = "partly outside" if outside else f"in {places} domains of"
        report.warn(
            "running jobs outside their required level", f"job {job.id} runs {where} its required level {job.required}"
        )


def _warn_of_teams(running: list[Job], about: Known, report: Report) -> None:
    """A team, with all below it, stays within its limit, and its non-preemptible GPUs within its quota."""
    used: dict[TeamId, _Use] = {}
    firm: dict[TeamId, _Use] = {}
    for job in running:
        use = _Use.of(job, about)
        for above in _upwards(job.team, about):
            used.setdefault(above, _Use()).add(use)
            if not job.preemptible:
                firm.setdefault(above, _Use()).add(use)
    lent: list[str] = []
    for name, team in about.teams.items():
        for what, count, most in used.get(name, _Use()).above(team.limit):
            report.warn("teams above their limit", f"team {name} runs {count:g} {what}, its limit is {most:g}")
        for what, count, most in firm.get(name, _Use()).above(team.quota):
            text = f"team {name} runs {count:g} non-preemptible {what}, its quota is {most:g}"
            report.warn("teams whose non-preemptible jobs are above their quota", text)
        lent += [
            f"{name} {count:g} of {most:g} {what}" for what, count, most in used.get(name, _Use()).above(team.quota)
        ]
    if lent:
        more = f" and {len(lent) - 3} more" if len(lent) > 3 else ""
        report.warn("teams above their quota", f"above their quota, on what others lend: {', '.join(lent[:3])}{more}")


def _upwards(team: TeamId, about: Known) -> list[TeamId]:
    chain: list[TeamId] = []
    at: TeamId | None = team
    while at is not None and at in about.teams and at not in chain:
        chain.append(at)
        at = about.teams[at].parent
    return chain


class _Use:
    """GPUs by type, CPUs and memory that jobs hold."""

    __slots__ = ("cpus", "gpus", "memory_gb")

    def __init__(self) -> None:
        self.gpus: dict[GpuType, int] = {}
        self.cpus = 0.0
        self.memory_gb = 0.0

    @classmethod
    def of(cls, job: Job, about: Known) -> _Use:
        """Return what one running job holds: CPUs and memory in proportion to its GPUs."""
        use = cls()
        for node, held in job.placement.items():
            kind = about.nodes[node].gpu_type if node in about.nodes else ANY_TYPE
            use.gpus[kind] = use.gpus.get(kind, 0) + gpus_on(held)
        share = sum(use.gpus.values()) / job.gpus
        use.cpus, use.memory_gb = job.cpus * share, job.memory_gb * share
        return use

    def add(self, other: _Use) -> None:
        """Take in what another one holds."""
        for kind, count in other.gpus.items():
            self.gpus[kind] = self.gpus.get(kind, 0) + count
        self.cpus += other.cpus
        self.memory_gb += other.memory_gb

    def above(self, most: Amounts | None) -> list[tuple[str, float, float]]:
        """Return each named resource of which more is held: its name, what is held, and what is named."""
        if most is None:
            return []
        pairs: list[tuple[str, float, float | None]] = [("GPUs", sum(self.gpus.values()), most.gpus)]
        pairs += [(f"{kind} GPUs", self.gpus.get(kind, 0), count) for kind, count in most.gpus_by_type.items()]
        pairs += [("CPUs", self.cpus, most.cpus), ("GB of memory", self.memory_gb, most.memory_gb)]
        return [(what, held, named) for what, held, named in pairs if named is not None and held > named * (1 + 1e-9)]
