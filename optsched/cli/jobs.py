"""optsched jobs, job, preempt, cancel, hold, release: jobs of a running service."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from optsched.cli.service import add_service, as_json, client_of, say_json, style, whole
from optsched.cli.terminal import say, tell, width
from optsched.cli.words import clean, duration

if TYPE_CHECKING:
    from optsched.client import Client
    from optsched.wire.v1 import types_pb2 as t

STATES = ("queued", "starting", "running", "preempting", "completed", "failed", "cancelled")
LIVE = STATES[:4]
NOT_WELL = 3

JOBS = """\
List jobs in order of their submission: those that have not ended, unless --all or
--state says otherwise."""

JOBS_EPILOG = """\
examples:
  optsched jobs --team vision --state queued
  optsched jobs --ids --user ada | xargs optsched cancel"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    parser = commands.add_parser("jobs", help="list the jobs of a service", description=JOBS, epilog=JOBS_EPILOG)
    parser.add_argument("--state", action="append", choices=STATES, help="in this state; may be given more than once")
    parser.add_argument("--all", action="store_true", help="also those that have ended")
    parser.add_argument("--team", action="append", metavar="TEAM", help="of this team; may be given more than once")
    parser.add_argument("--user", action="append", metavar="USER", help="of this user; may be given more than once")
    parser.add_argument("--node", metavar="NODE", default="", help="with GPUs on this node")
    parser.add_argument("--array", metavar="ID", default="", help="members of this array")
    parser.add_argument("--min-priority", metavar="N", type=whole(-(10**9), 10**9), help="of this priority or above")
    parser.add_argument("--limit", metavar="N", type=whole(1, 1000), default=50, help="at most so many (default 50)")
    parser.add_argument("--page-token", metavar="TOKEN", default="", help="go on after the page that ended with it")
    parser.add_argument("--ids", action="store_true", help="print the ids alone, a line each")
    add_service(parser)
    parser.set_defaults(run=run_jobs)

    parser = commands.add_parser("job", help="show one job of a service", description="Show one job as it stands.")
    parser.add_argument("job", metavar="ID", help="the job's id")
    parser.add_argument("--events", action="store_true", help="also what has happened to it, the newest 100")
    parser.add_argument("--wait", action="store_true", help="wait until it has ended; exit code 3 unless it went well")
    parser.add_argument("--wait-running", action="store_true", help="wait until it runs; exit code 3 if it has ended")
    add_service(parser)
    parser.set_defaults(run=run_job)

    for name, what, done in (
        ("preempt", "stop jobs that run, and queue them again", "told to stop"),
        ("cancel", "withdraw jobs; what runs has its grace period", "withdrawn"),
        ("hold", "keep queued jobs from being started", "held"),
        ("release", "let jobs that are held be started", "released"),
    ):
        sentence = what[0].upper() + what[1:] + "."
        parser = commands.add_parser(name, help=what, description=sentence)
        parser.add_argument("jobs", metavar="ID", nargs="+", help="the ids of jobs")
        if name != "release":
            parser.add_argument("--reason", metavar="TEXT", default="", help="why: kept with the job's history")
        add_service(parser)
        parser.set_defaults(run=run_change, change=name, done=done)


def run_jobs(args: argparse.Namespace) -> int:
    """List a page of jobs."""
    from optsched.client import JobFilter

    words = args.state or (() if args.all else LIVE)
    wanted = JobFilter(
        states=[_state(word) for word in words],
        teams=args.team or (),
        users=args.user or (),
        node=args.node,
        array=args.array,
        min_priority=args.min_priority,
    )
    with client_of(args) as client:
        page = client.page_of_jobs(wanted, args.limit, args.page_token)
        now = client.status().now_at
    if args.format == "json":
        say_json(as_json(page))
        return 0
    if args.ids:
        if page.jobs:
            say("\n".join(job.id for job in page.jobs))
    elif page.jobs:
        from optsched.cli.render_service import jobs_to_text

        say(jobs_to_text(page.jobs, now, width(), style()))
    elif not args.page_token:
        tell("no jobs")
    if page.next_page_token:
        tell(f"{len(page.jobs)} of {page.total:,} jobs; more: --page-token {page.next_page_token}")
    return 0


def _state(word: str) -> t.JobState:
    """Return the state that a word names."""
    from optsched.wire.v1 import types_pb2

    return types_pb2.JobState.Value(f"JOB_STATE_{word.upper()}")  # type: ignore[return-value]


def run_job(args: argparse.Namespace) -> int:
    """Show one job, now or once it has ended."""
    from optsched.client import word

    with client_of(args) as client:
        if args.wait or args.wait_running:
            client.wait(args.job, running=not args.wait)
        job = client.job(args.job)
        events = _newest_events(client, args.job) if args.events else []
        now = client.status().now_at
    if args.format == "json":
        say_json(as_json(job) | ({"events": [as_json(each) for each in events]} if args.events else {}))
    else:
        from optsched.cli.render_service import job_to_text

        say(job_to_text(job, now, width(), style()))
        for each in events:
            say(f"  {moment(each.at)}  {clean(each.kind):<12} {clean(each.text)}")
    well = ("completed",) if args.wait else LIVE if args.wait_running else STATES
    return 0 if word(job) in well else NOT_WELL


def _newest_events(client: Client, job: str, most: int = 100) -> list[t.Event]:
    found: list[t.Event] = []
    after, more = 0, True
    while more:
        page = client.job_events(job, after, 1000)
        found = [*found, *page.events][-most:]
        more = page.more and bool(page.events)
        after = found[-1].sequence if found else 0
    return found


def moment(at_s: float) -> str:
    """Return an instant as a time of day, with the date, in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_s, UTC).strftime("%m-%d %H:%M:%S")


def run_change(args: argparse.Namespace) -> int:
    """Do the same to each job; what one is refused does not keep it from the others."""
    from optsched.client import word

    with client_of(args) as client:
        does: dict[str, Callable[[str], t.Job]] = {
            "cancel": lambda job: client.cancel(job, args.reason),
            "hold": lambda job: client.hold(job, args.reason),
            "release": client.release,
        }

        def one(name: str) -> None:
            if args.change == "preempt":
                answer = client.preempt(name, args.reason)
                job, extra = answer.job, as_json(answer)
                saves = "it was told to save its work; " if answer.checkpoint_triggered else ""
                note = f"; {saves}killed in {duration(answer.grace_period_s)} if it is still there"
            else:
                job, note = does[args.change](name), ""
                extra = {"job": as_json(job)}
            if args.format == "json":
                say_json(extra)
            else:
                say(job.id)
                tell(f"{clean(job.id)}: {args.done}; it is {word(job)}{note}")

        return each_of(args.jobs, one)


def each_of(names: list[str], one: Callable[[str], None]) -> int:
    """Do something with each name; say what some are refused, and return the exit code of the gravest."""
    from optsched.errors import Conflict, InputError, NotKnown, Refusal

    code = 0
    for name in names:
        try:
            one(name)
        except InputError as error:
            for fault in error.faults:
                tell(f"{clean(name)}: {fault.field}: {fault.wrong}; allowed: {fault.allowed}")
            code = 2
        except NotKnown as error:
            tell(f"optsched: {error}")
            code = 2
        except (Conflict, Refusal) as error:
            tell(f"optsched: {error}")
            code = code or 1
    return code
