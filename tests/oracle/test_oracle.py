"""The oracle itself: rounds worked by hand, and every rule with one plan that keeps it and one that breaks it.

Numbers in comments: H = 3,600 s. Unless a test says otherwise nodes n0, n1, … have 4 GPUs of one type, at full speed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from optsched.values.cluster import Cluster, Node, NodeState, Reservation, ReservationKind
from optsched.values.job import Checkpoint, Job, JobState, Slice
from optsched.values.profile import PriorityMode, Profile, Reclaim
from optsched.values.resources import Amounts
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team
from tests.oracle.brute import Hold, Plan, Round, all_plans, best_plans, broken_rules, options, score_of, solve
from tests.oracle.order import queue_order
from tests.oracle.rounds import small_round, tiny_holds, tiny_round

FULL_SPEED = Profile(speed_widest=1.0, patience_s=1e6)
ONE_TEAM = (Team("t"),)
MOVE_NOTHING = replace(FULL_SPEED, migration=False)


def nodes(count: int, **fields) -> tuple[Node, ...]:
    return tuple(Node(f"n{i}", **{"gpus": 4, **fields}) for i in range(count))


def job(name: str, gpus: int, team: str = "t", **fields) -> Job:
    """A queued job whose tasks of one GPU may stand anywhere."""
    return Job(name, team, gpus, **{"gpus_per_task": 1, **fields})


def running(name: str, placement: dict, team: str = "t", **fields) -> Job:
    """A job that runs for an hour, without a checkpoint for as long as `lost` (default: 100 s)."""
    lost = fields.pop("lost", 100)
    gpus = fields.pop("gpus", sum(placement.values()))
    times = {"submitted_at": -3600, "started_at": -3600, "last_checkpoint_at": -lost}
    return job(name, gpus, team, state=JobState.RUNNING, placement=placement, **{**times, **fields})


def snapshot(cluster, jobs, teams=ONE_TEAM, profile=FULL_SPEED, reservations=()) -> Snapshot:
    if not isinstance(cluster, Cluster):
        cluster = Cluster(tuple(cluster))
    return Snapshot(0, cluster, tuple(teams), tuple(jobs), tuple(reservations), profile)


def breaks(snap: Snapshot, placements: dict | None = None, *stopped: str, **more) -> list[str]:
    """The rules that a plan breaks, by number."""
    names = broken_rules(Round(snap, **more), Plan(placements or {}, frozenset(stopped)))
    return [name.split("_")[1] for name in names]


# Rounds worked by hand


def test_the_cheapest_victim_of_a_lower_priority_goes():
    """Both victims make room for the same start; the one that loses less work is stopped."""
    snap = snapshot(
        nodes(2),
        [running("a", {"n0": 4}, lost=100), running("b", {"n1": 4}, lost=50), job("c", 4, priority=1)],
        profile=MOVE_NOTHING,
    )
    best = solve(snap)
    # b gives 4 GPUs and costs 4 · 50 = 200; a would cost 400. c may pay up to 1 · 3600 · 4 = 14400.
    assert best.keys == {Plan({"c": {"n1": 4}}, frozenset({"b"})).key()}
    assert best.score.bill == {"placement": 0, "preemption": 200, "migration": 0, "resize": 0, "hold": 0, "domain": 0}
    assert best.score.stays == 4
    assert best.score.older == 4


def test_a_job_of_equal_priority_waits():
    """Inside a team only a strictly higher priority takes."""
    snap = snapshot(nodes(1), [running("a", {"n0": 4}), job("c", 4)])
    assert solve(snap).keys == {Plan().key()}


def test_a_move_makes_one_hole_of_two():
    """Two half-full nodes hold a whole-node gang once one of the jobs has moved over to the other."""
    snap = snapshot(
        nodes(2), [running("a", {"n0": 2}, lost=100), running("b", {"n1": 2}, lost=30), job("c", 4, gpus_per_node=4)]
    )
    best = solve(snap)
    # b moves for 2 · 30 = 60, a would cost 200.
    assert best.keys == {Plan({"b": {"n0": 2}, "c": {"n1": 4}}).key()}
    assert best.score.bill["migration"] == 60


def test_weighted_mode_weighs_the_bill_against_what_runs():
    """A start is worth w · GPUs · H; a stop that costs more than the difference is not made."""
    teams = [Team("t", quota=Amounts(gpus=4))]
    jobs = [running("a", {"n0": 4}), job("c", 4, priority=1000)]
    profile = replace(MOVE_NOTHING, priority_mode=PriorityMode.WEIGHTED, max_loss_ratio=None)
    # a runs at w = 1 · 4 (P4, guaranteed): 4 · 4 · 3600 = 57600. c would at 2 · 4: 115200, less 4 · lost.
    dear = snapshot(nodes(1), [replace(jobs[0], last_checkpoint_at=-14500), jobs[1]], teams, profile)
    cheap = snapshot(nodes(1), [replace(jobs[0], last_checkpoint_at=-14300), jobs[1]], teams, profile)
    assert solve(dear).keys == {Plan().key()}
    assert solve(cheap).keys == {Plan({"c": {"n0": 4}}, frozenset({"a"})).key()}
    # 115200 - 4 · 14300 = 58000 > 57600 > 115200 - 4 · 14500 = 57200
    assert solve(cheap).score.key == (58000.0,)


def test_weighted_mode_counts_waiting_and_puts_growth_last():
    """A wait of 10 h adds half a class weight per minimum GPU; above the minimum P0 weighs as much as P4 does."""
    profile = replace(FULL_SPEED, priority_mode=PriorityMode.WEIGHTED)
    snap = snapshot(nodes(1), [job("c", 2, priority=4000, max_gpus=3, submitted_at=-36000)], profile=profile)
    r = Round(snap, entitlement={"t": {"": 2}})
    # 2 GPUs at 16 · 2 (P0, fair), 1 GPU at 1 · 1 (opportunistic), and 2 · 16 · 0.5 for the wait: 81 · 3600
    assert score_of(r, Plan({"c": {"n0": 3}})).value == 81 * 3600


def test_a_team_inside_its_quota_takes_back_what_it_lent():
    """A lower priority is no shield for what lies above another team's quota."""
    teams = [Team("t", quota=Amounts(gpus=4)), Team("u", quota=Amounts(gpus=4))]
    snap = snapshot(nodes(2), [running("a", {"n0": 4}, priority=5), running("b", {"n1": 4}), job("c", 4, "u")], teams)
    # t runs 8 of 4: b (the lower priority) lies above the line, a does not.
    best = solve(snap)
    assert best.keys == {Plan({"c": {"n1": 4}}, frozenset({"b"})).key()}
    # rows: guaranteed 4 at priority 5, guaranteed 4 at priority 0
    assert dict(best.score.rows) == {(0, 1, -5): 4, (0, 1, 0): 4}


def test_shrinking_spares_a_job():
    """An elastic job gives up what it has above its minimum, and the gang starts beside it."""
    snap = snapshot(
        nodes(1),
        [running("a", {"n0": 4}, gpus=2, min_gpus=2, max_gpus=4), job("c", 2, priority=1)],
        profile=MOVE_NOTHING,
    )
    best = solve(snap)
    assert best.keys == {Plan({"a": {"n0": 2}, "c": {"n0": 2}}).key()}
    assert best.score.bill["resize"] == 4 * 100


def test_placement_loss_counts_type_span_and_preferred_level():
    """4 GPUs over both racks: 4 · 3600 · (1 - 0.5 · 0.8), and 4 · 3600 · 0.1 · (2 - 1) / 1 for one rack too many."""
    cluster = Cluster(
        (Node("n0", 2, {"rack": "r0"}), Node("n1", 2, {"rack": "r1"}), Node("n2", 4, {"rack": "r1"})), ("rack",)
    )
    profile = Profile(speed={"rack": 0.9}, speed_widest=0.8, preferred_price=0.1)
    snap = snapshot(cluster, [job("c", 4, gpu_types={"": 0.5}, preferred="rack")], profile=profile)
    r = Round(snap)
    assert score_of(r, Plan({"c": {"n0": 2, "n1": 2}})).bill["placement"] == 8640 + 1440
    assert score_of(r, Plan({"c": {"n1": 2, "n2": 2}})).bill["placement"] == 4 * 1980  # 3600 · (1 - 0.5 · 0.9)
    assert score_of(r, Plan({"c": {"n2": 4}})).bill["placement"] == 4 * 1800


def test_whole_domains_have_a_price_and_draining_has_another():
    """A node broken up costs its price, and a victim's checkpoint holds up all of its taker's GPUs."""
    profile = replace(MOVE_NOTHING, domain_price={"node": 7})
    saver = Checkpoint(cost_s=30, restart_s=60, on_signal=True)
    jobs = [running("a", {"n0": 4}, checkpoint=saver), job("c", 5, priority=1)]
    bill = score_of(
        Round(snapshot(nodes(2), jobs, profile=profile)), Plan({"c": {"n0": 4, "n1": 1}}, frozenset({"a"}))
    ).bill
    assert bill == {"placement": 0, "preemption": 4 * 90, "migration": 0, "resize": 0, "hold": 5 * 30, "domain": 7}


def test_the_queue_goes_by_tier_then_priority_then_age_or_share():
    """Guaranteed before opportunistic; among equals of the latter the team with the lower share gives the next."""
    teams = [Team("t", quota=Amounts(gpus=2)), Team("u"), Team("w", weight=0)]
    jobs = [
        job("w1", 1, "w", submitted_at=-99),
        job("u1", 2, "u", submitted_at=-50),
        job("u2", 2, "u", submitted_at=-40),
        job("t1", 2, "t", submitted_at=-10),
        job("t2", 2, "t", submitted_at=-5),
        job("soon", 1, "u", submitted_at=0, start_deadline_at=100),
    ]
    r = Round(snapshot(nodes(4), jobs, teams), entitlement={"t": {"": 2}, "u": {"": 0}, "w": {"": 0}})
    # soon: a near deadline. t1: guaranteed. Then t has 2/16, u 1/16 (soon): u1; t 2/16, u 3/16: t2; u2; w has no share.
    assert queue_order(r) == ["soon", "t1", "u1", "t2", "u2", "w1"]


def test_growth_ranks_below_every_start():
    """Two idle GPUs go to the queued job of the lowest priority, not to the growth of the highest."""
    jobs = [running("a", {"n0": 2}, gpus=2, max_gpus=4, priority=9), job("c", 2)]
    assert solve(snapshot(nodes(1), jobs)).keys == {Plan({"c": {"n0": 2}}).key()}


# Rule by rule: one plan that keeps it, one that breaks it


def test_rule_1_a_job_runs_at_one_of_its_sizes():
    """Elastic from 2 to 4 in steps of 2: 2 and 4, not 3 or 6."""
    snap = snapshot(nodes(2), [job("c", 2, gpus_per_task=None, gpus_per_node=2, max_gpus=4)])
    assert breaks(snap, {"c": {"n0": 2, "n1": 2}}) == []
    assert breaks(snap, {"c": {"n0": 3}}) == ["1", "2"]


def test_rule_1_a_move_keeps_the_size():
    """To grow and to change nodes at once is neither a move nor a resize."""
    snap = snapshot(nodes(3), [running("a", {"n0": 2, "n1": 1}, gpus=3, max_gpus=4, lost=0, preferred="node")])
    assert "1" not in breaks(snap, {"a": {"n2": 3}})
    assert "1" in breaks(snap, {"a": {"n2": 4}})


def test_rule_2_a_job_without_a_cut_stands_on_one_node_or_on_whole_ones():
    """One node where its size fits on one; otherwise all GPUs of every node."""
    small = snapshot(nodes(2), [job("c", 3, gpus_per_task=None)])
    assert breaks(small, {"c": {"n0": 3}}) == []
    assert breaks(small, {"c": {"n0": 2, "n1": 1}}) == ["2"]
    large = snapshot((*nodes(2), Node("x", 3), Node("y", 2)), [job("c", 7, gpus_per_task=None)])
    assert breaks(large, {"c": {"n0": 4, "x": 3}}) == []
    assert breaks(large, {"c": {"n0": 4, "n1": 3}}) == ["2"]


def test_rule_2_tasks_are_not_torn_apart():
    """Two GPUs per task: 2 and 2, not 3 and 1."""
    snap = snapshot(nodes(2), [job("c", 4, gpus_per_task=2)])
    assert breaks(snap, {"c": {"n0": 2, "n1": 2}}) == []
    assert breaks(snap, {"c": {"n0": 3, "n1": 1}}) == ["2"]


@pytest.mark.parametrize(
    "fields",
    [
        {"gpu_type": "other"},
        {"labels": {"zone": "b"}},
        {"state": NodeState.CORDONED},
        {"spare": True},
    ],
)
def test_rule_3_only_nodes_that_it_may_use(fields):
    """The second node differs in one thing, and that keeps the job from it."""
    saver = Checkpoint(cost_s=30, on_signal=True)
    wish = job("c", 2, gpu_types={"": 1.0}, node_selector={"zone": "a"}, checkpoint=saver)
    snap = snapshot((Node("n0", 4, labels={"zone": "a"}), Node("n1", 4, **{"labels": {"zone": "a"}, **fields})), [wish])
    assert breaks(snap, {"c": {"n0": 2}}) == []
    assert breaks(snap, {"c": {"n1": 2}}) == ["3"]


def test_rule_3_maintenance_keeps_out_what_would_still_run():
    """A job that ends before the window may start; preemptible work may too where the profile backfills with it."""
    window = [Reservation("w", 1000, 2000, nodes=("n0",))]
    short, long = (job("c", 2, estimated_runtime_s=runtime, preemptible=False) for runtime in (900, 1100))
    assert breaks(snapshot(nodes(1), [short], reservations=window), {"c": {"n0": 2}}) == []
    assert breaks(snapshot(nodes(1), [long], reservations=window), {"c": {"n0": 2}}) == ["3"]
    assert breaks(snapshot(nodes(1), [replace(long, preemptible=True)], reservations=window), {"c": {"n0": 2}}) == []


def test_rule_4_a_gang_has_one_gpu_type():
    """Two types of node are never mixed."""
    snap = snapshot((*nodes(2), Node("x", 4, gpu_type="other")), [job("c", 8)])
    assert breaks(snap, {"c": {"n0": 4, "n1": 4}}) == []
    assert breaks(snap, {"c": {"n0": 4, "x": 4}}) == ["4"]


def test_rule_5_the_required_level_holds_the_gang():
    """Rack r0 of block b0 is not rack r0 of block b1, and a node without a rack is in none."""
    cluster = Cluster(
        (
            Node("n0", 4, {"block": "b0", "rack": "r0"}),
            Node("n1", 4, {"block": "b0", "rack": "r0"}),
            Node("n2", 4, {"block": "b1", "rack": "r0"}),
            Node("n3", 4, {"block": "b1"}),
        ),
        ("block", "rack"),
    )
    snap = snapshot(cluster, [job("c", 6, required="rack"), job("d", 2, required="rack")])
    assert breaks(snap, {"c": {"n0": 4, "n1": 2}}) == []
    assert breaks(snap, {"c": {"n0": 4, "n2": 2}}) == ["5"]
    assert breaks(snap, {"d": {"n3": 2}}) == ["5"]


def test_rule_6_slices_lie_inside_domains():
    """Slices of 2 in a rack: 2 and 2, not 3 and 1, and nothing outside the racks."""
    cluster = Cluster((Node("n0", 4, {"rack": "r0"}), Node("n1", 4, {"rack": "r1"}), Node("n2", 4)), ("rack",))
    snap = snapshot(cluster, [job("c", 4, slices=(Slice(2, "rack"),))])
    assert breaks(snap, {"c": {"n0": 2, "n1": 2}}) == []
    assert breaks(snap, {"c": {"n0": 3, "n1": 1}}) == ["6"]
    assert breaks(snap, {"c": {"n0": 2, "n2": 2}}) == ["6"]


def test_rule_7_a_node_holds_what_it_has():
    """GPUs, CPUs (less those reserved) and memory are not overdrawn."""
    machine = Node("n0", 4, cpus=20, cpus_reserved=4, memory_gb=64, gpus_bad=(3,))
    for wish, kept in (
        (job("c", 3, cpus=15, memory_gb=60), True),
        (job("c", 4), False),
        (job("c", 2, cpus=17), False),
        (job("c", 2, memory_gb=65), False),
    ):
        broken = breaks(snapshot([machine], [wish]), {"c": {"n0": wish.gpus}})
        assert ("7" not in broken) == kept


def test_rule_8_limits_cover_the_teams_below():
    """Child and parent together stay within the parent's limit, each user within the user limit."""
    teams = [Team("t", limit=Amounts(gpus=4), user_limit=Amounts(gpus=3)), Team("u", "t")]
    snap = snapshot(
        nodes(2), [job("c", 2, user="ada"), job("d", 2, "u", user="bob"), job("e", 2, "u", user="ada")], teams
    )
    assert breaks(snap, {"c": {"n0": 2}, "d": {"n0": 2}}) == []
    assert breaks(snap, {"c": {"n0": 2}, "e": {"n0": 2}}) == ["8"]
    assert breaks(snap, {"c": {"n0": 2}, "d": {"n0": 2}, "e": {"n1": 2}}) == ["8"]


def test_rule_8_what_exceeds_a_limit_already_may_stay_but_not_grow():
    """A shrunk limit stops nobody, and nothing starts under it until the total is within it again."""
    teams = [Team("t", limit=Amounts(gpus=3))]
    snap = snapshot(nodes(2), [running("a", {"n0": 4}), job("c", 1, priority=1)], teams)
    assert breaks(snap) == []
    assert breaks(snap, {"c": {"n1": 1}}) == ["8"]
    assert breaks(snap, {"c": {"n0": 1}}, "a") == []


def test_rule_9_what_cannot_be_stopped_stays_within_quota():
    """Non-preemptible work is bounded by the quota, a grant lifts it, and no quota is no bound."""
    fixed = job("c", 4, preemptible=False)
    grant = Reservation("g", 0, 100, ReservationKind.GRANT, gpus=4, jobs=("c",))
    start = {"c": {"n0": 4}}
    assert breaks(snapshot(nodes(1), [fixed], [Team("t", quota=Amounts(gpus=4))]), start) == []
    assert breaks(snapshot(nodes(1), [fixed], [Team("t", quota=Amounts(gpus=3))]), start) == ["9"]
    assert breaks(snapshot(nodes(1), [fixed], [Team("t", quota=Amounts(gpus=3))], reservations=[grant]), start) == []
    assert breaks(snapshot(nodes(1), [fixed], [Team("t")]), start) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"preemptible": False},
        {"started_at": -500},
        {"preemptions": 9},
        {"estimated_runtime_s": 3700},  # ends in 100 s, within its grace period of 120 s
    ],
)
def test_rule_10_some_are_not_stopped(fields):
    """The same stop is allowed but for one thing."""
    start = {"c": {"n0": 4}}
    victim = running("a", {"n0": 4})
    assert breaks(snapshot(nodes(1), [victim, job("c", 4, priority=1)]), start, "a") == []
    assert breaks(snapshot(nodes(1), [replace(victim, **fields), job("c", 4, priority=1)]), start, "a") == ["10"]


def test_rule_10_moves_need_migration_and_stops_are_counted():
    """Without migration nothing moves, and only so many GPUs are stopped in an hour."""
    jobs = [running("a", {"n0": 4}), job("c", 4, gpus_per_node=4, priority=1)]
    assert breaks(snapshot(nodes(2), jobs), {"a": {"n1": 4}, "c": {"n0": 4}}) == []
    assert breaks(snapshot(nodes(2), jobs, profile=MOVE_NOTHING), {"a": {"n1": 4}, "c": {"n0": 4}}) == ["10"]
    for most, broken in ((4, []), (3, ["10"])):
        profile = replace(FULL_SPEED, max_stopped_gpus_per_h=most)
        assert breaks(snapshot(nodes(1), jobs, profile=profile), {"c": {"n0": 4}}, "a") == broken


def test_rule_11_a_node_is_shared_out_among_those_with_rights():
    """Hall's condition: two starts fit only if the one without a right over the victim has the free GPUs."""
    teams = [Team("t"), Team("u")]
    victim = running("a", {"n0": 2})
    over = job("c", 2, priority=1)
    snap = snapshot(nodes(1), [victim, over, job("d", 2, "u")], teams, replace(FULL_SPEED, reclaim=Reclaim.QUOTA))
    assert breaks(snap, {"c": {"n0": 2}, "d": {"n0": 2}}, "a") == []
    assert breaks(snap, {"c": {"n0": 1}, "d": {"n0": 3}}, "a") == ["1", "11", "13"]


def test_rule_11_a_job_inside_quota_yields_only_to_emergencies_and_deadlines():
    """Another team's P0 takes nothing from it, unless P0 is an emergency class or its deadline breaks guarantees."""
    teams = [Team("t", quota=Amounts(gpus=4)), Team("u", quota=Amounts(gpus=4), max_deadline_gpus=4)]
    start = {"c": {"n0": 4}}
    wish = job("c", 4, "u", priority=4000, priority_class="P0")
    soon = replace(wish, start_deadline_at=200)  # due: 120 + 60 + 60 s before

    def with_profile(queued: Job, **fields) -> list[str]:
        return breaks(
            snapshot(nodes(1), [running("a", {"n0": 4}), queued], teams, replace(FULL_SPEED, **fields)), start, "a"
        )

    assert with_profile(wish) == ["11", "12", "13", "15"]
    assert with_profile(wish, emergency_classes=("P0",)) == []
    assert with_profile(soon) == ["11", "12", "13", "15"]
    assert with_profile(soon, deadline_classes=("P0",)) == []


def test_rule_11_the_fair_right_needs_a_fair_reclaim():
    """Inside its entitlement a team takes what lies above another's, but not where only quotas count."""
    teams = [Team("t"), Team("u")]
    jobs = [running("a", {"n0": 2}), running("b", {"n0": 2}), job("c", 2, "u")]
    shares = {"t": {"": 2}, "u": {"": 2}}
    start = {"c": {"n0": 2}}
    assert breaks(snapshot(nodes(1), jobs, teams), start, "b", entitlement=shares) == []
    by_quota = snapshot(nodes(1), jobs, teams, replace(FULL_SPEED, reclaim=Reclaim.QUOTA))
    assert breaks(by_quota, start, "b", entitlement=shares) == ["11", "12", "13", "15"]


def test_rule_12_nobody_is_stopped_or_moved_for_nothing():
    """A stop needs a taker where it gives; a move needs one too, or a better place that pays for it."""
    jobs = [running("a", {"n0": 2}), job("c", 2, priority=1)]
    assert breaks(snapshot(nodes(2), jobs), {"c": {"n0": 2}}, "a") == []
    assert "12" in breaks(snapshot(nodes(2), jobs), {"c": {"n1": 2}}, "a")
    cluster = Cluster((Node("n0", 2, {"rack": "r0"}), Node("n1", 2, {"rack": "r1"}), Node("n2", 4)), ("rack",))
    slow = Profile(speed_widest=0.9, speed={"rack": 1.0})
    # To move off two racks saves 4 · 360 = 1440: more than 4 · 350, not more than 4 · 360.
    for lost, broken in ((350, []), (360, ["12"])):
        snap = snapshot(cluster, [running("a", {"n0": 2, "n1": 2}, lost=lost)], profile=slow)
        assert breaks(snap, {"a": {"n2": 4}}) == broken


def test_rule_13_nothing_above_a_minimum_is_taken_by_force():
    """By force an elastic job starts at its minimum; above it only into what is free."""
    jobs = [running("a", {"n0": 4}), job("c", 2, max_gpus=4, priority=1)]
    assert breaks(snapshot(nodes(1), jobs), {"c": {"n0": 2}}, "a") == []
    assert "13" in breaks(snapshot(nodes(1), jobs), {"c": {"n0": 4}}, "a")
    assert breaks(snapshot(nodes(2), jobs), {"c": {"n1": 4}}) == []


def test_rule_14_a_team_is_not_pushed_below_its_quota():
    """Both jobs lie above the line of 2, but only one of them can go for another team."""
    teams = [Team("t", quota=Amounts(gpus=2)), Team("u", quota=Amounts(gpus=4))]
    jobs = [running("a", {"n0": 2}), running("b", {"n0": 2}), job("c", 2, "u"), job("d", 4, "u")]
    assert breaks(snapshot(nodes(1), jobs, teams), {"c": {"n0": 2}}, "b") == []
    assert breaks(snapshot(nodes(1), jobs, teams), {"d": {"n0": 4}}, "a", "b") == ["14"]


def test_rule_15_a_preemption_must_pay():
    """A start of 1 GPU is worth 3600 GPU-seconds; with its patience gone once, twice as much."""
    victim = running("a", {"n0": 2}, lost=3000)  # 6000
    profile = replace(FULL_SPEED, patience_s=900)
    for waited, broken in ((800, ["15"]), (900, [])):
        snap = snapshot(nodes(1), [victim, job("c", 1, priority=1, submitted_at=-waited)], profile=profile)
        assert breaks(snap, {"c": {"n0": 1}}, "a") == broken


def test_rule_15_two_starts_share_a_victim():
    """Neither of them alone is worth the victim, both together are; each can only pay for what it may take."""
    victim = running("a", {"n0": 2}, lost=3000)
    snap = snapshot(nodes(1), [victim, job("c", 1, priority=1), job("d", 1, priority=1)])
    assert breaks(snap, {"c": {"n0": 1}, "d": {"n0": 1}}, "a") == []
    assert breaks(snap, {"c": {"n0": 1}}, "a") == ["15"]


def test_rule_16_held_gpus_serve_only_those_who_are_not_bound():
    """Two of four free GPUs are held: d gets the other two, e all four, and all is open once the gang starts."""
    snap = snapshot(nodes(1), [job("gang", 2), job("d", 2), job("e", 4)])
    hold = [Hold("gang", {"n0": 2}, frozenset({"d"}))]
    assert breaks(snap, {"d": {"n0": 2}}, holds=hold) == []
    assert breaks(snap, {"e": {"n0": 4}}, holds=hold) == []
    whole = [Hold("gang", {"n0": 3}, frozenset({"d"}))]
    assert breaks(snap, {"d": {"n0": 2}}, holds=whole) == ["16"]
    assert breaks(snap, {"d": {"n0": 2}, "gang": {"n0": 2}}, holds=whole) == []


def test_rule_16_a_grant_keeps_its_gpus():
    """What is not preemptible keeps out of the GPUs that a grant still waits to use."""
    grant = [Reservation("g", 0, 100, ReservationKind.GRANT, gpus=3, jobs=("c",))]
    snap = snapshot(
        nodes(1), [job("c", 3), job("d", 1, preemptible=False), job("e", 2, preemptible=False)], reservations=grant
    )
    assert breaks(snap, {"d": {"n0": 1}}) == []
    assert breaks(snap, {"e": {"n0": 2}}) == ["16"]


# The search


def ways(r: Round) -> int:
    """How many plans plain enumeration would look at."""
    return math.prod(sum(max(1, len(o.placements)) for o in options(r, each)) for each in r.snapshot.jobs)


@pytest.mark.parametrize("mode", PriorityMode)
def test_the_search_finds_what_plain_enumeration_finds(mode):
    """Looking at the most promising decisions first loses no plan: the best of all valid plans, and all of them."""
    rounds = [Round(tiny_round(seed)) for seed in range(60)]
    rounds = [Round(r.snapshot, holds=tiny_holds(i, r)) if i % 3 == 0 else r for i, r in enumerate(rounds)]
    few = [r for r in rounds if ways(r) <= 800]
    assert len(few) >= 15
    for r in few:
        found = [(score_of(r, plan, mode), plan) for plan in all_plans(r) if not broken_rules(r, plan)]
        top = max(each for each, _ in found)
        best = best_plans(r, mode)
        assert best.score == top
        assert best.keys == {plan.key() for each, plan in found if each == top}


@pytest.mark.parametrize("make", [tiny_round, small_round])
def test_what_runs_in_a_generated_round_is_legally_placed(make):
    """To change nothing is valid, nothing is overbooked, and the same seed gives the same round."""
    for seed in range(40):
        snap = make(seed)
        assert snap == make(seed)
        r = Round(snap)
        assert broken_rules(r, Plan()) == []
        assert all(r.booked[node] <= r.capacity[node] for node in r.nodes)
