"""The example that ships is a valid, busy cluster, and says what is real about it and what is assumed."""

import gzip
import json
from pathlib import Path

import optsched
from optsched.files.snapshots import load_snapshot
from optsched.values.job import JobState

EXAMPLE = Path(optsched.__file__).parent / "examples" / "philly-busy.json.gz"


def test_it_loads_and_only_the_lending_of_quotas_is_noted():
    snapshot, warnings = load_snapshot(EXAMPLE)
    assert all("quota" in warning for warning in warnings)
    assert len(snapshot.cluster.nodes) == 552
    assert sum(node.gpus for node in snapshot.cluster.nodes) == 321 * 2 + 231 * 8
    assert len(snapshot.teams) == 15


def test_it_is_busy_and_large_gangs_wait():
    snapshot, _ = load_snapshot(EXAMPLE)
    used = sum(job.placed_gpus for job in snapshot.jobs)
    queued = [job for job in snapshot.jobs if job.state is JobState.QUEUED]
    assert 0.93 * 2490 <= used <= 0.98 * 2490
    assert 100 <= len(queued) <= 300
    assert max(job.gpus for job in queued) == 128


def test_it_says_where_it_comes_from():
    about = json.loads(gzip.decompress(EXAMPLE.read_bytes()))["about"]
    assert set(about) == {"what", "source", "licence", "derived", "assumptions"}
    assert "{" not in json.dumps(about["assumptions"])
