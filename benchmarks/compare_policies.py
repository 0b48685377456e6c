"""Policies side by side on workloads of 10,000 GPUs, with failures, speeds that depend on the span, and preemption.

    python -m benchmarks.compare_policies fleet --folder fleet [--policy greedy,easy-backfill] [--jobs 2]
    python -m benchmarks.compare_policies philly --trace philly2017_jobs.csv.gz --folder philly
    python -m benchmarks.compare_policies --show fleet-0 fleet-1 fleet-2

`fleet` is a day of the generated fleet of 10,412 GPUs on `topologies/mixed-fleet.yaml`, `philly` twelve days of a
Philly trace in the normal form, grown and made denser for `topologies/h100-10k.yaml`; `WORKLOADS` has the figures. All
policies are stopped at the same instant. What a policy came to is kept in the folder as it ends, as `optsched simulate
--format json` would write it, so that a comparison that was broken off goes on where it was; `--show` prints the tables
of what is there. Same arguments, same figures, but for the processor time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from optsched.clock import WallClock
from optsched.files import load_cluster, load_profile
from optsched.files.traces import load_trace
from optsched.sim.failures import FAILURES
from optsched.sim.kernel import Progress, Setup
from optsched.sim.policies.registry import POLICIES
from optsched.sim.results import Comparison, Gang, Quantiles, Result, Timing, Waits, from_json, to_json
from optsched.sim.settings import SimSettings
from optsched.sim.simulate import Task, collect_seldom, simulate
from optsched.sim.tally import quantiles
from optsched.sim.traces import scale
from optsched.sim.traces.fill import Filling, fill
from optsched.sim.traces.fleet import generate
from optsched.values.trace import Trace

DAY_S = 86_400.0
GPU_H = 3_600_000.0
"""GPU·ms in a GPU·h."""

LARGE = 256
"""From so many GPUs on a gang is a large one."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is simulated: a trace on a cluster until `until_s`, in rounds every `round_every_s`; times in seconds."""

    name: str
    cluster: str
    until_s: float
    round_every_s: float
    trace: Callable[[Path | None, int], Trace]


def _fleet(path: Path | None, seed: int) -> Trace:
    return generate(seed, from_hour=38 * 24, hours=24)


def _philly(path: Path | None, seed: int) -> Trace:
    if path is None:
        raise SystemExit("philly: --trace is missing: the trace in the normal form, by optsched trace import")
    whole, _ = load_trace([str(path)])
    denser = scale.to_load(scale.grow(scale.cut(whole, 88 * DAY_S, 100 * DAY_S), 8), 1.2, 10_240)
    assert denser is not None, "jobs come one by one, and their durations are known"
    return denser


WORKLOADS = {
    each.name: each
    for each in (
        Workload("fleet", "mixed-fleet", 1 * DAY_S, 300.0, _fleet),
        Workload("philly", "h100-10k", 3 * DAY_S, 300.0, _philly),
    )
}


def main(arguments: list[str]) -> None:
    """Simulate what is not there yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="?", choices=sorted(WORKLOADS))
    parser.add_argument("--show", nargs="+", type=Path, metavar="FOLDER", help="print the tables of these, no more")
    parser.add_argument("--trace", type=Path, help="of the workload that is made from a file")
    parser.add_argument("--folder", type=Path, default=Path("compared"))
    parser.add_argument("--policy", default=",".join(POLICIES), help="default: all")
    parser.add_argument("--profile", default="default", metavar="NAME|PATH", help="what all go by; gangs train as ever")
    parser.add_argument("--deterministic", type=float, default=0.2, help="counted seconds of search (default 0.2)")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (default 0)")
    parser.add_argument("--until", type=float, metavar="DAYS", help="end earlier")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args(arguments)
    if args.show is None:
        if args.workload is None:
            parser.error("a workload is missing")
        _simulate_missing(args)
    folders = [_read(folder) for folder in args.show or [args.folder]]
    for results in folders:
        print("\n".join(tables(results)))
    if len(folders) > 1:
        print("\n".join(together(folders)))


def _simulate_missing(args: argparse.Namespace) -> None:
    args.folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in args.policy.split(",") if not _file(args.folder, name).exists()]
    if args.jobs == 1:
        for name in missing:
            print(_one(args, name), file=sys.stderr, flush=True)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, context, collect_seldom) as pool:
        futures = [pool.submit(_one, args, name) for name in missing]
        for future in as_completed(futures):
            print(future.result(), file=sys.stderr, flush=True)


def _one(args: argparse.Namespace, policy: str) -> str:
    """Simulate one policy, keep what it came to, and return a line about it."""
    workload = WORKLOADS[args.workload]
    began = time.process_time()
    cluster, profile, truth = load_cluster(workload.cluster), load_profile(args.profile), load_profile("default")
    trace = workload.trace(args.trace, args.seed)
    jobs = fill(replace(trace, name=workload.name), cluster, Filling(seed=args.seed), profile).workload
    settings = SimSettings(
        seed=args.seed,
        round_every_s=workload.round_every_s,
        until_s=workload.until_s if args.until is None else args.until * DAY_S,
        failures=FAILURES["llama3"],
        gantt_gpus=LARGE,
    )
    task = Task(Setup(cluster, jobs, profile, truth, settings), policy, profile.name, args.deterministic)
    found = simulate(task, WallClock(), _tenths(policy))
    spent_s = time.process_time() - began
    # Real time on a machine that does other things as well says nothing: processor time stands in its place.
    found = replace(found, timing=Timing(wall_s=spent_s, decide_s=found.timing.decide_s))
    file = _file(args.folder, policy)
    half = file.with_suffix(".part")
    half.write_text(to_json(Comparison((found,))), encoding="utf-8")
    os.replace(half, file)
    return f"{policy}: {spent_s:.0f} s of processor time"


def _tenths(policy: str) -> Progress:
    """Return what tells after every tenth how far a policy is."""
    told = 0

    def tell(stage: str, fraction: float) -> None:
        nonlocal told
        if int(10 * fraction) > told:
            told = int(10 * fraction)
            print(f"{policy}: {stage}, {time.process_time():.0f} s", file=sys.stderr, flush=True)

    return tell


def _file(folder: Path, policy: str) -> Path:
    if policy not in POLICIES:
        raise SystemExit(f"--policy: given {policy!r}; allowed: {', '.join(POLICIES)}")
    return folder / f"{policy}.json"


def _read(folder: Path) -> list[Result]:
    """Return the results of a folder, in the order of the policies."""
    found: list[Result] = []
    for name in POLICIES:
        file = _file(folder, name)
        if file.exists():
            found += from_json(file.read_text(encoding="utf-8"), str(file)).results
    if not found:
        raise SystemExit(f"{folder}: no results there")
    return found


# Tables


def tables(results: Sequence[Result]) -> list[str]:
    """Return what is compared, as Markdown: a row for each figure, a column for each policy."""
    first = results[0]
    jobs = sum(first.metrics.jobs.values())
    lines = [
        f"{first.workload} on {first.cluster}: {jobs:,} jobs, {first.gpus:,} GPUs, {first.end_s / DAY_S:g} days, "
        f"failures {first.failures}, seed {first.seed}",
        "",
        f"| | {' | '.join(each.policy for each in results)} |",
        "|---|" + "---|" * len(results),
    ]
    lines += [f"| {name} | {' | '.join(tell(each) for each in results)} |" for name, tell in ROWS]
    sizes = [each.name for each in first.metrics.waits]
    for size in sizes:
        cells = (_wait(_of_size(each, size)) for each in results)
        lines.append(f"| wait of {size} GPUs ({_of_size(first, size).jobs:,} jobs) | {' | '.join(cells)} |")
    return [*lines, ""]


def together(folders: Sequence[Sequence[Result]]) -> list[str]:
    """Return what policies came to in several simulations together, as Markdown; of those that are in all of them."""
    names = [each.policy for each in folders[0] if all(each.policy in _names(results) for results in folders)]
    lines = [
        f"{len(folders)} simulations together",
        "",
        f"| policy | gangs of {LARGE}+ GPUs that came later, never started | their wait, median | p90 | p99 | mean "
        "| lost by preemption, GPU·h | goodput |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        results = [each for results in folders for each in results if each.policy == name]
        found = [_late_waits(each.gangs, each.end_s) for each in results]
        wait, never = quantiles([wait for waits, _ in found for wait in waits]), sum(never for _, never in found)
        hours = " | ".join(map(_hours, (wait.p50, wait.p90, wait.p99, wait.mean)))
        lost = _gpu_h(sum(each.metrics.preemptions.gpu_ms_lost for each in results))
        goodput = statistics.fmean(each.metrics.goodput for each in results)
        lines.append(f"| {name} | {wait.count}, {never} | {hours} | {lost} | {goodput:.1%} |")
    return [*lines, ""]


def _names(results: Sequence[Result]) -> set[str]:
    return {each.policy for each in results}


def late(gangs: Iterable[Gang], end_s: float) -> tuple[Quantiles, int]:
    """Return how long the large gangs waited that did not come at the very beginning, and how many never started.

    One that did not start counts with its time until its end, or the end of the simulation.
    """
    waits, never = _late_waits(gangs, end_s)
    return quantiles(waits), never


def _late_waits(gangs: Iterable[Gang], end_s: float) -> tuple[list[float], int]:
    waits, never = [], 0
    for each in gangs:
        if each.gpus < LARGE or each.submitted_s <= 0:
            continue
        never += not each.runs
        until = each.runs[0].start_s if each.runs else each.end_s if each.end_s is not None else end_s
        waits.append(until - each.submitted_s)
    return waits, never


def _large(tell: Callable[[Quantiles], float]) -> Callable[[Result], str]:
    return lambda result: _hours(tell(late(result.gangs, result.end_s)[0]))


def _stopped(result: Result) -> str:
    runs = [run for gang in result.gangs for run in gang.runs]
    return f"{sum(run.why in ('plan', 'elsewhere') for run in runs)} of {len(runs)}"


def _kept(result: Result) -> str:
    found = result.metrics.promises
    return f"{found.kept} / {found.missed} / {found.open}"


def _gpu_h(amount: float) -> str:
    return f"{amount / GPU_H:,.0f}"


ROWS: Sequence[tuple[str, Callable[[Result], str]]] = (
    ("utilisation", lambda r: f"{r.metrics.utilisation:.1%}"),
    ("goodput", lambda r: f"{r.metrics.goodput:.1%}"),
    ("jobs that ended", lambda r: f"{sum(n for name, n in r.metrics.jobs.items() if name != 'not ended'):,}"),
    (f"gangs of {LARGE}+ GPUs that came later, never started", lambda r: _never(r)),
    ("their wait, median", _large(lambda wait: wait.p50)),
    ("their wait, p90", _large(lambda wait: wait.p90)),
    ("their wait, p99", _large(lambda wait: wait.p99)),
    ("their wait, mean", _large(lambda wait: wait.mean)),
    ("their runs that were stopped or moved", _stopped),
    ("lost by preemption, GPU·h", lambda r: _gpu_h(r.metrics.preemptions.gpu_ms_lost)),
    ("lost work in all, GPU·h", lambda r: _gpu_h(r.metrics.gpu_time.lost)),
    ("restarts, GPU·h", lambda r: _gpu_h(r.metrics.gpu_time.restart)),
    ("placement loss, GPU·h", lambda r: _gpu_h(r.metrics.gpu_time.placement_loss)),
    ("held, GPU·h", lambda r: _gpu_h(r.metrics.gpu_time.held)),
    ("preemptions", lambda r: f"{r.metrics.preemptions.total:,}"),
    ("share error", lambda r: f"{r.metrics.share_error:.1%}"),
    ("fragmentation", lambda r: f"{r.metrics.fragmentation:.1%}"),
    ("reservations kept / missed / open", _kept),
    ("processor time, s", lambda r: f"{r.timing.wall_s:,.0f}"),
)


def _never(result: Result) -> str:
    wait, never = late(result.gangs, result.end_s)
    return f"{wait.count}, {never}"


def _of_size(result: Result, size: str) -> Waits:
    return next(each for each in result.metrics.waits if each.name == size)


def _wait(found: Waits) -> str:
    """Return the median, the p99 and how many never started."""
    never = f", {found.never_started} never" if found.never_started else ""
    return f"{_hours(found.wait_s.p50)}, {_hours(found.wait_s.p99)}{never}"


def _hours(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else (f"{seconds / 3600:.1f} h")
    )


if __name__ == "__main__":
    main(sys.argv[1:])
