"""The one place where the rim reads a clock; the core is given its times as arguments."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since an arbitrary start, never going backwards."""

    def monotonic_s(self) -> float:
        """Return the current reading in seconds."""
        ...


class WallClock:
    """The machine's own monotonic clock."""

    def monotonic_s(self) -> float:
        """Return `time.monotonic()`."""
        return time.monotonic()


class StoppedClock:
    """A clock that stands still: what tests and simulations pass so that no budget ever runs out."""

    def __init__(self, at_s: float = 0.0) -> None:
        self.at_s = at_s

    def monotonic_s(self) -> float:
        """Return the time it was set to."""
        return self.at_s
