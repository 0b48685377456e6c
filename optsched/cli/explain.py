"""optsched explain: what a round does with one job, and why."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from optsched.cli.options import add_format, add_solver_options, plan_options
from optsched.cli.terminal import Progress, Style, say, shows_colour, width
from optsched.cli.words import clean, count
from optsched.clock import WallClock
from optsched.errors import Fault, InputError

if TYPE_CHECKING:
    from optsched.cli.inputs import Read

DESCRIPTION = """\
Say what the next round does with one job: why it waits and what would let it
start; where it starts, why there and who is stopped for it; or for whom it is
itself stopped, moved or resized."""

_COMPARED = 4000
"""Names that are compared letter by letter for a suggestion."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("explain", help="why one job waits, or starts where it does", description=DESCRIPTION)
    parser.add_argument(
        "snapshot", metavar="SNAPSHOT", help="a YAML or JSON file, gzipped or not; - for standard input"
    )
    parser.add_argument("job", metavar="JOB", help="the job's id")
    add_format(parser)
    add_solver_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Explain and print."""
    from optsched.cli.inputs import read_snapshot

    read = read_snapshot(args.snapshot, args.profile)
    job = next((job for job in read.snapshot.jobs if job.id == args.job), None)
    if job is None:
        raise _unknown(read, args.job)
    from optsched.planner.plan import explain_job

    clock = WallClock()
    with Progress(clock):
        answer = explain_job(read.snapshot, job.id, plan_options(args), clock)
    from optsched.cli.render_explain import explain_to_json, explain_to_text

    if args.format == "json":
        say(explain_to_json(job, answer))
    else:
        say(explain_to_text(read.snapshot, job, answer, width=width(), style=Style(shows_colour(sys.stdout))))
    return 0


def near(given: str, names: Collection[str], most: int = 3) -> list[str]:
    """Return the names most like the one given, best first; of many names only those that begin or end like it."""
    if len(names) > _COMPARED:
        start, end = given[:3], given[-3:]
        names = [name for name in names if name.startswith(start) or name.endswith(end)][:_COMPARED]
    lower = {name.lower(): name for name in names}
    return [lower[hit] for hit in difflib.get_close_matches(given.lower()[:300], lower, n=most, cutoff=0.6)]


def _unknown(read: Read, given: str) -> InputError:
    names = [job.id for job in read.snapshot.jobs]
    close = near(given, names)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    allowed = f"{hint}the id of one of the snapshot's {count(len(names), 'job')}"
    return InputError([Fault(read.file, None, "JOB", f"there is no job '{clean(given)[:80]}'", allowed)])
