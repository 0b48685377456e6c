"""Where the process begins: imports take a while, and whatever happens meanwhile shows no traceback either."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> int:
    """Run the command line on what this process was given, and return its exit code."""
    open_closed_streams()
    # In the background of a shell interrupts are ignored, and stay so.
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, _end)
    from optsched.cli.main import main as run

    try:
        try:
            if heeded:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            return run()
        finally:
            # Python has yet to take itself down.
            if heeded:
                signal.signal(signal.SIGINT, _end)
    except KeyboardInterrupt:
        return INTERRUPTED


def open_closed_streams() -> None:
    """Have standard streams that were closed read and write /dev/null.

    The first file to be opened would take their number otherwise, and be read or written in their stead.
    """
    # In this order each is given the lowest number that is free, its own.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        os.set_inheritable(stream.fileno(), True)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
