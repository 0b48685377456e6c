"""Time every phase of rounds that are planned without a search, in milliseconds of processor time.

    python benchmarks/phases.py [--runs 5] FILE...

The least of the runs is printed, and the peak resident size of the process with everything loaded. "around" is what is
neither greedy nor search: the topology, the problem, the reservations, the check and the score, the explanations, the
plan. "round" is `plan_round` as a whole. Processor time is what a quiet machine's clock shows.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from optsched.cli.inputs import read_snapshot
from optsched.clock import StoppedClock
from optsched.planner.assemble import assemble
from optsched.planner.explain import explain_waiting
from optsched.planner.plan import PlanOptions, plan_round
from optsched.planner.reservations import reserve
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.score import score
from optsched.solve.greedy import greedy
from optsched.solve.ladder import SolverChoice, climb
from optsched.solve.result import Budget
from optsched.topology.tree import build_tree
from optsched.values.snapshot import Snapshot

T = TypeVar("T")

AROUND = ("tree", "build", "reserve", "climb", "explain", "assemble")


def phases(snapshot: Snapshot) -> dict[str, float]:
    """Return the seconds that each phase took; "climb" has check and score inside, which are shown on their own too."""
    took: dict[str, float] = {}

    def timed(name: str, call: Callable[[], T]) -> T:
        started = time.thread_time()
        result = call()
        took[name] = time.thread_time() - started
        return result

    gc.collect()
    tree = timed("tree", lambda: build_tree(snapshot.cluster))
    problem = timed("build", lambda: build_problem(snapshot, tree))
    first = timed("greedy", lambda: greedy(problem))
    held, reserved = timed("reserve", lambda: reserve(problem, first))
    timed("check", lambda: check(held, first))
    timed("score", lambda: score(held, first))
    answer = timed("climb", lambda: climb(held, SolverChoice.GREEDY, Budget(0.0), StoppedClock(), base=first))
    waiting = timed("explain", lambda: explain_waiting(held, reserved, answer.assignment, None, 0))
    timed("assemble", lambda: assemble(held, reserved, answer, waiting, with_tasks=False))
    options = PlanOptions(budget_s=0, solver=SolverChoice.GREEDY)
    timed("round", lambda: plan_round(snapshot, options, StoppedClock()))
    return {**took, "around": sum(took[name] for name in AROUND)}


def main() -> None:
    """Time every file and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    for position, file in enumerate(args.files):
        snapshot = read_snapshot(file, None).snapshot
        runs = [phases(snapshot) for _ in range(args.runs)]
        if not position:
            print(f"| round | {' | '.join(runs[0])} | MiB |\n|{'---|' * (len(runs[0]) + 2)}")
        least = (f"{1000 * min(run[name] for run in runs):.0f}" for name in runs[0])
        mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"| {Path(file).name.split('.')[0]} | {' | '.join(least)} | {mib:.0f} |", flush=True)


if __name__ == "__main__":
    main()
