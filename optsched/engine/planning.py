"""The planner of consecutive rounds: each takes over what the one before it hands on."""

from __future__ import annotations

from optsched.clock import Clock
from optsched.engine.view import Viewer
from optsched.planner.memory import Memory
from optsched.planner.plan import PlanOptions, plan_next
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
        self.viewer = Viewer()

    def __call__(self, snapshot: Snapshot) -> Plan:
        """Return the plan of a snapshot."""
        plan, self._memory = plan_next(snapshot, self._options, self._clock, self._memory)
        return plan
