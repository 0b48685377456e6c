"""A team is entitled to its quota first; the rest goes by weighted dominant shares down the team tree.

Amounts are vectors of GPUs (per type), CPUs, memory in GB.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optsched.errors import InternalError
from optsched.policy import entitlement
from optsched.policy.entitlement import (
    DemandClasses,
    Entitlements,
    build_team_tree,
    dominant_share,
    entitlements,
    weighted_share,
)
from optsched.values.ids import GpuType, TeamId
from optsched.values.resources import Amounts
from optsched.values.team import Team


@dataclass
class Case:
    """A cluster's capacity, its teams, and what each team wants on each type."""

    capacity: list[float]
    types: int = 1
    teams: list[Team] = field(default_factory=list)
    wants: list[tuple[int, int, list[float]]] = field(default_factory=list)

    def team(self, name, *vectors, parent=None, weight=1.0, quota=None, limit=None):
        quota = Amounts(gpus=quota) if isinstance(quota, int) else quota
        limit = Amounts(gpus=limit) if isinstance(limit, int) else limit
        self.teams.append(Team(TeamId(name), TeamId(parent) if parent else None, weight, quota, limit))
        for vector in vectors:
            pool = next((p for p in range(self.types) if vector[p] > 0), 0)
            self.wants.append((len(self.teams) - 1, pool, list(vector)))
        return self

    def solve(self) -> Entitlements:
        return entitlements(
            build_team_tree(self.teams),
            [GpuType(str(p)) for p in range(self.types)],
            np.array(self.capacity, dtype=float),
            DemandClasses(
                np.array([team for team, _, _ in self.wants], dtype=np.int64),
                np.array([pool for _, pool, _ in self.wants], dtype=np.int64),
                np.array([vector for *_, vector in self.wants], dtype=float).reshape(-1, self.types + 2),
            ),
            [team.quota for team in self.teams],
            [team.limit for team in self.teams],
        )


def gpu_cluster(gpus: int) -> Case:
    """GPUs of one type; CPUs and memory that nobody asks for."""
    return Case([gpus, 0, 0])


def whole(result: Entitlements) -> list[int]:
    return result.gpus[:, 0].tolist()


# --- the rest, by dominant shares ---


def test_the_example_of_the_drf_paper():
    # 9 CPUs, 18 GB. A's tasks take 1 CPU, 4 GB (dominant: memory, 4/18 a task), B's 3 CPUs, 1 GB (dominant: CPUs, 3/9).
    # Equal shares 2/3: A runs 3 tasks (3 CPUs, 12 GB), B runs 2 (6 CPUs, 2 GB); then the CPUs are gone.
    result = Case([0, 9, 18]).team("a", [0, 100, 400]).team("b", [0, 300, 100]).solve()
    assert result.amounts == pytest.approx(np.array([[0, 3, 12], [0, 6, 2]]))


def test_weights_2_to_1_share_24_gpus_as_16_and_8():
    assert whole(gpu_cluster(24).team("a", [100, 0, 0], weight=2).team("b", [100, 0, 0]).solve()) == [16, 8]


def test_a_met_demand_leaves_the_rest_to_the_others():
    # 24 GPUs: a wants only 4; b and c share the other 20.
    case = gpu_cluster(24).team("a", [4, 0, 0]).team("b", [50, 0, 0]).team("c", [50, 0, 0])
    assert whole(case.solve()) == [4, 10, 10]


def test_the_tree_is_shared_level_by_level():
    # X and Y get 16 each of 32; x1 and x2 share X's.
    case = gpu_cluster(32).team("X").team("x1", [99, 0, 0], parent="X").team("x2", [99, 0, 0], parent="X")
    result = case.team("Y").team("y1", [99, 0, 0], parent="Y").solve()
    assert whole(result) == [0, 8, 8, 0, 16]
    assert result.allotted[:, 0] == pytest.approx([16, 8, 8, 16, 16])


def test_a_teams_own_jobs_are_one_more_child_of_weight_1():
    # X wants 99 for itself, x1 (weight 2) wants 99: of 30 GPUs X's own jobs get 10, x1 20.
    assert whole(gpu_cluster(30).team("X", [99, 0, 0]).team("x1", [99, 0, 0], parent="X", weight=2).solve()) == [10, 20]


def test_a_share_of_a_scarce_type_is_a_dominant_share():
    # 8 of type 0, 32 of type 1. a wants only type 0, b only type 1, c both, half and half.
    # Type 0: a/8 = c/8 at 4 and 4 (share 1/2), then it is gone. c's classes rise together, so it has 4 of type 1 by
    # then. It goes on with type 1: up to 16 (1/2 again) its share does not grow; b has 16 at that level. All gone.
    case = Case([8, 32, 0, 0], types=2).team("a", [99, 0, 0, 0]).team("b", [0, 99, 0, 0])
    result = case.team("c", [50, 0, 0, 0], [0, 50, 0, 0]).solve()
    assert result.gpus.tolist() == [[4, 0], [0, 16], [4, 16]]


def test_a_class_that_is_stopped_does_not_stop_the_other_classes_of_its_team():
    # No GPU of type 0 is there at all; a still gets what it wants of type 1.
    case = Case([0, 16, 0, 0], types=2).team("a", [8, 0, 0, 0], [0, 8, 0, 0])
    assert case.solve().gpus.tolist() == [[0, 8]]


def test_a_team_that_is_heavy_on_cpus_is_measured_by_its_cpus():
    # 32 GPUs, 256 CPUs. a takes 16 CPUs with each GPU (share n/16), b takes 1 (share n/32).
    # Equal shares: b = 2a. GPUs: 3a <= 32; CPUs: 16a + 2a = 18a <= 256. GPUs bind first: a = 10.67, b = 21.33.
    case = Case([32, 256, 0]).team("a", [32, 512, 0]).team("b", [32, 32, 0])
    result = case.solve()
    assert result.amounts[:, 0] == pytest.approx([32 / 3, 64 / 3])
    assert whole(result) == [11, 21]  # the larger remainder is a's


def test_a_parents_unused_cpus_go_to_another_team():
    # 20 GPUs, 40 CPUs. X's x1 takes 4 CPUs a GPU and may hold 2 GPUs, x2 takes none; Y takes 2 CPUs a GPU.
    # Whatever X was allotted in CPUs beyond the 8 that x1 can use is Y's in the end: nothing is left idle that Y wants.
    case = Case([20, 40, 0]).team("X").team("x1", [9, 36, 0], parent="X", limit=2).team("x2", [5, 0, 0], parent="X")
    result = case.team("Y").team("y1", [20, 40, 0], parent="Y").solve()
    assert result.gpus[:, 0].sum() == 20
    assert result.gpus[4, 0] == 13


# --- quotas ---


def test_a_quota_is_met_first_and_what_is_unused_is_lent():
    # 18 GPUs, quotas 2 and 2: b wants no more than its 2, a gets all the rest.
    assert whole(gpu_cluster(18).team("a", [18, 0, 0], quota=2).team("b", [2, 0, 0], quota=2).solve()) == [16, 2]


def test_the_quota_part_counts_towards_the_share():
    # 16 GPUs: a starts from 6, b from 0; equal shares end at 8 and 8.
    result = gpu_cluster(16).team("a", [99, 0, 0], quota=6).team("b", [99, 0, 0]).solve()
    assert whole(result) == [8, 8]
    assert result.base[:, 0].tolist() == [6, 0]


def test_quotas_that_exceed_the_cluster_stand_and_leave_nothing():
    case = gpu_cluster(16).team("a", [99, 0, 0], quota=12).team("b", [10, 0, 0], quota=12).team("c", [5, 0, 0])
    assert whole(case.solve()) == [12, 10, 0]


def test_a_quota_of_any_type_is_split_over_types_in_proportion_to_demand():
    # Quota 5 for a demand of 10 and 10: 2.5 each, which is 3 and 2 in whole GPUs; nothing else is free.
    case = Case([2, 3, 0, 0], types=2).team("a", [10, 0, 0, 0], [0, 10, 0, 0], quota=5)
    result = case.solve()
    assert result.base.tolist() == [[3, 2]]
    assert result.gpus.sum() >= 5


def test_a_quota_by_type_guarantees_nothing_of_other_types():
    quota = Amounts(gpus_by_type={GpuType("0"): 4})
    case = Case([8, 8, 0, 0], types=2).team("a", [8, 0, 0, 0], [0, 8, 0, 0], quota=quota)
    assert case.solve().base.tolist() == [[4, 0]]


def test_cpus_go_with_the_guaranteed_gpus_up_to_what_the_quota_names():
    # a's quota: 4 GPUs with at most 20 CPUs, at 8 CPUs a GPU; b is guaranteed the rest of the CPUs, so a gets no more.
    case = Case([8, 40, 0]).team("a", [8, 64, 0], quota=Amounts(gpus=4, cpus=20)).team("b", [4, 20, 0], quota=4)
    assert case.solve().amounts == pytest.approx(np.array([[4, 20, 0], [4, 20, 0]]))


def test_a_parents_quota_lifts_what_its_children_share():
    # 30 GPUs. X's quota of 20 holds against Y; x1 and x2 have none of their own and share the 20.
    case = gpu_cluster(30).team("X", quota=20).team("x1", [99, 0, 0], parent="X").team("x2", [99, 0, 0], parent="X")
    assert whole(case.team("Y", [99, 0, 0]).solve()) == [0, 10, 10, 10]


def test_a_parent_starts_from_what_its_children_are_guaranteed():
    # 20 GPUs. x1's quota of 8 is X's too: X and Y end equal at 10, so x2 is left 2.
    case = gpu_cluster(20).team("X").team("x1", [8, 0, 0], parent="X", quota=8).team("x2", [99, 0, 0], parent="X")
    assert whole(case.team("Y", [99, 0, 0]).solve()) == [0, 8, 2, 10]


# --- weight 0, limits ---


def test_weight_0_has_its_quota_and_nothing_else():
    case = gpu_cluster(16).team("a", [99, 0, 0], weight=0, quota=3).team("b", [5, 0, 0])
    assert whole(case.solve()) == [3, 5]


def test_where_all_weights_are_0_only_quotas_count():
    case = gpu_cluster(16).team("a", [9, 0, 0], weight=0, quota=3).team("b", [5, 0, 0], weight=0)
    assert whole(case.solve()) == [3, 0]


def test_below_weight_0_only_the_quota_is_shared():
    case = (
        gpu_cluster(16).team("X", weight=0, quota=4).team("x1", [9, 0, 0], parent="X").team("x2", [9, 0, 0], parent="X")
    )
    assert whole(case.solve()) == [0, 2, 2]


def test_a_child_of_weight_0_makes_no_claim_through_its_parent():
    case = gpu_cluster(16).team("X").team("x1", [99, 0, 0], parent="X", weight=0).team("Y", [99, 0, 0])
    assert whole(case.solve()) == [0, 0, 16]


def test_a_limit_on_a_parent_bounds_all_below_it():
    # X may hold 6 of 32 in all: 3 and 3; Y gets the other 26.
    case = gpu_cluster(32).team("X", limit=6).team("x1", [99, 0, 0], parent="X").team("x2", [99, 0, 0], parent="X")
    assert whole(case.team("Y", [99, 0, 0]).solve()) == [0, 3, 3, 26]


def test_a_limit_cuts_a_larger_quota():
    assert whole(gpu_cluster(32).team("a", [99, 0, 0], quota=20, limit=6).solve()) == [6]


def test_a_limit_on_cpus_stops_the_gpus_that_need_them():
    # 10 CPUs a GPU, at most 45 CPUs: 4.5 GPUs, whole ones 4.
    result = Case([32, 999, 0]).team("a", [32, 320, 0], limit=Amounts(cpus=45)).solve()
    assert result.amounts[0] == pytest.approx([4.5, 45, 0])
    assert whole(result) == [4]


def test_a_limit_of_any_type_leaves_to_one_type_what_the_other_cannot_use():
    # Limit 10 over two types, but of type 0 there are only 2: 8 of type 1.
    case = Case([2, 50, 0, 0], types=2).team("a", [40, 0, 0, 0], [0, 40, 0, 0], limit=10)
    assert case.solve().gpus.tolist() == [[2, 8]]


# --- whole GPUs ---


def test_whole_gpus_keep_the_sum_and_ties_go_to_the_first_team():
    # 32 over three equal teams: 10.67 each; the two missing ones go to a and b.
    case = gpu_cluster(32).team("a", [99, 0, 0]).team("b", [99, 0, 0]).team("c", [99, 0, 0])
    assert whole(case.solve()) == [11, 11, 10]


def test_whole_gpus_are_rounded_down_the_tree():
    # X 16 of 32, of its three children 5.33 each: the odd one stays inside X.
    case = gpu_cluster(32).team("X")
    for name in ("x1", "x2", "x3"):
        case.team(name, [99, 0, 0], parent="X")
    assert whole(case.team("Y", [99, 0, 0]).solve()) == [0, 6, 5, 5, 16]


# --- edges ---


def test_no_teams_and_no_demand_are_no_special_case():
    assert Case([8, 0, 0]).solve().gpus.shape == (0, 1)
    assert whole(gpu_cluster(8).team("a").team("b", quota=4).solve()) == [0, 0]


def test_a_resource_without_capacity_is_no_share_and_gives_nothing():
    result = Case([0, 0, 0]).team("a", [4, 4, 4]).solve()
    assert np.isfinite(result.amounts).all()
    assert whole(result) == [0]


def test_dominant_and_weighted_shares():
    capacity = np.array([8.0, 0.0, 100.0])
    assert dominant_share(np.array([2.0, 5.0, 50.0]), capacity) == 0.5
    assert weighted_share(np.array([[2.0, 0, 50.0], [4.0, 0, 0]]), capacity, np.array([2.0, 0.0])).tolist() == [
        0.25,
        np.inf,
    ]


def test_a_tree_that_is_none_is_refused():
    with pytest.raises(InternalError, match="unknown parent"):
        build_team_tree([Team(TeamId("a"), TeamId("b"))])
    with pytest.raises(InternalError, match="above itself"):
        build_team_tree([Team(TeamId("a"), TeamId("b")), Team(TeamId("b"), TeamId("a"))])


# --- properties ---


def flat_cases(quotas: bool = False):
    team = st.tuples(
        st.integers(0, 3),  # weight
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8), st.integers(0, 8)), min_size=2, max_size=2),
        st.integers(0, 10) if quotas else st.none(),
        st.one_of(st.none(), st.integers(0, 25)),
    )

    def build(capacity, teams):
        case = Case([float(c) for c in capacity], types=2)
        for index, (weight, (first, second), quota, limit) in enumerate(teams):
            vectors = [
                [first[0], 0, first[0] * first[1], first[0] * first[2]],
                [0, second[0], second[0] * second[1], second[0] * second[2]],
            ]
            case.team(f"t{index}", *[v for v in vectors if any(v)], weight=weight, quota=quota, limit=limit)
        return case

    capacity = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 300), st.integers(0, 300))
    return st.builds(build, capacity, st.lists(team, min_size=1, max_size=5))


@st.composite
def trees(draw):
    case = draw(flat_cases(quotas=draw(st.booleans())))
    for index in range(1, len(case.teams)):
        above = draw(st.one_of(st.none(), st.integers(0, index - 1)))
        if above is not None:
            case.teams[index] = replace(case.teams[index], parent=TeamId(f"t{above}"))
    return case


def demand_of(case: Case) -> np.ndarray:
    demand = np.zeros((len(case.teams), case.types + 2))
    for team, _, vector in case.wants:
        demand[team] += vector
    return demand


@settings(max_examples=150, deadline=None)
@given(trees())
def test_nobody_has_more_than_its_demand_and_all_no_more_than_the_cluster(case):
    result = case.solve()
    demand, capacity = demand_of(case), np.array(case.capacity)
    assert np.isfinite(result.amounts).all()
    assert (result.amounts >= -1e-6).all()
    assert (result.amounts <= demand + 1e-6).all()
    assert (result.gpus <= demand[:, :2]).all()
    assert (result.gpus >= result.base).all()
    if all(team.quota is None for team in case.teams):
        assert (result.amounts.sum(axis=0) <= capacity + 1e-6).all()
        assert (result.gpus.sum(axis=0) == np.floor(result.amounts[:, :2].sum(axis=0) + 1e-6)).all()
        limits = [np.inf if team.limit is None else team.limit.gpus for team in case.teams]
        assert (result.allotted[:, :2].sum(axis=1) <= np.array(limits) + 1e-6).all()


@settings(max_examples=150, deadline=None)
@given(trees())
def test_where_there_is_plenty_filling_comes_to_what_everybody_wants(case):
    """The short way round, where nobody is short of anything, against the filling that it saves."""
    case.capacity = (demand_of(case).sum(axis=0) + 1.0).tolist()
    case.teams = [replace(team, weight=max(1.0, team.weight), limit=None) for team in case.teams]
    short = case.solve()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(entitlement, "_plenty", lambda *given: False)
        filled = case.solve()
    assert np.allclose(short.amounts, filled.amounts)
    assert np.allclose(short.allotted, filled.allotted)
    assert (short.gpus == filled.gpus).all()
    assert (short.base == filled.base).all()


@settings(max_examples=150, deadline=None)
@given(trees())
def test_nothing_is_left_that_a_team_with_a_claim_could_use(case):
    result = case.solve()
    left = np.array(case.capacity) - result.amounts.sum(axis=0)
    demand = demand_of(case)
    index = {team.id: position for position, team in enumerate(case.teams)}
    for team, pool, vector in case.wants:
        if demand[team, pool] - result.amounts[team, pool] < 1e-3:
            continue
        path, at = [], team
        while at is not None:
            path.append(at)
            above = case.teams[at].parent
            at = None if above is None else index[above]
        if any(case.teams[at].weight == 0 for at in path):
            continue
        at_limit = any(
            case.teams[at].limit is not None and case.teams[at].limit.gpus - result.allotted[at, :2].sum() < 1e-3
            for at in path
        )
        needs = np.array(vector) > 0
        assert at_limit or (left[needs] < 1e-2).any(), (team, pool, left)


@settings(max_examples=60, deadline=None)
@given(trees(), st.sampled_from([0.01, 7.0, 1000.0]))
def test_only_the_ratio_of_weights_counts(case, factor):
    scaled = replace(case, teams=[replace(team, weight=team.weight * factor) for team in case.teams])
    if any(team.parent for team in case.teams):
        return  # a team's own jobs have weight 1 whatever its children's weights are
    assert scaled.solve().amounts == pytest.approx(case.solve().amounts, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(flat_cases(quotas=True))
def test_the_order_of_the_teams_does_not_matter(case):
    turned = replace(
        case,
        teams=case.teams[::-1],
        wants=[(len(case.teams) - 1 - team, pool, vector) for team, pool, vector in case.wants],
    )
    assert turned.solve().amounts[::-1] == pytest.approx(case.solve().amounts, abs=1e-5)


def tiny_steps(case: Case, steps: int = 4000) -> np.ndarray:
    """The definition, literally: the smallest weighted dominant share takes the next 1/steps of what it wants."""
    capacity = np.array(case.capacity)
    classes = [(team, np.array(vector, dtype=float)) for team, _, vector in case.wants]
    held = np.zeros((len(case.teams), len(capacity)))
    taken = np.zeros(len(classes), dtype=int)
    live = set(range(len(classes)))
    while True:
        left = capacity - held.sum(axis=0)
        for index in list(live):
            team, vector = classes[index]
            step = vector / steps
            limit = case.teams[team].limit
            full = limit is not None and held[team, :2].sum() + step[:2].sum() > limit.gpus + 1e-9
            done = taken[index] >= steps or case.teams[team].weight == 0 or full
            if done or (step > left + 1e-9).any():
                live.discard(index)
        if not live:
            return held
        teams = {classes[index][0] for index in live}
        first = min(teams, key=lambda team: (dominant_share(held[team], capacity) / case.teams[team].weight, team))
        for index in sorted(live):
            team, vector = classes[index]
            if team == first:
                held[first] += vector / steps
                taken[index] += 1


@pytest.mark.parametrize("seed", range(8))
def test_exact_filling_agrees_with_the_definition_in_tiny_steps(seed):
    rng = np.random.default_rng(seed)
    case = Case([16.0, 24.0, 200.0, 150.0], types=2)
    for index in range(4):
        vectors = []
        for pool in range(2):
            gpus = int(rng.integers(0, 25))
            vector = [0.0, 0.0, gpus * float(rng.integers(0, 12)), gpus * float(rng.integers(0, 12))]
            vector[pool] = gpus
            vectors += [vector] if gpus else []
        case.team(f"t{index}", *vectors, weight=float(rng.integers(1, 4)), limit=int(rng.integers(3, 30)))
    assert case.solve().amounts == pytest.approx(tiny_steps(case), abs=0.25)


def test_three_hundred_teams_share_ten_thousand_gpus_to_the_last_one():
    case = gpu_cluster(10_000)
    for index in range(300):
        case.team(f"t{index}", [10 + index, 0, 0], weight=1 + index % 3, quota=index % 20)
    result = case.solve()
    assert result.gpus.sum() == 10_000
    # All whose demand is not met stand at one level, to the last whole GPU.
    waiting = result.gpus[:, 0] < np.arange(10, 310)
    assert np.ptp((result.amounts[:, 0] / (1 + np.arange(300) % 3))[waiting & (result.amounts[:, 0] > 20)]) < 1e-6
