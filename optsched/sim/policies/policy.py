"""What a policy is: a planner for the engine's rounds, and the profile that it goes by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from optsched.sim.policies.names import ABOUT
from optsched.values.ids import LevelName
from optsched.values.plan import Plan
from optsched.values.profile import Profile
from optsched.values.snapshot import Snapshot


class Planning(Protocol):
    """A planner that another one can go on from, once it is told what that one knew as its `turn`."""

    @property
    def turn(self) -> int | None:
        """What a successor must know; None: nothing."""
        ...

    def go_on(self, turn: int | None) -> None:
        """Go on where another one stood."""
        ...

    def __call__(self, snapshot: Snapshot) -> Plan:
        """Return the plan of a round."""
        ...


@dataclass(frozen=True, slots=True)
class Means:
    """What a planner is made with.

    `deterministic_s` bounds the search of a round by counted work. `levels` are those that some job of the workload
    requires, for itself or for its slices.
    """

    seed: int = 0
    deterministic_s: float = 0.5
    levels: frozenset[LevelName] = frozenset()


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to schedule, by its name in `names.ABOUT`. `profile` makes of the given profile the one it goes by."""

    name: str
    planner: Callable[[Means], Planning]
    profile: Callable[[Profile], Profile] = lambda given: given

    @property
    def about(self) -> str:
        """What it does, in a sentence."""
        return ABOUT[self.name]
