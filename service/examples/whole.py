"""Versions that one rank writes whole: a file of bytes, and a manifest that makes it good. Nothing here needs PyTorch.

    FOLDER/step-00000120/state.pt        the bytes
                         manifest.json   written last: the step and the digest of the bytes

A version without a manifest, or with bytes that are not what the manifest says, is passed over.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from checkpoints import name_of, versions, write

T = TypeVar("T")

STATE = "state.pt"


def save(folder: Path, step: int, data: bytes) -> str:
    """Write a version; once this returns it is good and on the disk. Returns its name."""
    version = folder / name_of(step)
    version.mkdir(parents=True, exist_ok=True)
    write(version / STATE, data)
    manifest = {"step": step, "sha256": hashlib.sha256(data).hexdigest()}
    write(version / "manifest.json", json.dumps(manifest).encode())
    return version.name


def load(folder: Path, name: str) -> tuple[bytes, int]:
    """Return a version's bytes and its step. Raises ValueError, KeyError or OSError for one that is not good."""
    manifest = json.loads((folder / name / "manifest.json").read_text())
    data = (folder / name / STATE).read_bytes()
    if hashlib.sha256(data).hexdigest() != manifest["sha256"]:
        raise ValueError(f"{STATE} is damaged")
    return data, int(manifest["step"])


def newest(folder: Path, wanted: str, read: Callable[[bytes], T]) -> tuple[T, int] | None:
    """Return what `read` makes of the newest good version that is not newer than `wanted` ("": any), and its step."""
    for name in versions(folder):
        if wanted and name > wanted:
            continue
        try:
            data, step = load(folder, name)
            return read(data), step
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            print(f"passed over {name}: {error}", flush=True)
    return None


def due(now_s: float, saved_s: float, interval_s: float) -> bool:
    """Return whether it is time to save: `interval_s` after the last time; 0: never."""
    return interval_s > 0 and now_s - saved_s >= interval_s


def share(count: int, rank: int, world: int) -> range:
    """Return which pieces of a batch are a rank's: as even as can be, and each piece is somebody's."""
    each, more = divmod(count, world)
    first = rank * each + min(rank, more)
    return range(first, first + each + (rank < more))


def report(**what: object) -> None:
    """Tell the agent something, by a line in the file that it reads; elsewhere nobody is told."""
    path = os.environ.get("OPTSCHED_REPORTS")
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(what) + "\n")
