"""When a round is followed by another at the same instant: where that could do something, and only there."""

from __future__ import annotations

import dataclasses

import pytest

from optsched.clock import StoppedClock
from optsched.engine import events as ev
from optsched.engine.commands import Verb
from optsched.engine.decide import changes, decide
from optsched.engine.planning import RoundPlanner
from optsched.engine.state import State, initial
from optsched.engine.step import step
from optsched.engine.view import snapshot_of
from optsched.planner.plan import PlanOptions
from optsched.rounds.build import build_problem
from optsched.rounds.problem import Problem
from optsched.solve.further import goes_further, starts_in_turn
from optsched.solve.greedy import greedy
from optsched.solve.ladder import SolverChoice
from optsched.values.ids import JobId, NodeId
from optsched.values.plan import Plan
from optsched.values.snapshot import Carried, Snapshot
from tests.builders import assignment, job, nodes, snapshot
from tests.engine.driven import Driven
from tests.oracle.rounds import small_round


def planner(solver: SolverChoice = SolverChoice.GREEDY) -> RoundPlanner:
    """What plans rounds in a row."""
    return RoundPlanner(PlanOptions(budget_s=1e9, deterministic_s=1.0, solver=solver, prove=0), StoppedClock())


def rounds(given: Snapshot, solver: SolverChoice = SolverChoice.GREEDY) -> tuple[list[Plan], State]:
    """All rounds at one instant, while no agent answers, and the state after them."""
    state, plans, plan = initial(given), [], planner(solver)
    while (decided := decide(state, plan)) is not None:
        plans.append(decided.plan)
        state = step(state, decided, 0.0).state
        assert len(plans) < 10
    return plans, state


def done(plan: Plan) -> tuple[list[str], list[str]]:
    """Who starts and who is stopped."""
    return sorted(each.job for each in plan.starts), sorted(each.job for each in plan.preemptions)


def one_gives_way() -> Snapshot:
    """u takes the only node from v, and w, of v's priority, waits."""
    victim = job("v").gang(8).rank("P4").running(a=8)
    return snapshot(nodes("a", 8), victim, job("u").gang(8).rank("P0"), job("w").gang(8).rank("P4"))


def test_a_plan_that_leaves_nothing_to_do_is_not_followed_by_another():
    """u takes what v had. Another round would find w as blocked as before: there is none before v's agent answers."""
    plans, state = rounds(one_gives_way())
    assert [done(plan) for plan in plans] == [(["u"], ["v"])]
    assert plans[0].settled
    after = step(state, ev.Report(JobId("v"), NodeId("a"), ev.Outcome.RELEASED, 1), 5.0).state
    assert after.due


def test_a_plan_that_gives_others_a_right_is_followed_by_another():
    """16 GPUs, of which B and C are entitled to 8 each. B runs b1 (P3) and b0 (P4): of B's line only b0 is above 8. b2
    (P0) takes its place, and now it is b1 that is above 8: c1, inside C's 8, may take that.
    """
    running = (job("b1").team("B").rank("P3").running(a=8), job("b0").team("B").rank("P4").running(b=8))
    waiting = (job("b2").team("B").rank("P0").gang(8), job("c1").team("C").rank("P3").gang(8))
    plans, _ = rounds(snapshot(nodes("a b", 8), *running, *waiting))
    assert [done(plan) for plan in plans] == [(["b2"], ["b0"]), (["c1"], ["b1"])]
    assert [plan.settled for plan in plans] == [False, True]


def test_after_a_search_another_round_is_due():
    """What a search finds the next time is not known: one that stops somebody is followed by another."""
    plans, _ = rounds(one_gives_way(), SolverChoice.AUTO)
    assert [done(plan) for plan in plans] == [(["u"], ["v"]), ([], [])]
    assert not plans[0].settled


def test_who_let_others_into_its_room_has_them_go_once_a_plan_puts_it_in_line():
    """g, which nobody may stop else, was let into what is held for late, on a. Without g it would be first that takes
    a. But first is planned on b in place of v: then a is late's, and another round tells g to go.
    """
    running = (job("g").rank("P4").running(a=8), job("v").rank("P4").running(b=8))
    waiting = (job("first").rank("P1").gang(8), job("late").rank("P2").gang(8))
    carried = Carried(guests={JobId("late"): frozenset({JobId("g")})}, protected=frozenset({JobId("g")}))
    problem = build_problem(dataclasses.replace(snapshot(nodes("a b", 8), *running, *waiting), carried=carried))
    late = next(each for each in problem.queued if each.job.id == "late")
    plan = assignment(problem, {"first": {"b": 8}}, "v")
    assert greedy(problem) == plan
    assert goes_further(problem, plan, [late])
    assert not goes_further(problem, plan)


def prices(problem: Problem) -> dict[JobId, int]:
    """What the stop of each running job costs that may be stopped, in GPU-seconds."""
    held = problem.occupancy
    costs = zip(problem.running_ids, held.stop_gpu_s.tolist(), held.stoppable.tolist(), strict=True)
    return {name: cost for name, cost, may in costs if may}


@pytest.mark.parametrize("chunk", range(5))
def test_no_round_is_left_out_that_could_do_something(chunk: int):
    """Of random rounds with every feature: where none is due after a plan, one that is made all the same does nothing,
    as long as teams are entitled to the same, stops cost the same, and nothing is planned for those who wait.
    """
    left_out = 0
    for seed in range(40 * chunk, 40 * chunk + 40):
        given = small_round(seed)
        state = initial(dataclasses.replace(given, profile=dataclasses.replace(given.profile, max_reservations=0)))
        plan = planner()
        last = None
        while (decided := decide(state, plan)) is not None:
            before, last = build_problem(snapshot_of(state)), decided
            state = step(state, decided, state.now).state
        if last is None or not last.plan.settled:
            continue
        after = build_problem(snapshot_of(state))
        known, now = prices(before), prices(after)
        same = before.lines.entitlement == after.lines.entitlement
        if same and all(known.get(name) == cost for name, cost in now.items()):
            again = decide(dataclasses.replace(state, due=True), plan)
            assert again is None or not changes(again.plan), seed
            left_out += 1
    assert left_out > 0


def test_who_starts_in_turn_is_known_without_a_plan():
    """One node: a starts in its turn, and b, which is behind it, does not; nor in the quick plan of a search."""
    given = snapshot(nodes("n", 8), job("a").gang(8).rank("P1"), job("b").gang(8).rank("P2"))
    problem = build_problem(given)
    assert [starts_in_turn(problem, each) for each in problem.queued] == [True, False]
    assert [planner().may_start(given, JobId(name)) for name in "ab"] == [True, False]
    searching = planner(SolverChoice.AUTO)
    assert [start.job for start in searching.quickly(given).starts] == ["a"]
    assert not searching.may_start(given, JobId("b"))
    assert searching.turn is None, "neither was a round"


def test_what_agents_say_together_is_as_if_they_said_it_one_after_the_other():
    """j starts on a and b, is cancelled and leaves both; of a node that it was never on nothing is taken in."""

    def said(outcome: str, run: int = 1) -> ev.Reports:
        return ev.Reports(JobId("j"), (NodeId("a"), NodeId("b")), ev.Outcome(outcome), run)

    together, singly = (
        Driven(snapshot(nodes("a b c", 8), job("j").gang(16).per_node(8)), prompt=False).settle() for _ in range(2)
    )
    for outcome in ("reserved", "started", "released"):
        if outcome == "released":
            together.take(ev.Cancel(JobId("j")))
            singly.take(ev.Cancel(JobId("j")))
        one = said(outcome)
        together.take(one)
        for node in one.nodes:
            singly.take(ev.Report(one.job, node, one.outcome, one.run))
        assert together.stands("j") == singly.stands("j")
        assert [together.booked(node) for node in "abc"] == [singly.booked(node) for node in "abc"]
        assert together.asked_for(Verb.START) == singly.asked_for(Verb.START)
    assert together.stands("j") == "cancelled"
    assert [together.booked(node) for node in "ab"] == [0, 0]
    stale = len(together.notes)
    together.take(ev.Reports(JobId("j"), (NodeId("c"),), ev.Outcome.RELEASED, 1))
    assert [note.kind.value for note in together.notes[stale:]] == ["stale"]
