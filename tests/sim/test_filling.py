"""What a trace lacks is drawn: from the stated models, the same for the same seed, one model apart from the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from optsched.sim.traces.fill import NO_GPUS, TOO_LARGE, Filling, fill
from optsched.sim.traces.walltimes import GRID, requested
from optsched.sim.workload import Ending
from optsched.values.cluster import Cluster, Node
from optsched.values.ids import GpuType, LevelName, NodeId
from optsched.values.trace import Trace, TraceJob

RACK = LevelName("rack")


def cluster(racks: int = 4, nodes: int = 2, gpus: int = 8, kind: str = "h100", cpus: float | None = None) -> Cluster:
    """Nodes of 8 GPUs, two to a rack, four racks: 64 GPUs."""
    return Cluster(
        tuple(
            Node(NodeId(f"{kind}-r{rack}n{node}"), gpus, {RACK: f"r{rack}"}, GpuType(kind), cpus=cpus)
            for rack in range(racks)
            for node in range(nodes)
        ),
        (RACK,),
    )


def trace(*jobs: TraceJob) -> Trace:
    return Trace("given", "optsched", jobs)


def many(count: int, **fields: object) -> Trace:
    return trace(*(TraceJob(f"j{index}", float(index), 1, 3600.0, **fields) for index in range(count)))  # type: ignore[arg-type]


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    first, again, other = (fill(many(200), cluster(), Filling(seed=seed)).workload for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_model_that_is_changed_leaves_the_others_as_they_were() -> None:
    plain = fill(many(200), cluster()).workload.arrivals
    other = fill(many(200), cluster(), Filling(outcomes=(1, 0, 0), checkpoint_share=0)).workload.arrivals
    assert {arrival.ending for arrival in other} == {Ending.COMPLETED}
    assert [a.job.estimated_runtime_s for a in plain] == [a.job.estimated_runtime_s for a in other]
    assert [a.job.priority for a in plain] == [a.job.priority for a in other]


def test_outcomes_follow_the_rates_of_philly() -> None:
    found = Counter(arrival.ending for arrival in fill(many(4000), cluster()).workload.arrivals)
    # Three standard errors of a share near 0.6 in 4,000 draws are 0.023.
    for ending, share in ((Ending.COMPLETED, 0.604), (Ending.CANCELLED, 0.09), (Ending.FAILED, 0.305)):
        assert found[ending] / 4000 == pytest.approx(share, abs=0.025)


def test_what_the_trace_tells_is_not_drawn() -> None:
    job = TraceJob("a", 5.0, 8, 60.0, team="lab", user="ann", priority="P1", status="failed", requested_s=120.0)
    filled = fill(trace(job), cluster())
    (arrival,) = filled.workload.arrivals
    assert (arrival.ending, arrival.work_s, arrival.at) == (Ending.FAILED, 60, 0)
    assert (arrival.job.team, arrival.job.user, arrival.job.priority_class) == ("lab", "ann", "P1")
    assert arrival.job.estimated_runtime_s == 120
    assert filled.drawn == {}


def test_words_of_other_schedulers_become_classes() -> None:
    jobs = [TraceJob(word, 0.0, 1, 60.0, priority=word) for word in ("HP", "Spot", "LS", "BE")]
    assert [a.job.priority_class for a in fill(trace(*jobs), cluster()).workload.arrivals] == ["P1", "P3", "P1", "P3"]


def test_durations_that_are_missing_come_from_jobs_of_the_same_size() -> None:
    jobs = [TraceJob(f"j{index}", 0.0, 1 + 7 * (index % 2)) for index in range(2000)]
    filled = fill(trace(*jobs), cluster())
    assert filled.drawn["duration"] == 2000
    ones = [a.work_s for a in filled.workload.arrivals if a.job.gpus == 1]
    eights = [a.work_s for a in filled.workload.arrivals if a.job.gpus == 8]
    # Medians of Philly: 1,117 s for one GPU and 23,683 s for five to eight.
    assert 900 < float(np.median(ones)) < 1400
    assert 15_000 < float(np.median(eights)) < 36_000


def test_time_limits_are_what_people_type_and_never_too_short() -> None:
    runs = np.exp(np.linspace(0, 15, 5000))
    asked = requested(runs, np.random.default_rng(1).random(5000), 30 * 86_400.0)
    assert (asked >= runs).all()
    typed = asked[asked > runs]
    assert set(typed) <= set(GRID) | {86_400.0 * day for day in range(1, 31)}
    used = runs / asked
    # The logs' medians: 0.2 for runs of 10 to 60 minutes, 0.7 for 6 to 24 hours; rounding up lowers them a little.
    assert 0.1 < float(np.median(used[(runs > 600) & (runs < 3600)])) < 0.25
    assert 0.55 < float(np.median(used[(runs > 21_600) & (runs < 86_400)])) < 0.8


def test_a_gang_is_cut_by_nodes_or_by_what_divides_it_and_prefers_what_holds_it() -> None:
    sizes = {"one": 1, "node": 8, "odd": 12, "rack": 16, "all": 64}
    jobs = [TraceJob(name, 0.0, gpus, 60.0) for name, gpus in sizes.items()]
    filled = fill(trace(*jobs), cluster(), Filling(required_share=0))
    found = {
        str(a.job.id): (a.job.gpus_per_node, a.job.gpus_per_task, a.job.preferred) for a in filled.workload.arrivals
    }
    assert found == {
        "one": (None, None, None),
        "node": (None, None, None),
        "odd": (None, 4, "rack"),  # 12 = 3 x 4
        "rack": (8, None, "rack"),
        "all": (8, None, None),  # no rack has more than 16
    }
    insisting = fill(trace(TraceJob("a", 0.0, 16, 60.0)), cluster(), Filling(required_share=1))
    assert insisting.workload.arrivals[0].job.required == RACK


def test_tasks_of_the_trace_are_kept() -> None:
    job = TraceJob("a", 0.0, 16, 60.0, tasks=8, gpus_per_task=2)
    assert fill(trace(job), cluster()).workload.arrivals[0].job.gpus_per_task == 2


def test_what_cannot_run_here_is_left_out_and_counted() -> None:
    jobs = [TraceJob("cpu", 0.0, 0, 60.0), TraceJob("big", 0.0, 72, 60.0), TraceJob("part", 0.0, 0.25, 60.0)]
    filled = fill(trace(*jobs), cluster())
    assert [(a.job.id, a.job.gpus) for a in filled.workload.arrivals] == [("part", 1)]  # a share counts as a GPU
    assert filled.left_out == {NO_GPUS: 1, TOO_LARGE: 1}


def test_a_type_that_the_cluster_has_is_kept_and_bounds_the_gang() -> None:
    both = cluster(racks=1, kind="a100")
    both = replace(both, nodes=both.nodes + cluster(kind="h100").nodes)
    jobs = [TraceJob(name, 0.0, 32, 60.0, gpu_types=(name,)) for name in ("a100", "h100", "k80")]
    filled = fill(trace(*jobs), both)
    # 16 A100 do not hold 32; there is no K80, so that any type will do.
    assert [(a.job.id, dict(a.job.gpu_types)) for a in filled.workload.arrivals] == [
        ("h100", {"h100": 1.0}),
        ("k80", {}),
    ]


def test_types_go_by_other_names_in_other_places() -> None:
    """Case does not count, and the maker's suffix neither; H1 is no H100."""
    jobs = [TraceJob(name, 0.0, 1, 60.0, gpu_types=(name,)) for name in ("H100", "h100-SXM5-80GB", "H1")]
    filled = fill(trace(*jobs), cluster())
    assert [dict(a.job.gpu_types) for a in filled.workload.arrivals] == [{"h100": 1.0}, {"h100": 1.0}, {}]
    assert filled.drawn["GPU type, none of the trace's being there"] == 1


def test_cpus_are_cut_to_what_comes_with_the_gpus() -> None:
    job = TraceJob("a", 0.0, 2, 60.0, cpus=100)
    assert fill(trace(job), cluster(cpus=64)).workload.arrivals[0].job.cpus == 16
    assert fill(trace(job), cluster()).workload.arrivals[0].job.cpus == 0  # not known of the nodes: not asked


def test_quotas_follow_the_work_of_the_teams() -> None:
    jobs = [TraceJob("a", 0.0, 1, 300.0, team="x"), TraceJob("b", 0.0, 1, 100.0, team="y")]
    teams = fill(trace(*jobs), cluster()).workload.teams
    # 80 % of 64 GPUs: 51.2, three quarters and one quarter of them.
    assert [(team.id, team.quota.gpus if team.quota else None) for team in teams] == [("x", 38), ("y", 12)]
    assert all(team.quota is None for team in fill(trace(*jobs), cluster(), Filling(quota_share=0)).workload.teams)


def test_teams_are_made_up_where_there_are_none() -> None:
    filled = fill(many(4000), cluster(), Filling(teams=4))
    found = Counter(a.job.team for a in filled.workload.arrivals)
    # 1 : 1/2 : 1/3 : 1/4 of 4,000: 1,920, 960, 640, 480.
    assert [round(found[f"team-0{n}"] / 1920, 1) for n in (1, 2, 3, 4)] == pytest.approx([1.0, 0.5, 0.3, 0.2], abs=0.11)


def test_names_that_files_do_not_take_are_changed_and_stay_apart() -> None:
    jobs = [TraceJob(name, 0.0, 1, 60.0, team="a b") for name in ("x y", "x_y", "é")]
    arrivals = fill(trace(*jobs), cluster()).workload.arrivals
    assert [a.job.id for a in arrivals] == ["x_y", "x_y:2", "j_"]
    assert arrivals[0].job.team == "a_b"
