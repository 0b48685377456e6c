"""optsched logs: what tasks have written."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from optsched.cli.service import add_service, client_of, say_json, whole
from optsched.cli.terminal import tell
from optsched.cli.words import clean

if TYPE_CHECKING:
    from optsched.client import Client

DESCRIPTION = """\
Print what a task of a job has written, as it is: of rank 0 of its last run, unless
said otherwise. Comes from the task's node through the scheduler."""

EPILOG = """\
examples:
  optsched logs train-7 --follow
  optsched logs train-7 --rank 3 --stderr --tail 10000"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("logs", help="print what a job has written", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("job", metavar="ID", help="the job's id")
    parser.add_argument("--follow", action="store_true", help="go on as it writes, until the run ends")
    parser.add_argument("--rank", metavar="N", type=whole(0, 999_999), default=0, help="of this task (default 0)")
    parser.add_argument(
        "--run", metavar="N", type=whole(1, 2**31 - 1), default=0, help="of this run (default: the last)", dest="number"
    )
    parser.add_argument("--stderr", action="store_true", help="what went to standard error, not standard output")
    parser.add_argument("--tail", metavar="BYTES", type=whole(1, 2**62), help="only the last so many bytes")
    add_service(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a log."""
    with client_of(args) as client:
        if args.follow and not args.number:
            until_started(client, args.job)
        stream = "stderr" if args.stderr else "stdout"
        offset = -args.tail if args.tail else 0
        for data in client.logs(args.job, args.number, args.rank, stream, offset, args.follow):  # type: ignore[arg-type]
            if args.format == "json":
                say_json({"text": data.decode("utf-8", "replace")})
            else:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
    return 0


def until_started(client: Client, job: str) -> None:
    """Wait until a job has something to read: its first run has started, or it has ended without; say why it waits."""
    from optsched.client import JobFilter, word

    client.job(job)
    told = ""
    for change in client.watch(JobFilter(ids=[job])):
        if change.caught_up:
            continue
        state = word(change.job)
        if state != "starting" and (change.job.run or state != "queued"):
            return
        why = clean(change.job.reason) or ("it is being started" if state == "starting" else "it waits for a round")
        if why != told:
            tell(f"{clean(job)} has not started: {why}")
            told = why
