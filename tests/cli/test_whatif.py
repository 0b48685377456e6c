"""optsched whatif: what it asks, from where, and how it says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optsched.cli.main import main, parser
from tests.docs.pages import ROOT, first_cells
from tests.whatif.lab import DATA


@pytest.fixture
def lab_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.json").write_text(json.dumps(DATA))
    return "lab.json"


SURE = ("--run-times", "stated", "--arrivals", "none", "--rates", "none", "--futures", "3")


def test_the_answer_is_a_band_and_the_round_of_now(lab_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--gpus", "16", "--team", "language", "--priority", "P1", "--within", "rack"]
    arguments += ["--add-like", "r0", "--add-like", "r0"]
    assert main(["whatif", lab_file, "--ask", "eval", *arguments, *SURE, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    as_is, more = found["scenarios"]
    assert (as_is["name"], more["name"]) == ("as it is", "add like r0, add like r0")
    assert as_is["now"]["stopped"] == [
        {"job": "sweep", "team": "vision", "gpus": 8, "beneficiaries": ["new-job"], "cost_gpu_s": 7200}
    ]
    assert as_is["now"]["teams"]["vision"]["lost_gpu_s"] == 7200
    assert as_is["futures"]["jobs"]["new-job"]["starts_within_horizon"] == 1
    assert as_is["futures"]["stopped"][0]["job"] == "sweep"
    # With two more racks nobody is stopped for it.
    assert more["now"]["stopped"] == more["futures"]["stopped"] == []
    assert more["now"]["gpus"] == 64


def test_text_says_when_where_and_who_pays(lab_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", lab_file, "--ask", "eval", *SURE]) == 0
    told = capsys.readouterr().out
    assert "When eval starts" in told
    assert "in 30 min – 31 min" in told
    assert "r1 100 %" in told


def test_a_job_comes_from_a_file(lab_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text("{id: tune, team: language, gpus: 8}\n")
    assert main(["whatif", lab_file, "--job", "job.yaml", "--futures", "0", "--format", "json"]) == 0
    scenario = json.loads(capsys.readouterr().out)["scenarios"][0]
    assert (scenario["now"]["jobs"]["tune"]["fate"], scenario["futures"]) == ("starts", None)


def test_a_position_in_a_trace_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text(
        "job_id,submit_s,duration_s,gpus,team,requested_s\na,0,7200,160,x,7200\nb,600,60,8,y,600\n"
    )
    arguments = ["--trace", "trace.csv", "--at", "30m", "--cluster", "philly-160", "--ask", "b", *SURE]
    assert main(["whatif", *arguments, "--format", "json"]) == 0
    start = json.loads(capsys.readouterr().out)["scenarios"][0]["futures"]["jobs"]["b"]["start_s"]
    # The whole cluster is taken for the two hours that a states, from the first round on: for another 90 minutes.
    assert start["low"] == pytest.approx(5400, abs=120)


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ([], "nothing is asked; allowed: --ask"),
        (["--ask", "evil"], "no queued job is called 'evil'; allowed: did you mean 'eval'?"),
        (["--gpus", "8"], "--gpus: given without --team"),
        (["--team", "vision"], "--team: given without --gpus"),
        (["--remove", "r7"], "--remove r7: no node or domain is called 'r7'"),
        (["--drain", "r0@2h-1h"], "--drain: given 'r0@2h-1h'; allowed: NAME, or NAME@FROM-TO"),
        (["--add-nodes", "x"], "--add-nodes: given 'x'; allowed: N or N@DOMAIN"),
        (["--set-quota", "vision"], "--set-quota: given 'vision'; allowed: TEAM=GPUS"),
        (["--failures", "2"], "--failures: given '2'; allowed: xN or RATESxN"),
        (["--failures", "lamax2"], "--failures: given 'lama'; allowed: "),
        (["--ask", "eval", "--rates", "often"], "--rates: given 'often'; allowed: "),
        (["--ask", "eval", "--run-times", "guess"], "--run-times: given 'guess'; allowed: published"),
        (["--ask", "eval", "--policy", "best"], "--policy: given 'best'; allowed: "),
        (["--ask", "eval", "--at", "3h"], "--at: given without --trace; allowed: together with --trace"),
        (
            ["--ask", "eval", "--cluster", "h100-10k"],
            "--cluster: given without --trace; allowed: together with --trace",
        ),
        (["--ask", "eval", "--load", "1"], "--load: given without --trace; allowed: together with --trace"),
        (["--ask", "eval", "--from-format", "swf"], "--from-format: given without --trace; allowed: together with"),
        (["--ask", "eval", "--token-file", "/nope"], "--token-file: given without --service; allowed: together with"),
        (["--ask", "eval", "--ca", "lab.json"], "--ca: given without --service; allowed: together with --service"),
        (["--set-quota", "vision=1", "--set-quota", "vision=2"], "--set-quota: 'vision' is given twice; allowed: each"),
        (["--set-weight", "vision=1", "--set-weight", "vision=1"], "--set-weight: 'vision' is given twice; allowed:"),
        (["--drain", "r0", "--drain", "r0"], "--drain: 'r0' is given twice; allowed: each name once, or for windows"),
        (["--drain", "r0@1h-3h", "--drain", "r0@2h-4h"], "--drain: 'r0' is given twice; allowed: each name once, or"),
        (["--remove", "r0", "--remove", "r0"], "--remove r0: no node or domain is called 'r0'"),
        (["--profile", "default", "--profile", "default"], "--profile: given twice; allowed: once"),
        (["--failures", "x2", "--failures", "x3"], "--failures: given twice; allowed: once"),
        (["--job", "a.yaml", "--job", "b.yaml"], "--job: given twice; allowed: once"),
        (["--gpus", "8", "--gpus", "16", "--team", "vision"], "--gpus: given twice; allowed: once"),
        (["--questions", "a.yaml", "--questions", "b.yaml"], "--questions: given twice; allowed: once"),
        (["--ask", "eval", "--service", "http://127.0.0.1:1"], "given SNAPSHOT and --service"),
        (["--ask", "eval", "--ray-address", "auto"], "--ray-address: given without --executor ray"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    arguments: list[str], wrong: str, lab_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["whatif", lab_file, *arguments]) == 2
    told = capsys.readouterr().err
    assert wrong in told
    assert len([line for line in told.splitlines() if not line.startswith("warning:")]) == 1


@pytest.mark.parametrize("load", [[], ["--load", "1"]])
@pytest.mark.usefixtures("lab_file")
def test_no_job_of_a_trace_can_run_where_there_is_no_gpu(
    load: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.csv").write_text("job_id,submit_s,duration_s,gpus\na,0,7200,16\nb,600,60,8\n")
    (tmp_path / "cpu.yaml").write_text("{name: cpus, levels: [], nodes: [{id: n1, gpus: 0}]}")
    arguments = ["--trace", "trace.csv", "--at", "30m", "--cluster", "cpu.yaml", "--ask", "b", *load]
    assert main(["whatif", *arguments]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == ("optsched: TRACE: no job of it can run on this cluster; allowed: a --cluster with room for one")
    assert all(line.startswith("warning: left out: ") for line in told[:-1])


def test_what_is_apart_may_be_given_twice(lab_file: str) -> None:
    apart = ["--drain", "r0@1h-2h", "--drain", "r0@2h-3h", "--drain", "r1@1h-2h"]
    teams = ["--set-quota", "vision=16", "--set-quota", "language=8", "--set-weight", "vision=2"]
    assert main(["whatif", lab_file, *apart, *teams, "--futures", "0"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "wrong"),
    [
        (["--service", ""], 2, "optsched: --service: given ''; allowed: http://HOST:PORT"),
        (["--service", "http://[::1"], 2, "optsched: --service: given 'http://[::1'; allowed: http://HOST:PORT"),
        (["--service", "http://a b:80"], 2, "optsched: --service: http://a b:80/v1/status cannot be asked: "),
        (["--service", "http://127.0.0.1:1"], 1, "optsched: --service: nobody answers at http://127.0.0.1:1/v1/status"),
        (["--service", "grpc://127.0.0.1:1"], 1, "optsched: --service: status: UNAVAILABLE "),
        (
            ["--service", "https://127.0.0.1:1", "--ca", "lab.json"],
            2,
            "optsched: --ca: lab.json holds no certificate; allowed: a PEM file with those to trust",
        ),
        (
            ["--service", "grpcs://127.0.0.1:1", "--ca", "lab.json"],
            2,
            "optsched: --ca: lab.json holds no certificate; allowed: a PEM file with those to trust",
        ),
        (
            ["--service", "http://127.0.0.1:1", "--token-file", "lab.json"],
            2,
            "optsched: --token-file: lab.json holds no token; allowed: a file with one line of ASCII, without blanks",
        ),
        (["--service", "http://127.0.0.1:1", "--at", "3h"], 2, "optsched: --at: given without --trace; allowed: "),
        (["--trace", "t.csv", "--at", "3h", "--ca", "lab.json"], 2, "optsched: --ca: given without --service; allowed"),
    ],
)
@pytest.mark.usefixtures("lab_file")
def test_what_is_wrong_with_a_service_is_told_in_a_line(
    arguments: list[str], code: int, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["whatif", *arguments, "--ask", "a"]) == code
    told = capsys.readouterr().err
    assert told.startswith(wrong)
    assert told.count("\n") == 1


def test_the_page_has_every_change_that_a_flag_can_make() -> None:
    page = ROOT / "docs" / "whatif.md"
    usage = parser().parse_args(["whatif", "--ask", "a"])
    flags = ("add-nodes", "add-like", "remove", "drain", "set-quota", "set-weight", "profile", "failures")
    assert first_cells(page, "Ask about a job") == [f"--{flag}" for flag in flags]
    assert all(hasattr(usage, flag.replace("-", "_")) for flag in flags)


def test_a_token_file_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--service", "http://127.0.0.1:1", "--token-file", "nowhere", "--gpus", "1", "--team", "a"]
    assert main(["whatif", *arguments]) == 2
    assert "--token-file: there is no file 'nowhere'; allowed: the path of a file" in capsys.readouterr().err
