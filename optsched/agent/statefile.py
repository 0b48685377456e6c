"""The agent's folder on disk: one agent at a time, its state whole or not at all, a number for each of its starts.

agent.lock      held by the agent that works here
state.json      the core's state and the number of the last start
runs/JOB/RUN/   what a run and its keeper write
logs/JOB/RUN/   what its tasks write: rank-0.out, rank-0.err
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from optsched.agent.values import Key, Pending, Probed, Run, Said, Saved, State
from optsched.errors import StoreDamaged, StoreInUse

FORMAT = 1
LONGEST_NAME = 200
T = TypeVar("T", Said, Saved, Probed)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The state as it is on disk: no mapping by anything but text."""

    format: int
    session: int
    gpus: int
    epoch: int
    runs: tuple[Run, ...]
    newest: dict[str, int]
    said: tuple[Said, ...]
    saved: tuple[Saved, ...]
    probed: tuple[Probed, ...]
    next_id: int
    bad: frozenset[int]


_KEPT = TypeAdapter(_Kept)


class StateFolder:
    """The folder of one agent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.session = 0
        self._lock: int | None = None
        self._written: State | None = None

    def open(self, gpus: int, now: float) -> State:
        """Take the folder and return the state that it holds; where it is new, that of a node with so many GPUs.

        The number of this start is larger than any before, and at least the instant in milliseconds, so that it grows
        even where the folder was lost. Raises StoreInUse, StoreDamaged or OSError.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.path, self.path / "runs", self.path / "logs"):
            passable(folder)
        lock = os.open(self.path / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StoreInUse(f"{self.path}: another agent works in this folder") from None
        self._lock = lock
        before, state = self._read(gpus)
        self.session = max(before + 1, int(now * 1000))
        self.save(state)
        return state

    def _read(self, gpus: int) -> tuple[int, State]:
        file = self.path / "state.json"
        try:
            kept = _KEPT.validate_json(file.read_bytes())
        except FileNotFoundError:
            return 0, State(gpus)
        except ValidationError as error:
            raise StoreDamaged(f"{file}: is not what an agent wrote: {error.errors()[0]['msg']}") from None
        if kept.format != FORMAT:
            raise StoreDamaged(f"{file}: has format {kept.format}; this version reads {FORMAT}")
        pending: list[Pending] = sorted((*kept.said, *kept.saved, *kept.probed), key=lambda each: each.id)
        runs = {run.key: run for run in kept.runs}
        state = State(kept.gpus, kept.epoch, runs, kept.newest, tuple(pending), kept.next_id, kept.bad)
        return kept.session, replace(state, gpus=gpus)

    def save(self, state: State) -> None:
        """Store a state, durably, unless it is what is stored. Raises OSError."""
        if state is self._written:
            return
        kept = _Kept(
            FORMAT,
            self.session,
            state.gpus,
            state.epoch,
            tuple(state.runs.values()),
            dict(state.newest),
            _only(state.outbox, Said),
            _only(state.outbox, Saved),
            _only(state.outbox, Probed),
            state.next_id,
            state.bad,
        )
        put(self.path / "state.json", _KEPT.dump_json(kept))
        self._written = state

    def close(self) -> None:
        """Let the folder go."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def run_folder(self, key: Key) -> Path:
        """Return where a run's files are."""
        return self.path / "runs" / file_name(key.job) / str(key.run)

    def log_file(self, key: Key, rank: int, stream: str) -> Path:
        """Return where a task writes; `stream` is out or err."""
        return self.path / "logs" / file_name(key.job) / str(key.run) / f"rank-{rank}.{stream}"


def _only(outbox: Sequence[Pending], kind: type[T]) -> tuple[T, ...]:
    return tuple(each for each in outbox if isinstance(each, kind))


def file_name(name: str) -> str:
    """Return a name as one of a file: any name, of any length; different for different names."""
    safe = quote(name, safe="").replace(".", "%2E", 1) if name.startswith(".") else quote(name, safe="")
    if len(safe) <= LONGEST_NAME:
        return safe
    return f"{safe[: LONGEST_NAME - 65]}-{hashlib.sha256(name.encode()).hexdigest()}"


def passable(folder: Path) -> None:
    """Make a folder that others may pass through to their own files, whatever the umask; nobody may list it."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)


def put(path: Path, data: bytes) -> None:
    """Write a file whole and durably, for its owner alone. Raises OSError."""
    new = path.with_name(path.name + ".new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_json(path: Path) -> dict[str, object] | None:
    """Return an object from a file; None where there is none, or no object."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
