"""Policies side by side: what is kept of each, what is not simulated twice, and how large gangs are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import compare_policies
from benchmarks.compare_policies import Workload, late, main
from optsched.sim.results import Gang, GangRun, from_json
from optsched.values.trace import Trace, TraceJob

JOBS = tuple(TraceJob(f"j{i}", i * 120.0, (1, 8, 16, 256)[i % 4], 1800.0 + 60 * i) for i in range(12))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workload of a dozen jobs, of which three have 256 GPUs."""
    made = Workload("small", "h100-10k", 7200.0, 60.0, lambda path, seed: Trace("x", "x", JOBS))
    monkeypatch.setitem(compare_policies.WORKLOADS, "fleet", made)


def test_results_are_kept_and_shown(small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each policy leaves a file that `optsched report` reads; a second call simulates only what is missing."""
    folder = str(tmp_path / "found")
    main(["fleet", "--folder", folder, "--policy", "greedy"])
    first = capsys.readouterr()
    assert "| wait of 256+ GPUs (3 jobs) | " in first.out
    assert "greedy: " in first.err
    (found,) = from_json((tmp_path / "found" / "greedy.json").read_text(), "x").results
    assert (found.policy, found.workload, found.end_s, len(found.gangs)) == ("greedy", "small", 7200.0, 3)
    main(["fleet", "--folder", folder, "--policy", "greedy,fifo-best-fit"])
    second = capsys.readouterr()
    assert "greedy" not in second.err
    assert "| | greedy | fifo-best-fit |" in second.out
    main(["--show", folder])
    assert capsys.readouterr().out == second.out
    main(["--show", folder, folder])
    pooled = capsys.readouterr().out.removeprefix(2 * second.out)
    assert pooled.startswith("2 simulations together\n")
    assert "| greedy | 6, " in pooled
    assert "| fifo-best-fit | 6, " in pooled


def test_large_gangs_count_from_their_submission_and_not_those_of_the_very_beginning() -> None:
    """One started 100 s after it came, one was withdrawn after 50 s, one waits still at 1,000 s; the first is old."""

    def gang(submitted_s: float, started_s: float | None, end_s: float | None, gpus: int = 256) -> Gang:
        runs = () if started_s is None else (GangRun(started_s, started_s + 9, gpus, "pod", "", {}),)
        return Gang("g", "t", gpus, submitted_s, end_s, "queued", runs, ())

    waits, never = late(
        [
            gang(0, 500, None),
            gang(10, 110, 400),
            gang(20, None, 70),
            gang(400, None, None),
            gang(10, 900, None, gpus=255),
        ],
        end_s=1000.0,
    )
    assert (waits.count, waits.p50, waits.max, never) == (3, 100.0, 600.0, 2)


def test_names_that_nobody_knows_are_refused(tmp_path: Path) -> None:
    """A policy, and the workload that needs a file."""
    with pytest.raises(SystemExit, match="given 'gredy'"):
        main(["fleet", "--folder", str(tmp_path), "--policy", "gredy"])
    with pytest.raises(SystemExit, match="--trace is missing"):
        main(["philly", "--folder", str(tmp_path), "--policy", "greedy"])
