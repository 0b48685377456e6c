"""optsched plan: plan one round of a snapshot."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from optsched.cli.options import add_solver_options, plan_options
from optsched.cli.output import check_output, write_output
from optsched.cli.terminal import MAX_WIDTH, Progress, Style, say, shows_colour, tell, warn, width
from optsched.clock import WallClock

DESCRIPTION = """\
Plan one round: which queued jobs start where, who is stopped or moved for them,
what it costs, how good the plan is, and why every other job waits.
Reads a snapshot; changes nothing."""

EPILOG = """\
examples:
  optsched plan                              the shipped example
  optsched plan busy.yaml --all              every job, no list shortened
  optsched plan busy.json.gz --format json   for scripts
  cat busy.yaml | optsched plan - --profile quota --budget 10"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("plan", help="plan one round of a snapshot", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "snapshot",
        metavar="SNAPSHOT",
        nargs="?",
        help="a YAML or JSON file, gzipped or not; - for standard input; without it, the shipped example",
    )
    add_solver_options(parser)
    output = parser.add_argument_group("what is written")
    _add_output(output)
    parser.set_defaults(run=run)


def _add_output(group: argparse._ArgumentGroup) -> None:
    """Add what decides what is written, and where."""
    group.add_argument("--format", choices=("text", "json"), default="text", help="text for people (default), or JSON")
    group.add_argument("--tasks", action="store_true", help="with rank, node and GPUs of every task that starts (JSON)")
    group.add_argument("--all", action="store_true", help="shorten no list (text)")
    group.add_argument("--output", metavar="FILE", help="write to this file instead of standard output")


def run(args: argparse.Namespace) -> int:
    """Plan and print."""
    from optsched.cli.inputs import read_snapshot

    check_output(args.output, "--output")
    read = read_snapshot(args.snapshot, args.profile)
    if read.is_example:
        tell(f"no SNAPSHOT given: planning the shipped example {Path(read.file).name}")
    # The solver takes half a second to import; refusals above do not wait for it.
    from optsched.planner.plan import plan_round

    clock = WallClock()
    with Progress(clock) as progress:
        plan = plan_round(read.snapshot, plan_options(args), clock, progress.report)
    for text in plan.warnings:
        warn(text)
    if args.format == "json":
        from optsched.files.plan_json import plan_to_json

        text = plan_to_json(plan, args.tasks)
    else:
        from optsched.cli.render_plan_text import plan_to_text

        to_file = args.output is not None
        text = plan_to_text(
            read.snapshot,
            plan,
            title=read.title,
            width=MAX_WIDTH if to_file else width(),
            style=Style(not to_file and shows_colour(sys.stdout)),
            everything=args.all,
        )
    _write(text, args.output)
    return 0


def _write(text: str, output: str | None) -> None:
    if output is None:
        say(text)
    else:
        write_output(output, text.encode(), "--output")
