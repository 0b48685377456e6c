"""optsched bench quality: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optsched.cli.main import main


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["bench", "quality", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["bench", "quality", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_several_rounds_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each policy and one for each round, without colour where nobody looks."""
    words = ("--round", "floors", "--round", "cpu-hogs", "--policy", "greedy,fifo-best-fit")
    text = output(capsys, *words)
    lines = text.splitlines()
    assert "\x1b" not in text
    assert max(map(len, lines)) <= 100
    # greedy is at best in floors (0 %), and leaves 8 of 64 GPUs idle in cpu-hogs (12.5 %): 6.25 % on average.
    assert next(line.split()[:6] for line in lines if "greedy" in line) == ["greedy", "1/2", "2/2", "6.2", "%", "12.5"]
    assert next(line.split()[:6] for line in lines if "cpu-hogs" in line) == ["cpu-hogs", "8", "64", "64", "0", "of"]
    assert len(output(capsys, *words, "--all").splitlines()) > len(lines)


def test_one_round_is_told_rank_by_rank(capsys: pytest.CaptureFixture[str]) -> None:
    """With what makes it hard, and the bound."""
    text = output(capsys, "--round", "cpu-hogs", "--policy", "greedy")
    assert text.startswith("cpu-hogs  8 nodes · 64 GPUs · 12 queued · proven: no better plan exists\n")
    assert "Four nodes have 6 GPUs free but only 16 CPUs" in text
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["fair", "P2", "24", "32", "32"],
        ["fair", "P3", "32", "32", "32"],
    ]


def test_a_plan_of_another_engine_is_checked_and_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON: a valid one with its gap, one that breaks rules with every fault; both beside a policy."""
    stops = [{"job": f"b-{n}"} for n in (1, 2, 3)]
    good = {"starts": [{"job": "gang", "placement": {f"r1n{n}": 8 for n in range(3)}}], "preemptions": stops}
    bad = {"preemptions": [{"job": "c-0"}]}
    for name, plan in (("good.json", good), ("bad.json", bad)):
        (tmp_path / name).write_text(json.dumps(plan))
    words = ["--plan", str(tmp_path / "good.json"), "--plan", str(tmp_path / "bad.json"), "--policy", "greedy"]
    data = json.loads(output(capsys, "--round", "floors", *words, "--format", "json"))
    assert [row["who"] for row in data["summary"]] == ["good.json", "bad.json", "greedy"]
    first, second, third = data["rounds"][0]["entries"]
    assert first["valid"]
    assert first["at_best_known"]
    assert first["bill"] == third["bill"] == data["rounds"][0]["best_known"]["bill"]
    assert second["faults"] == [
        "c-0: nobody with a right over it needs its stop",
        "the stopped jobs lose more than their beneficiaries gain",
    ]
    assert (second["preempted"], second["gpus"]) == (0, 64)
    text = output(capsys, "--round", "floors", *words)
    assert "bad.json: c-0: nobody with a right over it needs its stop" in text


def test_rounds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """What makes each hard, in text and as JSON."""
    assert "wrong-rack  11 nodes · 88 GPUs · 4 queued · proven: no better plan exists" in output(capsys, "--list")
    data = json.loads(output(capsys, "--list", "--format", "json"))
    assert {"floors", "nvl72-busy"} <= {each["round"] for each in data["rounds"]}
    assert all(each["hard"] for each in data["rounds"])


def test_rounds_are_written_for_other_engines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they are shipped, so that the table knows them by their content."""
    assert output(capsys, "--export", str(tmp_path), "--round", "grant") == f"{tmp_path / 'grant.json'}\n"
    data = json.loads(output(capsys, "--round", str(tmp_path / "grant.json"), "--policy", "greedy", "--format", "json"))
    assert data["rounds"][0]["best_known"]["proven"]
    assert refusal(capsys, "--export", str(tmp_path / "no")).endswith(
        "which is no folder; allowed: a folder that exists\n"
    )
    assert "did you mean 'grant'?" in refusal(capsys, "--export", str(tmp_path), "--round", "grand")


def test_what_does_not_exist_is_refused_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rounds, policies, plans without their one round, rounds in which plans cannot be compared rank by rank."""
    assert refusal(capsys, "--round", "flors").startswith(
        "optsched: --round: given 'flors'; allowed: did you mean 'floors'? a snapshot's file, or one of: boxes-busy, "
    )
    assert refusal(capsys, "--policy", "gredy").startswith(
        "optsched: --policy: given 'gredy'; allowed: did you mean 'greedy'? one of: optsched, greedy, "
    )
    assert refusal(capsys, "--plan", "x.json") == (
        "optsched: --plan: given with 0 rounds; allowed: with one --round, which it is a plan of\n"
    )
    assert refusal(capsys, "--round", "floors", "--plan", "x.json") == (
        "x.json: (file): there is no such file; allowed: the path of a file that exists\n"
    )
    (tmp_path / "bad.yaml").write_text("now: 0\ncluster: {nodes: [{id: n, gpus: -1}]}\n")
    assert refusal(capsys, "--round", str(tmp_path / "bad.yaml")) == (
        f"{tmp_path}/bad.yaml:2: cluster.nodes[0] (n).gpus: given -1; allowed: a whole number of GPUs from 0 to 1,024\n"
    )
    own = {"profile": "weighted", "cluster": {"nodes": [{"id": "n", "gpus": 8}]}, "jobs": []}
    (tmp_path / "own.json").write_text(json.dumps(own))
    assert refusal(capsys, "--round", str(tmp_path / "own.json")) == (
        "optsched: --round: the profile of own has priority_mode weighted; allowed: strict, by which plans are "
        "compared rank by rank\n"
    )
