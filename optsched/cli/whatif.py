"""optsched whatif: when would a job start, who would pay for it, and what would change if other things did."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, TypeVar

from optsched.cli.options import Once, add_format, seconds, seed
from optsched.cli.simulate import factor, span, whole, with_end
from optsched.cli.terminal import Progress, Style, say, shows_colour, warn, width
from optsched.cli.words import clean
from optsched.clock import WallClock
from optsched.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from optsched.clock import Clock
    from optsched.values.snapshot import Snapshot
    from optsched.whatif.ask import Asking
    from optsched.whatif.executors import Executor, Report

    T = TypeVar("T")

DESCRIPTION = """\
Ask what would be: when a job would start, where, who would be stopped for it and
what that costs each team; with nodes added, removed or drained, with other
quotas, weights, profiles or failure rates. Answers with the next round, as a dry
run, and with a band of starts: 8 of 10 simulated futures lie in it. Changes
nothing: not the snapshot, and of a service it only reads."""

EPILOG = """\
examples:
  optsched whatif busy.yaml --ask pretrain-7
  optsched whatif busy.yaml --gpus 512 --team vision --priority P1 --runtime 12h
  optsched whatif busy.yaml --job new.yaml --add-like b0/r1 --remove b1/r3
  optsched whatif busy.yaml --ask pretrain-7 --drain b0@2h-6h --failures x2
  optsched whatif busy.yaml --questions plans.yaml --jobs 8 --format json
  optsched whatif --service http://127.0.0.1:7441 --gpus 64 --team vision
  optsched whatif --trace philly.csv.gz --at 3d --gpus 64 --team vision"""


CLUSTER = "h100-10k"
"""The cluster of a trace where none is named."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "whatif",
        help="when would a job start, and what if nodes, quotas or rates were others",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    _add_sources(parser)
    _add_questions(parser)
    _add_changes(parser)
    _add_futures(parser)
    group = parser.add_argument_group("how it runs, what is written")
    group.add_argument("--jobs", metavar="N", type=whole, default=1, help="processes (default 1)")
    group.add_argument("--executor", choices=("processes", "ray"), default="processes", help="who does the work")
    group.add_argument(
        "--ray-address", metavar="ADDRESS", help="of a Ray cluster that runs (default: RAY_ADDRESS, else one here)"
    )
    group.add_argument("--all", action="store_true", help="shorten no list (text)")
    add_format(parser)
    parser.set_defaults(run=run)


def _add_sources(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is asked about")
    group.add_argument(
        "snapshot",
        metavar="SNAPSHOT",
        nargs="?",
        help="a snapshot file; - for standard input; without it, the shipped example",
    )
    group.add_argument(
        "--service", metavar="URL", help="a service that runs: http(s)://HOST:PORT, or grpc(s)://HOST:PORT"
    )
    group.add_argument("--token-file", metavar="FILE", help="with a token of the service that may read")
    group.add_argument("--ca", metavar="FILE", help="certificates to trust, PEM")
    group.add_argument(
        "--trace", metavar="FILE", nargs="+", dest="files", help="files of a trace, simulated up to --at"
    )
    group.add_argument("--at", metavar="T", type=span, help="the position in the trace: 3600, 12h, 3d")
    group.add_argument("--cluster", metavar="NAME|PATH", help=f"of the trace (default: {CLUSTER})")
    group.add_argument("--from-format", metavar="FORMAT", help="of the trace (see optsched trace --help)")
    group.add_argument("--load", metavar="LOAD", type=factor, help="of the trace: submit times divided to offer it")


def _add_questions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("questions")
    group.add_argument("--ask", metavar="JOB", action="append", default=[], help="a job that waits; may be repeated")
    group.add_argument("--job", metavar="FILE", action=Once, help="a job to submit: the keys of one job of a snapshot")
    group.add_argument("--gpus", metavar="N", type=whole, action=Once, help="a job of so many GPUs to submit")
    group.add_argument("--team", metavar="TEAM", action=Once, help="of that job")
    group.add_argument("--priority", metavar="P", action=Once, help="of that job: a class or a whole number")
    group.add_argument("--runtime", metavar="T", type=span, action=Once, help="of that job, as its user would state it")
    group.add_argument("--within", metavar="LEVEL", action=Once, help="of that job: in one domain of this level")
    group.add_argument(
        "--questions", metavar="FILE", action=Once, help="named scenarios, with jobs to ask about (see docs/whatif.md)"
    )


def _add_changes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("changes, all in one scenario")
    group.add_argument(
        "--add-nodes",
        metavar="N[@DOMAIN]",
        action="append",
        default=[],
        help="so many more nodes, there or in a domain of their own",
    )
    group.add_argument(
        "--add-like", metavar="DOMAIN", action="append", default=[], help="a further domain like this one"
    )
    group.add_argument("--remove", metavar="NAME", action="append", default=[], help="a node or domain is gone")
    group.add_argument(
        "--drain",
        metavar="NAME[@FROM-TO]",
        action="append",
        default=[],
        help="a node or domain is emptied, for good or a window from now",
    )
    group.add_argument("--set-quota", metavar="TEAM=GPUS", action="append", default=[], help="a team's quota")
    group.add_argument("--set-weight", metavar="TEAM=W", action="append", default=[], help="a team's weight")
    group.add_argument("--profile", metavar="NAME|PATH", action=Once, help="another profile")
    group.add_argument(
        "--failures", metavar="[RATES]xN", action=Once, help="failures N times as often, by these rates or --rates"
    )


def _add_futures(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("futures")
    group.add_argument(
        "--futures", metavar="N", type=_futures, default=20, help="of each scenario (default 20; 0: none)"
    )
    group.add_argument("--horizon", metavar="T", type=span, default=86_400.0, help="how far they go (default 24h)")
    group.add_argument(
        "--run-times",
        metavar="MODEL",
        default="published",
        help="published (default), stated, or spread=S: docs/whatif.md",
    )
    group.add_argument(
        "--arrivals", choices=("steady", "none"), default="steady", help="steady: as many jobs come as run (default)"
    )
    group.add_argument(
        "--rates", metavar="NAME", default="llama3", help="of failures, in every scenario (default llama3)"
    )
    group.add_argument("--policy", metavar="NAME", default="greedy", help="who decides in the futures (default greedy)")
    group.add_argument(
        "--round-every", metavar="S", type=seconds, default=60.0, help="seconds between their rounds (default 60)"
    )
    group.add_argument(
        "--deterministic",
        metavar="S",
        type=seconds,
        default=1.0,
        help="counted seconds of search in a round (default 1)",
    )
    group.add_argument("--seed", metavar="N", type=seed, default=0, help="of the first future (default 0)")


def _futures(text: str) -> int:
    return 0 if text == "0" else whole(text)


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    from optsched.cli.render_whatif import answer_to_text
    from optsched.cli.whatif_asked import questions_of
    from optsched.whatif.answers import to_json
    from optsched.whatif.ask import answer

    clock = WallClock()
    executor = _executor(args, clock)
    asking = _asking(args)
    with Progress(clock) as progress:
        report = with_end(progress, clock)
        snapshot = _snapshot(args, clock, report)
    questions = questions_of(args, snapshot)
    with Progress(clock) as progress:
        found = answer(snapshot, questions, asking, executor, with_end(progress, clock))
    if args.format == "json":
        say(to_json(found))
    else:
        say(answer_to_text(found, width(), Style(shows_colour(sys.stdout)), everything=args.all))
    return 0


def _executor(args: argparse.Namespace, clock: Clock) -> Executor:
    from optsched.whatif.executors import Here, Processes, Ray

    if args.executor == "ray":
        return Ray(args.ray_address)
    if args.ray_address is not None:
        raise UsageError("--ray-address: given without --executor ray; allowed: with it")
    return Processes(args.jobs) if args.jobs > 1 else Here(clock)


def _asking(args: argparse.Namespace) -> Asking:
    from optsched.files.report import known
    from optsched.planner.plan import PlanOptions
    from optsched.sim.policies.own import ENDLESS_S
    from optsched.sim.policies.registry import POLICIES
    from optsched.whatif.ask import Asking
    from optsched.whatif.changes import FailureRates
    from optsched.whatif.futures import FutureRules
    from optsched.whatif.runtimes import run_times

    if args.policy not in POLICIES:
        allowed = known(list(POLICIES), args.policy, "one of")
        raise UsageError(f"--policy: given {clean(args.policy)!r}; allowed: {allowed}")
    rates = FailureRates(args.rates)
    _named("--rates", rates.rates)
    rules = FutureRules(
        horizon_s=args.horizon,
        run_times=_named("--run-times", lambda: run_times(args.run_times)),
        arrivals=args.arrivals == "steady",
        failures=rates,
        round_every_s=args.round_every,
        policy=args.policy,
        deterministic_s=args.deterministic,
    )
    options = PlanOptions(budget_s=ENDLESS_S, seed=args.seed, deterministic_s=args.deterministic, prove=0)
    return Asking(rules, args.futures, args.seed, options)


def _named(flag: str, make: Callable[[], T]) -> T:
    """Return what is made; what is wrong with it is wrong with the flag."""
    try:
        return make()
    except UsageError as error:
        raise UsageError(f"{flag}: {error}") from error


def _snapshot(args: argparse.Namespace, clock: Clock, report: Report) -> Snapshot:
    """Return what is asked about. Raises UsageError where that is nothing, or several things."""
    given = [
        name
        for name, value in (("SNAPSHOT", args.snapshot), ("--service", args.service), ("--trace", args.files))
        if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"given {' and '.join(given)}; allowed: one of SNAPSHOT, --service, --trace")
    _belong("--service", args.service, {"--token-file": args.token_file, "--ca": args.ca})
    of_trace = {"--at": args.at, "--cluster": args.cluster, "--from-format": args.from_format, "--load": args.load}
    _belong("--trace", args.files, of_trace)
    if args.service is not None:
        return _of_service(args)
    if args.files is not None:
        return _of_trace(args, clock, report)
    from optsched.cli.inputs import read_snapshot

    return read_snapshot(args.snapshot, None).snapshot


def _belong(to: str, source: object, options: dict[str, object]) -> None:
    """Raise UsageError for an option of one source where another is asked about."""
    for flag, value in options.items():
        if value is not None and source is None:
            raise UsageError(f"{flag}: given without {to}; allowed: together with {to}")


def _of_service(args: argparse.Namespace) -> Snapshot:
    from pathlib import Path

    from optsched.whatif.service import Access, read_service
    from optsched.wire.access import token_in

    for flag, path in (("--token-file", args.token_file), ("--ca", args.ca)):
        if path is not None and not Path(path).is_file():
            raise UsageError(f"{flag}: there is no file {clean(path)!r}; allowed: the path of a file")
    token = None if args.token_file is None else token_in(args.token_file, "--token-file")
    snapshot, warnings = read_service(args.service, Access(token, args.ca))
    for text in warnings:
        warn(text)
    return snapshot


def _of_trace(args: argparse.Namespace, clock: Clock, report: Report) -> Snapshot:
    from optsched.cli.simulate import workload_of
    from optsched.files import load_cluster, load_profile
    from optsched.sim.failures import FAILURES
    from optsched.sim.kernel import Setup
    from optsched.sim.settings import SimSettings
    from optsched.sim.simulate import Task, begin
    from optsched.whatif.position import position_of

    if args.at is None:
        raise UsageError("--trace: given without --at; allowed: with --at, the position to ask about")
    cluster, profile = load_cluster(args.cluster or CLUSTER), load_profile("default")
    settings = SimSettings(seed=args.seed, round_every_s=args.round_every, failures=FAILURES[args.rates])
    setup = Setup(cluster, workload_of(args, cluster, profile), profile, profile, settings)
    simulation = begin(Task(setup, args.policy, profile.name, args.deterministic), clock)
    simulation.run(lambda stage, fraction: report(stage, simulation.now / 1000 / args.at), args.at)
    return position_of(simulation.state, args.at)
