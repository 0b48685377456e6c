"""Several simulations side by side, each in a process of its own; what one comes to does not depend on the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optsched.apart import Note, do_apart
from optsched.clock import Clock, WallClock
from optsched.sim.results import Result
from optsched.sim.simulate import Task, collect_seldom, simulate

Report = Callable[[str, float], None]


def simulate_all(tasks: Sequence[Task], jobs: int, clock: Clock, report: Report) -> list[Result]:
    """Return the results of some tasks, in their order, from at most `jobs` processes; `report` hears how far all are.

    What one raises is raised here; ChildProcessError where a process dies.
    """
    if jobs <= 1 or len(tasks) <= 1:
        found = []
        for number, task in enumerate(tasks):
            found.append(simulate(task, clock, _part(report, task, number, len(tasks))))
        return found

    def tell(ended: int, share: float) -> None:
        report(f"{ended} of {len(tasks)} simulations have ended", share)

    return do_apart(_one, tasks, jobs, tell)


def _part(report: Report, task: Task, number: int, count: int) -> Report:
    return lambda stage, fraction: report(f"{task.policy}: {stage}", (number + fraction) / count)


def _one(task: Task, note: Note) -> Result:
    collect_seldom()
    return simulate(task, WallClock(), lambda stage, fraction: note(fraction))
