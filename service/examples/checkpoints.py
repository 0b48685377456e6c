"""Checkpoints in versions: a shard for each rank, written behind training, and good only once all of it is there.

    FOLDER/step-00000120/shard-0-of-2.npy     what rank 0 keeps: a part of one long array
                         shard-0-of-2.sha256  says that the shard is whole
                         manifest.json        written last, by rank 0: makes it a version

A version without a manifest, or with a shard that is not what the manifest says, is passed over.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WAIT_S = 0.01


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, and make sure that it is on the disk."""
    # A run that the scheduler has lost sight of may still write here: each writes beside under a name of its own.
    new = path.with_name(f"{path.name}.{os.environ.get('OPTSCHED_RUN', '0')}-{os.getpid()}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def name_of(step: int) -> str:
    """Return the name of the version after a step."""
    return f"step-{step:08d}"


def shard_of(state: Array, rank: int, world: int) -> Array:
    """Return the part of the state that one rank keeps."""
    return np.array_split(state, world)[rank]


class Saver:
    """Saves the state of one rank, behind training: `save` copies it in memory and returns, a thread writes it.

    A process that ends without `finish` leaves a version that is none: others must not wait for it.

    `told` is called on rank 0 with a version's name, its step, its bytes and the instant of its copy, once all ranks
    have written their part of it.
    """

    def __init__(self, folder: Path, rank: int, world: int, told: Callable[[str, int, int, float], None]) -> None:
        self._folder, self._rank, self._world, self._told = folder, rank, world, told
        self._thread: threading.Thread | None = None
        self._failed: Exception | None = None

    def save(self, state: Array, step: int) -> None:
        """Save the state after a step. Waits only where the version before is not yet written."""
        self.finish()
        mine = shard_of(state, self._rank, self._world).copy()
        self._thread = threading.Thread(target=self._write, args=(mine, step, time.time()), daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait until what was saved is written. Raises what went wrong with it."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failed is not None:
            raise self._failed

    def _write(self, mine: Array, step: int, taken_at: float) -> None:
        try:
            self._write_shard(mine, step)
            if self._rank == 0:
                size = self._commit(step)
                self._told(name_of(step), step, size, taken_at)
        except Exception as error:
            self._failed = error

    def _write_shard(self, mine: Array, step: int) -> None:
        version = self._folder / name_of(step)
        version.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.save(buffer, mine)
        data = buffer.getvalue()
        name = f"shard-{self._rank}-of-{self._world}"
        write(version / f"{name}.npy", data)
        write(version / f"{name}.sha256", hashlib.sha256(data).hexdigest().encode())

    def _commit(self, step: int) -> int:
        """Wait for the shards of all ranks, then make them a version; return its bytes."""
        version = self._folder / name_of(step)
        names = [f"shard-{rank}-of-{self._world}" for rank in range(self._world)]
        while not all((version / f"{name}.sha256").exists() for name in names):
            time.sleep(WAIT_S)
        digests = {f"{name}.npy": (version / f"{name}.sha256").read_text() for name in names}
        write(version / "manifest.json", json.dumps({"step": step, "shards": digests}).encode())
        return sum((version / f"{name}.npy").stat().st_size for name in names)


def versions(folder: Path) -> list[str]:
    """Return the names of all versions, good or not, the newest first."""
    return sorted((each.name for each in folder.glob("step-*")), reverse=True)


def load(folder: Path, name: str) -> tuple[Array, int]:
    """Return a version's state, whatever number of ranks has written it, and its step. Raises ValueError or OSError."""
    version = folder / name
    manifest = json.loads((version / "manifest.json").read_text())
    parts = []
    for shard, digest in manifest["shards"].items():
        data = (version / shard).read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"{shard} is damaged")
        parts.append(np.load(io.BytesIO(data)))
    return np.concatenate(parts), int(manifest["step"])


def newest(folder: Path, wanted: str = "") -> tuple[Array, int] | None:
    """Return the newest good version that is not newer than `wanted`, None where there is none.

    What is damaged is passed over.
    """
    for name in versions(folder):
        if wanted and name > wanted:
            continue
        try:
            return load(folder, name)
        except (OSError, ValueError, KeyError) as error:
            print(f"passed over {name}: {error}", flush=True)
    return None


def forget_after(folder: Path, step: int) -> None:
    """Remove what an earlier run wrote after a step: this run writes those versions anew."""
    for name in versions(folder):
        if name > name_of(step):
            shutil.rmtree(folder / name, ignore_errors=True)


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the newest versions."""
    for name in versions(folder)[count:]:
        shutil.rmtree(folder / name, ignore_errors=True)
