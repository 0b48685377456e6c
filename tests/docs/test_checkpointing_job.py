"""The job of docs/checkpointing-job.md runs, stops, skips what is damaged and goes on; its tables are complete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from optsched.agent.environment import environment_of
from optsched.agent.values import Key, StartSpec, Task
from tests.docs.pages import ROOT, files, first_cells

PAGE = ROOT / "docs" / "checkpointing-job.md"


def go(tmp_path: Path, restore: str = "") -> str:
    script = tmp_path / "smallest.py"
    script.write_text(files(PAGE)["smallest.py"], encoding="utf-8")
    versions = tmp_path / "versions"
    versions.mkdir(exist_ok=True)
    given = {"OPTSCHED_REPORTS": str(tmp_path / "reports"), "OPTSCHED_RESTORE_VERSION": restore}
    found = subprocess.run(
        [sys.executable, str(script), str(versions)],
        env={"PATH": os.environ["PATH"], **given},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout


def test_the_smallest_job_saves_reports_and_goes_on_with_the_same_result(tmp_path: Path) -> None:
    whole = go(tmp_path)
    assert whole.startswith("goes on after step 0\n")
    assert (tmp_path / "reports").read_text().count('"checkpoint"') == 4
    versions = tmp_path / "versions"
    (versions / "step-000100.npy").unlink()
    (versions / "step-000075.npy").write_bytes(b"\x93NUMPY damaged")
    again = go(tmp_path)
    assert "passed over step-000075" in again
    assert "goes on after step 50\n" in again
    assert again.splitlines()[-1] == whole.splitlines()[-1]
    assert "goes on after step 25\n" in go(tmp_path, restore="step-000025")


def test_the_table_of_variables_is_what_a_task_gets() -> None:
    spec = StartSpec(("x",), {}, "", "u", "t", (Task(0, 0, (0,), 1),), 1, 1, 0, 1, "h", 1, array_index=1)
    given = set(environment_of(Key("j", 1), spec, spec.tasks[0], "n", "r", {}))
    told = set(first_cells(PAGE, "What it finds"))
    internal = {"USER", "LOGNAME", "CUDA_DEVICE_ORDER", "GROUP_RANK"}
    pet = {name for name in given if name.startswith("PET_")}
    assert told == given - internal - pet | {"PET_NNODES"}
