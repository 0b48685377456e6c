"""The PyTorch example: what of it needs no PyTorch, always; the whole of it where PyTorch is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.agent.test_example_job import free_port

EXAMPLES = Path(__file__).resolve().parents[2] / "service" / "examples"
PYTHON = os.environ.get("OPTSCHED_TORCH_PYTHON", sys.executable)
"""A Python that has PyTorch; this one, where nothing is said."""


@pytest.fixture(scope="module")
def whole() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("whole")
    finally:
        sys.path.remove(str(EXAMPLES))
        for name in ("whole", "checkpoints"):
            sys.modules.pop(name, None)


def test_the_newest_good_version_is_read_and_what_is_not_is_passed_over(whole: ModuleType, tmp_path: Path) -> None:
    assert whole.newest(tmp_path, "", bytes) is None
    for step in (1, 2, 3, 4):
        assert whole.save(tmp_path, step, b"state %d" % step) == f"step-{step:08d}"
    assert whole.newest(tmp_path, "", bytes) == (b"state 4", 4)
    assert whole.newest(tmp_path, "step-00000002", bytes) == (b"state 2", 2), "and no newer one than is wanted"
    (tmp_path / "step-00000004" / "manifest.json").unlink()
    (tmp_path / "step-00000003" / "state.pt").write_bytes(b"state X")
    assert whole.newest(tmp_path, "", bytes) == (b"state 2", 2)

    def picky(data: bytes) -> bytes:
        if data == b"state 2":
            raise RuntimeError("not what it was trained with")
        return data

    assert whole.newest(tmp_path, "", picky) == (b"state 1", 1)


def test_each_piece_of_a_batch_is_somebodys_whatever_the_size(whole: ModuleType) -> None:
    for world in range(1, 12):
        shares = [list(whole.share(8, rank, world)) for rank in range(world)]
        assert [piece for each in shares for piece in each] == list(range(8)), world
        sizes = [len(each) for each in shares]
        assert max(sizes) - min(sizes) <= 1


def test_it_is_due_after_the_interval_and_never_without_one(whole: ModuleType) -> None:
    assert not whole.due(109.9, 100.0, 10.0)
    assert whole.due(110.0, 100.0, 10.0)
    assert not whole.due(1e9, 100.0, 0.0)


def test_reports_are_lines_in_the_agents_file(
    whole: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPTSCHED_REPORTS", raising=False)
    whole.report(step=1)
    monkeypatch.setenv("OPTSCHED_REPORTS", str(tmp_path / "reports"))
    whole.report(checkpoint="step-1", step=1)
    whole.report(done=True)
    lines = (tmp_path / "reports").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"checkpoint": "step-1", "step": 1}, {"done": True}]


# With PyTorch


def has_torch() -> bool:
    if sys.executable == PYTHON:
        return importlib.util.find_spec("torch") is not None
    return subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0


needs_torch = pytest.mark.skipif(not has_torch(), reason="PyTorch is not installed")


def begin(folder: Path, world: int, *more: str) -> list[subprocess.Popen[str]]:
    """Ranks as an agent starts them."""
    port = str(free_port())
    common = {
        "PATH": os.environ["PATH"],
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
        "OPTSCHED_REPORTS": str(folder / "reports"),
    }
    command = [PYTHON, str(EXAMPLES / "train_torch.py"), "--folder", str(folder / "c"), "--steps", "60", *more]
    return [
        subprocess.Popen(
            command,
            env=common | {"WORLD_SIZE": str(world), "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def ended(ranks: list[subprocess.Popen[str]]) -> list[str]:
    output = [each.communicate(timeout=120)[0] for each in ranks]
    assert [each.returncode for each in ranks] == [0] * len(ranks), output
    return output


def norm(output: list[str]) -> float:
    found = {match[1] for text in output if (match := re.search(r"done after step 60: ([0-9.]+)", text))}
    assert len(found) == 1, output
    return float(found.pop())


@needs_torch
def test_told_to_stop_it_saves_and_goes_on_at_another_size(tmp_path: Path) -> None:
    tmp_path.joinpath("whole").mkdir()
    uninterrupted = norm(ended(begin(tmp_path / "whole", 1, "--interval-s", "0")))
    ranks = begin(tmp_path, 2, "--interval-s", "0.2", "--step-s", "0.05")
    while not (tmp_path / "reports").exists():
        assert all(each.poll() is None for each in ranks)
    # One rank alone hears it; the gang stops together.
    ranks[1].send_signal(signal.SIGTERM)
    output = ended(ranks)
    stops = {match[1] for text in output if (match := re.search(r"stopped after step (\d+), saved", text))}
    assert len(stops) == 1
    output = ended(begin(tmp_path, 3, "--interval-s", "0"))
    assert f"goes on after step {stops.pop()}\n" in output[0]
    assert norm(output) == pytest.approx(uninterrupted, rel=1e-4)
