"""What a plan gains over another one, and the program that measures it on rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.gains import Gains, gains, guaranteed_proven
from benchmarks.measure_rounds import least_gain, main
from optsched.values.ids import JobId
from optsched.values.plan import Bill, Move, Plan, Preemption, RankResult, RoundInfo, Source, Status, Tier

CLASSES = {"P1": 3000, "P2": 2000}


def plan(*ranks: RankResult, bill: Bill | None = None, victims: int = 0, moves: int = 0) -> Plan:
    return Plan(
        round=RoundInfo(Source.GREEDY, Status.FEASIBLE, None, None, 0.0, 0.0, 0, 0, ranks),
        preemptions=tuple(Preemption(JobId(f"v{i}"), (), 0.0, 0.0, 120.0) for i in range(victims)),
        migrations=tuple(Move(JobId(f"m{i}"), {}, (), 0.0) for i in range(moves)),
        bill=bill or Bill(),
    )


def rank(tier: Tier, priority: str, gpus: int, bound: int | None = None, *, above_minimum: bool = False) -> RankResult:
    return RankResult(tier, priority, above_minimum, gpus, bound)


def test_the_first_rank_that_differs_is_the_highest_one() -> None:
    """Fair P1 is 8 GPUs more, opportunistic P2 12 fewer: a gain at fair P1, 4 GPUs less in all."""
    base = plan(rank(Tier.GUARANTEED, "P2", 64), rank(Tier.FAIR, "P1", 16), rank(Tier.OPPORTUNISTIC, "P2", 20))
    better = plan(rank(Tier.GUARANTEED, "P2", 64), rank(Tier.FAIR, "P1", 24), rank(Tier.OPPORTUNISTIC, "P2", 8))
    found = gains(base, better, CLASSES)
    assert (found.rank, found.rank_gpus, found.gpus) == ("fair P1", 8, -4)


def test_a_rank_that_only_one_plan_names_counts_as_none_in_the_other() -> None:
    """Guaranteed P1 stands above guaranteed 2500, which is a number and no class; both above any minimum's rest."""
    base = plan(rank(Tier.GUARANTEED, "2500", 8), rank(Tier.GUARANTEED, "P1", 8, above_minimum=True))
    better = plan(rank(Tier.GUARANTEED, "P1", 8))
    assert gains(base, better, CLASSES).rank == "guaranteed P1"
    worse = gains(plan(rank(Tier.GUARANTEED, "P1", 8)), base, CLASSES)
    assert (worse.rank, worse.rank_gpus) == ("guaranteed P1", -8)


def test_costs_victims_and_moves_are_differences() -> None:
    """Each is the plan's less the base's, in GPU-seconds; the bill is 100 + 60 + 30 against 150 + 20."""
    base = plan(bill=Bill(placement_loss=150.0, preemption_cost=20.0), victims=1)
    other = plan(bill=Bill(placement_loss=100.0, preemption_cost=60.0, migration_cost=30.0), victims=3, moves=2)
    assert gains(base, other, CLASSES) == Gains("", 0, 0, -50.0, 40.0, 30.0, 20.0, 2, 2)


@pytest.mark.parametrize(
    ("ranks", "proven"),
    [
        ([rank(Tier.DEADLINE, "P1", 8, 8), rank(Tier.GUARANTEED, "P2", 8, 8), rank(Tier.FAIR, "P2", 8)], True),
        ([rank(Tier.GUARANTEED, "P1", 8, 8), rank(Tier.GUARANTEED, "P2", 8, 9)], False),
        ([rank(Tier.GUARANTEED, "P1", 8, None)], False),
        ([rank(Tier.GUARANTEED, "P1", 8, 8), rank(Tier.GUARANTEED, "P1", 8, above_minimum=True)], True),
    ],
)
def test_guaranteed_ranks_are_proven_where_the_bound_is_reached(ranks: list[RankResult], proven: bool) -> None:
    """Fair ranks and GPUs above a minimum are not asked for."""
    assert guaranteed_proven(plan(*ranks)) is proven


def run(bill: float, **gpus: int) -> dict[str, object]:
    """A run as measured: GPUs above greedy's at the ranks a (the highest), b and c."""
    keys = {"a": [False, 1, -3000], "b": [False, 1, -2000], "c": [True, 0, -3000]}
    ranks = [{"key": keys[name], "gpus": 10 + more, "gpus_greedy": 10} for name, more in gpus.items()]
    return {"ranks": ranks, "gains": {"bill": bill}}


def test_of_several_runs_the_one_with_the_least_gain_is_shown() -> None:
    """The highest rank decides, a rank that is not named gains nothing, and of equal ones the larger bill is worse."""
    first, second, third = run(5.0, a=1), run(-9.0, b=50), run(0.0, a=1, c=-1)
    assert least_gain([first, second]) is second
    assert least_gain([first, third]) is third
    assert least_gain([run(5.0, a=1), dearer := run(6.0, a=1)]) is dearer


def test_a_generated_round_is_measured_and_written_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Greedy against itself gains nothing; both tables have a line for it, the file has every run and rank."""
    out = tmp_path / "seen.json"
    main(["--runs", "1", "--solver", "greedy", "--json", str(out), "rich-40:1"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| rich-40:1 |")]
    assert len(lines) == 2
    assert lines[1] == "| rich-40:1 | none | +0 | +0 | +0 | +0 | +0 | +0 | +0 | no |"
    (seen,) = json.loads(out.read_text())["rounds"]
    assert seen["round"] == "rich-40:1"
    (measured,) = seen["runs"]
    assert measured["source"] == "greedy"
    assert sum(each["gpus"] for each in measured["ranks"]) == measured["gpus"] > 0
    assert all(each["gpus"] == each["gpus_greedy"] for each in measured["ranks"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.json"], "ROUND: 'nowhere.json' is no file; allowed: the file of a snapshot, or KIND:SEED"),
        (["h100:1"], "ROUND: 'h100:1' names no kind; allowed: h100-1k, "),
        (["h100-1k:-1"], "ROUND: 'h100-1k:-1' is no file"),
        (["--runs", "0", "rich-40:1"], "--runs: given 0; allowed: a whole number from 1 on"),
        ([], "the following arguments are required: ROUND"),
    ],
)
def test_bad_arguments_get_one_line_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is measured."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert not captured.out


def test_a_file_that_is_no_snapshot_is_told_as_the_command_line_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, the fault with file, field and what is allowed."""
    file = tmp_path / "bad.json"
    file.write_text('{"jobs": []}')
    with pytest.raises(SystemExit) as exit_:
        main(["--runs", "1", str(file)])
    assert exit_.value.code == 2
    assert "cluster: is missing; allowed: a mapping" in capsys.readouterr().err
