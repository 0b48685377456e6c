"""The library of hard rounds and its table agree, and the judge is worth its name."""

from __future__ import annotations

import dataclasses
import json

import pytest

from benchmarks.quality.best import best_known, searched
from benchmarks.quality.packing import PACKING
from benchmarks.quality.taking import TAKING
from benchmarks.quality.write import rounds
from optsched.clock import StoppedClock
from optsched.files import load_snapshot
from optsched.files.plans import GivenPlan
from optsched.rounds.assignment import NO_CHANGE
from optsched.sim.policies.policy import Means
from optsched.sim.policies.registry import POLICIES
from optsched.sim.quality.best import Best, best_of, table
from optsched.sim.quality.collection import digest, folder, load_round, round_names
from optsched.sim.quality.judge import judge, missed, rank_names, worth_of
from optsched.sim.quality.measure import compared, plan_of, score_all, summaries
from optsched.solve.ladder import SolverChoice
from optsched.solve.result import Result
from optsched.values.ids import JobId, NodeId
from optsched.values.profile import PriorityMode

SMALL = [str(make()["about"]["name"]) for make in (*PACKING, *TAKING)]
"""Rounds that were made by hand: the exact solver closes each."""

MEANS = Means(0, 0.5)
CLOCK = StoppedClock()


def known(name: str) -> Best:
    """What the table says of a shipped round."""
    found = best_of(load_round(name))
    assert found is not None, f"{name} is not in the table, or has changed since"
    return found


def test_the_rounds_are_what_the_code_writes():
    """Every file is there, byte for byte, and in all they are small."""
    written = rounds()
    assert sorted(written) == list(round_names())
    for name, text in written.items():
        assert folder().joinpath(f"{name}.json").read_text(encoding="utf-8") == text, name
    assert sum(len(entry.read_bytes()) for entry in folder().iterdir()) < 300_000


@pytest.mark.parametrize("name", round_names())
def test_the_table_fits_its_round(name):
    """It has an entry for this content, whose bounds are no lower than what is reached."""
    given, best = load_round(name), known(name)
    assert given.hard
    assert given.good
    assert given.snapshot.profile.priority_mode is PriorityMode.STRICT
    worth = best.worth
    assert worth.gpus <= given.problem.healthy_gpus
    # Changing nothing is always a plan.
    assert worth.key >= worth_of(given.problem, NO_CHANGE).key
    opened = False
    for gpus, bound in zip(worth.ranks, best.bounds, strict=True):
        assert (bound is None) == opened or bound is None
        assert bound is None or bound >= gpus
        opened = opened or bound is None or bound > gpus
    assert best.bill_bound is None or best.bill_bound <= worth.bill
    assert best.how
    if best.proven:
        assert best.bounds == worth.ranks
        assert best.bill_bound == worth.bill


def test_the_table_names_no_round_that_is_neither_shipped_nor_generated():
    """Names with a dash and a seed are of the generator, all others are shipped."""
    for entry in table().values():
        assert entry["round"] in round_names() or str(entry["round"]).rsplit("-", 1)[1].isdigit()


@pytest.mark.parametrize("name", SMALL)
def test_the_exact_solver_reaches_and_proves_what_the_table_says(name):
    """By counted work; neither better nor less than what stands there."""
    given, best = load_round(name), known(name)
    found = searched(given, SolverChoice.EXACT, 5.0, seed=1)
    assert found.worth.key == best.worth.key
    assert found.result.proven
    assert best.proven


@pytest.mark.parametrize("name", SMALL)
def test_nobody_beats_what_is_proven(name):
    """Valid plans of policies without search are at most as good."""
    given, best = load_round(name), known(name)
    for policy in ("greedy", "fifo-best-fit", "conservative-backfill", "one-at-a-time-reclaim"):
        plan, _ = plan_of(POLICIES[policy], given, MEANS, CLOCK)
        verdict = judge(given.problem, plan)
        assert verdict.worth.key <= best.worth.key, policy


def test_tight_holes_are_a_trap_and_can_be_got_out_of():
    """Best fit fills one hole with 2 + 2, so the second 4 breaks the empty rack: 32 GPUs of the gang do not run."""
    given = load_round("tight-holes")
    (scored,) = score_all([given], [POLICIES["fifo-best-fit"], POLICIES["optsched"]], MEANS, CLOCK)
    fifo, ours = scored.entries
    assert (fifo.verdict.worth.gpus, fifo.short_gpus, fifo.gap, fifo.at_best) == (32, 32, 0.5, False)
    assert (ours.verdict.worth.gpus, ours.short_gpus, ours.gap, ours.at_best) == (64, 0, 0.0, True)
    # 20 GPUs run before; 2 + 2 + 4 + 4 + 32 start.
    plan = GivenPlan(
        {
            JobId("two-a"): {NodeId("r0n0"): 2},
            JobId("four-a"): {NodeId("r0n0"): 4},
            JobId("two-b"): {NodeId("r0n1"): 2},
            JobId("four-b"): {NodeId("r0n1"): 4},
            JobId("gang"): {NodeId(f"r1n{n}"): tuple(range(8)) for n in range(4)},
        }
    )
    verdict = judge(given.problem, plan)
    assert verdict.valid
    assert verdict.worth.key == known("tight-holes").worth.key


def test_a_plan_that_breaks_a_rule_leaves_the_round_as_it_is():
    """Two jobs on one hole: refused, with the reason, and worth what changing nothing is."""
    given = load_round("tight-holes")
    plan = GivenPlan({JobId("four-a"): {NodeId("r0n0"): 4}, JobId("four-b"): {NodeId("r0n0"): 4}})
    verdict = judge(given.problem, plan)
    assert verdict.faults[0] == "r0n0 is overbooked in GPUs"
    assert verdict.worth == worth_of(given.problem, NO_CHANGE)


def test_the_very_gpus_of_a_plan_are_looked_at():
    """Two starts on the same index are told by name, and one that the node does not have."""
    given = load_round("tight-holes")
    plan = GivenPlan(
        {
            JobId("two-a"): {NodeId("r1n0"): (0, 8)},
            JobId("two-b"): {NodeId("r1n1"): (2, 3)},
            JobId("four-a"): {NodeId("r1n1"): (3, 4, 5, 6)},
        }
    )
    assert judge(given.problem, plan).faults == (
        "two-a: GPU 8 of r1n0 does not exist: it has 8",
        "four-a: GPU 3 of r1n1 belongs to two-b",
    )


def test_what_is_missed_is_the_most_at_any_rank_and_above():
    """More at a lower rank makes up for nothing above it."""
    assert missed((8, 4, 0), (8, 4, 0)) == 0
    # 4 short at the first rank, although all three together run more.
    assert missed((8, 4, 0), (4, 6, 9)) == 4
    # 4 short at the first and 2 more at the second.
    assert missed((8, 4, 0), (4, 2, 9)) == 6


def test_a_bill_counts_only_among_plans_of_the_same_ranks():
    """The gap of the bill is its share of the run value; where other jobs run there is none."""
    given, best = load_round("tight-holes"), known("tight-holes")
    good = judge(given.problem, GivenPlan())
    dear = dataclasses.replace(best.worth, bill=best.worth.bill + 2304, run_value=64 * 3600)
    scored = compared(given, best, [("none", good, None), ("dear", dataclasses.replace(good, worth=dear), 0.5)])
    none, worse = scored.entries
    assert none.bill_gap is None
    # 2,304 of 230,400 GPU·s.
    assert (worse.bill_gap, worse.gap, worse.short_gpus) == (0.01, 0.01, 0)
    assert [(each.who, each.at_best, each.wall_s) for each in summaries([scored])] == [
        ("none", 0, None),
        ("dear", 0, 0.5),
    ]


def test_without_a_known_plan_the_best_of_the_entries_stands_in(tmp_path):
    """A snapshot of one's own is scored too; its name is the file's."""
    data = json.loads(folder().joinpath("tight-holes.json").read_text(encoding="utf-8"))
    data["jobs"].pop()
    (tmp_path / "own.json").write_text(json.dumps(data))
    given = load_round(str(tmp_path / "own.json"))
    assert given.name == "own"
    assert best_of(given) is None
    (scored,) = score_all([given], [POLICIES["greedy"]], MEANS, CLOCK)
    assert scored.best is None
    assert scored.entries[0].at_best


def test_a_digest_is_of_the_content_and_not_of_its_notes():
    """Another order of keys or other notes change nothing; another job does."""
    assert digest({"now": 0, "jobs": [], "about": "a"}) == digest({"jobs": [], "about": "b", "now": 0})
    assert digest({"now": 0, "jobs": []}) != digest({"now": 1, "jobs": []})


def test_what_several_searches_prove_is_put_together():
    """A bound holds for plans with the same higher ranks; below an open rank there is none."""
    given = load_round("tight-holes")
    names = rank_names(given.problem)
    first = known("tight-holes").worth
    worse = dataclasses.replace(first, ranks=(*first.ranks[:-1], -1))
    closed = [0 if gpus == 0 else gpus for gpus in first.ranks]
    found = searched(given, SolverChoice.GREEDY, 1.0, 0)
    proof = dataclasses.replace(found, worth=worse, result=Result(NO_CHANGE, tuple(closed)))
    plan = dataclasses.replace(found, worth=first, result=Result(NO_CHANGE), how="somebody")
    best = best_known([proof, plan], None)
    assert (best.worth, best.how, best.proven) == (first, "somebody", False)
    assert best.bounds == tuple(closed)
    wide = [bound + 1 if gpus else bound for bound, gpus in zip(closed, first.ranks, strict=True)]
    loose = dataclasses.replace(proof, result=Result(NO_CHANGE, tuple(wide)))
    best = best_known([loose, plan], None)
    top = next(row for row, gpus in enumerate(first.ranks) if gpus)
    assert best.bounds[: top + 1] == tuple(wide[: top + 1])
    assert set(best.bounds[top + 1 :]) == {None}
    assert len(names) == len(best.bounds)


def test_rounds_are_snapshots_like_any_other():
    """The files can be planned by hand; only teams that live on what others lend are warned of."""
    for name in SMALL:
        _, warnings = load_snapshot(str(folder().joinpath(f"{name}.json")))
        assert all(text.startswith("above their quota") for text in warnings), name
