"""Run the flat formulation and optsched on the published family, each round in a fresh process, and print a table.

    python benchmarks/compare_family.py [--nodes 32,64,...] [--seeds N] [--budget S] [--engine flat|optsched|both]
                                        [--solver auto] [--json FILE]

The family is that of `priority_matters.py`, the flat formulation that of `flat.py`. Timed from the loaded snapshot to
the plan (for the flat formulation with its check); imports, generating and loading are outside. CPU seconds are those
of the search's two workers together: where others use the machine too they tell more than the clock.

A tier is proven where its GPUs meet its bound and all tiers above it are proven too. A plan is valid if optsched's
checker passes it: until its last two searches the flat model may stop and move jobs for nothing. Where it finds no plan
at all, the GPUs are those that run already.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.flat import solve_flat
from benchmarks.priority_matters import PRIORITIES, family_round
from optsched.clock import WallClock
from optsched.files import parse_snapshot
from optsched.planner.plan import PlanOptions, plan_round
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.solve.ladder import SolverChoice
from optsched.solve.result import Budget
from optsched.values.snapshot import Snapshot

ENGINES = ("flat", "optsched")


def measure(engine: str, nodes: int, seed: int, budget_s: float, solver: str) -> dict[str, Any]:
    """Plan one round in this process; return what was seen."""
    snapshot, _ = parse_snapshot(family_round(nodes, seed))
    started, started_cpu = time.perf_counter(), time.process_time()
    seen = measure_flat(snapshot, budget_s) if engine == "flat" else measure_optsched(snapshot, budget_s, solver)
    spent = {"plan_s": time.perf_counter() - started, "cpu_s": time.process_time() - started_cpu}
    tiers = seen["tiers"]
    proven = next((p for p, (gpus, bound) in enumerate(tiers) if gpus != bound), len(tiers))
    round_ = {"engine": engine, "nodes": nodes, "seed": seed, "pods": len(snapshot.jobs), "budget_s": budget_s}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**round_, **spent, **seen, "tiers_proven": proven, "rss_mib": round(memory)}


def measure_flat(snapshot: Snapshot, budget_s: float) -> dict[str, Any]:
    """Plan with the flat formulation, as published."""
    problem = build_problem(snapshot)
    result = solve_flat(problem, Budget(budget_s), WallClock(), rights=False)
    return {
        "source": "flat" if result.found else "no plan",
        "tiers": [(tier.value, tier.bound) for tier in result.tiers],
        "moves": result.moved.value,
        "moves_proven": result.moved.optimal,
        "valid": result.found and not check(problem, result.assignment),
    }


def measure_optsched(snapshot: Snapshot, budget_s: float, solver: str) -> dict[str, Any]:
    """Plan with optsched."""
    plan = plan_round(snapshot, PlanOptions(budget_s=budget_s, solver=SolverChoice(solver)), WallClock())
    tiers = []
    for name in PRIORITIES:
        # One team that is entitled to all it asks for: the ranks of a priority are one, the fair one.
        ranks = [rank for rank in plan.round.ranks if rank.priority == name]
        bounds = [rank.gpus_bound for rank in ranks]
        known = bool(bounds) and None not in bounds
        tiers.append((sum(rank.gpus for rank in ranks), sum(bound or 0 for bound in bounds) if known else None))
    return {
        "source": f"{plan.round.source.value} {plan.round.status.value}",
        "tiers": tiers,
        "moves": len(plan.migrations),
        "moves_proven": plan.round.status.value == "optimal",
        "valid": True,
    }


def main() -> None:
    """Measure every round and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", default="32,64,128", help="numbers of nodes, from 1 on: 32,64")
    parser.add_argument("--seeds", type=int, default=1, help="rounds of each size, from seed 0 on")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds to search")
    parser.add_argument("--engine", choices=[*ENGINES, "both"], default="both")
    parser.add_argument("--solver", default="auto", help="optsched's solver")
    parser.add_argument("--json", type=Path, help="write everything seen to this file")
    parser.add_argument("--once", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        engine, nodes, seed = args.once
        print(json.dumps(measure(engine, int(nodes), int(seed), args.budget, args.solver)))
        return
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}; {args.budget:g} s")
    print("| nodes | seed | pods | engine | s | CPU s | MiB | source | valid | proven | GPUs by tier (bound) | moves |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    seen = []
    for nodes in (int(each) for each in args.nodes.split(",")):
        for seed in range(args.seeds):
            for engine in ENGINES if args.engine == "both" else (args.engine,):
                seen.append(_in_a_process(engine, nodes, seed, args))
                print(_row(seen[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")


def _in_a_process(engine: str, nodes: int, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--budget", str(args.budget), "--solver", args.solver]
    command += ["--once", engine, str(nodes), str(seed)]
    result: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return result


def _row(seen: dict[str, Any]) -> str:
    tiers = ", ".join(f"{gpus} ({'not known' if bound is None else bound})" for gpus, bound in seen["tiers"])
    moves = "" if seen["moves"] is None else f"{seen['moves']}{' proven' if seen['moves_proven'] else ''}"
    return (
        f"| {seen['nodes']} | {seen['seed']} | {seen['pods']} | {seen['engine']} | {seen['plan_s']:.2f} "
        f"| {seen['cpu_s']:.1f} | {seen['rss_mib']} | {seen['source']} | {'yes' if seen['valid'] else 'no'} "
        f"| {seen['tiers_proven']} of {len(seen['tiers'])} | {tiers} | {moves} |"
    )


if __name__ == "__main__":
    main()
