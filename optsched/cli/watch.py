"""optsched watch: jobs, or the cluster, as they change."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from optsched.cli.jobs import moment
from optsched.cli.service import add_service, as_json, client_of, say_json, style
from optsched.cli.terminal import say
from optsched.cli.words import clean

if TYPE_CHECKING:
    from optsched.client import Client
    from optsched.wire.v1 import scheduler_pb2 as api

DESCRIPTION = """\
Watch jobs: first as they stand, then a line each time that one changes, until
interrupted or, for jobs that are named, until all of them have ended. Goes on by
itself where the connection breaks. --cluster watches nodes, rules and the scheduler
instead (operators)."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("watch", help="jobs of a service as they change", description=DESCRIPTION)
    parser.add_argument("jobs", metavar="ID", nargs="*", help="these jobs (default: all that you may see)")
    parser.add_argument("--team", action="append", metavar="TEAM", help="of this team; may be given more than once")
    parser.add_argument("--user", action="append", metavar="USER", help="of this user; may be given more than once")
    parser.add_argument("--cluster", action="store_true", help="what happens to nodes, rules and the scheduler")
    add_service(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Watch."""
    from optsched.client import JobFilter

    with client_of(args) as client:
        if args.cluster:
            return _cluster(client, args.format)
        for name in args.jobs:
            client.job(name)
        wanted = JobFilter(ids=args.jobs, teams=args.team or (), users=args.user or ())
        return _jobs(client.watch(wanted), set(args.jobs), args.format)


def _jobs(changes: Iterator[api.WatchJobsResponse], named: set[str], form: str) -> int:
    from optsched.cli.render_service import state_paint, why
    from optsched.client import ENDED, word

    paint, left = style(), set(named)
    for change in changes:
        if form == "json":
            say_json(as_json(change))
        elif not change.caught_up:
            job = change.job
            at = change.events[-1].at if change.events else job.submitted_at
            say(f"{moment(at)}  {paint.name(clean(job.id))}  {state_paint(word(job), paint)}  {why(job)}".rstrip())
        if change.job.state in ENDED:
            left.discard(change.job.id)
        if named and not left:
            return 0
    return 0


def _cluster(client: Client, form: str) -> int:
    for event in client.events():
        if form == "json":
            say_json(as_json(event))
        else:
            say(f"{moment(event.at)}  {clean(event.kind):<10} {clean(event.text)}")
    return 0
