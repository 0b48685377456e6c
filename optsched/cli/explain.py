"""optsched explain: what a round does with one job, and why."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from optsched.cli.options import add_solver_options, plan_options
from optsched.cli.service import add_service, as_json, client_of, say_json
from optsched.cli.terminal import Progress, Style, say, shows_colour, width
from optsched.cli.words import clean, count
from optsched.client.settings import PREFIX, Settings
from optsched.clock import WallClock
from optsched.errors import Fault, InputError, UsageError
from optsched.files.settings import flag_of

if TYPE_CHECKING:
    from optsched.cli.inputs import Read

DESCRIPTION = """\
Say what the next round does with one job: why it waits and what would let it
start; where it starts, why there and who is stopped for it; or for whom it is
itself stopped, moved or resized. A job alone is one of the running service; with a
snapshot before it, one of that file."""

EPILOG = """\
examples:
  optsched explain train-7               of the service
  optsched explain snapshot.yaml sweep   of a file"""

_COMPARED = 4000
"""Names that are compared letter by letter for a suggestion."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explain", help="why one job waits, or starts where it does", description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument(
        "snapshot",
        metavar="SNAPSHOT",
        nargs="?",
        help="a YAML or JSON file, gzipped or not; - for standard input; none: the running service",
    )
    parser.add_argument("job", metavar="JOB", help="the job's id")
    add_solver_options(parser)
    add_service(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Explain and print."""
    if args.snapshot is None:
        return _of_service(args)
    _check_offline(args)
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


def _of_service(args: argparse.Namespace) -> int:
    """Ask the running service."""
    for flag, given, default in (
        ("--profile", args.profile, None),
        ("--deterministic", args.deterministic, None),
        ("--solver", args.solver, "auto"),
        ("--seed", args.seed, 0),
    ):
        if given != default:
            raise UsageError(f"explain: {flag} is for a snapshot; allowed for a job of the service: --budget")
    from optsched.cli.render_service import explanation_to_text

    with client_of(args) as client:
        with Progress(WallClock()):
            answer = client.explain(args.job, args.budget or 0.0)
        now = client.status().now_at
    if args.format == "json":
        say_json(as_json(answer))
    else:
        say(explanation_to_text(answer, now, width(), Style(shows_colour(sys.stdout))))
    return 0


def _check_offline(args: argparse.Namespace) -> None:
    for key in (*Settings.model_fields, "config"):
        if getattr(args, key if key == "config" else PREFIX + key) is not None:
            raise UsageError(
                f"explain: {flag_of(key)} is for a job of the service; allowed with a snapshot: none of those"
            )


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
