"""Jobs: from the schema to values, with the rules that tie their fields together.

Instants that are left out: `submitted_at` is now; `started_at` of a running job is its `submitted_at`.
"""

from __future__ import annotations

from collections.abc import Callable

from optsched.files.fields import MAX_PRIORITY
from optsched.files.jobrules import check_job
from optsched.files.known import Known
from optsched.files.report import MAX_FAULTS, Scope, listed, show
from optsched.files.schema import CheckpointIn, JobIn
from optsched.files.validate import validate_list
from optsched.values.ids import GpuType, JobId, LevelName, NodeId, TeamId, UserId
from optsched.values.job import Checkpoint, CheckpointTier, Job, JobState, Placement, Retries, Slice

_NO_CHECKPOINT = Checkpoint()
_RETRIES = Retries()


def read_jobs(data: object, scope: Scope, about: Known, entries: dict[JobId, JobIn]) -> list[Job]:
    """Return the jobs of `jobs:` that are right, in order, and put them as written into `entries`; faults are noted."""
    jobs: list[Job] = []
    first: dict[str, int] = {}
    right = validate_list(scope, JobIn, data)
    if isinstance(data, list) and len(right) < len(data):
        for index in sorted(set(range(len(data))) - {index for index, _ in right})[:MAX_FAULTS]:
            _check_references(data[index], scope.at(index), about)
    for index, entry in right:
        here = scope.at(index)
        if entry.id in first:
            _note_twice(data, first[entry.id], index, scope)
            continue
        first[entry.id] = index
        job = build_job(entry, here, about)
        if job is not None:
            jobs.append(job)
            entries[job.id] = entry
    return jobs


def _note_twice(data: object, first: int, second: int, scope: Scope) -> None:
    assert isinstance(data, list)
    one, other = data[first], data[second]
    differ = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    same = "with the same keys and values" if not differ else f"with other values of {listed(differ)}"
    scope.fault(
        f"the job id {show(other['id'])} is given twice, first at jobs[{first}], {same}",
        "each job id once",
        second,
        "id",
    )


def build_job(entry: JobIn, scope: Scope, about: Known) -> Job | None:
    """Return the value of a job; None where a fault was noted."""
    before = scope.report.count
    priority = about.priority(entry.priority, scope, "priority")
    before_dates = scope.report.count
    job = _value(entry, priority or (-MAX_PRIORITY, ""), scope, about)
    if scope.report.count == before_dates:
        check_job(job, entry.model_fields_set, scope, about)
    return job if scope.report.count == before else None


def _check_references(entry: object, scope: Scope, about: Known) -> None:
    """Note the unknown names in an entry that is wrong for other reasons, so that they too are told at once."""
    if not isinstance(entry, dict):
        return
    topology, placement = entry.get("topology"), entry.get("placement")
    levels = topology if isinstance(topology, dict) else {}
    checks: list[tuple[object, tuple[str, ...], Callable[..., object]]] = [
        (entry.get("team"), ("team",), about.check_team),
        (entry.get("priority"), ("priority",), about.priority),
        (levels.get("required"), ("topology", "required"), about.level),
        (levels.get("preferred"), ("topology", "preferred"), about.level),
    ]
    if isinstance(placement, dict):
        checks += [(node, ("placement", node), about.check_node) for node in placement]
    for name, key, check in checks:
        if isinstance(name, str) and not scope.report.has(scope.document, (*scope.path, *key)):
            check(name, scope, *key)


def _value(entry: JobIn, priority: tuple[int, str], scope: Scope, about: Known) -> Job:
    clock, running = about.clock, entry.state == "running"
    submitted = about.now if entry.submitted_at is None else clock.seconds(entry.submitted_at, scope, "submitted_at")
    if entry.started_at is not None:
        started: float | None = clock.seconds(entry.started_at, scope, "started_at")
    else:
        started = submitted if running else None
    topology, checkpoint = entry.topology, entry.checkpoint
    return Job(
        id=JobId(entry.id),
        team=TeamId(entry.team),
        gpus=entry.gpus,
        priority=priority[0],
        priority_class=priority[1],
        user=UserId(entry.user or ""),
        gpus_per_node=entry.gpus_per_node,
        gpus_per_task=entry.gpus_per_task,
        cpus=entry.cpus,
        memory_gb=entry.memory_gb,
        gpu_types=_types(entry.gpu_types),
        required=None if topology is None or topology.required is None else LevelName(topology.required),
        preferred=None if topology is None or topology.preferred is None else LevelName(topology.preferred),
        slices=tuple(Slice(part.gpus, LevelName(part.within)) for part in entry.slices),
        speed={LevelName(level): speed for level, speed in entry.speed.items()},
        node_selector=entry.node_selector,
        exclude_nodes=frozenset(NodeId(node) for node in entry.exclude_nodes),
        preemptible=entry.preemptible,
        min_gpus=entry.min_gpus or 0,
        max_gpus=entry.max_gpus or 0,
        estimated_runtime_s=entry.estimated_runtime_s,
        start_deadline_at=None
        if entry.start_deadline_at is None
        else clock.seconds(entry.start_deadline_at, scope, "start_deadline_at"),
        grace_period_s=entry.grace_period_s,
        checkpoint=_NO_CHECKPOINT if checkpoint is None else _checkpoint(checkpoint),
        retries=_RETRIES if entry.retries is None else Retries(entry.retries.infra, entry.retries.job),
        command=tuple(entry.command),
        environment=entry.environment,
        working_directory=entry.working_directory,
        submitted_at=submitted,
        state=JobState.RUNNING if running else JobState.QUEUED,
        started_at=started,
        last_checkpoint_at=None
        if entry.last_checkpoint_at is None
        else clock.seconds(entry.last_checkpoint_at, scope, "last_checkpoint_at"),
        run=entry.run,
        preemptions=entry.preemptions,
        placement=_placement(entry.placement),
    )


def _types(given: list[str] | dict[str, float]) -> dict[GpuType, float]:
    if isinstance(given, list):
        return {GpuType(name): 1.0 for name in given}
    return {GpuType(name): speed for name, speed in given.items()}


def _placement(given: dict[str, int | list[int]]) -> Placement:
    return {
        NodeId(node): booked if isinstance(booked, int) else tuple(sorted(booked)) for node, booked in given.items()
    }


def _checkpoint(entry: CheckpointIn) -> Checkpoint:
    return Checkpoint(
        interval_s=None if isinstance(entry.interval_s, str) else entry.interval_s,
        cost_s=entry.cost_s,
        restart_s=entry.restart_s,
        on_signal=entry.on_signal,
        elastic=entry.elastic,
        tiers=tuple(
            CheckpointTier(tier.tier, tier.cost_s, tier.upload_s, tuple(tier.survives)) for tier in entry.tiers
        ),
    )
