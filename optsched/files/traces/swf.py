"""The Standard Workload Format of the Parallel Workloads Archive, and the result files of the simulator CQSim."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from optsched.files.report import show
from optsched.files.traces.rows import MAX_GPUS, MAX_SECONDS, Faults, Row
from optsched.files.traces.source import Options, Parsed, Source
from optsched.values.trace import TraceJob

COLUMNS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "application",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
"""The 18 standard columns; -1 is unknown, and what stands after them is passed over."""

RESULT = ("job", "processors", "processors again", "requested time", "run time", "wait", "submit", "start", "end")
STATUS = {0: "failed", 1: "completed", 5: "cancelled"}
_PARTIAL = (2, 3, 4)
_KIB_PER_GIB = 1024 * 1024


def is_swf(source: Source) -> bool:
    """Whether it begins with a comment of SWF, or with a record of at least 18 numbers."""
    return source.first.startswith(";") or re.fullmatch(r"\s*(-?[\d.]+\s+){17,}-?[\d.]+\s*", source.first) is not None


def is_cqsim(source: Source) -> bool:
    """Whether it begins with nine numbers with semicolons between."""
    return re.fullmatch(r"\s*\d+(;-?[\d.]+){8}\s*", source.first) is not None


def read_swf(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read SWF. Its processors are taken as GPUs, `procs_per_gpu` to one, rounded up."""
    _say(options, parsed)
    for source in sources:
        faults = parsed.open(source)
        for number, line in enumerate(source.text.split("\n"), 1):
            text = line.strip()
            if not text or text.startswith(";"):
                continue
            cells = text.split()
            if len(cells) < len(COLUMNS):
                faults.add(number, "(row)", f"{len(cells)} columns", f"at least {len(COLUMNS)}, as SWF has")
                continue
            row = _row(COLUMNS, cells[: len(COLUMNS)], number, faults)
            job = _swf_job(row, options)
            if row.sound and row.maybe("status") in _PARTIAL:
                parsed.left_out["lines about a part of a job that was checkpointed (status 2, 3, 4)"] += 1
            elif row.sound:
                parsed.jobs.append((faults, number, job))


def read_cqsim(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read results of CQSim: waits there are simulated, and are left out."""
    _say(options, parsed)
    parsed.note("start and end are those of CQSim's own simulation, and are passed over")
    for source in sources:
        faults = parsed.open(source)
        for number, line in enumerate(source.text.split("\n"), 1):
            cells = line.strip().split(";")
            if cells == [""]:
                continue
            if len(cells) != len(RESULT):
                faults.add(number, "(row)", f"{len(cells)} columns", f"{len(RESULT)}: {', '.join(RESULT)}")
                continue
            row = _row(RESULT, cells, number, faults)
            job = TraceJob(
                id=row.needed("job"),
                submit_s=row.number("submit"),
                gpus=_gpus(row, "processors", options),
                duration_s=row.number("run time", 0, MAX_SECONDS),
                requested_s=row.number("requested time", 0, MAX_SECONDS) or None,
            )
            if row.sound:
                parsed.jobs.append((faults, number, job))


def _say(options: Options, parsed: Parsed) -> None:
    each = options.procs_per_gpu
    parsed.note("a processor is taken as a GPU" if each == 1 else f"{each} processors are taken as a GPU, rounded up")


def _row(columns: Sequence[str], cells: Sequence[str], line: int, faults: Faults) -> Row:
    """Return a record in which -1, the unknown of SWF, is an empty cell."""
    known = ["" if cell.strip() in ("-1", "-1.0", "-1.00") else cell for cell in cells]
    return Row(dict(zip(columns, known, strict=True)), line, faults)


def _gpus(row: Row, column: str, options: Options) -> float:
    procs = row.number(column, 1, MAX_GPUS * options.procs_per_gpu)
    return math.ceil(procs / options.procs_per_gpu)


def _swf_job(row: Row, options: Options) -> TraceJob:
    for column in COLUMNS:
        row.maybe(column)
    asked = "requested processors" if (row.sound and row.maybe("requested processors")) else "allocated processors"
    per_proc = row.maybe("requested memory") if row.sound else None
    procs = _gpus(row, asked, Options()) if row.sound else 0.0
    status = row.maybe("status") if row.sound else None
    if status is not None and status not in (*STATUS, *_PARTIAL):
        row.fault("status", f"given {show(row.text('status'))}", "-1 to 5")
    return TraceJob(
        id=row.needed("job number"),
        submit_s=row.number("submit time") if row.sound else 0.0,
        gpus=_gpus(row, asked, options) if row.sound else 0.0,
        duration_s=row.maybe("run time", 0, MAX_SECONDS) if row.sound else None,
        memory_gib=None if per_proc is None else per_proc * procs / _KIB_PER_GIB,
        team=f"group{row.text('group')}" if row.text("group") else "",
        user=f"user{row.text('user')}" if row.text("user") else "",
        priority=f"queue{row.text('queue')}" if row.text("queue") else "",
        status=STATUS.get(int(status), "") if status is not None else "",
        requested_s=(row.maybe("requested time", 0, MAX_SECONDS) or None) if row.sound else None,
    )
