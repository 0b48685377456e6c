"""optsched trace scale: what is done to a trace, and how far it may go, so that what is written is read again."""

from __future__ import annotations

import argparse
import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING

from optsched.cli.options import seed
from optsched.cli.output import check_output
from optsched.cli.trace_files import (
    add_input,
    add_output,
    duration,
    factor,
    read_trace,
    share,
    sources_of,
    whole,
    write_trace,
)
from optsched.cli.words import clean
from optsched.errors import UsageError

if TYPE_CHECKING:
    from optsched.values.trace import Trace


def add_scale(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "cut a slice, thin it out, make it denser"
    parser = actions.add_parser(
        "scale",
        help=text,
        description="Cut a slice of a trace, thin it out, make it denser; what is asked for is done in this order.",
    )
    add_input(parser)
    group = parser.add_argument_group("what is done, in this order")
    group.add_argument(
        "--from", dest="from_s", metavar="T", type=duration, help="jobs submitted from then on: 3600, 2d, 12h"
    )
    group.add_argument("--to", dest="to_s", metavar="T", type=duration, help="jobs submitted before then")
    group.add_argument("--max-gpus", metavar="N", type=whole, help="jobs of at most N GPUs")
    group.add_argument("--grow", metavar="N", type=whole, help="every job asks for N times as many GPUs")
    group.add_argument("--sample", metavar="SHARE", type=share, help="each job with this chance, 0 to 1")
    group.add_argument("--seed", metavar="N", type=seed, help="of the sample (default 0)")
    times = group.add_mutually_exclusive_group()
    times.add_argument("--shrink", metavar="FACTOR", type=factor, help="divide submit times by this")
    times.add_argument("--load", metavar="LOAD", type=factor, help="divide them so that --gpus N are offered this load")
    group.add_argument("--gpus", metavar="N", type=whole, help="GPUs of the cluster that the load is meant for")
    group.add_argument(
        "--evenly", action="store_true", help="with --load: space the jobs anew, so that there are no quiet weeks"
    )
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Scale a trace and write it."""
    check_output(args.out, "--out")
    from optsched.sim.traces import scale

    _check(args)
    trace = read_trace(args, sources_of(args), quiet=True)
    start_s = args.from_s if args.from_s is not None else 0.0
    if args.from_s is not None or args.to_s is not None:
        trace = scale.cut(trace, start_s, args.to_s if args.to_s is not None else math.inf)
    if args.max_gpus is not None:
        trace = scale.up_to(trace, args.max_gpus)
    if args.grow is not None:
        _check_growth(trace, args.grow)
        trace = scale.grow(trace, args.grow)
    if args.sample is not None:
        trace = scale.sample(trace, args.sample, args.seed or 0)
    if not trace.jobs:
        raise UsageError("no job is left; allowed: a wider slice, a larger --max-gpus or --sample")
    if args.shrink is not None:
        _check_times("--shrink", args.shrink, trace.jobs[-1].submit_s)
        trace = scale.shrink(trace, args.shrink)
    if args.load is not None:
        trace = _loaded(trace, args)
    write_trace(trace, args)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together, or would do nothing."""
    if args.load is not None and args.gpus is None:
        raise UsageError("--gpus: missing; allowed: with --load, the GPUs of the cluster that the load is meant for")
    if args.gpus is not None and args.load is None:
        raise UsageError("--gpus: given without --load; allowed: together with --load (and --max-gpus for small jobs)")
    if args.evenly and args.load is None:
        raise UsageError("--evenly: given without --load; allowed: together with --load and --gpus")
    if args.seed is not None and args.sample is None:
        raise UsageError("--seed: given without --sample; allowed: together with --sample")
    if args.from_s is not None and args.to_s is not None and args.from_s >= args.to_s:
        raise UsageError(f"--to: given {args.to_s:g} s; allowed: more than the {args.from_s:g} s of --from")


def _loaded(trace: Trace, args: argparse.Namespace) -> Trace:
    """Return a trace that offers the load of the arguments."""
    from optsched.sim.traces import scale

    made = scale.evenly if args.evenly else scale.to_load
    # Submit times are in inverse proportion to the load.
    at_one = made(trace, 1.0, args.gpus)
    if at_one is not None:
        _check_times("--load", args.load, at_one.jobs[-1].submit_s)
        scaled = made(trace, args.load, args.gpus)
        if scaled is not None:
            return scaled
    raise UsageError("--load: the trace tells no durations, or all jobs come at once; allowed: --shrink")


def _check_growth(trace: Trace, times: int) -> None:
    """Raise UsageError where a job of so many times its size would not be read again."""
    from optsched.files.traces.normal import MOST, numbers
    from optsched.sim.traces.scale import GROWN

    found = [
        (int(min(MOST[column] // value, 1e9)), column, value, job.id)
        for job in trace.jobs
        for column, value in numbers(job).items()
        if column in GROWN and value
    ]
    most, column, value, job_id = min(found, default=(times, "", 0.0, ""))
    if times > most:
        beyond = f"beyond the {MOST[column]:,.10g} of a trace's {column}"
        raise UsageError(
            f"--grow: {times:,} times the {value:,.10g} of job {clean(job_id)} is {beyond}; "
            f"allowed: at most {most:,} for this trace"
        )


def _check_times(option: str, given: float, at_one_s: float) -> None:
    """Raise UsageError where an option moves the last job so far that the trace would not be read again.

    `at_one_s` is when that job would come if 1 were given; it comes later in inverse proportion.
    """
    from optsched.files.traces.normal import MOST

    latest_s = MOST["submit_s"] * (1 - 1e-9)  # what is lost in rounding stays within
    if at_one_s / given > latest_s:
        least = Context(prec=3, rounding=ROUND_CEILING).plus(Decimal(at_one_s / latest_s))
        raise UsageError(
            f"{option}: {given:g} moves the last job beyond the {MOST['submit_s']:,.10g} s of a trace's submit_s; "
            f"allowed: at least {float(least):g} for this trace"
        )
