"""TCP ports that are kept free for runs, so that rank 0 of a gang can listen where its others look for it."""

from __future__ import annotations

import socket
from collections.abc import Collection

import numpy as np

from optsched.agent.values import Key


class Ports:
    """Ports of a range. One is held by being bound, which keeps others from it until it is let go.

    The range should lie below the ephemeral ports of the machine. Where to begin is drawn, so that several agents on
    one machine seldom want the same.
    """

    def __init__(self, first: int, last: int, draw: np.random.Generator) -> None:
        self._range = range(first, last + 1)
        self._draw = draw
        self._held: dict[Key, socket.socket] = {}

    def hold(self, key: Key, taken: Collection[int], wanted: int = 0) -> int:
        """Hold a port that is not among `taken` (`wanted`: that one), and return it; 0 where there is none."""
        if key in self._held:
            port: int = self._held[key].getsockname()[1]
            return port
        begin = int(self._draw.integers(len(self._range)))
        order = [wanted] if wanted else [*self._range[begin:], *self._range[:begin]]
        for port in order:
            if port in taken:
                continue
            held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                held.bind(("", port))
            except OSError:
                held.close()
                continue
            self._held[key] = held
            return port
        return 0

    def free(self, key: Key) -> None:
        """Let a run's port go."""
        held = self._held.pop(key, None)
        if held is not None:
            held.close()

    def close(self) -> None:
        """Let all go."""
        for key in list(self._held):
            self.free(key)
