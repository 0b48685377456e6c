"""optsched trace: traces of jobs in many formats: import, describe, scale, generate."""

from __future__ import annotations

import argparse
import gzip
import math
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from optsched.cli.options import add_format, seed
from optsched.cli.output import check_output, write_output
from optsched.cli.terminal import Style, say, shows_colour, tell, warn, width
from optsched.cli.words import clean, count
from optsched.errors import OptschedError, UsageError

if TYPE_CHECKING:
    from optsched.files.traces import Source
    from optsched.values.trace import Trace

FILES = "files of one format, gzipped or not; - for standard input (default: the trace that comes with optsched)"

EPILOG = """\
The format of a trace is told by what is in it; optsched trace formats lists
those that are known. A list of machines that comes with a trace (of Philly, of
Alibaba, Kubernetes nodes) becomes a cluster file.

examples:
  optsched trace import cluster_job_log --out philly.csv.gz
  optsched trace describe philly.csv.gz --gpus 2490
  optsched trace scale philly.csv.gz --load 0.9 --gpus 2490 --out busy.csv.gz
  optsched trace generate --hours 24 --share 0.1 --out fleet.csv.gz"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the group of commands."""
    text = "read, describe, scale and generate traces of jobs"
    group = commands.add_parser("trace", help=text, description=text.capitalize() + ".", epilog=EPILOG)
    actions = group.add_subparsers(metavar="ACTION", dest="action", required=True)
    _add_import(actions)
    _add_describe(actions)
    _add_scale(actions)
    _add_generate(actions)
    listing = actions.add_parser("formats", help="the formats that are read", description="List the formats.")
    add_format(listing)
    listing.set_defaults(run=run_formats)


def _add_import(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "to the normal form: one row for each job, the same columns for all"
    parser = actions.add_parser("import", help=text, description=f"Read a trace and write it {text[3:]}.")
    _add_input(parser)
    parser.add_argument("--gpus-per-node", metavar="N", type=_count, help="of machines whose list does not tell it")
    parser.add_argument("--rack-nodes", metavar="N", type=_count, help="put machines into racks of N, in their order")
    _add_output(parser)
    parser.set_defaults(run=run_import)


def _add_describe(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "sizes, durations, endings, teams, and the load that it offers"
    parser = actions.add_parser("describe", help=text, description=f"What is in a trace: {text}.")
    _add_input(parser)
    room = parser.add_mutually_exclusive_group()
    room.add_argument("--gpus", metavar="N", type=_count, help="tell the load offered to a cluster of N GPUs")
    room.add_argument("--cluster", metavar="NAME|PATH", help="the same, of a described cluster")
    add_format(parser)
    parser.set_defaults(run=run_describe)


def _add_scale(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "cut a slice, thin it out, make it denser"
    parser = actions.add_parser(
        "scale",
        help=text,
        description="Cut a slice of a trace, thin it out, make it denser; what is asked for is done in this order.",
    )
    _add_input(parser)
    group = parser.add_argument_group("what is done, in this order")
    group.add_argument(
        "--from", dest="from_s", metavar="T", type=_duration, help="jobs submitted from then on: 3600, 2d, 12h"
    )
    group.add_argument("--to", dest="to_s", metavar="T", type=_duration, help="jobs submitted before then")
    group.add_argument("--max-gpus", metavar="N", type=_count, help="jobs of at most N GPUs")
    group.add_argument("--grow", metavar="N", type=_count, help="every job asks for N times as many GPUs")
    group.add_argument("--sample", metavar="SHARE", type=_share, help="each job with this chance, 0 to 1")
    group.add_argument("--seed", metavar="N", type=seed, default=0, help="of the sample (default 0)")
    times = group.add_mutually_exclusive_group()
    times.add_argument("--shrink", metavar="FACTOR", type=_factor, help="divide submit times by this")
    times.add_argument(
        "--load", metavar="LOAD", type=_factor, help="divide them so that --gpus N are offered this load"
    )
    group.add_argument("--gpus", metavar="N", type=_count, help="GPUs of the cluster that the load is meant for")
    group.add_argument(
        "--evenly", action="store_true", help="with --load: space the jobs anew, so that there are no quiet weeks"
    )
    _add_output(parser)
    parser.set_defaults(run=run_scale)


def _add_generate(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "a trace like that of a fleet of 10,412 GPUs"
    parser = actions.add_parser(
        "generate",
        help=text,
        description="Draw a trace calibrated to the published totals of Alibaba's fleet of 10,412 GPUs (2026): jobs "
        "and GPUs by hour, sizes, durations, models, organizations.",
    )
    parser.add_argument(
        "--hours", metavar="N", type=_count, default=24, help="how long (default 24; the whole is 4,416)"
    )
    parser.add_argument("--from-hour", metavar="N", type=_hour, default=0, help="which hour it starts in (default 0)")
    parser.add_argument("--share", metavar="SHARE", type=_share, default=1.0, help="of the jobs, 0 to 1 (default 1)")
    parser.add_argument("--max-gpus", metavar="N", type=_count, help="jobs of at most N GPUs")
    parser.add_argument("--seed", metavar="N", type=seed, default=0, help="default 0")
    _add_output(parser)
    parser.set_defaults(run=run_generate)


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help=FILES)
    parser.add_argument("--from-format", metavar="FORMAT", help="read it as this (see optsched trace formats)")
    parser.add_argument("--procs-per-gpu", metavar="N", type=_count, default=1, help="of traces that count processors")
    parser.add_argument("--skip-faulty", action="store_true", help="leave out records that are wrong, and say how many")


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is written")
    group.add_argument("--out", metavar="PATH", help="to this file, gzipped if it ends in .gz (default: to the output)")
    group.add_argument("--format", choices=("csv", "json"), help="default: what --out ends in, else csv")


def run_import(args: argparse.Namespace) -> int:
    """Read a trace, or a list of machines, and write it in the normal form."""
    check_output(args.out, "--out")
    from optsched.files.traces import check_format, node_format

    if args.from_format is not None:
        check_format(args.from_format)
    sources = _sources(args)
    if args.from_format is None and len(sources) == 1 and node_format(sources[0]):
        return _import_nodes(args, sources[0])
    _write(_read(args, sources), args)
    return 0


def run_formats(args: argparse.Namespace) -> int:
    """List the formats."""
    from optsched.cli.tables import Column, Row, table
    from optsched.files.plan_json import write
    from optsched.files.traces import FORMATS

    if args.format == "json":
        say(write({"formats": [{"name": entry.name, "about": entry.about} for entry in FORMATS.values()]}))
        return 0
    style = Style(shows_colour(sys.stdout))
    rows = [Row([entry.name, entry.about]) for entry in FORMATS.values()]
    columns = [Column("name", paint=style.name), Column("what it is", least=20)]
    say("\n".join(table(columns, rows, width(), style.faint)))
    return 0


def run_describe(args: argparse.Namespace) -> int:
    """Describe a trace."""
    from optsched.cli.render_trace import facts_to_json, facts_to_text
    from optsched.files import load_cluster
    from optsched.sim.traces.facts import describe

    gpus = args.gpus
    if args.cluster is not None:
        gpus = sum(node.healthy_gpus for node in load_cluster(args.cluster).nodes)
    trace = _read(args, _sources(args), quiet=True)
    facts = describe(trace, gpus)
    if args.format == "json":
        say(facts_to_json(trace, facts))
    else:
        say(facts_to_text(trace, facts, width=width(), style=Style(shows_colour(sys.stdout))))
    return 0


def run_scale(args: argparse.Namespace) -> int:
    """Scale a trace and write it."""
    check_output(args.out, "--out")
    from optsched.sim.traces import scale

    if args.load is not None and args.gpus is None:
        raise UsageError("--gpus: missing; allowed: with --load, the GPUs of the cluster that the load is meant for")
    if args.evenly and args.load is None:
        raise UsageError("--evenly: given without --load; allowed: together with --load and --gpus")
    trace = _read(args, _sources(args), quiet=True)
    start_s = args.from_s if args.from_s is not None else 0.0
    if args.from_s is not None or args.to_s is not None:
        trace = scale.cut(trace, start_s, args.to_s if args.to_s is not None else math.inf)
    if args.max_gpus is not None:
        trace = scale.up_to(trace, args.max_gpus)
    if args.grow is not None:
        trace = scale.grow(trace, args.grow)
    if args.sample is not None:
        trace = scale.sample(trace, args.sample, args.seed)
    if not trace.jobs:
        raise UsageError("no job is left; allowed: a wider slice, a larger --max-gpus or --sample")
    if args.shrink is not None:
        trace = scale.shrink(trace, args.shrink)
    if args.load is not None:
        scaled = (
            scale.evenly(trace, args.load, args.gpus) if args.evenly else scale.to_load(trace, args.load, args.gpus)
        )
        if scaled is None:
            raise UsageError("--load: the trace tells no durations, or all jobs come at once; allowed: --shrink")
        trace = scaled
    _write(trace, args)
    return 0


def run_generate(args: argparse.Namespace) -> int:
    """Generate a trace and write it."""
    check_output(args.out, "--out")
    from optsched.sim.traces.fleet import HOURS, generate
    from optsched.sim.traces.scale import up_to

    if args.from_hour + args.hours > HOURS:
        raise UsageError(
            f"--hours: {args.from_hour} + {args.hours} is beyond the end; allowed: up to {HOURS:,} hours in all"
        )
    trace = generate(seed=args.seed, from_hour=args.from_hour, hours=args.hours, share=args.share)
    if args.max_gpus is not None:
        trace = up_to(trace, args.max_gpus)
    _write(trace, args)
    return 0


def _sources(args: argparse.Namespace) -> list[Source]:
    from optsched.cli.inputs import example_trace
    from optsched.files.traces import read_source

    if not args.files:
        with example_trace() as path:
            return [read_source(path)]
    if args.files.count("-") > 1:
        raise UsageError("FILE: - is given twice; allowed: standard input once")
    return [read_source(path) for path in args.files]


def _read(args: argparse.Namespace, sources: list[Source], quiet: bool = False) -> Trace:
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


def _import_nodes(args: argparse.Namespace, source: Source) -> int:
    from optsched.files.dump import cluster_to_dict
    from optsched.files.plan_json import write
    from optsched.files.traces import read_nodes

    if args.format == "csv":
        raise UsageError("--format: csv for a list of machines; allowed: json, which is a cluster file")
    found = read_nodes(source, args.gpus_per_node, args.rack_nodes)
    gpus = sum(node.gpus for node in found.cluster.nodes)
    tell(f"{clean(source.file)}: {count(len(found.cluster.nodes), 'machine')}, {gpus:,} GPUs, read as {found.format}")
    for reason, number in found.left_out.items():
        tell(f"left out: {number:,} {reason}")
    _put(write(cluster_to_dict(found.cluster)), args.out)
    return 0


def _write(trace: Trace, args: argparse.Namespace) -> None:
    from optsched.files.traces import to_csv, to_json

    ending = (args.out or "").removesuffix(".gz")
    form = args.format or ("json" if ending.endswith(".json") else "csv")
    _put(to_json(trace) if form == "json" else to_csv(trace), args.out)
    if args.out:
        tell(f"{clean(args.out)}: {count(len(trace.jobs), 'job')} written")


def _put(text: str, out: str | None) -> None:
    if out is None:
        say(text)
        return
    data = text.encode()
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


_count = _number(_whole, lambda value: 1 <= value <= 1_000_000, "a whole number from 1 to 1,000,000")
_hour = _number(_whole, lambda value: 0 <= value < 4416, "a whole number from 0 to 4,415")
_share = _number(float, lambda value: 0 < value <= 1, "a number above 0, at most 1")
_factor = _number(float, lambda value: 0 < value <= 1e6, "a number above 0, at most 1,000,000")
_duration = _number(_span, lambda value: 0 <= value <= 1e10, "seconds, or 30m, 12h, 7d")
