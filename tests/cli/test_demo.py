"""The demo shows what it says, and leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from optsched.cli.demo import example_job
from optsched.cli.demo_cluster import left


@pytest.mark.slow
def test_the_demo_shows_it_all_and_leaves_nothing(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "optsched.cli", "demo"],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    shown = found.stdout.partition("What was shown, and checked:")[2]
    for word in ("whole", "cheapest victim", "very step", "lost an agent", "bit for bit", "nothing is left"):
        assert word in shown
    assert left(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 1)])
def test_one_that_is_interrupted_leaves_nothing_either(tmp_path: Path, number: int, code: int) -> None:
    """When its agents are just being started."""
    with subprocess.Popen(
        [sys.executable, "-m", "optsched.cli", "demo"],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        while "serves gRPC" not in demo.stdout.readline():
            pass
        demo.send_signal(number)
        demo.stdout.read()
        assert demo.wait() == code
    assert left(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_the_program_that_it_runs_is_there() -> None:
    assert example_job().is_file()
