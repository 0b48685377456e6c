"""Alibaba's GPU trace of 2020 (PAI): the task table, with the job table beside it where there is one.

The tables come without a first line that names their columns; one that was added is understood as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from optsched.files.report import known, show
from optsched.files.traces.rows import MAX_SECONDS, Faults, Row, csv_rows
from optsched.files.traces.source import Options, Parsed, Source
from optsched.values.trace import TraceJob

TASKS = ("job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu")
TASK_TABLE = (*TASKS, "gpu_type")
JOB_TABLE = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
STATUS = {
    "Terminated": "completed",
    "Failed": "failed",
    "Interrupted": "cancelled",
    "Running": "running_at_end",
    "Waiting": "pending",
}


def is_tasks(source: Source) -> bool:
    """Whether it is the task table."""
    cells = source.columns
    return source.has(*TASKS) or (len(cells) == len(TASK_TABLE) and cells[3] in STATUS)


def is_jobs(source: Source) -> bool:
    """Whether it is the job table."""
    cells = source.columns
    return cells == JOB_TABLE or (len(cells) == len(JOB_TABLE) and cells[3] in STATUS)


def is_pai(source: Source) -> bool:
    """Whether it is either of them."""
    return is_tasks(source) or is_jobs(source)


@dataclass(slots=True)
class _Job:
    faults: Faults
    line: int
    tasks: list[TraceJob] = field(default_factory=list)
    ends: list[float | None] = field(default_factory=list)
    instances: int = 0


def read_pai(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read the tables. A job is the sum of its tasks: it starts with the first of them and ends with the last.

    The job table gives users, outcomes and submit times; without it a job is submitted when its first task starts.
    """
    tables = [source for source in sources if is_tasks(source)]
    if not tables:
        parsed.open(sources[0]).add(
            1,
            "(columns)",
            "the job table of 2020, which has no GPUs",
            "pai_task_table.csv, alone or together with pai_job_table.csv",
        )
        return
    about: dict[str, Row] = {}
    for source in sources:
        if not is_tasks(source):
            faults = parsed.open(source)
            for row in _rows(source, faults, JOB_TABLE):
                about[row.text("job_name")] = row
    if not about:
        parsed.note("without the job table a job is submitted when its first task starts, and users are not known")
    jobs: dict[str, _Job] = {}
    for source in tables:
        faults = parsed.open(source)
        for row in _rows(source, faults, TASK_TABLE):
            _task(row, faults, jobs)
    for name, job in jobs.items():
        _finish(name, job, about.get(name), parsed)


def _rows(source: Source, faults: Faults, header: Sequence[str]) -> list[Row]:
    named = source.columns[0] == "job_name"
    return list(csv_rows(source.text, faults, None if named else header))


def _status(row: Row) -> str:
    text = row.text("status")
    if text not in STATUS:
        row.fault("status", f"given {show(text)}", known(list(STATUS), text, "one of"))
    return STATUS.get(text, "")


def _task(row: Row, faults: Faults, jobs: dict[str, _Job]) -> None:
    name, status = row.needed("job_name"), _status(row)
    count = row.whole("inst_num") or 0
    start, end = row.maybe("start_time"), row.maybe("end_time")
    cpu, memory, gpu = (row.maybe(column) or 0.0 for column in ("plan_cpu", "plan_mem", "plan_gpu"))
    if start is not None and end is not None and end < start:
        row.fault("end_time", f"given {row.text('end_time')}", "no moment before start_time")
    job = jobs.setdefault(name, _Job(faults, row.line))
    if not row.sound:
        job.instances = -1
        return
    if job.instances < 0:
        return
    job.instances += count
    gpu_type = row.text("gpu_type")
    job.ends.append(end)
    job.tasks.append(
        TraceJob(
            id=name,
            submit_s=start if start is not None else 0.0,
            gpus=count * gpu / 100,
            cpus=count * cpu / 100,
            memory_gib=count * memory,
            gpu_types=(gpu_type,) if gpu_type and gpu else (),
            status=status,
            gpus_per_task=gpu / 100,
        )
    )


def _finish(name: str, job: _Job, about: Row | None, parsed: Parsed) -> None:
    if job.instances < 0 or not job.tasks:
        return
    started = min(task.submit_s for task in job.tasks)
    submit_s = about.maybe("start_time") if about is not None else None
    status = _status(about) if about is not None else _worst([task.status for task in job.tasks])
    if about is not None and not about.sound:
        return
    ends = [end for end in job.ends if end is not None]
    over = len(ends) == len(job.ends) and status not in ("pending", "running_at_end")
    sizes = {task.gpus_per_task for task in job.tasks if task.gpus}
    parsed.jobs.append(
        (
            job.faults,
            job.line,
            TraceJob(
                id=name,
                submit_s=min(submit_s, started) if submit_s is not None else started,
                gpus=sum(task.gpus for task in job.tasks),
                duration_s=min(max(ends) - started, MAX_SECONDS) if over else None,
                cpus=sum(task.cpus or 0 for task in job.tasks),
                memory_gib=sum(task.memory_gib or 0 for task in job.tasks),
                gpu_types=tuple(dict.fromkeys(kind for task in job.tasks for kind in task.gpu_types)),
                user=about.text("user") if about is not None else "",
                status=status,
                tasks=job.instances,
                gpus_per_task=sizes.pop() if len(sizes) == 1 else None,
            ),
        )
    )


def _worst(statuses: Sequence[str]) -> str:
    """Return how a job ended whose tasks ended so: well only if all did."""
    for status in ("running_at_end", "pending", "failed", "cancelled"):
        if status in statuses:
            return status
    return "completed"
