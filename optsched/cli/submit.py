"""optsched submit: put jobs into the queue of a running service, and wait for them or sit down in them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from optsched.cli.service import add_service, client_of, say_json, whole
from optsched.cli.submit_asked import Asked, add_job_flags, read_asked
from optsched.cli.terminal import say, tell, warn
from optsched.cli.words import clean
from optsched.errors import InputError, OptschedError, UsageError

if TYPE_CHECKING:
    from optsched.client import Client, Given

DESCRIPTION = """\
Put a job into the queue and print its id. The job comes from a file in the schema of
snapshots (the keys of one job, or jobs: a list), from flags, or from both: flags win.
The program of each task and its arguments come after --."""

EPILOG = """\
exit codes, beside those of every command:
  with --wait    0 completed, 3 failed or withdrawn
  with --attach  that of the program

examples:
  optsched submit --gpus 16 --priority P1 -- python train.py --lr 3e-4
  optsched submit --file job.yaml --name night-17 --wait
  optsched submit --gpus 8 --array 100 --max-running 10 -- ./sweep.sh
  optsched submit --gpus 1 --attach                  a shell with a GPU
  optsched logs --follow $(optsched submit --file job.yaml)"""

SESSION_S = 8 * 3600.0
"""How long an interactive session holds its GPUs at most, where nothing is said."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("submit", help="put a job into the queue", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("-f", "--file", metavar="FILE", help="a YAML or JSON file; - for standard input")
    parser.add_argument("program", metavar="-- COMMAND", nargs="*", help="what each task runs, and its arguments")
    add_job_flags(parser)
    group = parser.add_argument_group("how it is submitted")
    group.add_argument("--array", metavar="N", type=whole(1, 10_000), help="so many jobs alike, ID.0 to ID.N-1")
    group.add_argument("--max-running", metavar="N", type=whole(1, 10_000), help="of an array: so many at a time")
    group.add_argument("--key", metavar="KEY", default="", help="names this submission: again, it is the same job")
    group.add_argument("--wait", action="store_true", help="wait until it has ended")
    group.add_argument(
        "--attach",
        action="store_true",
        help="an interactive session: the command, or a shell, on this terminal once the GPUs are there; they are "
        "given back when it ends, after --runtime (default 8h) at the latest",
    )
    add_service(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Submit, and print the ids."""
    import getpass

    _check(args)
    asked = read_asked(args, getpass.getuser())
    if args.attach:
        asked = _session(asked)
    with client_of(args) as client:
        try:
            given = _submitted(client, asked, args)
        except InputError as error:
            raise asked.located(error) from None
        for text in given.warnings:
            warn(text)
        if args.format == "json":
            say_json({"job_ids": list(given.ids), "warnings": list(given.warnings)})
        elif not args.attach:
            say("\n".join(given.ids))
        if args.attach:
            return _attach(client, given.id, args.program)
        return _wait(client, given) if args.wait else 0


def _check(args: argparse.Namespace) -> None:
    if args.attach and (args.wait or args.array):
        raise UsageError("submit: --attach is given with --wait or --array; allowed: alone")
    if args.max_running and not args.array:
        raise UsageError("submit: --max-running is given without --array; allowed: with it")


def _submitted(client: Client, asked: Asked, args: argparse.Namespace) -> Given:
    from optsched.client import JobArray, JobSpec
    from optsched.wire.convert import to_message

    jobs = [to_message(JobSpec, job) for job in asked.jobs]
    if args.array:
        if len(jobs) > 1:
            raise UsageError("submit: --array is given with a file of several jobs; allowed: with one job")
        array = JobArray(template=jobs[0], count=args.array, max_running=args.max_running or 0)
        return client.submit_array(array, args.key)
    if len(jobs) == 1:
        return client.submit(jobs[0], args.key)
    return client.submit_many(jobs, args.key)


def _wait(client: Client, given: Given) -> int:
    """Wait for all; return 0 where they went well."""
    from optsched.client import word

    code = 0
    for name in given.ids:
        job = client.wait(name)
        if word(job) != "completed":
            tell(f"{clean(name)}: {word(job)}: {clean(job.reason)}")
            code = 3
    return code


def _session(asked: Asked) -> Asked:
    """Return the job that an interactive session sits in: it holds its GPUs, for so long at most."""
    from dataclasses import replace

    if len(asked.jobs) > 1:
        raise UsageError("submit: --attach is given with a file of several jobs; allowed: with one job")
    job = dict(asked.jobs[0])
    longest = job.get("estimated_runtime_s", SESSION_S)
    assert isinstance(longest, int | float), "it was checked"
    # Who sits there cannot sit in a second run of it.
    job |= {
        "command": ["sleep", f"{longest:.0f}"],
        "estimated_runtime_s": float(longest),
        "retries": {"infra": 0, "job": 0},
    }
    return replace(asked, jobs=(job,))


def _attach(client: Client, job: str, command: list[str]) -> int:
    """Wait for the GPUs, run the session, and give them back however it ends."""
    from optsched.cli.session import run_session

    try:
        _until_running(client, job)
        return run_session(client, job, command)
    finally:
        try:
            client.cancel(job, "its session is over")
        except OptschedError as error:
            tell(f"{clean(job)} may still hold its GPUs: {error}; optsched cancel {clean(job)}")


def _until_running(client: Client, job: str) -> None:
    from optsched.client import ENDED, JobFilter, word

    told = ""
    for change in client.watch(JobFilter(ids=[job])):
        if change.caught_up:
            continue
        state = word(change.job)
        if state == "running":
            return
        if change.job.state in ENDED:
            raise UsageError(f"{job} is {state}: {change.job.reason}")
        line = f"{clean(job)} is {state}" + (f": {clean(change.job.reason)}" if change.job.reason else "")
        if line != told:
            tell(line)
            told = line
