"""Plan round files, each in a fresh process, and print how good and how fast the plans were.

    python benchmarks/measure_rounds.py [--runs 5] [--budget S] [--solver auto] [--profile NAME] FILE...

Timed from the loaded snapshot to the returned plan, with topology, greedy, search, check and explanation inside;
imports and loading the file are outside and reported on their own. Memory is the peak resident size of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def measure_once(path: str, budget: float | None, solver: str, profile: str | None) -> dict[str, Any]:
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
    return {
        "import_s": imported - started,
        "load_s": loaded - imported,
        "plan_s": done - loaded,
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "source": plan.round.source.value,
        "status": plan.round.status.value,
        "gap": plan.round.gap,
        "gap_gpus": plan.round.gap_gpus,
        "starts": len(plan.starts),
        "stops": len(plan.preemptions),
        "moves": len(plan.migrations),
        "gpus": sum(rank.gpus for rank in plan.round.ranks),
    }


def main() -> None:
    """Measure every file and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--profile")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        print(json.dumps(measure_once(args.files[0], args.budget, args.solver, args.profile)))
        return
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}; {args.runs} runs each")
    print("| round | plan s, median (worst) | load s | MiB | source | GPUs run | gap GPUs (worst) | gap (worst) |")
    print("|---|---|---|---|---|---|---|---|")
    for file in args.files:
        print(_row(file, _runs(file, args)), flush=True)


def _runs(file: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    command = [sys.executable, __file__, "--once", "--solver", args.solver, file]
    command += [] if args.budget is None else ["--budget", str(args.budget)]
    command += [] if args.profile is None else ["--profile", args.profile]
    return [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(args.runs)
    ]


def _row(file: str, runs: list[dict[str, Any]]) -> str:
    times = [run["plan_s"] for run in runs]
    gaps = [run["gap"] for run in runs]
    gpus = [run["gap_gpus"] for run in runs]
    worst_gap = "not known" if None in gaps else f"{max(gaps):.3%}"
    worst_gpus = "not known" if None in gpus else str(max(gpus))
    sources = "/".join(sorted({f"{run['source']} {run['status']}" for run in runs}))
    name = Path(file).name.removesuffix(".gz").removesuffix(".json")
    return (
        f"| {name} | {statistics.median(times):.2f} ({max(times):.2f}) "
        f"| {statistics.median(r['load_s'] for r in runs):.2f} "
        f"| {max(r['rss_mib'] for r in runs):.0f} | {sources} | {runs[0]['gpus']} | {worst_gpus} | {worst_gap} |"
    )


if __name__ == "__main__":
    main()
