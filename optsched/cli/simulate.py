"""optsched simulate: a trace through the scheduler on a simulated cluster, under one or more policies."""

from __future__ import annotations

import argparse
import math
import re
import sys
import textwrap
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from optsched.cli.options import add_format, seconds, seed
from optsched.cli.output import check_outputs, write_output
from optsched.cli.terminal import Progress, Style, say, shows_colour, warn, width
from optsched.cli.words import clean, duration
from optsched.clock import Clock, WallClock
from optsched.errors import UsageError

if TYPE_CHECKING:
    from optsched.sim.many import Report
    from optsched.sim.results import Result
    from optsched.sim.settings import SimSettings
    from optsched.sim.simulate import Task
    from optsched.sim.workload import Workload
    from optsched.values.cluster import Cluster
    from optsched.values.profile import Profile

GANG = 256
"""GPUs from which on a gang is followed, on a cluster that has at least five times as many."""

DEFAULT_CLUSTER = "h100-10k"
EXAMPLE_CLUSTER = "philly-160"
"""The cluster that fits the trace that comes with optsched."""

QUICK = "greedy"
"""What decides where no policy is named: the busy day takes seconds under it, and minutes with a search every round."""

DESCRIPTION = """\
Simulate a trace of jobs on a cluster. The scheduler itself decides; simulated
agents start, drain and lose what they are told, gangs train as fast as their
span lets them, and parts of the cluster fail at published rates. Prints what
came of it for every policy: utilisation, goodput, waits, preemptions, shares.
The same trace, cluster and seed give the same figures, but for real time."""

EPILOG = """\
policies:
{policies}
failures:
{failures}
examples:
  optsched simulate --policy greedy,easy-backfill --jobs 2
  optsched simulate --policy optsched --deterministic 0.2
  optsched simulate philly.csv.gz --cluster h100-10k --load 0.9
  optsched simulate philly.csv.gz --until 7d --save week.sim
  optsched simulate philly.csv.gz --resume week.sim --format json > result.json"""

DAY_S = 86_400.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    from optsched.sim.failures import FAILURES
    from optsched.sim.policies.names import ABOUT

    parser = commands.add_parser(
        "simulate",
        help="run a trace through the scheduler, under one or more policies",
        description=DESCRIPTION,
        epilog=EPILOG.format(
            policies="".join(_entry(name, about) for name, about in ABOUT.items()),
            failures="".join(_entry(each.name, each.source) for each in FAILURES.values()),
        ),
    )
    parser.add_argument(
        "files",
        metavar="TRACE",
        nargs="*",
        help="files of one trace, in any format of optsched trace (default: the busy day that comes with optsched)",
    )
    parser.add_argument("--from-format", metavar="FORMAT", help="read it as this (see optsched trace --help)")
    parser.add_argument(
        "--cluster", metavar="NAME|PATH", help=f"default: {DEFAULT_CLUSTER}; {EXAMPLE_CLUSTER} for the busy day"
    )
    parser.add_argument(
        "--load", metavar="LOAD", type=factor, help="divide submit times so that the cluster is offered this load"
    )
    group = parser.add_argument_group("who decides")
    group.add_argument(
        "--policy",
        metavar="NAME,...",
        default=QUICK,
        help=f"one or more, side by side (default: {QUICK}, the quickest of optsched's own)",
    )
    group.add_argument(
        "--profile",
        metavar="NAME|PATH",
        action="append",
        help="every policy goes by it (default: default); of several the first one's speeds are the real ones",
    )
    group.add_argument(
        "--deterministic",
        metavar="S",
        type=seconds,
        default=0.5,
        help="counted seconds of search a round, for policies that search (default 0.5)",
    )
    group.add_argument(
        "--round-every", metavar="S", type=_period, default=60.0, help="seconds between rounds (default 60; 0: always)"
    )
    group = parser.add_argument_group("what happens")
    group.add_argument("--failures", metavar="NAME", default="llama3", help="which rates (default: llama3)")
    group.add_argument("--seed", metavar="N", type=seed, default=0, help="of all that is drawn (default 0)")
    group.add_argument("--until", metavar="T", type=span, help="end then: 3600, 12h, 7d (default: when all is done)")
    group.add_argument("--checked", action="store_true", help="hold the books against the state at every instant")
    group = parser.add_argument_group("how it runs, what is written")
    group.add_argument("--jobs", metavar="N", type=whole, default=1, help="processes, for several policies")
    group.add_argument("--save", metavar="PATH", help="with --until: save where it stands, to be resumed")
    group.add_argument("--resume", metavar="PATH", help="go on from there; trace and options as they were")
    group.add_argument("--sample", metavar="T", type=_sample, default=3600.0, help="between samples (default 1h)")
    group.add_argument(
        "--map-at",
        metavar="T",
        type=span,
        action="append",
        default=[],
        help="keep a map of the nodes (default with --html: when a quarter, a half, three quarters of all have come)",
    )
    group.add_argument(
        "--gantt",
        metavar="GPUS",
        type=whole,
        help=f"gangs to follow (default: a fifth of all GPUs, at most {GANG})",
    )
    parser.add_argument("--html", metavar="PATH", help="write an HTML page with plots there as well")
    add_format(parser)
    parser.set_defaults(run=run)


def _entry(name: str, about: str) -> str:
    """Return a name and what it stands for, as lines of the help."""
    return textwrap.fill(about, 79, initial_indent=f"  {name:<20} ", subsequent_indent=" " * 23) + "\n"


def factor(text: str) -> float:
    """Return a factor from 0.001 to 1,000."""
    value = float(text) if re.fullmatch(r"[0-9]*\.?[0-9]+", text) else math.nan
    if not 0.001 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: a number from 0.001 to 1,000")
    return value


def _period(text: str) -> float:
    """Return the seconds between rounds, 0 to a day."""
    if text == "0":
        return 0.0
    try:
        return seconds(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: 0, or up to 86,400 seconds") from None


def _sample(text: str) -> float:
    """Return the seconds between samples, a minute at least: all that there are go into the result."""
    value = span(text)
    if value < 60:
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: 60 seconds or more")
    return value


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY_S}


def span(text: str) -> float:
    """Return a duration in seconds, given as 3600, 30m, 12h or 7d."""
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)([smhd]?)", text)
    value = float(found[1]) * _UNITS[found[2]] if found else math.nan
    if not 0 < value <= 10_000 * DAY_S:
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: seconds, or 30m, 12h, 7d, up to 10000d")
    return value


def whole(text: str) -> int:
    """Return a whole number from 1 on."""
    value = int(text) if re.fullmatch(r"[0-9]{1,6}", text) else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: a whole number from 1 to 999,999")
    return value


def run(args: argparse.Namespace) -> int:
    """Simulate and print."""
    from optsched.cli.render_simulate import comparison_to_text
    from optsched.sim.many import simulate_all
    from optsched.sim.results import Comparison, to_json
    from optsched.sim.simulate import collect_seldom

    check_outputs({"--html": args.html, "--save": args.save})
    tasks = _tasks(args)
    collect_seldom()
    clock = WallClock()
    with Progress(clock) as progress:
        report = with_end(progress, clock)
        if args.save or args.resume:
            results = [_in_parts(args, tasks[0], clock, report)]
        else:
            results = simulate_all(tasks, args.jobs, clock, report)
    found = Comparison(tuple(results))
    if args.format == "json":
        say(to_json(found))
    else:
        say(comparison_to_text(found, width(), Style(shows_colour(sys.stdout))))
    if args.html is not None:
        from optsched.cli.html.page import comparison_to_html
        from optsched.cli.report import write_page

        write_page(comparison_to_html(found), args.html, "--html")
    return 0


def _tasks(args: argparse.Namespace) -> list[Task]:
    """Return what is to be simulated: every policy by every profile. Raises UsageError for names that nobody knows."""
    from optsched.files import load_cluster, load_profile
    from optsched.files.report import known
    from optsched.sim.kernel import Setup
    from optsched.sim.policies.registry import POLICIES
    from optsched.sim.simulate import Task

    names = list(dict.fromkeys(name for name in args.policy.split(",") if name))
    for name in names or [""]:
        if name not in POLICIES:
            raise UsageError(f"--policy: given {clean(name)!r}; allowed: {known(list(POLICIES), name, 'one of')}")
    cluster = load_cluster(args.cluster or (DEFAULT_CLUSTER if args.files else EXAMPLE_CLUSTER))
    gpus = sum(node.gpus for node in cluster.nodes)
    if not gpus:
        raise UsageError(f"--cluster: {clean(cluster.name)} has no GPU; allowed: one that has")
    settings = _settings(args, gpus)
    tasks = []
    profiles = [load_profile(source) for source in args.profile or ["default"]]
    for profile in profiles:
        workload = workload_of(args, cluster, profile)
        if args.html is not None and not args.map_at:
            quarters = (workload.arrivals[len(workload.arrivals) * part // 4].at for part in (1, 2, 3))
            settings = replace(settings, maps_at=tuple(dict.fromkeys(at for at in quarters if at > 0)))
        setup = Setup(cluster, workload, profile, profiles[0], settings)
        tasks += [Task(setup, name, profile.name, args.deterministic) for name in names]
    if (args.save or args.resume) and len(tasks) > 1:
        raise UsageError("--save and --resume: given several simulations; allowed: one policy, one profile")
    if args.save and not args.until:
        raise UsageError("--save: given without --until; allowed: with --until, where it is saved")
    return tasks


def _settings(args: argparse.Namespace, gpus: int) -> SimSettings:
    from optsched.files.report import known
    from optsched.sim.failures import FAILURES
    from optsched.sim.settings import SimSettings

    if args.failures not in FAILURES:
        allowed = known(list(FAILURES), args.failures, "one of")
        raise UsageError(f"--failures: given {clean(args.failures)!r}; allowed: {allowed}")
    return SimSettings(
        seed=args.seed,
        round_every_s=args.round_every,
        until_s=None if args.save else args.until,
        sample_every_s=args.sample,
        maps_at=tuple(args.map_at),
        gantt_gpus=args.gantt or max(1, min(GANG, gpus // 5)),
        failures=FAILURES[args.failures],
        checked=args.checked,
    )


def workload_of(args: argparse.Namespace, cluster: Cluster, profile: Profile) -> Workload:
    """Return the workload of a trace, filled in; what was left out of it is said."""
    from optsched.cli.inputs import example_trace
    from optsched.files.traces import check_format, load_trace
    from optsched.sim.traces.fill import Filling, fill

    form = None if args.from_format is None else check_format(args.from_format)
    with ExitStack() as stack:
        trace, _ = load_trace(args.files or [stack.enter_context(example_trace())], form)
    gpus = sum(node.healthy_gpus for node in cluster.nodes)
    filled = fill(trace, cluster, Filling(seed=args.seed), profile)
    for reason, number in filled.left_out.items():
        warn(f"left out: {number:,} {reason}")
    workload = filled.workload
    if not workload.arrivals:
        raise UsageError("TRACE: no job of it can run on this cluster; allowed: a --cluster with room for one")
    return workload if args.load is None else _at_load(workload, args.load, gpus)


def _at_load(workload: Workload, load: float, gpus: int) -> Workload:
    """Return a workload with its submit times divided so that it offers a load from its first job to its last."""
    work = math.fsum(each.work_s * each.job.gpus for each in workload.arrivals)
    length_s = max((each.at for each in workload.arrivals), default=0.0)
    if not work or not length_s:
        raise UsageError("--load: the jobs all come at one moment; allowed: a trace whose jobs come one by one")
    faster = load * gpus * length_s / work
    return replace(workload, arrivals=tuple(replace(each, at=each.at / faster) for each in workload.arrivals))


def _in_parts(args: argparse.Namespace, task: Task, clock: Clock, report: Report) -> Result:
    """Simulate one task from where it was saved, or up to where it is to be saved."""
    from optsched.sim.saving import load, save
    from optsched.sim.simulate import begin, finish

    began = clock.monotonic_s()
    simulation = begin(task, clock)
    who = f"{task.policy}, {task.deterministic_s:g}"
    if args.resume:
        load(simulation, args.resume, who)
        if args.until and args.until * 1000 < simulation.now:
            soonest = f"{simulation.now / 1000:g} s, where {clean(args.resume)} was saved"
            raise UsageError(f"--until: given {args.until:g} s; allowed: {soonest}, or later")
    ended = simulation.run(report, args.until if args.save else None)
    if args.save:
        write_output(args.save, save(simulation, who), "--save")
        if ended:
            warn("it ended before it was to be saved")
        else:
            # It stands at the last instant at which something happened; the figures are up to the one asked for.
            simulation.pass_time(args.until)
    return finish(simulation, task, clock.monotonic_s() - began)


def with_end(progress: Progress, clock: Clock) -> Report:
    """Return a report that tells how much longer it will take, once that can be said."""
    began = clock.monotonic_s()

    def report(stage: str, fraction: float) -> None:
        elapsed = clock.monotonic_s() - began
        left = elapsed / fraction * (1 - fraction) if fraction > 0.005 else None
        progress.report(stage if left is None else f"{stage}; about {duration(round(left))} left", fraction)

    return report
