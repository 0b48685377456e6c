"""The normal form of a trace, as CSV or JSON with the same columns: read and written."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import Any

from optsched.errors import InputError
from optsched.files.document import parse_document
from optsched.files.plan_json import write
from optsched.files.report import cut, show
from optsched.files.traces.rows import (
    MAX_AMOUNT,
    MAX_GPUS,
    MAX_SECONDS,
    MAX_TASKS,
    Faults,
    Row,
    csv_rows,
    doubled,
    doubled_keys,
)
from optsched.files.traces.source import Options, Parsed, Source
from optsched.values.trace import Trace, TraceJob

COLUMNS = (
    *("job_id", "submit_s", "duration_s", "gpus", "cpus", "mem_gb", "gpu_type", "team", "priority", "status"),
    *("num_tasks", "gpus_per_task", "user", "requested_s"),
)
"""The columns, in order; `mem_gb` counts GiB, `gpu_type` lists alternatives with | between. Empty is not known."""

NEEDED = ("job_id", "submit_s", "gpus")

MOST: dict[str, float] = {
    "submit_s": MAX_AMOUNT,
    "duration_s": MAX_SECONDS,
    "gpus": MAX_GPUS,
    "cpus": MAX_AMOUNT,
    "mem_gb": MAX_AMOUNT,
    "num_tasks": MAX_TASKS,
    "gpus_per_task": MAX_GPUS,
    "requested_s": MAX_SECONDS,
}
"""The columns with numbers, and the most that each may hold; the least is 0."""


def is_csv(source: Source) -> bool:
    """Whether its first line names the columns that the normal form cannot do without."""
    return source.has(*NEEDED)


def is_json(source: Source) -> bool:
    """Whether it looks like the normal form in JSON."""
    start = source.text[:5_000].lstrip()
    return start.startswith("{") and '"jobs"' in start and '"submit_s"' in start


def read_csv(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read normal CSV. A column that it does not know is a fault, so that a misspelt one is not passed over."""
    for source in sources:
        faults = parsed.open(source)
        doubled(source.columns, 1, faults)
        unknown = [name for name in source.columns if name not in COLUMNS]
        for name in dict.fromkeys(unknown):
            faults.add(1, cut(name) or "(column)", "not a column of the normal form", ", ".join(COLUMNS))
        for name in NEEDED:
            if name not in source.columns:
                faults.add(1, name, "this column is missing", "at least " + ", ".join(NEEDED))
        if faults.count:
            continue
        for row in csv_rows(source.text, faults):
            _take(row, faults, parsed)


def read_json(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read normal JSON: {"jobs": [{"job_id": ..., ...}, ...]}, with what else is known of the trace under "trace"."""
    for source in sources:
        faults = parsed.open(source)
        try:
            document = parse_document(source.text, source.file, None)
        except InputError as error:
            faults.kept += error.faults
            faults.count += len(error.faults)
            continue
        if doubled_keys(document, faults):
            continue
        data: Any = document.data
        jobs = data.get("jobs") if isinstance(data, dict) else None
        if not isinstance(jobs, list):
            faults.add(document.line_of(("jobs",)), "jobs", f"given {show(jobs)}", "a list of jobs")
            continue
        for index, entry in enumerate(jobs):
            line = document.line_of(("jobs", index))
            if not isinstance(entry, dict):
                faults.add(line, f"jobs[{index}]", f"given {show(entry)}", "a mapping of " + ", ".join(COLUMNS))
                continue
            for name in entry:
                if name not in COLUMNS:
                    faults.add(line, f"jobs[{index}].{name}", "not a key of the normal form", ", ".join(COLUMNS))
            _take(Row({key: _text(value) for key, value in entry.items()}, line or 0, faults), faults, parsed)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _take(row: Row, faults: Faults, parsed: Parsed) -> None:
    job = TraceJob(
        id=row.needed("job_id"),
        submit_s=row.number("submit_s", 0, MOST["submit_s"]),
        gpus=row.number("gpus", 0, MOST["gpus"]),
        duration_s=row.maybe("duration_s", 0, MOST["duration_s"]),
        cpus=row.maybe("cpus", 0, MOST["cpus"]),
        memory_gib=row.maybe("mem_gb", 0, MOST["mem_gb"]),
        gpu_types=tuple(dict.fromkeys(name.strip() for name in row.text("gpu_type").split("|") if name.strip())),
        team=row.text("team"),
        user=row.text("user"),
        priority=row.text("priority"),
        status=row.text("status"),
        tasks=row.whole("num_tasks", 0, MAX_TASKS),
        gpus_per_task=row.maybe("gpus_per_task", 0, MOST["gpus_per_task"]),
        requested_s=row.maybe("requested_s", 0, MOST["requested_s"]),
    )
    if row.sound:
        parsed.jobs.append((faults, row.line, job))


def numbers(job: TraceJob) -> dict[str, float]:
    """Return the numbers that are known of a job, by their columns."""
    found = dict(zip(COLUMNS, _values(job), strict=True))
    return {name: found[name] for name in MOST if found[name] is not None}  # type: ignore[misc]


def beyond(job: TraceJob) -> list[tuple[str, float]]:
    """Return the columns, with their values, that the normal form has no room for: what it writes is read again."""
    return [(name, value) for name, value in numbers(job).items() if not 0 <= value <= MOST[name]]


def to_csv(trace: Trace) -> str:
    """Return a trace in the normal form, as CSV."""
    lines = _Lines()
    # A cell with a carriage return is quoted only where records end with one.
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for job in trace.jobs:
        writer.writerow([_cell(value) for value in _values(job)])
    return "".join(lines)


class _Lines(list[str]):
    """The records of a CSV text, each ended by a line feed alone."""

    def write(self, record: str) -> None:
        self.append(record.removesuffix("\r\n") + "\n")


def to_json(trace: Trace) -> str:
    """Return a trace in the normal form, as JSON: what is not known is left out."""
    about: dict[str, object] = {"name": trace.name, "format": trace.format}
    if trace.starts_at:
        about["starts_at"] = trace.starts_at
    about["left_out"] = dict(trace.left_out)
    about["notes"] = list(trace.notes)
    jobs = [
        {key: _plain(value) for key, value in zip(COLUMNS, _values(job), strict=True) if value not in ("", None)}
        for job in trace.jobs
    ]
    return write({"trace": about, "jobs": jobs})


def _values(job: TraceJob) -> tuple[object, ...]:
    return (
        *(job.id, job.submit_s, job.duration_s, job.gpus, job.cpus, job.memory_gib, "|".join(job.gpu_types)),
        *(job.team, job.priority, job.status, job.tasks, job.gpus_per_task, job.user, job.requested_s),
    )


def _plain(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _cell(value: object) -> str:
    """Return a value as text that reads back as the same number."""
    return "" if value is None else str(_plain(value))
