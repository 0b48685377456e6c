"""How fast simulations are: a made workload of many jobs on a large cluster, under one policy.

    python benchmarks/measure_simulation.py [--jobs 100000] [--cluster h100-10k] [--policy greedy] [--load 0.9]
                                            [--round-every 60] [--until DAYS]

Sizes are 1 to 512 GPUs (two in five jobs have one, one in 200 has 512), work is lognormal around two hours, up to three
days; users ask for one to six times as much. Jobs come evenly, so that the cluster is offered the load. Time is told by
the clock and in processor time, which is what it would take on a machine that does nothing else; memory is the peak.
"""

from __future__ import annotations

import argparse
import math
import resource
import time

import numpy as np

from optsched.clock import WallClock
from optsched.files import load_cluster, load_profile
from optsched.sim.failures import FAILURES
from optsched.sim.kernel import Setup
from optsched.sim.settings import SimSettings
from optsched.sim.simulate import Task, collect_seldom, simulate
from optsched.sim.workload import Arrival, Ending, Workload
from optsched.values.ids import JobId, TeamId, UserId
from optsched.values.job import Checkpoint, Job
from optsched.values.team import Team

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SHARES = (0.4, 0.1, 0.1, 0.2, 0.08, 0.05, 0.03, 0.02, 0.015, 0.005)
TEAMS = 8


def made(jobs: int, gpus: int, load: float, seed: int) -> Workload:
    """A workload drawn from a seed."""
    draw = np.random.default_rng(seed)
    sizes = draw.choice(SIZES, p=SHARES, size=jobs)
    work = np.exp(draw.normal(math.log(7200), 1.3, size=jobs)).clip(60, 3 * 86_400)
    span = float((sizes * work).sum()) / gpus / load
    at = np.sort(draw.uniform(0, span, size=jobs))
    times, teams, users = draw.uniform(1, 6, size=jobs), draw.integers(TEAMS, size=jobs), draw.integers(200, size=jobs)
    ranks = draw.choice([0, 1000, 2000], p=[0.5, 0.3, 0.2], size=jobs)
    signals, ends = draw.random(jobs) < 0.5, draw.choice(3, p=[0.7, 0.15, 0.15], size=jobs)
    arrivals = []
    for i in range(jobs):
        size = int(sizes[i])
        job = Job(
            JobId(f"j{i}"),
            TeamId(f"t{teams[i]}"),
            size,
            priority=int(ranks[i]),
            user=UserId(f"u{users[i]}"),
            gpus_per_node=8 if size > 8 else None,
            estimated_runtime_s=float(work[i] * times[i]),
            checkpoint=Checkpoint(1800.0, 20.0, 120.0, on_signal=bool(signals[i])),
        )
        ending = (Ending.COMPLETED, Ending.FAILED, Ending.CANCELLED)[int(ends[i])]
        arrivals.append(Arrival(float(at[i]), job, float(work[i]), ending))
    return Workload(f"made-{jobs}", tuple(arrivals), tuple(Team(TeamId(f"t{i}")) for i in range(TEAMS)))


def main() -> None:
    """Simulate and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--cluster", default="h100-10k")
    parser.add_argument("--policy", default="greedy")
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--round-every", type=float, default=60.0)
    parser.add_argument("--deterministic", type=float, default=0.1)
    parser.add_argument("--until", type=float, metavar="DAYS")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    cluster, profile = load_cluster(args.cluster), load_profile("default")
    workload = made(args.jobs, sum(node.gpus for node in cluster.nodes), args.load, args.seed)
    settings = SimSettings(
        seed=args.seed,
        round_every_s=args.round_every,
        until_s=None if args.until is None else args.until * 86_400,
        failures=FAILURES["llama3"],
    )
    collect_seldom()
    began = time.process_time()
    task = Task(Setup(cluster, workload, profile, profile, settings), args.policy, "default", args.deterministic)
    found = simulate(task, WallClock())
    spent = time.process_time() - began
    done = sum(count for state, count in found.metrics.jobs.items() if state != "not ended")
    decide, wall, rounds = found.timing.decide_s, found.timing.wall_s, found.metrics.rounds.count
    all_s = decide.mean * decide.count
    print(f"{args.policy}: {done:,} jobs in {found.end_s / 86_400:.1f} days; {rounds:,} rounds")
    print(f"{wall:.0f} s by the clock, {spent:.0f} s of processor time: {done / spent:.1f} jobs/s")
    print(f"a decision: median {decide.p50 * 1000:.1f} ms, p99 {decide.p99 * 1000:.1f} ms, all {all_s:.0f} s")
    print(f"utilisation up to the last submission {found.metrics.busy_utilisation:.1%}")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
