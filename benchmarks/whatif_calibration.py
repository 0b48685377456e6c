"""How often the start-time bands of `optsched whatif` hold, against a simulated truth.

    python benchmarks/whatif_calibration.py [JOBS [FUTURES [SEED [SECONDS]]]]

The truth is one simulation of the trace that comes along (philly-day on philly-160, greedy, failures as in Llama 3).
At the moment at which each of JOBS jobs (default 200, evenly spaced over the day) is submitted, what-if is asked for
its 80 % band over FUTURES futures (default 20), from what a snapshot shows at that moment: it knows neither how long
anything really runs nor what is submitted later. Counted is how often the true start lies in the band. Same arguments,
same figures. With SECONDS no further job is asked about after so many: those that were are spread over the day.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass

from optsched.cli.inputs import example_trace
from optsched.clock import StoppedClock, WallClock
from optsched.files import load_cluster, load_profile
from optsched.files.traces import load_trace
from optsched.sim.failures import FAILURES
from optsched.sim.kernel import Setup
from optsched.sim.settings import SimSettings
from optsched.sim.simulate import Task, begin
from optsched.sim.traces.fill import Filling, fill
from optsched.values.ids import JobId
from optsched.whatif.answers import Band, band
from optsched.whatif.futures import FutureRules, future
from optsched.whatif.position import position_of

WAITED_S = 120.0
"""A job waited that did not start within two rounds."""

HORIZON_S = 43_200.0

GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, are spread evenly."""


@dataclass(frozen=True)
class Asked:
    job: JobId
    at: float
    gpus: int
    band: Band


def main(arguments: list[str]) -> None:
    if len(arguments) > 4:
        raise SystemExit(__doc__)
    jobs, futures, seed, seconds = (*map(int, arguments), *(200, 20, 1, 10**9)[len(arguments) :])
    cluster, profile = load_cluster("philly-160"), load_profile("default")
    with example_trace() as path:
        trace, _ = load_trace([path])
    workload = fill(trace, cluster, Filling(seed=seed), profile).workload
    settings = SimSettings(seed=seed, failures=FAILURES["llama3"])
    simulation = begin(Task(Setup(cluster, workload, profile, profile, settings), "greedy", "default"), StoppedClock())
    arrivals = workload.arrivals
    chosen = [arrivals[index * len(arrivals) // jobs] for index in range(min(jobs, len(arrivals)))]
    rules = FutureRules(horizon_s=HORIZON_S)
    asked: list[Asked] = []
    clock = WallClock()
    began = clock.monotonic_s()
    snapshots = []
    for each in chosen:
        simulation.run(stop_at_s=each.at)
        snapshots.append((each, position_of(simulation.state, each.at)))
    # Whatever the number that is asked about, it is spread over the day.
    for index in sorted(range(len(chosen)), key=lambda number: number * GOLDEN % 1.0):
        if clock.monotonic_s() - began > seconds:
            break
        each, snapshot = snapshots[index]
        seeds = range(1000, 1000 + futures)
        starts = [future(snapshot, [each.job.id], rules, s, clock).starts[each.job.id] for s in seeds]
        found = band([float("inf") if at is None else at for at in starts])
        asked.append(Asked(each.job.id, each.at, each.job.gpus, found))
        print(f"\r{len(asked)} of {len(chosen)}, {clock.monotonic_s() - began:.0f} s", end="", file=sys.stderr)
    simulation.run()
    report(asked, {job: notes.started / 1000 for job, notes in simulation.collector.notes.jobs.items()}, futures, seed)


def report(asked: list[Asked], started: dict[JobId, float], futures: int, seed: int) -> None:
    print(f"\n{len(asked)} jobs, {futures} futures each, truth of seed {seed}\n")
    print("| jobs | asked | in the band | before it | after it | median width |")
    print("|---|---|---|---|---|---|")
    waits = {each.job: started[each.job] - each.at for each in asked}
    groups = {
        "all": asked,
        "that started within 2 min": [each for each in asked if 0 <= waits[each.job] <= WAITED_S],
        "that waited longer": [each for each in asked if not 0 <= waits[each.job] <= WAITED_S],
        "of 8 GPUs and more": [each for each in asked if each.gpus >= 8],
    }
    for name, group in groups.items():
        if not group:
            continue
        # A job that never started, or a band without an end, counts as beyond the horizon.
        real = [waits[each.job] if waits[each.job] >= 0 else float("inf") for each in group]
        low = [_or_inf(each.band.low) for each in group]
        high = [_or_inf(each.band.high) for each in group]
        before = sum(r < a for r, a in zip(real, low, strict=True))
        after = sum(r > b for r, b in zip(real, high, strict=True))
        inside = len(group) - before - after
        width = statistics.median(0.0 if a == b else b - a for a, b in zip(low, high, strict=True))
        share = f"{inside} ({100 * inside / len(group):.0f} %)"
        print(f"| {name} | {len(group)} | {share} | {before} | {after} | {width / 60:.1f} min |")


def _or_inf(value: float | None) -> float:
    return float("inf") if value is None else value


if __name__ == "__main__":
    main(sys.argv[1:])
