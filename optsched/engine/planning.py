"""The planner of consecutive rounds: each takes over what the one before it hands on."""

from __future__ import annotations

from dataclasses import replace

from optsched.clock import Clock
from optsched.engine.view import Viewer
from optsched.planner.memory import Memory, remembered
from optsched.planner.plan import PlanOptions, may_start, plan_next
from optsched.solve.ladder import SolverChoice
from optsched.values.ids import JobId
from optsched.values.plan import Plan
from optsched.values.snapshot import Snapshot


class RoundPlanner:
    """Plans rounds one after the other. The same rounds in the same order give the same plans.

    `viewer` looks at the states whose rounds it plans.
    """

    def __init__(self, options: PlanOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._memory: Memory | None = None
        self._went_on_from: int | None = None
        self.viewer = Viewer()

    @property
    def turn(self) -> int | None:
        """Which way of placing is to be tried next; None before the first round. All that a successor must know."""
        return self._went_on_from if self._memory is None else self._memory.turn

    def go_on(self, turn: int | None) -> None:
        """Go on where another planner stood, with what it told as its `turn`."""
        self._memory, self._went_on_from = None, turn

    def __call__(self, snapshot: Snapshot) -> Plan:
        """Return the plan of a snapshot."""
        if self._memory is None and self._went_on_from is not None:
            self._memory = replace(remembered(None, snapshot.cluster), turn=self._went_on_from)
        plan, self._memory = plan_next(snapshot, self._options, self._clock, self._memory)
        return plan

    def quickly(self, snapshot: Snapshot) -> Plan:
        """Return the greedy plan of a snapshot that is looked at beside the round, and is no round of its own."""
        options = replace(self._options, solver=SolverChoice.GREEDY, reasons=False)
        plan, _ = plan_next(snapshot, options, self._clock, self._memory)
        return plan

    def may_start(self, snapshot: Snapshot, job: JobId) -> bool:
        """Return False where it is plain that the quick plan of a snapshot does not start a job in free room."""
        return may_start(snapshot, job, self._memory)
