"""What the tests of optsched.apart have done in other processes, where it is imported by its name; and a program."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from optsched.apart import Note, do_apart
from optsched.errors import CheckFailed, Fault, InputError


def square(number: int, note: Note) -> int:
    """The first one takes longest."""
    time.sleep(0.3 if number == 0 else 0)
    return number * number


def half_way(number: int, note: Note) -> int:
    """Tells that it is half done."""
    note(0.5)
    return number


class Odd(Exception):
    """Cannot be made anew from its arguments alone."""

    def __init__(self, number: int, *, why: str) -> None:
        super().__init__(f"{number} is odd: {why}")


def fails(what: str, note: Note) -> object:
    """Fail in some way."""
    match what:
        case "fault":
            raise InputError([Fault("a.yaml", 1, "gpus", "given -1", "1 or more"), Fault("a.yaml", 2, "x", "y", "z")])
        case "check":
            raise CheckFailed(["a gang is torn", "a node is full twice"])
        case "odd":
            raise Odd(3, why="so it is")
        case "lock":
            return threading.Lock()
        case _:
            os.kill(os.getpid(), signal.SIGKILL)
    return None


def endless(number: int, note: Note) -> int:
    """Work until this process is ended; only at first tell how far it is."""
    note(0.25)
    while True:
        pass


def _report(done: int, share: float) -> None:
    print(share, flush=True)


if __name__ == "__main__":
    try:
        do_apart(endless, [1, 2], 2, _report)
    except KeyboardInterrupt:
        sys.exit(130)
