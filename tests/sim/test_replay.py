"""Replays of scenario files: the same engine, agents that answer at once, one entry for each batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from optsched.cli.main import main
from optsched.engine.log import rebuild
from optsched.engine.state import initial
from optsched.files import load_scenario, parse_scenario
from optsched.files.schema_events import EVENTS
from optsched.sim.replay import Replay
from optsched.sim.scenario import KNOWN_TYPES
from tests.engine.driven import PLANNER

HELD_BACK = """
now: 60
profile: {base: default, min_runtime_s: 0}
cluster: {levels: [rack], nodes: [
  {id: n1, gpus: 8, domains: {rack: r1}}, {id: n2, gpus: 8, domains: {rack: r1}}]}
teams: [{id: t}]
jobs:
  - {id: A, team: t, gpus: 16, gpus_per_node: 8, preemptible: false, run: 1, started_at: 0, state: running,
     placement: {n1: 8, n2: 8}}
  - {id: B, team: t, gpus: 16, gpus_per_node: 8, submitted_at: 50}
events:
  - {at: 100, type: job_finished, job: A, run: 1, released_nodes: [n1]}
  - {at: 160, type: gpus_released, job: A, node: n2}
  - {at: 200, type: job_finished, job: A, run: 1}
  - {at: 300, type: preempt, job: A}
"""


def replayed(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, *options: str) -> tuple[int, str, str]:
    """Replay a scenario on the command line: exit code, standard output, standard error."""
    file = tmp_path / "story.yaml"
    file.write_text(text, encoding="utf-8")
    code = main(["replay", str(file), *options])
    found = capsys.readouterr()
    return code, found.out, found.err


def timeline(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> list[Mapping[str, Any]]:
    """The entries of the JSON output."""
    code, out, _ = replayed(text, capsys, tmp_path, "--format", "json")
    assert code == 0
    found = json.loads(out)
    assert list(found) == ["timeline"]
    return found["timeline"]


def test_every_type_of_event_that_a_file_may_have_is_understood():
    """The schema and the engine know the same."""
    assert set(EVENTS) == KNOWN_TYPES


def test_there_is_an_entry_for_the_first_decision_and_one_after_each_batch(capsys, tmp_path):
    """Two events at one instant are one batch, and the keys are the documented ones."""
    entries = timeline(HELD_BACK.replace("at: 300", "at: 200"), capsys, tmp_path)
    assert [entry["at"] for entry in entries] == [60, 100, 160, 200]
    assert list(entries[0]) == ["at", "jobs", "nodes", "commands"]
    keys = ["state", "placement", "gpus", "run", "preemptions", "migrations", "reason"]
    assert list(entries[0]["jobs"]["A"]) == keys
    assert entries[0]["nodes"] == {"n1": {"state": "up", "free_gpus": 0}, "n2": {"state": "up", "free_gpus": 0}}


def test_gpus_come_free_when_the_scenario_says_so(capsys, tmp_path):
    """A is over at 100, n2 confirms at 160: only then B starts. Every job ever known stays listed."""
    entries = timeline(HELD_BACK, capsys, tmp_path)
    states = [(entry["jobs"]["A"]["state"], entry["jobs"]["B"]["state"]) for entry in entries]
    assert states[0] == ("running", "queued")
    assert states[1] == ("completed", "queued")
    assert states[2:] == [("completed", "running")] * 3
    assert entries[1]["nodes"]["n2"]["free_gpus"] == 0
    verbs = [(command["verb"], command["node"]) for command in entries[2]["commands"]]
    assert verbs == [("reserve", "n1"), ("reserve", "n2"), ("start", "n1"), ("start", "n2")]
    assert {command["run"] for command in entries[2]["commands"]} == {1}


def test_a_request_that_cannot_be_is_told_and_changes_nothing(capsys, tmp_path):
    """A is completed when an operator preempts it: a conflict, in the story, and no more."""
    code, out, _ = replayed(HELD_BACK, capsys, tmp_path)
    assert code == 0
    assert "job A is completed: only what runs can be preempted" in out


def test_the_text_tells_what_happened_and_why(capsys, tmp_path):
    """In order of time, who and why; B's room is told once, though it starts later than it was given."""
    _, out, _ = replayed(HELD_BACK, capsys, tmp_path)
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "story · t = 60 s · profile default · 4 events"
    assert lines.index("t = 100 s · after 40 s") < lines.index("A  completed") < lines.index("B  16 GPUs on n1, n2")
    assert sum("B  16 GPUs" in line for line in lines) == 1
    assert any("already" in line and line.startswith("A  stale") for line in lines)


def test_the_story_of_one_job_leaves_the_others_out(capsys, tmp_path):
    """And a job that nobody knows is a fault of the call."""
    _, out, _ = replayed(HELD_BACK, capsys, tmp_path, "--job", "B")
    assert "B  16 GPUs" in out
    assert "A  completed" not in out
    code, _, err = replayed(HELD_BACK, capsys, tmp_path, "--job", "C")
    assert (code, err) == (2, "optsched: no job is called C\n")


def test_a_file_that_is_wrong_is_refused_like_everywhere(capsys, tmp_path):
    """A line for the fault, exit code 2."""
    code, out, err = replayed(HELD_BACK.replace("type: preempt", "type: premept"), capsys, tmp_path)
    assert (code, out) == (2, "")
    assert "premept" in err
    assert "did you mean" in err


def test_a_snapshot_without_events_is_one_decision(capsys, tmp_path):
    """It is told that there was nothing more to replay."""
    code, _, err = replayed(HELD_BACK[: HELD_BACK.index("events:")], capsys, tmp_path)
    assert code == 0
    assert "no events" in err


def test_the_same_scenario_gives_the_same_story_and_its_log_the_same_state():
    """Nothing in it depends on a clock or on chance."""
    scenario, _ = parse_scenario(yaml.safe_load(HELD_BACK))
    first, again = Replay(scenario, PLANNER), Replay(scenario, PLANNER)
    assert list(first.run()) == list(again.run())
    assert rebuild(initial(scenario.start), first.log) == first.state


def test_what_time_alone_brings_happens_between_the_batches(capsys, tmp_path):
    """Deadline 3600, due at 3360 (grace 120, latency 60, margin 60). The next event is at 9000; d runs since 3360."""
    text = """
now: 0
cluster: {levels: [], nodes: [{id: a, gpus: 8}]}
teams: [{id: t}]
jobs:
  - {id: v, team: t, gpus: 8, state: running, started_at: -3600, submitted_at: -3600, placement: {a: 8}}
  - {id: d, team: t, gpus: 8, start_deadline_at: 3600}
events: [{at: 9000, type: job_finished, job: d}]
"""
    entries = timeline(text, capsys, tmp_path)
    starts = [command for command in entries[-1]["commands"] if command["verb"] == "start" and command["job"] == "d"]
    assert [command["at"] for command in starts] == [3360]
    assert [entries[-1]["jobs"][job]["state"] for job in "vd"] == ["running", "completed"]


CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases" / "scenarios"


@pytest.mark.skipif(not CASES.is_dir(), reason="the cases do not lie beside this checkout")
@pytest.mark.parametrize("file", sorted(CASES.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_case_with_events_ends_as_it_must(file: Path):
    """The states that it expects at its end and at the moments that it names."""
    given = yaml.safe_load(file.read_text())
    if not given.get("events"):
        pytest.skip("one decision, judged elsewhere")
    scenario, _ = load_scenario(file)
    moments = list(Replay(scenario, PLANNER).run())
    for expect, until in (
        (given["expect"], float("inf")),
        *((each, each["at"]) for each in given["expect"].get("at", [])),
    ):
        moment = [each for each in moments if each.at <= until][-1]
        for job, state in expect.get("states", {}).items():
            found = moment.state.record(job)
            assert found is not None
            assert found.state.value in ([state] if isinstance(state, str) else state), (job, until)
