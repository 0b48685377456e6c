"""Several simulations side by side, each in a process of its own; what one comes to does not depend on the others."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from multiprocessing.sharedctypes import SynchronizedArray

from optsched.clock import Clock, WallClock
from optsched.sim.results import Result
from optsched.sim.simulate import Task, collect_seldom, simulate

Report = Callable[[str, float], None]

LOOK_S = 0.2
"""So often the processes' progress is looked at."""

_shared: SynchronizedArray[float] | None = None


def simulate_all(tasks: Sequence[Task], jobs: int, clock: Clock, report: Report) -> list[Result]:
    """Return the results of some tasks, in their order, from at most `jobs` processes; `report` hears how far all are.

    What one raises is raised here.
    """
    if jobs <= 1 or len(tasks) <= 1:
        found = []
        for number, task in enumerate(tasks):
            found.append(simulate(task, clock, _part(report, task, number, len(tasks))))
        return found
    context = multiprocessing.get_context("spawn")
    shared = context.Array("d", len(tasks))
    with ProcessPoolExecutor(min(jobs, len(tasks)), context, _begin, (shared,)) as pool:
        futures = [pool.submit(_one, task, number) for number, task in enumerate(tasks)]
        try:
            _watch(futures, shared, report)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]


def _part(report: Report, task: Task, number: int, count: int) -> Report:
    return lambda stage, fraction: report(f"{task.policy}: {stage}", (number + fraction) / count)


def _begin(shared: SynchronizedArray[float]) -> None:
    global _shared
    _shared = shared
    collect_seldom()


def _one(task: Task, number: int) -> Result:
    assert _shared is not None, "the pool has begun"
    shared = _shared

    def note(stage: str, fraction: float) -> None:
        shared.get_obj()[number] = fraction

    return simulate(task, WallClock(), note)


def _watch(futures: Sequence[Future[Result]], shared: SynchronizedArray[float], report: Report) -> None:
    """Report how far all are until all have ended, or one of them badly."""
    while True:
        done = wait(futures, LOOK_S).done
        for future in done:
            future.result()
        if len(done) == len(futures):
            return
        parts = list(shared.get_obj())
        report(f"{len(done)} of {len(futures)} simulations have ended", sum(parts) / len(parts))
