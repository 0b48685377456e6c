"""Exit codes, what goes where, and that no end of a command shows a traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from optsched.cli.main import main
from optsched.errors import CheckFailed
from tests.cli.builders import data, fake_planner, plan, write_file

ROOT = Path(__file__).resolve().parents[2]


def run(
    *words: str, stdin: bytes | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the command line as a process, piped."""
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    command = [sys.executable, "-m", "optsched.cli", *words]
    return subprocess.run(command, input=stdin, capture_output=True, env=whole, check=False, timeout=120)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """A planner that always has the same plan; what it was asked for."""
    calls: list[SimpleNamespace] = []

    def answer(snapshot: object, options: object, clock: object, progress: object) -> object:
        calls.append(SimpleNamespace(snapshot=snapshot, options=options))
        return plan()

    fake_planner(monkeypatch, answer)
    monkeypatch.setenv("COLUMNS", "100")
    return calls


def test_a_plan_goes_to_standard_output_and_warnings_to_standard_error(
    tmp_path: Path, asked: list[SimpleNamespace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", write_file(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("tiny · t = 36,000 s · profile default")
    assert err == "warning: quotas exceed the cluster\n"
    assert "\x1b" not in out


def test_json_is_one_object_alone_on_standard_output(
    tmp_path: Path, asked: list[SimpleNamespace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", write_file(tmp_path), "--format", "json", "--tasks"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["starts"][0]["tasks"]
    assert err.startswith("warning: ")
    assert asked[0].options.tasks


def test_options_reach_the_planner(tmp_path: Path, asked: list[SimpleNamespace]) -> None:
    words = "--budget 7.5 --deterministic 3 --solver greedy --seed 42 --profile quota".split()  # noqa: SIM905
    assert main(["plan", write_file(tmp_path), *words]) == 0
    options = asked[0].options
    assert (options.budget_s, options.deterministic_s, options.solver.value, options.seed) == (7.5, 3, "greedy", 42)
    assert asked[0].snapshot.profile.name == "quota"


def test_without_options_the_profile_decides(tmp_path: Path, asked: list[SimpleNamespace]) -> None:
    assert main(["plan", write_file(tmp_path)]) == 0
    options = asked[0].options
    assert (options.budget_s, options.deterministic_s, options.solver.value, options.seed) == (None, None, "auto", 0)


def test_output_goes_to_a_file_without_colour(
    tmp_path: Path, asked: list[SimpleNamespace], capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "plan.txt"
    assert main(["plan", write_file(tmp_path), "--output", str(target)]) == 0
    assert capsys.readouterr().out == ""
    assert target.read_text().startswith("tiny")


@pytest.mark.parametrize("name", ["none/plan.txt", "."])
def test_an_output_that_cannot_be_written_is_refused_before_planning(
    tmp_path: Path, asked: list[SimpleNamespace], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["plan", write_file(tmp_path), "--output", str(tmp_path / name)]) == 2
    err = capsys.readouterr().err
    assert "--output: " in err
    assert "; allowed: " in err
    assert not asked


def test_a_snapshot_comes_from_standard_input(
    asked: list[SimpleNamespace], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(data()).encode())))
    assert main(["plan", "-"]) == 0
    assert len(asked[0].snapshot.jobs) == 9


def test_without_a_snapshot_the_shipped_example_is_planned(
    asked: list[SimpleNamespace], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "another.yaml").write_text("{}")
    (tmp_path / "examples" / "philly-busy.json").write_text(json.dumps(data()))
    monkeypatch.setattr("optsched.cli.inputs.resources.files", lambda package: tmp_path)
    assert main(["plan"]) == 0
    assert "planning the shipped example philly-busy.json" in capsys.readouterr().err


def test_without_a_snapshot_and_an_example_the_refusal_is_clear(
    asked: list[SimpleNamespace], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("optsched.cli.inputs.resources.files", lambda package: tmp_path)
    assert main(["plan"]) == 2
    assert capsys.readouterr().err.startswith("optsched: SNAPSHOT: none given, and no example is installed; allowed: ")


def test_bad_input_is_a_line_per_fault_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "now: 0\ncluster: {nodes: [{id: n, gpus: -1}]}\nteams: [{id: t}]\njobs: [{id: a, team: u, gpus: 0}]\n"
    )
    assert main(["plan", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 3
    assert [line.split(": ")[0] for line in lines] == [f"{path}:2", f"{path}:4", f"{path}:4"]
    assert all("; allowed: " in line for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "none.yaml"], "none.yaml: (file): there is no such file"),
        (["plan", "--solver", "exat"], "--solver: given 'exat'; allowed: did you mean exact?"),
        (["plan", "--budget", "0"], "--budget: given '0'; allowed: a number of seconds above 0"),
        (["plan", "--budget", "nan"], "--budget: given 'nan'; allowed: "),
        (["plan", "--seed", "-1"], "--seed: "),
        (["plan", "--seed", "99999999999"], "--seed: given '99999999999'; allowed: a whole number from 0 to"),
        (["plan", "--nope"], "unrecognized arguments: --nope"),
        (["plna"], "COMMAND: given 'plna'; allowed: did you mean plan?"),
        (["topology", "show", "h100-10"], "did you mean 'h100-10k'?"),
        (["profile", "show", "defualt"], "did you mean 'default'?"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_a_wrong_request_is_one_line_and_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_another_profile_takes_priority_classes_by_name(tmp_path: Path, asked: list[SimpleNamespace]) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("{base: default, classes: {P1: 9, P2: 5, P3: 1}}")
    assert main(["plan", write_file(tmp_path), "--profile", str(other)]) == 0
    assert {job.id: job.priority for job in asked[0].snapshot.jobs if job.id in ("big", "one", "wait-1")} == {
        "big": 9,
        "one": 5,
        "wait-1": 7,  # a plain number stays
    }


def test_a_profile_without_a_class_that_jobs_name_is_refused(
    tmp_path: Path, asked: list[SimpleNamespace], capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("{base: default, classes: {P1: 9}}")
    assert main(["plan", write_file(tmp_path), "--profile", str(other)]) == 2
    assert "has no class 'P3', which job train names; allowed: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (CheckFailed(["a gang\nis torn"]), "internal error: CheckFailed: a gang is torn; this is a bug, please report"),
        (KeyError("x"), "internal error: KeyError: 'x'; this is a bug"),
        (OSError(28, "No space left on device"), "failed: [Errno 28] No space left on device"),
        (MemoryError(), "failed: out of memory"),
    ],
)
def test_anything_else_is_one_line_without_traceback_and_exit_code_1(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    said: str,
) -> None:
    def answer(*_: object) -> object:
        raise error

    fake_planner(monkeypatch, answer)
    assert main(["plan", write_file(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_the_traceback_is_there_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(*_: object) -> object:
        raise KeyError("x")

    fake_planner(monkeypatch, answer)
    monkeypatch.setenv("OPTSCHED_DEBUG", "1")
    assert main(["plan", write_file(tmp_path)]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(*_: object) -> object:
        raise KeyboardInterrupt

    fake_planner(monkeypatch, answer)
    assert main(["plan", write_file(tmp_path)]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_goes_away_is_no_error_to_speak_of() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "optsched.cli", "profile", "show", "default"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=env, check=False, timeout=120)
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == b""


def test_a_terminal_that_knows_only_ascii_gets_plain_signs() -> None:
    done = run("topology", "show", "mixed-fleet", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0
    assert b"57 racks x 3-8-8 nodes x 8 GPUs" in done.stdout


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "optsched 0.1.0\n"


def test_help_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for word in ("plan", "explain", "topology", "profile", "checkpoint-interval", "exit codes", "bad input"):
        assert word in text
    assert all(word in text for word in ("NO_COLOR", "OPTSCHED_DEBUG"))


def test_help_of_plan_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--help"]) == 0
    text = capsys.readouterr().out
    for word in ("profile", "budget", "deterministic", "solver", "seed", "tasks", "format", "output", "all"):
        assert f"--{word}" in text


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["topology", "show", "v100-cube-mesh"],
        ["profile", "list"],
        ["plan", "none.yaml"],
        ["checkpoint-interval", "--gpus", "8", "--preset", "rsc1", "--cost-s", "1"],
    ],
)
def test_what_needs_no_solver_does_not_load_it(words: list[str]) -> None:
    script = f"import sys; from optsched.cli.main import main; main({words!r}); sys.exit('ortools' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=env, check=False, timeout=120)
    assert done.returncode == 0
