"""Which GPUs of a node a job gets."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optsched.topology.links import choose_common_gpus, choose_gpus
from optsched.topology.quality import LinkQuality, fabric_key, link_quality, pair_matrix
from optsched.values.cluster import Fabric

from .builders import ALL_TO_ALL, CUBE_MESH, PAIRS, fabric

EIGHT = tuple(range(8))


def test_two_gpus_of_a_cube_mesh_share_two_links() -> None:
    # 0-3 is a double link (100 GB/s), 0-1 a single one (50), 0-5 none.
    assert choose_gpus(CUBE_MESH, EIGHT, 2) == (0, 3)
    assert choose_gpus(CUBE_MESH, (0, 1, 5), 2) == (1, 5)
    assert choose_gpus(CUBE_MESH, (0, 1, 6), 2) == (0, 1)


def test_four_gpus_of_a_cube_mesh_are_one_fully_linked_face() -> None:
    assert choose_gpus(CUBE_MESH, EIGHT, 4) == (0, 1, 2, 3)
    assert choose_gpus(CUBE_MESH, (1, 2, 3, 4, 5, 6, 7), 4) == (4, 5, 6, 7)


def test_a_bridged_pair_is_taken_whole_and_not_broken_for_one_gpu() -> None:
    assert choose_gpus(PAIRS, (0, 2, 3), 2) == (2, 3)
    assert choose_gpus(PAIRS, (0, 1, 2), 1) == (2,)
    assert choose_gpus(PAIRS, (1, 2, 3), 1) == (1,)


def test_the_slowest_pair_counts_before_the_sum() -> None:
    # {0, 1, 2} sums to 1000 + 10 + 10 GB/s but has a pair of 10; {3, 4, 5} sums to 60, its slowest pair is 20.
    uneven = fabric(
        (0, 1, "nvlink", 1000.0),
        (0, 2, "nvlink", 10.0),
        (1, 2, "nvlink", 10.0),
        *((i, j, "nvlink", 20.0) for i, j in combinations((3, 4, 5), 2)),
    )
    assert choose_gpus(uneven, range(6), 3) == (3, 4, 5)


def test_where_all_pairs_are_alike_the_smallest_indices_win() -> None:
    assert choose_gpus(ALL_TO_ALL, (1, 3, 4, 6, 7), 3) == (1, 3, 4)


def test_an_island_without_listed_links_is_better_than_the_way_across() -> None:
    halves = fabric(islands=[(0, 2), (1, 3)])
    assert choose_gpus(halves, range(4), 2) == (0, 2)
    assert link_quality(halves, (0, 2)) > link_quality(halves, (0, 1))


def test_links_of_unknown_bandwidth_rank_by_kind() -> None:
    unknown = fabric((0, 1, "pcie", None), (1, 2, "nvlink", None))
    assert choose_gpus(unknown, range(3), 2) == (1, 2)


def test_links_listed_twice_for_a_pair_add_up() -> None:
    double = fabric((0, 1, "nvlink", 25.0), (1, 0, "nvlink", 25.0), (1, 2, "nvlink", 40.0))
    assert pair_matrix(fabric_key(double), 3).tolist() == [[0, 50_000, 0], [50_000, 0, 40_000], [0, 40_000, 0]]


def test_a_quality_is_slowest_pair_then_sum_then_what_is_left() -> None:
    # 0, 1, 3: 50 + 100 + 50; left are 2 and 6, one link of 50 GB/s apart; all in MB/s.
    assert link_quality(CUBE_MESH, (0, 1, 3), (0, 1, 2, 3, 6)) == LinkQuality(50_000, 200_000, 50_000)
    assert link_quality(CUBE_MESH, (0,)) == LinkQuality(0, 0)
    assert LinkQuality(2, 0) > LinkQuality(1, 9, 9)


def test_without_a_fabric_neighbours_in_number_go_together() -> None:
    assert choose_gpus(None, EIGHT, 2) == (0, 1)
    assert choose_gpus(None, (1, 4, 5, 6, 7), 2) == (4, 5)
    assert choose_gpus(Fabric(), EIGHT, 4) == (0, 1, 2, 3)


def test_without_a_fabric_the_fullest_half_that_fits_is_used_up_first() -> None:
    # One GPU: the lonely 1, so that 4..7 stays whole. Two: 2 and 3 are what is left of the lower half.
    assert choose_gpus(None, (1, 4, 5, 6, 7), 1) == (1,)
    assert choose_gpus(None, (2, 3, 4, 5, 6, 7), 2) == (2, 3)
    # Five of 1..3 and 4..7 fit in no half: all of the smaller one, and an aligned pair of the other.
    assert choose_gpus(None, (1, 2, 3, 4, 5, 6, 7), 5) == (1, 2, 3, 4, 5)


def test_all_or_none_of_the_gpus_is_no_choice() -> None:
    assert choose_gpus(CUBE_MESH, (5, 2), 2) == (2, 5)
    assert choose_gpus(None, (5, 2), 0) == ()
    assert choose_gpus(None, (), 0) == ()


@pytest.mark.parametrize("count", [-1, 3])
def test_more_gpus_than_there_are_cannot_be_chosen(count: int) -> None:
    with pytest.raises(ValueError, match="cannot choose"):
        choose_gpus(None, (0, 1), count)


def test_indices_that_no_node_has_are_refused() -> None:
    with pytest.raises(ValueError, match="GPU indices"):
        choose_gpus(None, (-1, 0), 1)
    with pytest.raises(ValueError, match="GPU indices"):
        choose_gpus(None, (0, 10**9), 1)


def random_fabric(seed: int, gpus: int) -> Fabric:
    """Some pairs linked, by links of few different speeds so that ties are common."""
    rng = random.Random(seed)
    pairs = [pair for pair in combinations(range(gpus), 2) if rng.random() < 0.6]
    links = [(i, j, "nvlink", rng.choice([50.0, 100.0, None])) for i, j in pairs]
    return fabric(*links, islands=[tuple(range(gpus // 2))] if rng.random() < 0.5 else [])


def best_by_brute_force(wiring: Fabric, free: tuple[int, ...], count: int) -> tuple[int, ...]:
    sets = list(combinations(free, count))
    best = max(link_quality(wiring, chosen, free) for chosen in sets)
    return next(chosen for chosen in sets if link_quality(wiring, chosen, free) == best)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sets(st.integers(0, 7), min_size=1), st.data())
def test_the_choice_is_the_best_of_all_sets_on_random_fabrics(seed: int, gpus: set[int], data: st.DataObject) -> None:
    wiring, free = random_fabric(seed, 8), tuple(sorted(gpus))
    count = data.draw(st.integers(1, len(free)))
    assert choose_gpus(wiring, free, count) == best_by_brute_force(wiring, free, count)


def test_sixteen_gpus_are_still_compared_set_by_set() -> None:
    wiring = random_fabric(1, 16)
    free = tuple(range(16))
    assert choose_gpus(wiring, free, 3) == best_by_brute_force(wiring, free, 3)


def test_a_rack_sized_node_is_grown_greedily_into_its_islands() -> None:
    # Nine islands of eight; 36 of 72 GPUs are far too many sets to compare. Pairs of an island make 32 GB/s, others 0,
    # so a good set is whole islands: four of them and half of a fifth, 4 · 28 + 6 = 118 pairs of 32 GB/s.
    islands = [tuple(range(first, first + 8)) for first in range(0, 72, 8)]
    chosen = choose_gpus(fabric(islands=islands), range(72), 36)
    assert len(chosen) == 36
    assert link_quality(fabric(islands=islands), chosen).total == 118 * 32_000


def test_a_gang_on_several_nodes_takes_the_same_gpus_on_each() -> None:
    assert choose_common_gpus([(ALL_TO_ALL, (0, 1, 4, 5)), (ALL_TO_ALL, (1, 3, 4, 5))], 2) == (1, 4)
    assert choose_common_gpus([(CUBE_MESH, (0, 1, 2, 5)), (CUBE_MESH, (0, 1, 5, 6))], 2) == (1, 5)
    assert choose_common_gpus([(None, EIGHT), (None, (4, 5, 6, 7))], 2) == (4, 5)


def test_there_may_be_no_common_set() -> None:
    assert choose_common_gpus([(PAIRS, (0, 1)), (PAIRS, (1, 2))], 2) is None
    assert choose_common_gpus([], 1) is None


def test_a_common_set_is_as_good_as_on_its_worst_node() -> None:
    # 0-1 is the faster pair on the first node and slow on the second; 2-3 is fair on both.
    first = fabric((0, 1, "nvlink", 100.0), (2, 3, "nvlink", 50.0))
    second = fabric((0, 1, "nvlink", 10.0), (2, 3, "nvlink", 50.0))
    assert choose_common_gpus([(first, range(4)), (second, range(4))], 2) == (2, 3)


def test_a_common_set_breaks_no_pair_that_another_node_still_has_whole() -> None:
    # GPU 0 or 2? On the first node either is the last of its pair; on the second 0 and 1 are whole, 2 is alone.
    assert choose_common_gpus([(PAIRS, (0, 2)), (PAIRS, (0, 1, 2))], 1) == (2,)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.sets(st.integers(0, 5), min_size=3), min_size=2, max_size=3))
def test_common_sets_are_the_best_of_all_on_random_fabrics(seed: int, free_sets: list[set[int]]) -> None:
    nodes = [(random_fabric(seed + i % 2, 6), tuple(sorted(free))) for i, free in enumerate(free_sets)]
    common = sorted(set.intersection(*free_sets))

    def quality(chosen: tuple[int, ...]) -> tuple[int, int, int]:
        each = [link_quality(wiring, chosen, free) for wiring, free in nodes]
        return min(q.bottleneck for q in each), sum(q.total for q in each), sum(q.remaining for q in each)

    if len(common) < 2:
        assert choose_common_gpus(nodes, 2) is None
        return
    sets = list(combinations(common, 2))
    best = max(map(quality, sets))
    assert choose_common_gpus(nodes, 2) == next(chosen for chosen in sets if quality(chosen) == best)
