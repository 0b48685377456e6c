"""What one job is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optsched.cli.explain import near
from optsched.cli.main import main
from optsched.cli.render_explain import Answer, explain_to_json, explain_to_text
from optsched.cli.terminal import Style
from tests.cli.builders import plan, snapshot, write_file

PLAN = plan()
MOVED, RESIZED = PLAN.migrations[0], PLAN.resizes[0]


def text(job: str, answer: Answer, width: int = 100) -> list[str]:
    shown = snapshot()
    asked = next(entry for entry in shown.jobs if entry.id == job)
    made = explain_to_text(shown, asked, answer, width=width, style=Style()).splitlines()
    assert all(len(line) <= width for line in made)
    return made


def found(job: str, answer: Answer) -> dict[str, Any]:
    asked = next(entry for entry in snapshot().jobs if entry.id == job)
    result = json.loads(explain_to_json(asked, answer))
    assert isinstance(result, dict)
    return result


def test_a_job_that_waits_learns_why_and_what_would_help() -> None:
    assert text("huge", PLAN.queued[0]) == [
        "huge · team vision · priority P2 · 64 GPUs · queued for 10 h",
        "",
        "Waits: no domain fits",
        "  0 of 2 blocks can hold it: 2 with too few GPUs",
        "  → Would help: it can start in 3 h 12 min",
    ]


def test_a_job_that_starts_learns_where_why_there_and_who_goes_for_it() -> None:
    lines = text("big", PLAN.starts[0])
    assert lines[0] == (
        "big · team vision · priority P1 · 16 GPUs · inside one block · rack preferred · queued for 1 h"
    )
    assert lines[2:4] == ["Starts: rack b0r0: 2 × 8", "  waits for train to go"]
    assert "  inside one rack, as preferred" in lines
    assert lines[-1].split() == ["train", "nlp", "P3", "16", "running", "for", "1", "h", "30", "min"]


def test_a_job_that_is_stopped_learns_for_whom() -> None:
    lines = text("train", PLAN.preemptions[0])
    assert "Is stopped: for big" in lines
    assert "  has 2 min to write a checkpoint and exit" in lines
    assert "  costs 20.0 GPU-h, 1 h 12 min of work of each GPU is lost" in lines


def test_a_job_that_moves_or_changes_size_learns_it() -> None:
    assert "Is moved: for one" in text("small", MOVED)
    assert "Is resized: 8 → 4 GPUs" in text("grow", RESIZED)


def test_a_job_that_nothing_happens_to_learns_where_it_runs() -> None:
    assert text("nine", None)[2:] == ["Runs on unchanged", "  b1r1n1[2,3]"]


@pytest.mark.parametrize(
    ("job", "answer", "outcome"),
    [
        ("huge", PLAN.queued[0], "queued"),
        ("big", PLAN.starts[0], "starts"),
        ("train", PLAN.preemptions[0], "stopped"),
        ("small", MOVED, "moved"),
        ("grow", RESIZED, "resized"),
        ("nine", None, "runs_on"),
    ],
)
def test_json_has_the_outcome_and_the_entry_of_the_plan(job: str, answer: Answer, outcome: str) -> None:
    result = found(job, answer)
    assert list(result) == ["job", "outcome", "entry"]
    assert result["outcome"] == outcome
    assert (result["entry"] is None) == (answer is None)
    if answer is not None:
        assert result["entry"]["job"] == job


def test_the_command_asks_for_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("optsched.planner.plan.explain_job", lambda *_: PLAN.queued[0], raising=False)
    assert main(["explain", write_file(tmp_path), "huge", "--format", "json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["entry"]["reason"] == "no_domain_fits"


def test_an_unknown_job_is_refused_with_names_like_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_file(tmp_path)
    assert main(["explain", path, "wait-3"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}: JOB: there is no job 'wait-3'; allowed: did you mean wait-")
    assert err.endswith("the id of one of the snapshot's 9 jobs\n")


def test_an_unknown_job_with_a_strange_name_does_no_harm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", write_file(tmp_path), "\x1b[31m" + "x" * 500]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert err.count("\n") == 1


def test_names_are_found_among_very_many() -> None:
    names = [f"job-{number}" for number in range(100_000)] + ["pretrain-7"]
    assert near("pretrian-7", names, 1) == ["pretrain-7"]
    assert near("nothing like it", names) == []
