"""What optsched checkpoint-interval prints, and what it refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optsched.cli.main import main
from optsched.policy.checkpoint import daly_s, waste
from optsched.policy.mtbf import PUBLISHED

GIVEN = ["--gpus", "4096", "--mtbf-node-h", "1200", "--cost-s", "30"]
TIERS = ["--tier", "ram:cost_s=2,survives=process", "--tier", "nvme:cost_s=5,upload_s=20,survives=process"]


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """Return the JSON of a request."""
    assert main(["checkpoint-interval", *words, "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert isinstance(made, dict)
    return made


def text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """Return the text of a request, unwrapped where it hangs."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["checkpoint-interval", *words]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_numbers_are_those_of_the_policy(capsys: pytest.CaptureFixture[str]) -> None:
    """1,200 h / 512 nodes = 8,437.5 s; the restart takes 300 s where none is given."""
    made = answer(capsys, *GIVEN)
    assert made["job"] == {"gpus": 4096, "nodes": 512, "restart_s": 300}
    assert made["mtbf"] == {
        "job_s": 8437.5,
        "job_low_s": None,
        "job_high_s": None,
        "node_h": 1200,
        "origin": "1,200 h as given",
    }
    expected = waste(daly_s(30, 8437.5), 30, 8437.5, 300)
    assert made["formula"] == "daly"
    assert made["interval_s"] == pytest.approx(daly_s(30, 8437.5), rel=1e-5)
    assert made["waste"]["share"] == pytest.approx(expected.total, rel=1e-5)
    assert made["waste"]["lost_work_s_per_failure"] == pytest.approx(expected.lost_work * 8437.5, rel=1e-5)
    assert made["waste"]["gpu_h_per_day"] == pytest.approx(expected.total * 4096 * 24, rel=1e-5)
    assert made["waste"]["wall_h_per_day_of_training"] == pytest.approx(24 / (1 - expected.total), rel=1e-5)


def test_the_text_says_what_m_is_which_formula_and_what_is_wasted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a few lines."""
    said = text(capsys, monkeypatch, *GIVEN)
    assert said.startswith("Checkpoint after every 692 s (12 min) of training")
    assert "M = 2 h 21 min between failures of the job: of a node 1,200 h as given, divided by 512 nodes" in said
    assert "Daly, higher order: δ = 30 s of standing still is 0.4 % of M, more than 0.1 % (Young 712 s" in said
    assert "11.4 % of the time: 3.8 % checkpoints, 4.1 % lost work, 343 s a failure, 3.5 % restarts of 300 s;" in said
    assert "11,211 of 98,304 GPU-hours a day" in said


def test_what_if_shows_half_and_twice_the_interval_and_m(capsys: pytest.CaptureFixture[str]) -> None:
    """Each at the recommended interval, with what would be best then."""
    made = answer(capsys, *GIVEN)
    cases = {case["what"]: case for case in made["what_if"]}
    assert list(cases) == ["interval_half", "interval_twice", "mtbf_half", "mtbf_twice"]
    assert cases["interval_half"]["interval_s"] == pytest.approx(made["interval_s"] / 2, rel=1e-5)
    assert cases["mtbf_half"]["mtbf_s"] == 8437.5 / 2
    assert cases["mtbf_half"]["best_interval_s"] == pytest.approx(daly_s(30, 8437.5 / 2), rel=1e-5)
    assert all(case["waste"] >= case["best_waste"] for case in cases.values())


def test_an_upload_that_is_slower_than_the_formula_decides(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And half of that interval cannot be had."""
    words = ["--gpus", "8960", "--preset", "llama3", "--cost-s", "0.59", "--upload-s", "200"]
    made = answer(capsys, *words)
    assert (made["interval_s"], made["formula"]) == (200, "upload")
    assert made["what_if"][0]["waste"] is None
    said = text(capsys, monkeypatch, *words)
    assert "one upload in flight: it takes 200 s (3 min 20 s), longer than the best interval, 155 s" in said
    assert "uploads overlap" in said


def test_a_tiny_cost_gets_youngs_interval(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """0.59 s is 0.007 % of M."""
    said = text(capsys, monkeypatch, "--gpus", "4096", "--mtbf-node-h", "1200", "--cost-s", "0.59")
    assert "Young, √(2·δ·M): δ = 0.59 s of standing still is less than 0.01 % of M, which is small" in said


def test_observed_failures_give_a_range_and_say_what_they_were_added_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,200 h as one failure, and 10 in 10,000: 11,200 / 11 = 1,018 h."""
    words = [*GIVEN, "--failures", "10", "--node-hours", "10000"]
    mtbf = answer(capsys, *words)["mtbf"]
    assert mtbf["node_h"] == pytest.approx(11_200 / 11, rel=1e-5)
    assert mtbf["job_low_s"] < mtbf["job_s"] < mtbf["job_high_s"]
    said = text(capsys, monkeypatch, *words)
    assert "with 90 % probability" in said
    assert "10 failures seen in 10,000 node-hours, and 1,200 h as given counting as 1,200 node-hours" in said


def test_a_prior_counts_as_much_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """5 failures' worth: 16,000 / 15."""
    words = [*GIVEN, "--failures", "10", "--node-hours", "10000", "--prior-node-h", "6000"]
    assert answer(capsys, *words)["mtbf"]["node_h"] == pytest.approx(16_000 / 15, rel=1e-5)


def test_observation_alone_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """Where there was a failure."""
    words = ["--gpus", "8", "--cost-s", "30", "--failures", "10", "--node-hours", "10000"]
    assert answer(capsys, *words)["mtbf"]["node_h"] == 1000


@pytest.mark.parametrize("preset", PUBLISHED)
def test_a_preset_is_a_published_rate(capsys: pytest.CaptureFixture[str], preset: str) -> None:
    """Which the help names."""
    made = answer(capsys, "--gpus", "4096", "--preset", preset, "--cost-s", "30")
    assert made["mtbf"]["node_h"] == pytest.approx(PUBLISHED[preset].node_mtbf_h(8), rel=1e-5)
    assert main(["checkpoint-interval", "--help"]) == 0
    assert preset in capsys.readouterr().out


def test_tiers_are_told_with_what_they_are_there_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RAM for processes, the durable one for nodes; what is not worth it is named."""
    words = ["--gpus", "4096", "--preset", "llama3", "--cost-s", "30", "--upload-s", "200", *TIERS]
    made = answer(capsys, *words)
    assert [(use["tier"], use["every"], use["serves"]) for use in made["tiers"]] == [
        ("ram", 1, ["process"]),
        ("durable", 3, ["node"]),
    ]
    assert made["unused_tiers"] == ["nvme"]
    assert made["formulas"] is None
    said = text(capsys, monkeypatch, *words)
    assert said.startswith("Checkpoint to ram after every 673 s")
    assert "1 in 3 of ram" in said
    assert "36.0 % process, 64.0 % node, as assumed unless given" in said
    assert "not used: nvme" in said


def test_kinds_of_failure_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    """With whatever names the tiers use."""
    words = ["--gpus", "4096", "--preset", "rsc1", "--kind", "soft=0.5", "--kind", "hard=0.5"]
    tiers = ["--tier", "ram:cost_s=1,survives=soft", "--tier", "store:cost_s=60,upload_s=100,survives=soft+hard"]
    made = answer(capsys, *words, *tiers)
    assert made["kinds"] == {"soft": 0.5, "hard": 0.5}
    assert [use["tier"] for use in made["tiers"]] == ["ram", "store"]


def test_hopeless_figures_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """Not refused."""
    assert main(["checkpoint-interval", "--gpus", "51200", "--preset", "rsc1", "--cost-s", "1e5"]) == 0
    out, err = capsys.readouterr()
    assert "training gets nowhere" in " ".join(out.split())
    assert err.startswith("warning: more than half of the time is wasted")
    words = ["--gpus", "51200", "--preset", "rsc1", "--cost-s", "300", "--tier", "ram:cost_s=30,survives=process"]
    assert main(["checkpoint-interval", *words]) == 0
    assert "warning: tiers are reckoned to first order" in capsys.readouterr().err


def test_every_fault_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """All at once, exit code 2, nothing on standard output."""
    words = ["--gpus", "x", "--preset", "rcs1", "--cost-s", "-1", "--tier", "a:b", "--failures", "3"]
    assert main(["checkpoint-interval", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert all(line.startswith("optsched checkpoint-interval: --") and "; allowed: " in line for line in lines)
    assert [line.split(": ")[1] for line in lines] == ["--gpus", "--cost-s", "--tier", "--preset", "--node-hours"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (GIVEN[2:], "--gpus: is missing; allowed: the number of GPUs of the job"),
        (GIVEN[:4], "--cost-s: is missing; allowed: the seconds that a checkpoint blocks training, or --tier"),
        (GIVEN[:2] + GIVEN[4:], "--mtbf-node-h: is missing; allowed: a number of hours, or --preset, or --failures"),
        ([*GIVEN, "--gpus", "0"], "--gpus: given '0'; allowed: a whole number from 1 to 1,000,000"),
        ([*GIVEN, "--gpus", "8.5"], "--gpus: given '8.5'"),
        ([*GIVEN, "--cost-s", "0"], "--cost-s: given '0'; allowed: a number from 0.001 to 1,000,000"),
        ([*GIVEN, "--cost-s", "nan"], "--cost-s: given 'nan'"),
        ([*GIVEN, "--cost-s", "inf"], "--cost-s: given 'inf'"),
        ([*GIVEN, "--restart-s", "-1"], "--restart-s: given '-1'; allowed: a number from 0 to 1,000,000"),
        ([*GIVEN, "--mtbf-node-h", ""], "--mtbf-node-h: given ''"),
        ([*GIVEN, "--gpus-per-node", "2000"], "--gpus-per-node: given '2000'; allowed: a whole number from 1 to 1,024"),
        ([*GIVEN, "--preset", "rsc1"], "--preset: given together with --mtbf-node-h; allowed: one of the two"),
        ([*GIVEN, "--node-hours", "10"], "--failures: is missing"),
        ([*GIVEN, "--prior-node-h", "10"], "--prior-node-h: has nothing to weigh"),
        ([*GIVEN, "--kind", "node=1"], "--kind: given without --tier"),
        (
            [*GIVEN[:2], *GIVEN[4:], "--failures", "0", "--node-hours", "10"],
            "--failures: given '0' and no prior; allowed: at least 1, or with --mtbf-node-h or --preset",
        ),
        (
            [*GIVEN[:4], *TIERS],
            "--tier: no tier survives failures of kind node, which would lose all work; allowed: a tier with survives=",
        ),
        ([*GIVEN[:4], "--upload-s", "9", "--tier", "s:cost_s=1,survives=process+node"], "--upload-s: given without"),
        ([*GIVEN, "--tier", "ram:survives=process"], "--tier: given 'ram:survives=process'; allowed: NAME:cost_s=S"),
        ([*GIVEN, "--tier", "ram:cost_s=1,cost_s=2,survives=process"], "--tier: given 'ram:cost_s=1,cost_s=2,"),
        ([*GIVEN, "--tier", "ram:cost_s=0,survives=process"], "--tier ram cost_s: given '0'"),
        ([*GIVEN, "--tier", "ram:cost_s=1,survives=rack"], "--tier ram survives: given 'rack'; allowed: process, node"),
        ([*GIVEN, "--tier", "durable:cost_s=1,survives=node"], "the name durable is taken"),
        ([*GIVEN, *TIERS[:2], *TIERS[:2]], "--tier: ram is given more than once; allowed: different names"),
        ([*GIVEN, *TIERS, "--kind", "process=0.5", "--kind", "node=0.4"], "--kind: the shares sum to 0.9"),
        ([*GIVEN, *TIERS, "--kind", "process"], "--kind process: given ''"),
        ([*GIVEN, "--format", "yaml"], "--format: given 'yaml'; allowed: text, json"),
    ],
)
def test_a_wrong_request_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong, and what is allowed."""
    assert main(["checkpoint-interval", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


@given(
    gpus=st.sampled_from([1, 1_000_000]),
    mtbf=st.sampled_from(["0.001", "1e9"]),
    cost=st.sampled_from(["0.001", "1e6"]),
    upload=st.sampled_from(["0", "1e6"]),
    restart=st.sampled_from(["0", "1e6"]),
    tiers=st.sampled_from(
        [(), ("--tier", "a:cost_s=0.001,survives=process"), ("--tier", "a:cost_s=1e6,survives=node")]
    ),
    form=st.sampled_from(["text", "json"]),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_allowed_is_answered(capsys, gpus, mtbf, cost, upload, restart, tiers, form) -> None:
    """At every end of the ranges, all together."""
    words = ["--gpus", str(gpus), "--mtbf-node-h", mtbf, "--cost-s", cost, "--upload-s", upload, "--restart-s", restart]
    assert main(["checkpoint-interval", *words, *tiers, "--format", form]) == 0
    out, err = capsys.readouterr()
    assert "nan" not in out.lower()
    assert all(line.startswith("warning: ") for line in err.splitlines())
    if form == "json":
        assert 0 <= json.loads(out)["waste"]["share"] <= 1
