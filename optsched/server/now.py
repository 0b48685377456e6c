"""The service's clock: instants in seconds since 1970 that never go backwards, whatever becomes of the machine's."""

from __future__ import annotations

import time
from typing import Protocol


class Now(Protocol):
    """Tells instants in seconds since 1970; each is at least the one before."""

    def __call__(self) -> float:
        """Return the present instant."""
        ...


class SteadyNow:
    """The wall clock as it was at first, carried on by the monotonic one: no jump of the wall clock ends a lease.

    `not_before` is the newest instant that is known already, from what was stored.
    """

    def __init__(self, not_before: float = 0.0) -> None:
        self._offset = max(time.time(), not_before) - time.monotonic()

    def __call__(self) -> float:
        """Return the present instant."""
        return time.monotonic() + self._offset


class SetNow:
    """A clock that tests move by hand."""

    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        """Return the instant that was set."""
        return self.at
