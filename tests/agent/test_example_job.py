"""The example job loses nothing: killed, stopped, resized or with a damaged checkpoint, it ends with the same bits."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "service" / "examples" / "train.py"
STEPS = 60


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Ranks:
    """A gang of the example's processes. Their reports come through a named pipe, so they can be waited for."""

    def __init__(self, folder: Path, world: int, restore: str = "", **flags: object) -> None:
        self.pipe = folder.parent / f"reports-{free_port()}"
        os.mkfifo(self.pipe)
        self.reports = os.fdopen(os.open(self.pipe, os.O_RDWR), "r")
        given = {"folder": folder, "steps": STEPS} | flags
        words = [str(word) for key, value in given.items() for word in ("--" + key.replace("_", "-"), value)]
        common = {
            "PATH": os.environ["PATH"],
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "OPTSCHED_REPORTS": str(self.pipe),
            "OPTSCHED_RESTORE_VERSION": restore,
            "OMP_NUM_THREADS": "1",
        }
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(EXAMPLE), *words],
                env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]

    def checkpoint(self) -> str:
        """Wait for the next checkpoint that is reported."""
        while True:
            found = json.loads(self.reports.readline())
            if "checkpoint" in found:
                name: str = found["checkpoint"]
                return name

    def send(self, number: int) -> None:
        for each in self.processes:
            each.send_signal(number)

    def output(self) -> list[str]:
        """Wait until all have ended; return what each has written."""
        found = [each.communicate()[0] for each in self.processes]
        self.reports.close()
        return found


@pytest.fixture
def begin() -> Iterator[list[Ranks]]:
    """Gangs that are gone at the end of the test."""
    made: list[Ranks] = []
    yield made
    for gang in made:
        for each in gang.processes:
            each.kill()
            each.wait()


def digest(outputs: list[str]) -> str:
    """The digest of the weights, on which all ranks agree."""
    found = {match[1] for text in outputs if (match := re.search(r"done after step 60: (\w+)", text))}
    assert len(found) == 1, outputs
    return found.pop()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> str:
    return digest(Ranks(tmp_path_factory.mktemp("whole") / "c", 1, interval_s=0).output())


def step_of(text: str) -> int:
    match = re.search(r"goes on after step (\d+)", text)
    assert match is not None, text
    return int(match[1])


def test_the_size_does_not_matter(tmp_path: Path, uninterrupted: str, begin: list[Ranks]) -> None:
    begin.append(Ranks(tmp_path / "c", 3, interval_s=0))
    assert digest(begin[0].output()) == uninterrupted


def test_killed_and_resumed_at_another_size_it_ends_with_the_same_bits(
    tmp_path: Path, uninterrupted: str, begin: list[Ranks]
) -> None:
    begin.append(Ranks(tmp_path / "c", 2, interval_s=0.05, step_s=0.02))
    name = begin[0].checkpoint()
    begin[0].send(signal.SIGKILL)
    begin[0].output()
    begin.append(Ranks(tmp_path / "c", 3))
    outputs = begin[1].output()
    assert f"step-{step_of(outputs[0]):08d}" >= name
    assert 0 < step_of(outputs[0]) < STEPS
    assert digest(outputs) == uninterrupted


def test_told_to_stop_it_saves_ends_well_and_goes_on_from_that_very_step(
    tmp_path: Path, uninterrupted: str, begin: list[Ranks]
) -> None:
    begin.append(Ranks(tmp_path / "c", 2, interval_s=0.05, step_s=0.02))
    begin[0].checkpoint()
    # One rank alone hears it; the gang stops together.
    begin[0].processes[1].send_signal(signal.SIGTERM)
    outputs = begin[0].output()
    assert [each.returncode for each in begin[0].processes] == [0, 0]
    stops = {match[1] for text in outputs if (match := re.search(r"stopped after step (\d+)", text))}
    assert len(stops) == 1
    begin.append(Ranks(tmp_path / "c", 1))
    outputs = begin[1].output()
    assert step_of(outputs[0]) == int(stops.pop())
    assert digest(outputs) == uninterrupted


@pytest.mark.parametrize("damage", ["shard", "manifest", "incomplete"])
def test_a_damaged_checkpoint_is_passed_over(
    tmp_path: Path, uninterrupted: str, begin: list[Ranks], damage: str
) -> None:
    begin.append(Ranks(tmp_path / "c", 2, interval_s=0.05, step_s=0.02))
    begin[0].checkpoint()
    begin[0].checkpoint()
    begin[0].send(signal.SIGTERM)
    begin[0].output()
    last = max((tmp_path / "c").glob("step-*"))
    if damage == "shard":
        shard = last / "shard-1-of-2.npy"
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
    elif damage == "manifest":
        (last / "manifest.json").write_text("{")
    else:
        (last / "manifest.json").unlink()
    begin.append(Ranks(tmp_path / "c", 2))
    outputs = begin[1].output()
    assert f"passed over {last.name}" in outputs[0]
    assert 0 < step_of(outputs[0]) < int(last.name.removeprefix("step-"))
    assert digest(outputs) == uninterrupted


def test_it_goes_on_from_the_version_that_it_is_told_and_from_no_newer_one(
    tmp_path: Path, uninterrupted: str, begin: list[Ranks]
) -> None:
    begin.append(Ranks(tmp_path / "c", 1, interval_s=0.05, step_s=0.02))
    first = begin[0].checkpoint()
    begin[0].checkpoint()
    begin[0].send(signal.SIGTERM)
    begin[0].output()
    begin.append(Ranks(tmp_path / "c", 1, restore=first))
    outputs = begin[1].output()
    assert f"step-{step_of(outputs[0]):08d}" == first
    assert digest(outputs) == uninterrupted
