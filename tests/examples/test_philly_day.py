"""The trace that comes with optsched: what is in it, and that it is what the script derives."""

from __future__ import annotations

from pathlib import Path

from benchmarks import philly_day
from optsched.files import load_cluster
from optsched.files.traces import load_trace
from optsched.sim.traces.fill import fill
from tests.files.shared import DATA, needs_data


def test_it_has_gangs_and_all_fit_the_cluster_that_comes_with_it() -> None:
    trace, _ = load_trace([philly_day.OUTPUT])
    assert len(trace.jobs) == 428
    assert sum(job.gpus >= 16 for job in trace.jobs) == 22
    assert max(job.gpus for job in trace.jobs) == 128
    filled = fill(trace, load_cluster("philly-160"))
    assert (len(filled.workload.arrivals), filled.left_out) == (428, {})
    assert {team.id for team in filled.workload.teams} == {job.team for job in trace.jobs}


@needs_data
def test_the_script_derives_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "again.csv.gz"
    philly_day.main([str(DATA), str(path)])
    assert load_trace([path])[0].jobs == load_trace([philly_day.OUTPUT])[0].jobs
