"""Who does the work: this process, processes of this machine, or a Ray cluster. What comes out is the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from optsched.apart import Note, do_apart
from optsched.clock import Clock, WallClock
from optsched.errors import UsageError

if TYPE_CHECKING:
    from optsched.whatif.ask import Piece
    from optsched.whatif.futures import Future
    from optsched.whatif.rounds import RoundNow

Report = Callable[[str, float], None]
"""Hears how far all is: in words, and as a share of 1."""


class Executor(Protocol):
    """Does pieces of work; what one of them raises is raised."""

    def work(self, pieces: Sequence[Piece], report: Report) -> list[Future | RoundNow]:
        """Return what the pieces come to, in their order."""
        ...


def _tell(report: Report, done: int, total: int) -> None:
    report(f"{done} of {total} rounds and futures", done / total if total else 1.0)


def _do(piece: Piece) -> Future | RoundNow:
    return piece.work(WallClock())


def _do_apart(piece: Piece, note: Note) -> Future | RoundNow:
    return _do(piece)


class Here:
    """This process, one piece after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def work(self, pieces: Sequence[Piece], report: Report) -> list[Future | RoundNow]:
        """Return what the pieces come to, in their order."""
        found: list[Future | RoundNow] = []
        for piece in pieces:
            _tell(report, len(found), len(pieces))
            found.append(piece.work(self._clock))
        return found


class Processes:
    """At most `jobs` processes of this machine."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def work(self, pieces: Sequence[Piece], report: Report) -> list[Future | RoundNow]:
        """Return what the pieces come to, in their order."""
        return do_apart(_do_apart, pieces, self._jobs, lambda done, share: _tell(report, done, len(pieces)))


class Ray:
    """A Ray cluster: the one at `address`, else the one that the environment names, else one on this machine.

    It is left running where it was running before.
    """

    def __init__(self, address: str | None = None) -> None:
        try:
            self._ray: Any = importlib.import_module("ray")
        except ImportError as error:
            raise UsageError(
                "--executor ray: Ray is not installed; allowed: pip install 'optsched[ray]', or --executor processes"
            ) from error
        self._address = address

    def work(self, pieces: Sequence[Piece], report: Report) -> list[Future | RoundNow]:
        """Return what the pieces come to, in their order."""
        ray = self._ray
        ours = not ray.is_initialized()
        if ours:
            try:
                if self._address is None:
                    ray.init(log_to_driver=False, include_dashboard=False)
                else:
                    ray.init(address=self._address, log_to_driver=False)
            except (ConnectionError, ValueError) as error:
                what = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise UsageError(f"--ray-address: {what}; allowed: the address of a Ray cluster that runs") from error
        try:
            remote = ray.remote(_do)
            waits = [remote.remote(piece) for piece in pieces]
            left = list(waits)
            while left:
                _tell(report, len(waits) - len(left), len(waits))
                done, left = ray.wait(left, num_returns=1)
                ray.get(done)
            found: list[Future | RoundNow] = ray.get(waits)
            return found
        finally:
            if ours:
                ray.shutdown()
