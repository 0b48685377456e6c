"""Programs in sessions of their own, as from a terminal of their own, and who is left of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 60.0


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Have a Python program run in a session of its own; nothing of it is left in the end."""
    program = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    try:
        yield program
    finally:
        for number in living(program.pid):
            os.kill(number, 9)
        program.communicate()


def living(session: int) -> dict[int, str]:
    """Return the processes of a session, and the command line of each."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            words = (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if int(of) == session and state != "Z":
            found[int(entry.name)] = words
    return found


def wait_for_workers(program: subprocess.Popen[str], count: int) -> None:
    """Wait until a program has so many processes that work for it."""
    end = time.monotonic() + PATIENCE_S
    while sum("spawn_main" in words for words in living(program.pid).values()) < count:
        assert program.poll() is None, program.communicate()
        assert time.monotonic() < end, "it has not started its processes"
        time.sleep(0.01)


def wait_until_gone(session: int) -> None:
    """Wait until nothing of a session is left."""
    end = time.monotonic() + PATIENCE_S
    while left := living(session):
        assert time.monotonic() < end, left
        time.sleep(0.01)
