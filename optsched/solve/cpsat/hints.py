"""Between assignments and variables: a known plan as a hint, a solution as an assignment."""

from __future__ import annotations

from collections.abc import Mapping

from ortools.sat.python.cp_model import IntVar

from optsched.rounds.assignment import Assignment, Change, change_of
from optsched.rounds.problem import Cut, Problem, Spread
from optsched.solve.cpsat.decisions import Decisions
from optsched.solve.cpsat.gang import Gang
from optsched.solve.cpsat.stages import Stages


def add_hint(decisions: Decisions, assignment: Assignment) -> None:
    """Tell the solver an assignment: its decisions and placements; the solver works out the rest."""
    problem, model = decisions.problem, decisions.model
    changes = {
        j: change_of(problem.jobs[j], assignment.after(problem.jobs[j]))
        for j in assignment.changed.keys() | assignment.stopped
    }
    for j, gang in decisions.starts.items():
        _hint_gang(decisions, gang, dict(assignment.changed.get(j, ())))
    for j, stop in decisions.stops.items():
        model.add_hint(stop, changes.get(j) is Change.STOP)
    for j, gang in decisions.moves.items():
        moved = changes.get(j) is Change.MOVE
        _hint_gang(decisions, gang, dict(assignment.changed[j]) if moved else {})
    for j, gang in decisions.resizes.items():
        change = changes.get(j)
        resized = change in (Change.SHRINK, Change.GROW)
        _hint_gang(decisions, gang, dict(assignment.changed[j]) if resized else {})
        model.add_hint(decisions.shrinks[j], change is Change.SHRINK)
        model.add_hint(decisions.grows[j], change is Change.GROW)


def _hint_gang(decisions: Decisions, gang: Gang, spread: Mapping[int, int]) -> None:
    decisions.model.add_hint(gang.active, bool(spread))
    for n, unit in gang.units.items():
        decisions.model.add_hint(unit, _units(decisions.problem, gang, n, spread.get(n, 0)))


def _units(problem: Problem, gang: Gang, n: int, gpus: int) -> int:
    job = gang.job
    if job.cut is Cut.PER_TASK:
        return gpus // job.unit
    if job.cut is Cut.ONE_NODE and not _is_literal(gang.units[n]):
        return gpus
    return int(gpus > 0)


def _is_literal(variable: IntVar) -> bool:
    return list(variable.proto.domain) == [0, 1]


def assignment_of(problem: Problem, decisions: Decisions, stages: Stages) -> Assignment:
    """Return the assignment of the last solution."""
    changed: dict[int, Spread] = {}
    for gangs in (decisions.starts, decisions.moves, decisions.resizes):
        for j, gang in gangs.items():
            if stages.value(gang.active):
                spread = tuple(sorted((n, count) for n, gpus in gang.gpus.items() if (count := stages.value(gpus)) > 0))
                if spread != problem.jobs[j].spread_now:
                    changed[j] = spread
    stopped = frozenset(j for j, stop in decisions.stops.items() if stages.value(stop))
    return Assignment(changed, stopped)
