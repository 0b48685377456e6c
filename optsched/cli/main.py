"""The whole command line: parse, run, and turn every end into an exit code and at most a few lines.

0 done; 2 bad input, one line per fault; 1 anything else, one line; 130 interrupted; 141 nobody reads the output. 3 is
that of a job that was waited for and did not end well; `attach` ends with the code of its program.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

import optsched
from optsched.cli import (
    agent,
    attach,
    bench,
    checkpoint_interval,
    demo,
    explain,
    jobs,
    logs,
    nodes,
    plan,
    profile,
    replay,
    report,
    reserve,
    rounds,
    serve,
    simulate,
    submit,
    teams,
    topology,
    trace,
    watch,
    whatif,
)
from optsched.cli.entry import INTERRUPTED
from optsched.cli.options import Parser
from optsched.cli.terminal import tell
from optsched.cli.words import clean
from optsched.errors import Conflict, InputError, NoAnswer, NotKnown, Refusal, StoreError, UsageError

DONE, FAILED, BAD_INPUT, NO_READER = 0, 1, 2, 141

DESCRIPTION = """\
optsched decides which training jobs run on which GPUs of a shared cluster.
Gangs start whole or not at all, close together, at the expense of whom it costs
least; where a bound is found in time, a plan says how far from the best it is."""

EPILOG = """\
exit codes:
  0  done
  2  bad input; a line per fault: file, line, field, what is wrong, what is allowed
  3  a job that was waited for has failed or was withdrawn (submit --wait, job --wait)
  1  anything else: refused by the service, or nobody answers

environment:
  OPTSCHED_CLIENT_SCHEDULER, _TOKEN_FILE, _TLS_CA, ...   how commands that ask the
                     service reach it; optsched jobs --help lists them
  NO_COLOR=1         no colour
  COLUMNS            the width of text, 80 to 120
  OPTSCHED_DEBUG=1   the traceback of an error

optsched plan alone plans a shipped example; optsched COMMAND --help tells more."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; writes to standard output and standard error."""
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return NO_READER
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def parser() -> Parser:
    """Return the parser of the whole command line."""
    built = Parser(prog="optsched", description=DESCRIPTION, epilog=EPILOG)
    built.add_argument("--version", action="version", version=f"optsched {optsched.__version__}")
    commands = built.add_subparsers(metavar="COMMAND", dest="command", required=True, parser_class=Parser)
    files = (plan, explain, replay, simulate, whatif, report, trace, bench, topology, profile, checkpoint_interval)
    service = (serve, agent, demo)
    callers = (submit, jobs, logs, attach, watch, nodes, teams, reserve, rounds)
    for group in (*files, *service, *callers):
        group.add(commands)
    return built


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = parser().parse_args(argv)
        return _command(args)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else DONE
    except InputError as error:
        for fault in error.faults:
            tell(str(fault))
        return BAD_INPUT
    except (UsageError, NotKnown) as error:
        tell(f"optsched: {error}")
        return BAD_INPUT
    except (Refusal, Conflict, NoAnswer) as error:
        tell(f"optsched: {error}")
        return FAILED
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        return _fail(error)


def _command(args: argparse.Namespace) -> int:
    code = args.run(args)
    assert isinstance(code, int), "a command returns its exit code"
    return code


def _fail(error: Exception) -> int:
    """Say in one line what went wrong; an error of the machine is no bug of ours."""
    if os.environ.get("OPTSCHED_DEBUG") == "1":
        traceback.print_exception(error)
    what = clean(str(error)) or "no details"
    if isinstance(error, OSError | StoreError):
        tell(f"optsched: failed: {what}")
    elif isinstance(error, MemoryError):
        tell("optsched: failed: out of memory")
    else:
        what = what if len(what) <= 300 else what[:297] + "..."
        tell(
            f"optsched: internal error: {type(error).__name__}: {what}; this is a bug, please report it together with "
            "the input (OPTSCHED_DEBUG=1 shows where)"
        )
    return FAILED


def _drop_output() -> None:
    """Send what is still buffered nowhere, so that the end of the process does not complain either."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
