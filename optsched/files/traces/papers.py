"""The workloads of two research schedulers, Sia (SOSP'23) and Gavel (OSDI'20). Neither tells how long a job ran."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.files.traces.rows import MAX_GPUS, Row, csv_rows
from optsched.files.traces.source import Options, Parsed, Source
from optsched.values.trace import TraceJob

SIA = ("name", "time", "application", "num_replicas", "batch_size")

GAVEL = {
    7: ("job type", "command", "steps argument", "needs data", "total steps", "arrival time", "scale factor"),
    9: (
        *("job type", "command", "steps argument", "needs data", "total steps", "scale factor"),
        *("priority weight", "SLO", "arrival time"),
    ),
    10: (
        *("job type", "command", "working directory", "steps argument", "needs data", "total steps", "scale factor"),
        *("priority weight", "SLO", "arrival time"),
    ),
}
"""The columns of Gavel's traces by their number: it grew twice."""


def is_sia(source: Source) -> bool:
    """Whether it is a workload of Sia."""
    return source.has(*SIA)


def is_gavel(source: Source) -> bool:
    """Whether its first line has as many tab-separated columns as Gavel's traces."""
    return source.first.count("\t") + 1 in GAVEL


def read_sia(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read a workload of Sia: replicas are GPUs."""
    parsed.note("how long a job of Sia's runs follows from profiles of its models, which this file does not have")
    for source in sources:
        faults = parsed.open(source)
        for row in csv_rows(source.text, faults):
            name, submit_s = row.needed("name"), row.number("time")
            gpus = row.number("num_replicas", 1, MAX_GPUS)
            if row.sound:
                parsed.jobs.append((faults, row.line, TraceJob(name, submit_s, gpus)))


def read_gavel(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read a trace of Gavel: the scale factor is the number of GPUs; jobs are named g0, g1, ... by their line."""
    parsed.note("Gavel gives work in training steps, whose speeds are in a file of their own")
    for source in sources:
        faults = parsed.open(source)
        count = 0
        for number, line in enumerate(source.text.split("\n"), 1):
            if not line.strip():
                continue
            cells = line.rstrip("\r").split("\t")
            columns = GAVEL.get(len(cells))
            if columns is None:
                faults.add(number, "(row)", f"{len(cells)} columns", "7, 9 or 10, with tabs between")
                continue
            row = Row(dict(zip(columns, cells, strict=True)), number, faults)
            submit_s, gpus = row.number("arrival time"), row.number("scale factor", 1, MAX_GPUS)
            weight = row.text("priority weight")
            row.number("total steps")
            if row.sound:
                job = TraceJob(f"g{count}", submit_s, gpus, priority=weight)
                parsed.jobs.append((faults, number, job))
            count += 1
