"""What a span costs."""

from __future__ import annotations

import pytest

from optsched.topology.speeds import merge_speeds, speed_per_level
from optsched.topology.tree import build_tree
from optsched.values.ids import LevelName

from .builders import BLOCK, RACK, ZONE, two_racks_of_two

NODE = LevelName("node")
LEVELS = (ZONE, BLOCK, RACK, NODE)


def test_named_levels_have_their_own_speed_and_the_cluster_comes_last() -> None:
    speeds = speed_per_level(LEVELS, {ZONE: 0.9, BLOCK: 0.95, RACK: 0.98}, widest=0.8)
    assert speeds.tolist() == pytest.approx([0.9, 0.95, 0.98, 1.0, 0.8])


def test_without_a_table_speed_falls_evenly_from_the_node_to_the_cluster() -> None:
    # Four steps from node 1.0 to cluster 0.8: 0.05 each.
    assert speed_per_level(LEVELS, {}, widest=0.8).tolist() == pytest.approx([0.85, 0.9, 0.95, 1.0, 0.8])


def test_a_level_not_named_lies_between_its_named_neighbours() -> None:
    # Cluster 0.7, block 0.9, node 1.0: zone is half way between 0.7 and 0.9, rack between 0.9 and 1.0.
    assert speed_per_level(LEVELS, {BLOCK: 0.9}, widest=0.7).tolist() == pytest.approx([0.8, 0.9, 0.95, 1.0, 0.7])


def test_a_table_need_not_be_monotone() -> None:
    # Racks measured slower than blocks stay so: a path through the rack's switch may well be the worse one.
    speeds = speed_per_level(LEVELS, {RACK: 0.6, BLOCK: 0.9}, widest=0.5)
    assert speeds.tolist() == pytest.approx([0.7, 0.9, 0.6, 1.0, 0.5])


def test_the_node_may_be_named_too() -> None:
    # PCIe boxes: 0.6 already inside the node, 0.4 across the cluster, rack half way.
    assert speed_per_level((RACK, NODE), {NODE: 0.6}, widest=0.4).tolist() == pytest.approx([0.5, 0.6, 0.4])


def test_names_of_other_clusters_are_ignored() -> None:
    assert speed_per_level((NODE,), {RACK: 0.1}, widest=0.8).tolist() == pytest.approx([1.0, 0.8])


def test_the_span_of_a_gang_indexes_its_speed() -> None:
    tree = build_tree(two_racks_of_two())
    speeds = speed_per_level(tree.levels, {RACK: 0.97}, widest=0.85)
    assert speeds[tree.span_level([0])] == pytest.approx(1.0)
    assert speeds[tree.span_level([0, 1])] == pytest.approx(0.97)
    assert speeds[tree.span_level([0, 2])] == pytest.approx(0.85)


def test_levels_that_do_not_end_in_the_node_are_refused() -> None:
    with pytest.raises(ValueError, match="last level"):
        speed_per_level((ZONE, RACK), {}, widest=0.8)


def test_a_jobs_table_lies_over_the_profiles() -> None:
    assert merge_speeds({RACK: 0.97, BLOCK: 0.9}, {RACK: 0.5}) == {RACK: 0.5, BLOCK: 0.9}
