"""Plan rounds, each in a fresh process, and print how good and how fast the plans were, and what they gain over greedy.

    python benchmarks/measure_rounds.py [--runs 5] [--budget S] [--solver auto] [--profile NAME] [--json FILE] ROUND...

A ROUND is the file of a snapshot, or KIND:SEED of a generated round (h100-10k:7; see benchmarks/README.md).

Timed from the loaded snapshot to the returned plan, with topology, greedy, search, check and explanation inside;
imports and loading the file are outside and reported on their own. Memory is the peak resident size of the process.
After that the same process plans the same snapshot by greedy alone, and the second table says what the plan gains. Of
several runs the table shows the one with the least gain.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

Run = dict[str, Any]


def measure_once(path: str, budget: float | None, solver: str, profile: str | None) -> Run:
    """Plan one file in this process and return what was seen."""
    started = time.perf_counter()
    from optsched.cli.inputs import read_snapshot
    from optsched.clock import WallClock
    from optsched.planner.plan import PlanOptions, plan_round
    from optsched.solve.greedy import greedy  # noqa: F401  (imported here so that its cost is counted as an import)
    from optsched.solve.ladder import SolverChoice

    imported = time.perf_counter()
    snapshot = read_snapshot(path, profile).snapshot
    loaded = time.perf_counter()
    plan = plan_round(snapshot, PlanOptions(budget_s=budget, solver=SolverChoice(solver)), WallClock())
    done = time.perf_counter()
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    from benchmarks.gains import by_rank, gains, guaranteed_proven

    classes = snapshot.profile.classes
    base = plan_round(snapshot, PlanOptions(budget_s=budget, solver=SolverChoice.GREEDY), WallClock())
    before, after = by_rank(base, classes), by_rank(plan, classes)
    ranks = [
        {
            "key": key,
            "tier": (after.get(key) or before[key]).tier.value,
            "priority": (after.get(key) or before[key]).priority,
            "above_minimum": key[0],
            "gpus": after[key].gpus if key in after else 0,
            "gpus_greedy": before[key].gpus if key in before else 0,
            "gpus_bound": after[key].gpus_bound if key in after else None,
        }
        for key in sorted(before | after)
    ]
    return {
        "import_s": imported - started,
        "load_s": loaded - imported,
        "plan_s": done - loaded,
        "rss_mib": rss_mib,
        "source": plan.round.source.value,
        "status": plan.round.status.value,
        "why": plan.round.why,
        "gap": plan.round.gap,
        "gap_gpus": plan.round.gap_gpus,
        "starts": len(plan.starts),
        "stops": len(plan.preemptions),
        "moves": len(plan.migrations) + len(plan.resizes),
        "gpus": sum(rank.gpus for rank in plan.round.ranks),
        "bill": dataclasses.asdict(plan.bill),
        "ranks": ranks,
        "guaranteed_proven": guaranteed_proven(plan),
        "gains": dataclasses.asdict(gains(base, plan, classes)),
    }


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, without the usage."""
        print(f"measure_rounds: {message}", file=sys.stderr)
        raise SystemExit(2)


def arguments_parser() -> _Parser:
    """Return what reads the command line."""
    parser = _Parser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rounds", nargs="+", metavar="ROUND", help="a snapshot's file, or KIND:SEED")
    parser.add_argument("--runs", type=int, default=5, help="fresh processes for each round")
    parser.add_argument("--budget", type=float, help="seconds for a round; else the profile's")
    parser.add_argument("--solver", default="auto", choices=["auto", "coarse", "exact", "greedy"])
    parser.add_argument("--profile", help="a profile in place of the snapshot's own")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen to this file too")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Measure every round and print two tables."""
    parser = arguments_parser()
    args = parser.parse_args(arguments)
    if args.once:
        _once(args)
        return
    if args.runs < 1:
        parser.error(f"--runs: given {args.runs}; allowed: a whole number from 1 on")
    kinds = [_generated(given, parser) for given in args.rounds]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    print(f"{machine}; {args.runs} runs each")
    print("| round | plan s, median (worst) | load s | MiB | source | GPUs run | gap GPUs (worst) | gap (worst) |")
    print("|---|---|---|---|---|---|---|---|")
    seen: dict[str, list[Run]] = {}
    for given, kind in zip(args.rounds, kinds, strict=True):
        seen[given] = _measured(given, kind, args)
        print(_row(given, seen[given]), flush=True)
    print("\nWhat the plan gains over greedy (GPU·s: less is better)\n")
    print(
        "| round | first rank that differs | GPUs in all | placement loss | lost work | moving | bill | victims "
        "| moves | guaranteed ranks proven |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for given, runs in seen.items():
        print(_gains_row(given, runs))
    if args.json is not None:
        whole = {"machine": machine, "rounds": [{"round": given, "runs": runs} for given, runs in seen.items()]}
        args.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def _once(args: argparse.Namespace) -> None:
    """Measure in this process and print what was seen as JSON; a bad file or profile is told and ends with 2."""
    from optsched.errors import InputError, UsageError

    try:
        print(json.dumps(measure_once(args.rounds[0], args.budget, args.solver, args.profile)))
    except (InputError, UsageError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


def _generated(given: str, parser: _Parser) -> tuple[str, int] | None:
    """Return the kind and seed that an argument means, None for a file; exits on anything else."""
    if Path(given).is_file():
        return None
    from benchmarks.rounds import KINDS

    named = re.fullmatch(r"([^:/]+):([0-9]+)", given)
    if named is None:
        parser.error(f"ROUND: {given!r} is no file; allowed: the file of a snapshot, or KIND:SEED such as h100-10k:7")
    if named[1] not in KINDS:
        parser.error(f"ROUND: {given!r} names no kind; allowed: {', '.join(KINDS)}, then :SEED")
    return named[1], int(named[2])


def _measured(given: str, kind: tuple[str, int] | None, args: argparse.Namespace) -> list[Run]:
    if kind is None:
        return _runs(given, args)
    from benchmarks.rounds import encode, generate

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{kind[0]}-{kind[1]}.json"
        file.write_bytes(encode(generate(*kind)))
        return _runs(str(file), args)


def _runs(file: str, args: argparse.Namespace) -> list[Run]:
    command = [sys.executable, __file__, "--once", "--solver", args.solver, file]
    command += [] if args.budget is None else ["--budget", str(args.budget)]
    command += [] if args.profile is None else ["--profile", args.profile]
    found = []
    for _ in range(args.runs):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr, end="", file=sys.stderr)
            raise SystemExit(done.returncode)
        found.append(json.loads(done.stdout))
    return found


def _name(given: str) -> str:
    return Path(given).name.removesuffix(".gz").removesuffix(".json")


def _row(given: str, runs: list[Run]) -> str:
    times = [run["plan_s"] for run in runs]
    gaps = [run["gap"] for run in runs]
    gpus = [run["gap_gpus"] for run in runs]
    worst_gap = "not known" if None in gaps else f"{max(gaps):.3%}"
    worst_gpus = "not known" if None in gpus else str(max(gpus))
    sources = "/".join(sorted({f"{run['source']} {run['status']}" for run in runs}))
    return (
        f"| {_name(given)} | {statistics.median(times):.2f} ({max(times):.2f}) "
        f"| {statistics.median(r['load_s'] for r in runs):.2f} "
        f"| {max(r['rss_mib'] for r in runs):.0f} | {sources} | {runs[0]['gpus']} | {worst_gpus} | {worst_gap} |"
    )


def _gains_row(given: str, runs: list[Run]) -> str:
    gain = least_gain(runs)["gains"]
    first = f"{gain['rank']}: {gain['rank_gpus']:+d}" if gain["rank"] else "none"
    costs = " | ".join(f"{gain[key]:+,.0f}" for key in ("placement_loss", "lost_work", "moving", "bill"))
    proven = sum(run["guaranteed_proven"] for run in runs)
    says = "yes" if proven == len(runs) else "no" if not proven else f"in {proven} of {len(runs)} runs"
    return (
        f"| {_name(given)} | {first} | {gain['gpus']:+d} | {costs} "
        f"| {gain['victims']:+d} | {gain['moves']:+d} | {says} |"
    )


def least_gain(runs: list[Run]) -> Run:
    """Return the run whose plan is the least above greedy's: by rank, the highest first, then by the bill."""
    keys = sorted({tuple(rank["key"]) for run in runs for rank in run["ranks"]})

    def worth(run: Run) -> tuple[list[int], float]:
        by_key = {tuple(rank["key"]): rank["gpus"] - rank["gpus_greedy"] for rank in run["ranks"]}
        return [by_key.get(key, 0) for key in keys], -run["gains"]["bill"]

    return min(runs, key=worth)


if __name__ == "__main__":
    main()
