"""Alibaba's GPU traces of 2023 (pods that share GPUs), 2025 (services for recommendation models) and 2026 (spot)."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.files.traces.rows import MAX_GPUS, MAX_SECONDS, Row, csv_rows
from optsched.files.traces.source import Options, Parsed, Source
from optsched.values.trace import TraceJob

PODS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
SERVICES = ("instance_sn", "role", "app_name", "cpu_request", "gpu_request", "creation_time", "deletion_time")
SPOT = ("job_name", "organization", "job_type", "gpu_request", "cpu_request", "worker_num", "submit_time", "duration")


def is_2023(source: Source) -> bool:
    """Whether it is an openb_pod_list_*.csv."""
    return source.has(*PODS)


def is_2025(source: Source) -> bool:
    """Whether it is disaggregated_DLRM_trace.csv."""
    return source.has(*SERVICES)


def is_2026(source: Source) -> bool:
    """Whether it is job_info_df.csv, or a table made of it."""
    return source.has(*SPOT)


def read_2023(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read pods: GPUs are num_gpu x gpu_milli / 1000, so that a share of a GPU is a fraction."""
    parsed.note("the phase of a pod is the last one seen, not how it ended")
    for source in sources:
        faults = parsed.open(source)
        if not source.has("creation_time"):
            parsed.note("this file has no times: all pods arrive at 0 s, and how long they ran is not known")
        for row in csv_rows(source.text, faults):
            job = _pod(row)
            if row.sound:
                parsed.jobs.append((faults, row.line, job))


def _pod(row: Row) -> TraceJob:
    name = row.needed("name")
    count, milli = row.whole("num_gpu", 0, 1024), row.whole("gpu_milli", 0, 1000)
    gpus = (count or 0) * (milli or 0) / 1000
    scheduled, deleted = row.maybe("scheduled_time"), row.maybe("deletion_time")
    created = row.maybe("creation_time")
    cpu_milli, memory_mib = row.maybe("cpu_milli"), row.maybe("memory_mib")
    ran = scheduled is not None and deleted is not None
    if ran and deleted < scheduled:  # type: ignore[operator]
        row.fault("deletion_time", f"given {row.text('deletion_time')}", "no moment before scheduled_time")
    return TraceJob(
        id=name,
        submit_s=created or 0.0,
        gpus=gpus,
        duration_s=deleted - scheduled if ran else None,  # type: ignore[operator]
        cpus=None if cpu_milli is None else cpu_milli / 1000,
        memory_gib=None if memory_mib is None else memory_mib / 1024,
        gpu_types=tuple(dict.fromkeys(name for name in row.text("gpu_spec").split("|") if name)),
        priority=row.text("qos"),
        status=row.text("pod_phase"),
        tasks=1,
        gpus_per_task=gpus,
    )


def read_2025(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read instances of services: team is the service, priority LS with the role, HN (GPU node) or CN (CPU node)."""
    parsed.note("instances that were there before the trace began are submitted at 0 s (status preexisting)")
    for source in sources:
        faults = parsed.open(source)
        for row in csv_rows(source.text, faults):
            name, role = row.needed("instance_sn"), row.needed("role")
            created, scheduled = row.maybe("creation_time"), row.maybe("scheduled_time")
            deleted = row.maybe("deletion_time")
            gpus, cpus = row.number("gpu_request", 0, MAX_GPUS), row.maybe("cpu_request")
            memory = row.maybe("memory_request")
            begun = scheduled if scheduled is not None else created or 0.0
            if deleted is not None and deleted < begun:
                row.fault("deletion_time", f"given {row.text('deletion_time')}", "no moment before scheduled_time")
            if not row.sound:
                continue
            status = "preexisting" if created is None else "created"
            job = TraceJob(
                id=name,
                submit_s=created or 0.0,
                gpus=gpus,
                duration_s=None if deleted is None else deleted - begun,
                cpus=cpus,
                memory_gib=memory,
                team=row.text("app_name"),
                priority=f"LS/{role}",
                status=status if deleted is not None else f"{status}+running_at_end",
                tasks=1,
                gpus_per_task=gpus,
            )
            parsed.jobs.append((faults, row.line, job))


def read_2026(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read jobs: GPUs are gpu_request x worker_num, the team is the organization, the priority HP or Spot."""
    for source in sources:
        faults = parsed.open(source)
        for row in csv_rows(source.text, faults):
            name, submit_s = row.needed("job_name"), row.number("submit_time")
            duration_s = row.maybe("duration", 0, MAX_SECONDS)
            each, cpus = row.number("gpu_request", 0, MAX_GPUS), row.maybe("cpu_request")
            workers = row.whole("worker_num", 1)
            if workers is None and row.sound:
                row.fault("worker_num", "empty", "a whole number from 1 to 1,000,000")
            if not row.sound or workers is None:
                continue
            organization, model = row.text("organization"), row.text("gpu_model")
            job = TraceJob(
                id=name,
                submit_s=submit_s,
                gpus=each * workers,
                duration_s=duration_s,
                cpus=None if cpus is None else cpus * workers,
                gpu_types=(model,) if model else (),
                team=f"org{organization}" if organization else "",
                priority=row.text("job_type"),
                tasks=workers,
                gpus_per_task=each,
            )
            parsed.jobs.append((faults, row.line, job))
