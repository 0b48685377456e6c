"""What the commands about traces share: the files that they read and write, and numbers among their options."""

from __future__ import annotations

import argparse
import gzip
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from optsched.cli.output import write_output
from optsched.cli.terminal import say, tell, warn
from optsched.cli.words import clean, count
from optsched.errors import OptschedError, UsageError

if TYPE_CHECKING:
    from optsched.files.traces import Source
    from optsched.values.trace import Trace

FILES = "files of one format, gzipped or not; - for standard input (default: the trace that comes with optsched)"


def add_input(parser: argparse.ArgumentParser) -> None:
    """Add the files, and how they are read."""
    parser.add_argument("files", metavar="FILE", nargs="*", help=FILES)
    parser.add_argument("--from-format", metavar="FORMAT", help="read it as this (see optsched trace formats)")
    parser.add_argument("--procs-per-gpu", metavar="N", type=whole, default=1, help="of traces that count processors")
    parser.add_argument("--skip-faulty", action="store_true", help="leave out records that are wrong, and say how many")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add where a trace is written, and as what."""
    group = parser.add_argument_group("what is written")
    group.add_argument("--out", metavar="PATH", help="to this file, gzipped if it ends in .gz (default: to the output)")
    group.add_argument("--format", choices=("csv", "json"), help="default: what --out ends in, else csv")


def sources_of(args: argparse.Namespace) -> list[Source]:
    """Return the files that are named, read but not understood. Raises InputError or UsageError."""
    from optsched.cli.inputs import example_trace
    from optsched.files.traces import read_source

    if not args.files:
        with example_trace() as path:
            return [read_source(path)]
    if args.files.count("-") > 1:
        raise UsageError("FILE: - is given twice; allowed: standard input once")
    return [read_source(path) for path in args.files]


def read_trace(args: argparse.Namespace, sources: list[Source], quiet: bool = False) -> Trace:
    """Return the trace of files; what was left out is said, unless `quiet`, which warns of faults only."""
    from optsched.files.traces import Options, check_format, parse_trace

    form = check_format(args.from_format) if args.from_format is not None else None
    trace, faults = parse_trace(sources, form, Options(args.procs_per_gpu), args.skip_faulty)
    for fault in faults:
        warn(str(fault))
    if not quiet:
        tell(f"{clean(trace.name)}: {count(len(trace.jobs), 'job')}, read as {trace.format}")
        for reason, number in trace.left_out.items():
            tell(f"left out: {number:,} {reason}")
        for note in trace.notes:
            tell(f"note: {note}")
    return trace


def write_trace(trace: Trace, args: argparse.Namespace) -> None:
    """Write a trace as the arguments say. Raises UsageError."""
    from optsched.files.traces import to_csv, to_json

    ending = (args.out or "").removesuffix(".gz")
    form = args.format or ("json" if ending.endswith(".json") else "csv")
    put(to_json(trace) if form == "json" else to_csv(trace), args.out)
    if args.out:
        tell(f"{clean(args.out)}: {count(len(trace.jobs), 'job')} written")


def put(text: str, out: str | None) -> None:
    """Write a text to a file, gzipped where its name says so; to the output where there is none. Raises UsageError."""
    if out is None:
        say(text)
        return
    # Half a pair of UTF-16, as JSON may name one, is no text; its number is written.
    data = text.encode(errors="backslashreplace")
    write_output(out, gzip.compress(data, mtime=0) if out.endswith(".gz") else data, "--out")


def _number(convert: Callable[[str], float], holds: Callable[[float], bool], allowed: str) -> Callable[[str], float]:
    """Return a type for argparse: what is no number, or does not hold, is refused in one sentence."""

    def read(text: str) -> float:
        try:
            value = convert(text)
        except (ValueError, OptschedError):
            value = math.nan
        if not holds(value):
            raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: {allowed}")
        return value

    return read


def _whole(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1


def _span(text: str) -> float:
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)([smhd]?)", text)
    return float(found[1]) * {"s": 1, "": 1, "m": 60, "h": 3600, "d": 86_400}[found[2]] if found else math.nan


whole = _number(_whole, lambda value: 1 <= value <= 1_000_000, "a whole number from 1 to 1,000,000")
hour = _number(_whole, lambda value: 0 <= value < 4416, "a whole number from 0 to 4,415")
share = _number(float, lambda value: 0 < value <= 1, "a number above 0, at most 1")
factor = _number(float, lambda value: 0 < value <= 1e6, "a number above 0, at most 1,000,000")
duration = _number(_span, lambda value: 0 <= value <= 1e12, "seconds, or 30m, 12h, 7d, at most 1e12 s")
