"""Files of any known format to a trace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from optsched.errors import Fault, InputError
from optsched.files.report import known, show
from optsched.files.traces.formats import FORMATS, what_else
from optsched.files.traces.nodes import node_format
from optsched.files.traces.normal import MOST, beyond
from optsched.files.traces.rows import Faults, moment_of, raise_faults
from optsched.files.traces.source import Options, Parsed, Source, read_source
from optsched.values.trace import Trace

FAULTY = "records that are wrong, left out as asked"


def load_trace(
    paths: Sequence[str | os.PathLike[str]],
    form: str | None = None,
    options: Options | None = None,
    skip_faulty: bool = False,
) -> tuple[Trace, tuple[Fault, ...]]:
    """Return the trace of one or more files of one format, and the faults of the records that were left out.

    The format is told by content unless `form` names it. Raises InputError with a fault for every record that is wrong
    (with `skip_faulty` these are returned, and InputError is raised only where nothing is left), and where the files
    are no trace.
    """
    return parse_trace([read_source(path) for path in paths], form, options, skip_faulty)


def parse_trace(
    sources: Sequence[Source], form: str | None = None, options: Options | None = None, skip_faulty: bool = False
) -> tuple[Trace, tuple[Fault, ...]]:
    """Return the trace of texts that were read already; as load_trace."""
    found = FORMATS[form or _format_of(sources)]
    parsed = Parsed()
    found.read(sources, options or Options(), parsed)
    _find_twins(parsed)
    _find_beyond(parsed)
    faults = tuple(fault for entry in parsed.faults for fault in entry.kept)
    count = sum(entry.count for entry in parsed.faults)
    if not skip_faulty or not parsed.jobs:
        raise_faults(parsed.faults)
        if not parsed.jobs:
            left = "".join(f"; left out: {number} {reason}" for reason, number in parsed.left_out.items())
            raise InputError([Fault(sources[0].file, None, "(file)", f"no job in it{left}", "at least one job")])
    elif count:
        parsed.left_out[FAULTY] += count
    return _trace(sources, found.name, parsed), faults if skip_faulty else ()


def _format_of(sources: Sequence[Source]) -> str:
    """Return the one format of all the files. Raises InputError where there is none, or more than one."""
    names: list[str] = []
    faults = []
    for source in sources:
        name = next((entry.name for entry in FORMATS.values() if entry.told_by(source)), None)
        if name is None:
            what = what_else(source)
            if node_format(source):
                what = "a list of machines"
            wrong = (
                f"no trace of jobs: {what}" if what else f"a format that is not known; it begins {show(source.first)}"
            )
            allowed = f"a trace of one of the formats {', '.join(FORMATS)}"
            faults.append(Fault(source.file, 1, "(format)", wrong, allowed))
        else:
            names.append(name)
            if name != names[0]:
                wrong, allowed = f"format {name}, while {sources[0].file} is {names[0]}", "files of one format"
                faults.append(Fault(source.file, 1, "(format)", wrong, allowed))
    if faults:
        raise InputError(faults)
    return names[0]


def check_format(name: str) -> str:
    """Return the name of a format. Raises InputError where there is none of this name."""
    if name in FORMATS:
        return name
    allowed = known(list(FORMATS), name, "one of", most=len(FORMATS))
    raise InputError([Fault("--from-format", None, "FORMAT", f"given {show(name)}", allowed)])


def _find_twins(parsed: Parsed) -> None:
    """Note a fault for every job whose id an earlier one has, and keep the earlier."""
    seen: set[str] = set()
    kept = []
    for faults, line, job in parsed.jobs:
        if job.id in seen:
            faults.add(line or None, "job id", f"{show(job.id)} is there twice", "an id of its own for each job")
            continue
        seen.add(job.id)
        kept.append((faults, line, job))
    parsed.jobs = kept


def _find_beyond(parsed: Parsed) -> None:
    """Note a fault for every job with a number that the normal form has no room for, and keep the others.

    Importers see to the cells of their tables; sums and products of cells are seen here, whatever the format.
    """
    kept = []
    for faults, line, job in parsed.jobs:
        # What a wall clock shows becomes seconds since the first submission, which always fit.
        found = [entry for entry in beyond(job) if entry[0] != "submit_s" or not parsed.wall_clock]
        for column, value in found:
            faults.add(line or None, column, f"comes to {value:,.10g}", f"a number from 0 to {MOST[column]:,.10g}")
        if not found:
            kept.append((faults, line, job))
    parsed.jobs = kept


def _trace(sources: Sequence[Source], form: str, parsed: Parsed) -> Trace:
    jobs = [job for _, _, job in parsed.jobs]
    zero, starts_at = 0.0, ""
    if parsed.wall_clock:
        zero = min(job.submit_s for job in jobs)
        starts_at = moment_of(zero, parsed.zoned)
        jobs = [replace(job, submit_s=job.submit_s - zero) for job in jobs]
    jobs.sort(key=lambda job: job.submit_s)
    name = PurePath(sources[0].file).name.split(".")[0]
    left_out = {reason: count for reason, count in parsed.left_out.items() if count}
    return Trace(name, form, tuple(jobs), starts_at, left_out, tuple(parsed.notes))


__all__ = ["FAULTY", "Faults", "check_format", "load_trace", "parse_trace"]
