"""Results as they are read: what a simulation writes is taken as it is, all else is refused with its path."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from optsched.errors import Fault, InputError
from optsched.sim.failures import Failures, Repairs
from optsched.sim.results import Comparison, from_json, to_json
from optsched.sim.settings import SimSettings
from tests.sim.made import result

TEXT = to_json(Comparison((result(seed=4),)))
"""Two hours of 24 GPUs on 6 nodes, with 6 samples and 2 maps of the nodes."""

WRITES = "what optsched simulate --format json writes"

Change = Callable[[dict[str, Any]], object]


def put(path: str, value: object) -> Change:
    """Return what puts a value at a path of the only result."""
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]

    def change(file: dict[str, Any]) -> None:
        inside: Any = file["results"][0]
        for part in way:
            inside = inside[part]
        inside[last] = value

    return change


def refused(*changes: Change) -> tuple[Fault, ...]:
    """Return the faults of the file after some changes."""
    file = json.loads(TEXT)
    for change in changes:
        change(file)
    with pytest.raises(InputError) as found:
        from_json(json.dumps(file), "x.json")
    return found.value.faults


def told(*changes: Change) -> list[str]:
    """Return the lines without the name of the file, and paths without that of the only result."""
    return [str(fault).removeprefix("x.json: ").removeprefix("results.0.") for fault in refused(*changes)]


def test_what_a_simulation_writes_is_read_as_it_is() -> None:
    for seed in range(6):
        found = Comparison((result(seed), result(seed, "easy-backfill")))
        assert from_json(to_json(found), "x.json") == found


def test_before_anything_has_happened_there_are_results_too() -> None:
    found = Comparison((result(settings=SimSettings(until_s=0.0)),))
    assert from_json(to_json(found), "x.json") == found
    assert found.results[0].metrics.waits[0].jobs == 0


def test_a_share_error_above_1_is_honest() -> None:
    """Quotas stand as they are while most of the cluster is down: more is owed than there is."""
    often = Failures("x", gpu=0.3, node=0.1, process=0.3, repairs=Repairs(0.5, 600.0, 7200.0))
    settings = SimSettings(seed=2, failures=often, sample_every_s=300.0, until_s=7200.0)
    found = Comparison((result(2, settings=settings, racks=1, jobs=30),))
    assert max(found.results[0].series.share_error) > 1
    assert from_json(to_json(found), "x.json") == found


NOT_IN_RANGE: list[tuple[str, object, str]] = [
    ("metrics.utilisation", float("nan"), "given NaN; allowed: a number from 0 to 1"),
    ("metrics.utilisation", -3, "given -3; allowed: a number from 0 to 1"),
    ("metrics.goodput", 7, "given 7; allowed: a number from 0 to 1"),
    ("metrics.goodput", 1e308, "given 1e+308; allowed: a number from 0 to 1"),
    ("metrics.fragmentation", 1e308, "given 1e+308; allowed: a number from 0 to 1"),
    ("metrics.share_error", float("inf"), "given Infinity; allowed: a number from 0 to 1e15"),
    ("metrics.share_error", 25, "given 25; allowed: from 0 to gpus, 24"),
    ("metrics.utilisation", "0.5", "given '0.5'; allowed: a number from 0 to 1"),
    ("metrics.utilisation", None, "given null; allowed: a number from 0 to 1"),
    ("metrics.gpu_time.lost", -1, "given -1; allowed: a whole number of GPU·ms from 0 to 1e28"),
    ("metrics.waits.0.wait_s.p50", float("-inf"), "given -Infinity; allowed: a number from 0 to 1e15"),
    ("metrics.waits.0.jobs", 1.5, "given 1.5; allowed: a whole number from 0 to 1e15"),
    ("metrics.jobs.completed", True, "given true; allowed: a whole number from 0 to 1e15"),
    ("metrics.jobs", [], "given a list of 0; allowed: a mapping"),
    ("end_s", 1e308, "given 1e+308; allowed: a number of seconds from 0 to 1e13"),
    ("end_s", 1e30, "given 1e+30; allowed: a number of seconds from 0 to 1e13"),
    ("end_s", -1, "given -1; allowed: a number of seconds from 0 to 1e13"),
    ("gpus", 0, "given 0; allowed: a whole number of GPUs from 1 to 1e12"),
    ("gangs.0.runs.0.start_s", float("nan"), "given NaN; allowed: a number of seconds from 0 to 1e13"),
    ("gangs.0.end_s", "x", "given 'x'; allowed: a number of seconds from 0 to 1e13, or null"),
    ("policy", 3, "given 3; allowed: a text"),
    ("timing.wall_s", float("nan"), "given NaN; allowed: a number of seconds from 0 to 1e13"),
]


@pytest.mark.parametrize(("path", "value", "said"), NOT_IN_RANGE)
def test_each_value_is_in_its_range(path: str, value: object, said: str) -> None:
    assert told(put(path, value)) == [f"{path}: {said}"]


NOT_TOGETHER: list[tuple[str, object, str]] = [
    (
        "maps.0.booked",
        [1],
        "maps.0.booked: given a list of 1; allowed: one for each of the 6 nodes",
    ),
    ("maps.0.state", ["x"], "maps.0.state: given a list of 1; allowed: one for each of the 6 nodes"),
    ("maps.1.booked.0", 5, "maps.1.booked.0: given 5; allowed: up to the node's GPUs, 4"),
    (
        "maps.1.state.2",
        "x",
        "maps.1.state.2: no state of a node; allowed: one of: cordoned, down, draining, probing, suspect, up",
    ),
    ("maps.1.at_s", 1.0, "maps: their instants go back; allowed: in the order of time"),
    ("maps.1.at_s", 9e9, "maps: the last is at 9e+09 s; allowed: up to end_s, 7200 s"),
    ("nodes.0.gpus", 5, "nodes: they have 25 GPUs; allowed: nodes that have all 24 of gpus"),
    ("gpus", 25, "nodes: they have 24 GPUs; allowed: nodes that have all 25 of gpus"),
    ("series.queued_gpus", [], "series.queued_gpus: given a list of 0; allowed: as many as at_s has, 7"),
    ("series.places.held", [0], "series.places.held: given a list of 1; allowed: as many as at_s has, 7"),
    ("series.tiers.fair.0", 99, "series.tiers.fair: one of them is 99; allowed: GPUs up to gpus, 24"),
    ("series.at_s.1", 7000, "series.at_s: their instants go back; allowed: in the order of time"),
    (
        "metrics.waits",
        [],
        "metrics.waits: no entry is named 'all'; allowed: an entry 'all', then one for each size of jobs",
    ),
    (
        "metrics.waits.0.name",
        "any",
        "metrics.waits: no entry is named 'all'; allowed: an entry 'all', then one for each size of jobs",
    ),
    (
        "metrics.waits.1.name",
        "all",
        "metrics.waits.1.name: a name that another entry has; allowed: a name of its own for each",
    ),
    ("metrics.waits.0.never_started", 13, "metrics.waits.0.never_started: given 13; allowed: up to jobs, 12"),
    (
        "metrics.waits.0.wait_s.max",
        0,
        "metrics.waits.0.wait_s: p50, p90, p99 and max fall; allowed: each no less than the one before",
    ),
    ("metrics.promises.kept", 9, "metrics.promises: kept, missed and open add up to 9; allowed: as many as made, 5"),
    (
        "metrics.gpu_time.useful",
        10**9,
        "metrics.gpu_time: its parts add up to 1,083,212,604; allowed: up to its capacity, 172,800,000",
    ),
    (
        "gangs.0.runs.0.end_s",
        9000,
        "gangs.0.runs.0: started at 1440 s, over at 9000 s; allowed: over after its start, up to end_s, 7200 s",
    ),
    (
        "gangs.0.submitted_s",
        8000,
        "gangs.0: submitted at 8000 s, over at 7200 s; allowed: over after it was submitted, up to end_s, 7200 s",
    ),
]


@pytest.mark.parametrize(("path", "value", "said"), NOT_TOGETHER)
def test_what_belongs_together_fits_together(path: str, value: object, said: str) -> None:
    assert told(put(path, value)) == [said]


def test_maps_without_nodes_are_refused() -> None:
    lines = told(put("nodes", []))
    assert lines[0] == "nodes: they have 0 GPUs; allowed: nodes that have all 24 of gpus"
    assert "maps.0.booked: given a list of 6; allowed: one for each of the 0 nodes" in lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"results":[],"format":1}', "results: given a list of 0; allowed: a list of one result or more"),
        ('{"format":1}', "results: is missing; allowed: a list of one result or more"),
        (TEXT.replace(',"format":1', ""), "format: is missing; allowed: 1"),
        (TEXT.replace('"format":1', '"format":2,"more":3'), "format: given 2; allowed: 1"),
        (
            TEXT.replace('"format":1', '"format":1,"foo":1'),
            "foo: is not known; allowed: known keys: format, results",
        ),
        (
            TEXT.replace('"metrics":{', '"metrics":{"good_put":1,', 1),
            "results.0.metrics.good_put: is not known; allowed: did you mean 'goodput'? known keys: ",
        ),
        ("[]", "the file: given a list of 0; allowed: a mapping with the keys: format, results"),
        ("[" * 100_000, "the file: Invalid JSON: recursion limit exceeded at line 1 column "),
        ("", "the file: Invalid JSON: "),
    ],
)
def test_what_is_no_file_of_results_is_refused_in_a_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as found:
        from_json(text, "x.json")
    assert len(found.value.faults) == 1
    assert str(found.value).startswith(f"x.json: {said}")


def test_of_many_faults_ten_are_told_and_of_a_list_one() -> None:
    every = [
        put(f"metrics.waits.{index}.wait_s.{key}", -1) for index in range(3) for key in ("p50", "p90", "p99", "max")
    ]
    lines = told(put("series.at_s", [-1] * 9), *every)
    assert len(lines) == 11
    assert lines[-1] == f"(more): 3 more faults are not listed; allowed: {WRITES}"
    assert sum("series.at_s" in line for line in told(put("series.at_s", [-1] * 9))) == 1
