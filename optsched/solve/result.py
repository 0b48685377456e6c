"""What a solver answers, and the limits it is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from optsched.clock import Clock
from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Problem


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a solver may spend: seconds by the clock, deterministic seconds (None: not bounded), and a seed.

    With `deterministic_s` set and a wall budget that never runs out, the same problem and seed give the same answer.
    `turn` is for rounds that follow one another closely: a large round then tries one way of placing, the turn's, and
    leaves its bounds open by a thousandth of the GPUs. None: all that time allows. Without `bounds` nothing is worked
    out that the plan does not need.
    """

    wall_s: float
    deterministic_s: float | None = None
    seed: int = 0
    workers: int = 2
    turn: int | None = None
    bounds: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """An assignment and what was proven about it.

    `row_bounds` gives, rank by rank, the most GPUs that any plan could run there with the higher ranks as this plan has
    them; None where it is not known (a bound below an open rank still holds for plans that are no worse above it).
    `bill_bound`: no plan with these ranks has a lower bill. `weighted_bound`: no plan has a higher weighted sum.
    `proven`: no plan is better at all.
    """

    assignment: Assignment
    row_bounds: tuple[int | None, ...] = ()
    bill_bound: int | None = None
    weighted_bound: int | None = None
    proven: bool = False
    deterministic_s: float = 0.0
    note: str = ""


class Solver(Protocol):
    """Anything that answers a round problem within a budget, given an assignment to start from."""

    def solve(self, problem: Problem, hint: Assignment, budget: Budget, clock: Clock) -> Result:
        """Return a valid assignment, at worst the hint."""
        ...


@dataclass
class Spent:
    """Counts what has been spent of a budget."""

    budget: Budget
    clock: Clock
    started_s: float = field(init=False)
    deterministic_s: float = 0.0

    def __post_init__(self) -> None:
        self.started_s = self.clock.monotonic_s()

    @property
    def wall_left_s(self) -> float:
        """Seconds left by the clock, >= 0."""
        return max(0.0, self.budget.wall_s - (self.clock.monotonic_s() - self.started_s))

    @property
    def deterministic_left_s(self) -> float | None:
        """Deterministic seconds left; None where they are not bounded."""
        if self.budget.deterministic_s is None:
            return None
        return max(0.0, self.budget.deterministic_s - self.deterministic_s)

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to spend."""
        left = self.deterministic_left_s
        return self.wall_left_s <= 0.0 or (left is not None and left <= 0.0)
