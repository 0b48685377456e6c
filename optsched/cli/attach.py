"""optsched attach: a terminal inside a job that runs."""

from __future__ import annotations

import argparse

from optsched.cli.service import add_service, client_of, whole

DESCRIPTION = """\
Open a terminal beside a task of a job that runs: a shell, or a program after --,
with the task's GPUs, environment and account, on its node. Keys go there, Ctrl-C
too; ~. at the start of a line hangs up. The exit code is that of the program (128 and
the signal's number where one has ended it)."""

EPILOG = """\
examples:
  optsched attach train-7
  optsched attach train-7 --rank 3 -- nvidia-smi"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("attach", help="open a terminal inside a job", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("job", metavar="ID", help="the job's id")
    parser.add_argument("--rank", metavar="N", type=whole(0, 999_999), default=0, help="beside this task (default 0)")
    parser.add_argument("program", metavar="-- COMMAND", nargs="*", help="a program and its arguments; a shell if none")
    add_service(parser, formats=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Attach, and return the program's exit code."""
    from optsched.cli.session import run_session

    with client_of(args) as client:
        return run_session(client, args.job, args.program, args.rank)
