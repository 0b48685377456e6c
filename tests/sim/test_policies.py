"""Every policy by name: its plans pass the checker, the engine's invariants hold, and it does what it is named for."""

from __future__ import annotations

import pytest

from optsched.engine.step import step
from optsched.sim import kernel
from optsched.sim.figures import gpu_time, metrics
from optsched.sim.policies.names import ABOUT
from optsched.sim.policies.policy import Means
from optsched.sim.policies.registry import POLICIES
from tests.builders import QUIET, job, racks, snapshot, team
from tests.engine.invariants import faults_of
from tests.sim.made import simulation

SEARCHING = {"optsched", "no-lost-work-price", "no-reservations", "no-topology", "unbounded-backfill"}


def test_every_policy_is_told_in_a_sentence():
    """The names that help shows are those that there are."""
    assert list(ABOUT) == list(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
def test_plans_are_valid_and_the_engine_keeps_its_invariants(policy, monkeypatch):
    """No plan is refused by the checker, no step breaks what must hold, and the books agree."""
    faults = []

    def watched(state, event, now):
        found = step(state, event, now)
        faults.extend(f"{now:g} {type(event).__name__}: {fault}" for fault in faults_of(state, found))
        return found

    monkeypatch.setattr(kernel, "step", watched)
    running = simulation(2, policy, jobs=5 if policy in SEARCHING else 16)
    running.run()
    assert not faults, faults[:5]
    found = metrics(running.end())
    assert "no_change" not in found.rounds.sources or policy in SEARCHING
    assert set(found.jobs) <= {"completed", "failed", "cancelled"}
    assert gpu_time(running.end()).accounted == gpu_time(running.end()).capacity


def planned(policy, *jobs, nodes=None, teams=None):
    """The plan of a policy for one round on four nodes of 8 GPUs in two racks, as {job: nodes}."""
    given = snapshot(
        nodes or racks(8, r1="a b", r2="c d"), *jobs, *(teams or [team("t")]), profile=POLICIES[policy].profile(QUIET)
    )
    plan = POLICIES[policy].planner(Means())(given)
    return {str(each.job): sorted(map(str, each.placement)) for each in plan.starts}, plan


def test_fifo_waits_behind_the_first_that_does_not_fit_and_takes_the_fullest_node():
    """16 + 3 GPUs run; the gang of 16 that is next does not fit, and the one behind it waits although it would."""
    runs = job("r").gang(3).running(b=3)
    starts, _ = planned(
        "fifo-best-fit",
        *(
            runs,
            job("first").gang(2).waiting(50),
            job("gang").gang(32).per_node(8).waiting(40),
            job("last").waiting(30),
        ),
    )
    assert starts == {"first": ["b"]}


def test_fifo_knows_no_topology_where_none_is_required():
    """Best fit takes the nodes with least free, a and c, though b and d make a rack each with one of them."""
    given = (job("r").gang(2).running(a=2), job("s").gang(2).running(c=2), job("gang").gang(12).per_node(6))
    starts, _ = planned("fifo-best-fit", *given)
    assert starts == {"gang": ["a", "c"]}
    starts, _ = planned("bin-packing-tree-best-fit", *given)
    assert starts["gang"] in (["a", "b"], ["c", "d"])


def test_bin_packing_lets_whoever_fits_start_by_priority():
    """The gang that does not fit holds up nobody; the more urgent is first."""
    starts, _ = planned(
        "bin-packing-tree-best-fit",
        *(job("r").gang(8).running(a=8), job("gang").gang(32).per_node(8).waiting(40)),
        *(job("old").gang(8).rank("P4").waiting(30), job("urgent").gang(24).per_node(8).rank("P1")),
    )
    assert starts == {"urgent": ["b", "c", "d"]}


def full(end_a=1000.0, end_b=5000.0):
    """Node a is free from 1,000 s on, b from 5,000 s; c and d are free; a gang of 24 is first in line."""
    return (
        job("ra").gang(8).runs_for(3600 + end_a).running(a=8),
        job("rb").gang(8).runs_for(3600 + end_b).running(b=8),
        job("gang").gang(24).per_node(8).waiting(100),
    )


def test_easy_keeps_the_place_of_the_first_and_of_nobody_else():
    """The gang starts at 1,000 s on a, c and d: c may be used until then, and by nobody for longer."""
    starts, plan = planned(
        "easy-backfill",
        *full(),
        *(job("long").gang(8).runs_for(2000).waiting(50), job("short").gang(8).runs_for(900).waiting(40)),
    )
    assert set(starts) == {"short"}
    (room,) = plan.reservations
    assert (room.job, room.start_estimate_at, sorted(room.planned)) == ("gang", 1000.0, ["a", "c", "d"])


def test_easy_lets_others_stay_beside_what_is_kept():
    """The gang wants 5 GPUs on each of four nodes, from 1,000 s on a, c, d and e: 3 of each may be had for longer."""
    nodes = racks(8, r1="a b", r2="c d e")
    runs = [each for each in full() if each.made.id != "gang"]
    starts, plan = planned(
        "easy-backfill",
        *(*runs, job("gang").gang(20).per_node(5).waiting(100)),
        *(job("wide").gang(8).runs_for(9000).waiting(50), job("beside").gang(3).runs_for(9000).waiting(40)),
        nodes=nodes,
    )
    assert set(starts) == {"beside"}
    assert plan.reservations[0].start_estimate_at == 1000.0


def test_conservative_keeps_a_place_for_everybody():
    """Behind the gang (a, c, d at 1,000 s, for 3,000) waits one of 32 GPUs; a third fits only before both."""
    gang = job("gang").gang(24).per_node(8).waiting(100).runs_for(3000)
    given = [each for each in full() if each.made.id != "gang"]
    jobs = (*given, gang, job("all").gang(32).per_node(8).waiting(50).runs_for(100))
    starts, plan = planned("conservative-backfill", *jobs, job("short").gang(8).runs_for(900).waiting(40))
    assert set(starts) == {"short"}
    told = {str(room.job): room.start_estimate_at for room in plan.reservations}
    assert told == {"gang": 1000.0, "all": 5000.0}


def test_reclaim_takes_the_newest_run_of_a_team_beyond_its_share():
    """Team b holds all 32 GPUs and is owed 16: a's gang of 8 takes from the run that began last, saved or not."""
    teams = [team("a").quota(16), team("b").quota(16)]
    runs = [
        job(f"r{i}").team("b").gang(8).running({name: 8}, since=7200 - 600 * i, lost=60 if i < 3 else 5000)
        for i, name in enumerate("abcd")
    ]
    _, plan = planned("one-at-a-time-reclaim", *runs, job("mine").team("a").gang(8), teams=teams)
    assert [str(each.job) for each in plan.preemptions] == ["r3"]
    _, plan = planned("greedy", *runs, job("mine").team("a").gang(8), teams=teams)
    assert [str(each.job) for each in plan.preemptions] != ["r3"], "optsched takes one that has saved its work"
