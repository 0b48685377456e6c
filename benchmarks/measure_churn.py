"""Consecutive rounds of a busy cluster: one job ends, two arrive, and the scheduler decides; how long each takes.

    python benchmarks/measure_churn.py [--rounds 200] [--solver greedy] [--budget S] [--queued N] [--check] FILE

The file's snapshot is settled first (its own queue, as far as it can start). A round is timed from the state to the
plan in force: snapshot, plan, commit. What agents answer is timed apart, event by event. Who ends and what arrives is
drawn from a seed; what arrives is like what waits or runs already. `--queued` fills the queue up to so many jobs first.
`--check` plans every tenth round cold as well and compares the GPUs that run, rank by rank.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from dataclasses import replace

import numpy as np

from optsched.cli.inputs import read_snapshot
from optsched.clock import StoppedClock, WallClock
from optsched.engine import events
from optsched.engine.decide import decide
from optsched.engine.planning import RoundPlanner
from optsched.engine.state import State, initial
from optsched.engine.step import step
from optsched.engine.view import snapshot_of
from optsched.planner.plan import PlanOptions, plan_round
from optsched.sim.agents import PromptAgents
from optsched.solve.ladder import SolverChoice
from optsched.values.ids import JobId
from optsched.values.job import JobState


class Churn:
    """A state, agents that answer at once, and what everything took."""

    def __init__(self, state: State, planner: RoundPlanner, seed: int) -> None:
        self.state = state
        self.planner = planner
        self.draw = np.random.default_rng(seed)
        self.kinds = [replace(each.job, state=JobState.QUEUED, placement={}) for each in state.jobs.values()]
        self.rounds_s: list[float] = []
        self.events_s: list[float] = []
        self.starts = 0
        self.arrived = 0
        self.agents = PromptAgents()

    def take(self, event: events.Event) -> None:
        """One event, and what agents answer."""
        todo = [event]
        for each in todo:
            started = time.perf_counter()
            found = step(self.state, each, self.state.now)
            self.events_s.append(time.perf_counter() - started)
            self.state = found.state
            todo += [answer for command in found.commands if (answer := self.agents.answer(command, self.state.now))]

    def decide_once(self) -> bool:
        """Decide once and put it into force; False where nothing was to be decided."""
        started = time.perf_counter()
        decision = decide(self.state, self.planner)
        if decision is None:
            return False
        found = step(self.state, decision, self.state.now)
        self.rounds_s.append(time.perf_counter() - started)
        self.starts += len(decision.plan.starts)
        self.state = found.state
        for command in found.commands:
            answer = self.agents.answer(command, self.state.now)
            if answer is not None:
                self.take(answer)
        return True

    def settle(self) -> None:
        """Decide until nothing is left to decide."""
        while self.decide_once():
            pass

    def arrive(self, jobs: int) -> None:
        """Submit so many jobs like those there are."""
        for _ in range(jobs):
            self.arrived += 1
            like = self.kinds[int(self.draw.integers(len(self.kinds)))]
            job = replace(like, id=JobId(f"new-{self.arrived}"), submitted_at=self.state.now, run=0, preemptions=0)
            self.take(events.Submit(replace(job, start_deadline_at=None)))

    def end_one(self) -> None:
        """One running job ends."""
        running = [name for name, each in self.state.jobs.items() if each.state is JobState.RUNNING]
        self.take(events.Finished(running[int(self.draw.integers(len(running)))]))


def main() -> None:
    """Measure and print a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--solver", default="greedy")
    parser.add_argument("--budget", type=float)
    parser.add_argument("--queued", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    options = PlanOptions(budget_s=args.budget, solver=SolverChoice(args.solver), prove=0)
    churn = Churn(initial(read_snapshot(args.file, None).snapshot), RoundPlanner(options, WallClock()), args.seed)
    churn.settle()
    waiting = sum(each.state is JobState.QUEUED for each in churn.state.jobs.values())
    churn.arrive(max(0, args.queued - waiting))
    churn.settle()
    churn.rounds_s.clear()
    churn.events_s.clear()
    churn.starts = 0
    worse = 0
    for number in range(args.rounds):
        churn.state = step(churn.state, events.Tick(), churn.state.now + 30.0).state
        churn.end_one()
        churn.arrive(2)
        if args.check and number % 10 == 0:
            worse += _worse_than_cold(churn, options)
        churn.decide_once()
        rounds = churn.rounds_s[:]
        churn.settle()
        churn.rounds_s = rounds
    _print(churn, args, worse)


def _worse_than_cold(churn: Churn, options: PlanOptions) -> int:
    """Return 1 if the plan with what is kept between rounds runs other GPUs than one that is planned from nothing."""
    snapshot = snapshot_of(churn.state)
    cold = plan_round(snapshot, options, StoppedClock())
    return int(churn.planner(snapshot).round.ranks != cold.round.ranks)


def _print(churn: Churn, args: argparse.Namespace, worse: int) -> None:
    rounds, states = sorted(churn.rounds_s), [each.state for each in churn.state.jobs.values()]
    p99 = rounds[min(len(rounds) - 1, int(0.99 * len(rounds)))]
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, solver {args.solver}")
    print(
        f"{len(churn.state.nodes)} nodes, {states.count(JobState.RUNNING)} running and "
        f"{states.count(JobState.QUEUED)} queued at the end; {len(rounds)} rounds, {churn.starts} starts: "
        f"median {1000 * statistics.median(rounds):.0f} ms, p99 {1000 * p99:.0f} ms, worst {1000 * rounds[-1]:.0f} ms"
    )
    print(f"{len(churn.events_s)} other events: median {1000 * statistics.median(churn.events_s):.2f} ms")
    if args.check:
        print(f"{worse} plans differ from cold ones")


if __name__ == "__main__":
    main()
