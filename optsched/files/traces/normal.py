"""The normal form of a trace, as CSV or JSON with the same columns: read and written."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from optsched.errors import InputError
from optsched.files.document import parse_document
from optsched.files.plan_json import write
from optsched.files.report import cut, show
from optsched.files.traces.rows import MAX_GPUS, MAX_SECONDS, Faults, Row, csv_rows
from optsched.files.traces.source import Options, Parsed, Source
from optsched.values.trace import Trace, TraceJob

COLUMNS = (
    *("job_id", "submit_s", "duration_s", "gpus", "cpus", "mem_gb", "gpu_type", "team", "priority", "status"),
    *("num_tasks", "gpus_per_task", "user", "requested_s"),
)
"""The columns, in order; `mem_gb` counts GiB, `gpu_type` lists alternatives with | between. Empty is not known."""

NEEDED = ("job_id", "submit_s", "gpus")


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
        unknown = [name for name in source.columns if name not in COLUMNS]
        for name in unknown:
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
        submit_s=row.number("submit_s"),
        gpus=row.number("gpus", 0, MAX_GPUS),
        duration_s=row.maybe("duration_s", 0, MAX_SECONDS),
        cpus=row.maybe("cpus"),
        memory_gib=row.maybe("mem_gb"),
        gpu_types=tuple(dict.fromkeys(name.strip() for name in row.text("gpu_type").split("|") if name.strip())),
        team=row.text("team"),
        user=row.text("user"),
        priority=row.text("priority"),
        status=row.text("status"),
        tasks=row.whole("num_tasks"),
        gpus_per_task=row.maybe("gpus_per_task", 0, MAX_GPUS),
        requested_s=row.maybe("requested_s", 0, MAX_SECONDS),
    )
    if row.sound:
        parsed.jobs.append((faults, row.line, job))


def to_csv(trace: Trace) -> str:
    """Return a trace in the normal form, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for job in trace.jobs:
        writer.writerow([_cell(value) for value in _values(job)])
    return text.getvalue()


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
