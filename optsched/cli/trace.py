"""optsched trace: traces of jobs in many formats: import, describe, scale, generate."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from optsched.cli.options import add_format, seed
from optsched.cli.output import check_output
from optsched.cli.terminal import Style, say, shows_colour, tell, width
from optsched.cli.trace_files import add_input, add_output, hour, put, read_trace, share, sources_of, whole, write_trace
from optsched.cli.trace_scale import add_scale
from optsched.cli.words import clean, count
from optsched.errors import UsageError

if TYPE_CHECKING:
    from optsched.files.traces import Source

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
    add_scale(actions)
    _add_generate(actions)
    listing = actions.add_parser("formats", help="the formats that are read", description="List the formats.")
    add_format(listing)
    listing.set_defaults(run=run_formats)


def _add_import(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "to the normal form: one row for each job, the same columns for all"
    parser = actions.add_parser("import", help=text, description=f"Read a trace and write it {text[3:]}.")
    add_input(parser)
    parser.add_argument("--gpus-per-node", metavar="N", type=whole, help="of machines whose list does not tell it")
    parser.add_argument("--rack-nodes", metavar="N", type=whole, help="put machines into racks of N, in their order")
    add_output(parser)
    parser.set_defaults(run=run_import)


def _add_describe(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "sizes, durations, endings, teams, and the load that it offers"
    parser = actions.add_parser("describe", help=text, description=f"What is in a trace: {text}.")
    add_input(parser)
    room = parser.add_mutually_exclusive_group()
    room.add_argument("--gpus", metavar="N", type=whole, help="tell the load offered to a cluster of N GPUs")
    room.add_argument("--cluster", metavar="NAME|PATH", help="the same, of a described cluster")
    add_format(parser)
    parser.set_defaults(run=run_describe)


def _add_generate(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "a trace like that of a fleet of 10,412 GPUs"
    parser = actions.add_parser(
        "generate",
        help=text,
        description="Draw a trace calibrated to the published totals of Alibaba's fleet of 10,412 GPUs (2026): jobs "
        "and GPUs by hour, sizes, durations, models, organizations.",
    )
    parser.add_argument(
        "--hours", metavar="N", type=whole, default=24, help="how long (default 24; the whole is 4,416)"
    )
    parser.add_argument("--from-hour", metavar="N", type=hour, default=0, help="which hour it starts in (default 0)")
    parser.add_argument("--share", metavar="SHARE", type=share, default=1.0, help="of the jobs, 0 to 1 (default 1)")
    parser.add_argument("--max-gpus", metavar="N", type=whole, help="jobs of at most N GPUs")
    parser.add_argument("--seed", metavar="N", type=seed, default=0, help="default 0")
    add_output(parser)
    parser.set_defaults(run=run_generate)


def run_import(args: argparse.Namespace) -> int:
    """Read a trace, or a list of machines, and write it in the normal form."""
    check_output(args.out, "--out")
    from optsched.files.traces import check_format, node_format

    if args.from_format is not None:
        check_format(args.from_format)
    sources = sources_of(args)
    if args.from_format is None and len(sources) == 1 and node_format(sources[0]):
        return _import_nodes(args, sources[0])
    for flag, value in (("--gpus-per-node", args.gpus_per_node), ("--rack-nodes", args.rack_nodes)):
        if value is not None:
            raise UsageError(f"{flag}: given for a trace of jobs; allowed: with a list of machines")
    write_trace(read_trace(args, sources), args)
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
        if not gpus:
            wrong = f"{clean(args.cluster)} has no GPU that is healthy"
            raise UsageError(f"--cluster: {wrong}; allowed: a cluster with at least one")
    trace = read_trace(args, sources_of(args), quiet=True)
    facts = describe(trace, gpus)
    if args.format == "json":
        say(facts_to_json(trace, facts))
    else:
        say(facts_to_text(trace, facts, width=width(), style=Style(shows_colour(sys.stdout))))
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
    if not trace.jobs:
        raise UsageError("no job is drawn; allowed: more --hours, a larger --share or --max-gpus")
    write_trace(trace, args)
    return 0


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
    put(write(cluster_to_dict(found.cluster)), args.out)
    return 0
