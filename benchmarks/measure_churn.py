"""Consecutive rounds of a busy cluster: one job ends, two arrive, and the scheduler decides; how long each takes.

    python benchmarks/measure_churn.py [--rounds 200] [--solver auto] [--budget S] [--queued N] [--small] FILE

The file's snapshot is settled first, without a search (its own queue, as far as it can start). A round is timed from
the state to the plan in force: snapshot, plan, commit; by the clock, and in processor time of all threads, which is
what it would take on a machine that does nothing else. What agents answer is timed apart, event by event. Who ends and
what arrives is drawn from a seed; what arrives is like what waits or runs already. `--queued` fills the queue up to so
many jobs first. `--small` starts from the empty cluster instead, fills it with jobs of at most 8 GPUs, and lets one
arrive for each that ends: what a simulation does many thousand times, mostly with `--solver greedy`. The garbage
collector is set as in the service's planning process. `--check N` plans every Nth round cold as well, with the same
budget, and compares gaps and plans.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
import time
from dataclasses import replace

import numpy as np

from optsched.cli.inputs import read_snapshot
from optsched.clock import WallClock
from optsched.engine import events
from optsched.engine.decide import decide
from optsched.engine.planning import RoundPlanner
from optsched.engine.state import State, initial
from optsched.engine.step import step
from optsched.engine.view import snapshot_of
from optsched.planner.plan import PlanOptions, plan_round
from optsched.server.start import GC_EVERY
from optsched.sim.agents import PromptAgents
from optsched.solve.ladder import SolverChoice
from optsched.values.ids import JobId
from optsched.values.job import JobState
from optsched.values.plan import Plan, Source
from optsched.values.snapshot import Snapshot

SMALL_GPUS, FULL = 8, 0.95
"""Jobs up to this size are small; a cluster of which this share is in use is full."""


class Churn:
    """A state, agents that answer at once, and what everything took."""

    def __init__(self, state: State, planner: RoundPlanner, seed: int) -> None:
        self.state = state
        self.planner = planner
        self.draw = np.random.default_rng(seed)
        self.kinds = [replace(each.job, state=JobState.QUEUED, placement={}) for each in state.jobs.values()]
        self.rounds_s: list[float] = []
        self.processor_s: list[float] = []
        self.plans: list[Plan] = []
        self.compared: list[tuple[float | None, float | None, int]] = []
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
        started, worked = time.perf_counter(), time.process_time()
        decision = decide(self.state, self.planner)
        if decision is None:
            return False
        found = step(self.state, decision, self.state.now)
        self.rounds_s.append(time.perf_counter() - started)
        self.processor_s.append(time.process_time() - worked)
        self.plans.append(decision.plan)
        self.starts += len(decision.plan.starts)
        self.state = found.state
        for command in found.commands:
            answer = self.agents.answer(command, self.state.now)
            if answer is not None:
                self.take(answer)
        return True

    def forget(self) -> None:
        """Measure from here on."""
        self.rounds_s, self.processor_s, self.plans, self.events_s, self.starts = [], [], [], [], 0

    def compare(self, cold: Plan) -> None:
        """Compare the last plan with one of the same moment that was planned from nothing."""
        mine, its = self.plans[-1].round, cold.round
        ranks = [each.gpus for each in mine.ranks], [each.gpus for each in its.ranks]
        gaps = [None if each.gap is None else 100 * each.gap for each in (mine, its)]
        self.compared.append((gaps[0], gaps[1], (ranks[0] > ranks[1]) - (ranks[0] < ranks[1])))

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

    def fill(self, given: Snapshot) -> None:
        """Start anew with an empty cluster, and fill it with jobs of at most 8 GPUs."""
        self.state = initial(replace(given, jobs=()))
        self.kinds = [job for job in self.kinds if job.gpus <= SMALL_GPUS]
        gpus = sum(node.healthy_gpus for node in given.cluster.nodes)
        while sum(each.job.placed_gpus for each in self.state.jobs.values()) < FULL * gpus:
            self.arrive(200)
            self.settle()

    def end_one(self) -> None:
        """One running job ends."""
        running = [name for name, each in self.state.jobs.items() if each.state is JobState.RUNNING]
        self.take(events.Finished(running[int(self.draw.integers(len(running)))]))


def main() -> None:
    """Measure and print a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--budget", type=float)
    parser.add_argument("--queued", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    options = PlanOptions(budget_s=args.budget, solver=SolverChoice(args.solver), prove=0)
    resting = PlanOptions(budget_s=0.0, solver=SolverChoice.GREEDY, prove=0)
    given = read_snapshot(args.file, None).snapshot
    churn = Churn(initial(given), RoundPlanner(resting, WallClock()), args.seed)
    if args.small:
        churn.fill(given)
    churn.settle()
    waiting = sum(each.state is JobState.QUEUED for each in churn.state.jobs.values())
    churn.arrive(max(0, args.queued - waiting))
    churn.settle()
    churn.planner = RoundPlanner(options, WallClock())
    gc.freeze()
    gc.set_threshold(*GC_EVERY)
    for number in range(args.rounds + 1):
        churn.state = step(churn.state, events.Tick(), churn.state.now + 30.0).state
        churn.end_one()
        churn.arrive(1 if args.small else 2)
        snapshot = snapshot_of(churn.state) if args.check and number % args.check == 1 else None
        churn.decide_once()
        if not number:
            # The first round has nothing to take over.
            churn.forget()
        elif snapshot is not None:
            churn.compare(plan_round(snapshot, options, WallClock()))
    _print(churn, args)


def _times(times_s: list[float]) -> str:
    ordered = sorted(times_s)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return (
        f"median {1000 * statistics.median(ordered):.0f} ms, p99 {1000 * p99:.0f} ms, worst {1000 * ordered[-1]:.0f} ms"
    )


def _print(churn: Churn, args: argparse.Namespace) -> None:
    states = [each.state for each in churn.state.jobs.values()]
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, solver {args.solver}")
    print(
        f"{len(churn.state.nodes)} nodes, {states.count(JobState.RUNNING)} running and "
        f"{states.count(JobState.QUEUED)} queued at the end; {len(churn.rounds_s)} rounds, {churn.starts} starts"
    )
    print(f"by the clock: {_times(churn.rounds_s)}; load {os.getloadavg()[0]:.1f}")
    print(f"processor time: {_times(churn.processor_s)}")
    gaps = sorted(100 * each.round.gap for each in churn.plans if each.round.gap is not None)
    searched = sum(each.round.source is Source.CP_SAT for each in churn.plans)
    if gaps:
        print(f"gap: median {statistics.median(gaps):.2f} %, worst {gaps[-1]:.2f} %, known {len(gaps)} times")
    print(f"{searched} of {len(churn.plans)} plans are the search's or proven")
    print(f"{len(churn.events_s)} other events: median {1000 * statistics.median(churn.events_s):.2f} ms")
    if churn.compared:
        wider = [mine - cold for mine, cold, _ in churn.compared if mine is not None and cold is not None]
        worse, better = (sum(sign == each for _, _, sign in churn.compared) for each in (-1, 1))
        known = sum(mine is None and cold is not None for mine, cold, _ in churn.compared)
        print(
            f"{len(churn.compared)} rounds also planned cold: gap wider by at most {max(wider, default=0.0):.2f} "
            f"points, on average {statistics.mean(wider or [0.0]):.2f}; unknown only here {known} times; "
            f"ranks better {better}, worse {worse} times"
        )


if __name__ == "__main__":
    main()
