"""What a policy is: a planner for the engine's rounds, and the profile that it goes by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optsched.clock import Clock
from optsched.engine.decide import Planner
from optsched.values.ids import LevelName
from optsched.values.profile import Profile


@dataclass(frozen=True, slots=True)
class Means:
    """What a planner is made with.

    `deterministic_s` bounds the search of a round by counted work; `clock` only tells how long things took. `levels`
    are those that some job of the workload requires, for itself or for its slices.
    """

    clock: Clock
    seed: int = 0
    deterministic_s: float = 0.5
    levels: frozenset[LevelName] = frozenset()


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to schedule, by name; `about` is a sentence. `profile` makes of the given profile the one it goes by."""

    name: str
    about: str
    planner: Callable[[Means], Planner]
    profile: Callable[[Profile], Profile] = lambda given: given
