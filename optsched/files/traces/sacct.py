"""Slurm's accounting as `sacct -p`, `-P` or `--delimiter` prints it, line breaks in names and all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from optsched.files.report import show
from optsched.files.traces.rows import MAX_GPUS, MAX_SECONDS, Faults, Row
from optsched.files.traces.slurm_csv import state
from optsched.files.traces.source import Options, Parsed, Source
from optsched.values.trace import TraceJob

STEPS = "lines about steps of jobs"
EARLIER = "earlier lines about a job that has several, as requeued jobs have"
ARRAYS = "array tasks that wait, told in one line"
GPU_COLUMNS = ("ReqTRES", "AllocTRES", "ReqGRES", "AllocGRES")
_UNKNOWN = ("", "Unknown", "None", "N/A")
_GIB = {"": 1 / 1024, "K": 1 / 1024**2, "M": 1 / 1024, "G": 1.0, "T": 1024.0, "P": 1024.0**2}


def delimiter(source: Source) -> str | None:
    """Return what stands between the names of the first line, None where it is none of sacct's."""
    found = re.match(r"[A-Za-z][A-Za-z0-9]*([^A-Za-z0-9\s,][^A-Za-z0-9\s]*|,)[A-Za-z]", source.first)
    if found is None:
        return None
    names = source.first.split(found[1])
    return found[1] if "State" in names and ("JobID" in names or "JobIDRaw" in names) else None


def is_sacct(source: Source) -> bool:
    """Whether its first line names columns of sacct."""
    return delimiter(source) is not None


def read_sacct(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read accounting records: of jobs, not of their steps. A job that was requeued counts once, as it last ended."""
    parsed.wall_clock = True
    parsed.note("times are taken as they stand: sacct prints local time without its zone")
    jobs: dict[str, tuple[Faults, int, TraceJob]] = {}
    for source in sources:
        faults = parsed.open(source)
        if not _has_columns(source, faults):
            continue
        before = len(jobs), faults.count, parsed.left_out[STEPS]
        for row in _records(source, faults):
            job = _job(row, parsed)
            if job is None:
                continue
            if job.id in jobs:
                parsed.left_out[EARLIER] += 1
            jobs[job.id] = (faults, row.line, job)
        steps = parsed.left_out[STEPS] - before[2]
        if (len(jobs), faults.count) == before[:2] and steps:
            faults.add(None, "JobID", f"{steps} lines about steps of jobs, and none about a job",
                       "the lines of jobs, as sacct -X prints")  # fmt: skip
    parsed.jobs += jobs.values()


def _has_columns(source: Source, faults: Faults) -> bool:
    names = source.first.split(delimiter(source) or "|")
    count = faults.count
    for what, choice in (("GPUs", GPU_COLUMNS), ("a submit time", ("Submit", "Eligible", "Start"))):
        if not set(choice) & set(names):
            faults.add(1, "(columns)", f"none that tells {what}", " or ".join(choice))
    return faults.count == count


def _records(source: Source, faults: Faults) -> Iterator[Row]:
    """Yield the records; one that a line break cuts in two is put together again.

    A line with all its cells begins anew: what went before and is not complete is a fault.
    """
    mark = delimiter(source) or "|"
    names = source.first.split(mark)
    want, held, begun, header = len(names), "", 0, True
    for number, line in enumerate(source.text.split("\n"), 1):
        line = line.rstrip("\r")
        if header:
            header = not line.strip()
            continue
        whole = line.count(mark) + 1 == want
        if begun and whole:
            _short(faults, begun, held.count(mark) + 1, want)
            begun = 0
        if not begun and not line.strip():
            continue
        held = f"{held}\n{line}" if begun else line
        begun = begun or number
        cells = held.split(mark)
        if len(cells) > want:
            _short(faults, begun, len(cells), want)
            begun = 0
        elif len(cells) == want:
            if _agree(names, cells, begun, faults):
                yield Row(dict(zip(names, cells, strict=True)), begun, faults)
            begun = 0
    if begun:
        _short(faults, begun, held.rstrip("\n").count(mark) + 1, want)


def _agree(names: Sequence[str], cells: Sequence[str], line: int, faults: Faults) -> bool:
    """Whether columns of one name, which sacct prints where a field is asked for twice, have the same cell."""
    if len(set(names)) == len(names):
        return True
    said: dict[str, str] = {}
    for name, cell in zip(names, cells, strict=True):
        first = said.setdefault(name, cell)
        if name and cell != first:
            faults.add(line, name, f"two columns of this name say {show(first)} and {show(cell)}", "the same in both")
            return False
    return True


def _short(faults: Faults, line: int, cells: int, want: int) -> None:
    more = " (does a name hold the delimiter? sacct --delimiter takes any text)" if cells > want else ""
    faults.add(line, "(row)", f"{cells} cells", f"{want} cells, one for each column{more}")


def _job(row: Row, parsed: Parsed) -> TraceJob | None:
    job_id = row.text("JobID") or row.text("JobIDRaw")
    if "." in job_id:
        parsed.left_out[STEPS] += 1
        return None
    if "[" in job_id:
        parsed.left_out[ARRAYS] += 1
        return None
    if not re.fullmatch(r"\d+(_\d+|\+\d+)?", job_id):
        row.fault("JobID", f"given {show(job_id)}", "a job's number, as 1234, 1234_5 or 1234+0")
    submit_s = next((at for name in ("Submit", "Eligible", "Start") if (at := row.instant(name, _UNKNOWN)) is not None),
                    None)  # fmt: skip
    if submit_s is None and row.sound:
        row.fault("Submit", f"given {show(row.text('Submit'))}", "a date and time such as 2021-04-05T02:07:20")
    ending = state(row, "State")
    nodes = _nodes(row)
    gpus, kinds = _gpus(row, nodes or 1)
    duration_s = _ran(row) if ending not in ("pending", "running_at_end") else None
    requested_s = _limit(row)
    if not row.sound or submit_s is None:
        return None
    return TraceJob(
        id=job_id,
        submit_s=submit_s,
        gpus=gpus,
        duration_s=duration_s,
        cpus=_cpus(row),
        memory_gib=_memory(row),
        gpu_types=kinds,
        team=row.text("Account"),
        user=row.text("User"),
        priority=row.text("QOS"),
        status=ending,
        tasks=nodes,
        gpus_per_task=gpus / nodes if nodes else None,
        requested_s=requested_s,
    )


def _tres(text: str) -> dict[str, str]:
    """Return the parts of "cpu=96,gres/gpu=8,mem=60T,node=1"."""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _nodes(row: Row) -> int | None:
    """Return the nodes that it had, else those that it asked for; a range such as 2-4 counts as its first."""
    for name in ("NNodes", "AllocNodes", "ReqNodes"):
        text = row.text(name).split("-")[0]
        if _whole(text):
            return _whole(text)
    parts = _tres(row.text("ReqTRES")) or _tres(row.text("AllocTRES"))
    return _whole(parts.get("node", ""))


def _whole(text: str) -> int | None:
    """Return a whole number of at most 15 digits, None for anything else."""
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else None


def _gpus(row: Row, nodes: int) -> tuple[float, tuple[str, ...]]:
    """Return GPUs and their types. TRES count all of a job's GPUs, GRES those of a node unless it says PER_JOB."""
    for name in ("ReqTRES", "AllocTRES"):
        parts = {key: value for key, value in _tres(row.text(name)).items() if key.split(":")[0] == "gres/gpu"}
        if not parts:
            continue
        counts = {key: _whole(value) for key, value in parts.items()}
        if not all(value is not None and value <= MAX_GPUS for value in counts.values()):
            row.fault(name, f"given {show(row.text(name))}", "whole numbers of gres/gpu, at most 1,000,000")
            return 0.0, ()
        kinds = tuple(key.split(":", 1)[1] for key in parts if ":" in key)
        return float(counts.get("gres/gpu") or sum(value or 0 for value in counts.values())), kinds
    for name in ("ReqGRES", "AllocGRES"):
        total, kinds = 0, ()
        for part in row.text(name).split(","):
            found = re.match(r"(PER_\w+:)?(?:gres[:/])?gpu(?::([A-Za-z]\w*))?(?::(\d+))?(?:\(|$)", part)
            if found:
                each = 1 if found[3] is None else _whole(found[3])
                if each is None:
                    row.fault(name, f"given {show(part)}", "a whole number of GPUs, at most 1,000,000")
                    return 0.0, ()
                total += each * (1 if found[1] == "PER_JOB:" else nodes)
                kinds += (found[2],) if found[2] else ()
        if total:
            return float(total), kinds
    return 0.0, ()


def _cpus(row: Row) -> float | None:
    for text in (_tres(row.text("ReqTRES")).get("cpu", ""), row.text("ReqCPUS"), row.text("AllocCPUS")):
        if _whole(text):
            return float(text)
    return None


def _memory(row: Row) -> float | None:
    """Return GiB: of the TRES, else of ReqMem, whose n or c says per node or per CPU."""
    text = _tres(row.text("ReqTRES")).get("mem") or _tres(row.text("AllocTRES")).get("mem") or row.text("ReqMem")
    found = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTP]?)([nc]?)", text)
    if found is None:
        return None
    times = {"n": _nodes(row), "c": _cpus(row)}.get(found[3], 1)
    amount = float(found[1]) * _GIB[found[2]] * (times or 1)
    return amount or None


def _ran(row: Row) -> float | None:
    if row.text("ElapsedRaw"):
        return row.maybe("ElapsedRaw", 0, MAX_SECONDS)
    if row.text("Elapsed"):
        seconds = _clock(row.text("Elapsed"))
        if seconds is None:
            row.fault("Elapsed", f"given {show(row.text('Elapsed'))}", "a time such as 1-02:03:04")
        return seconds
    start, end = row.instant("Start", _UNKNOWN), row.instant("End", _UNKNOWN)
    return max(end - start, 0.0) if start is not None and end is not None else None


def _limit(row: Row) -> float | None:
    minutes = _whole(row.text("TimelimitRaw"))
    if minutes is not None:
        return minutes * 60.0 or None
    return _clock(row.text("Timelimit")) or None


def _clock(text: str) -> float | None:
    """Return the seconds of Slurm's [days-][hours:]minutes:seconds, None where it is not written so."""
    found = re.fullmatch(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:\.\d+)?", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(days * 86_400 + hours * 3600 + minutes * 60 + seconds)
