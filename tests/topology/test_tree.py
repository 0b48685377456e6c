"""The tree: which node is in which domain, and how far a gang is spread."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optsched.topology.tree import WHOLE_CLUSTER, build_tree
from optsched.values.cluster import Cluster

from .builders import cluster, node, two_racks_of_two


def test_the_node_is_the_last_level_and_every_node_its_own_domain() -> None:
    tree = build_tree(two_racks_of_two())
    assert tree.levels == ("zone", "rack", "node")
    assert tree.level_index == {"zone": 0, "rack": 1, "node": 2}
    assert tree.node_index == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert tree.domain_of[tree.node_level].tolist() == [0, 1, 2, 3]
    assert tree.domain_names[2] == ("a", "b", "c", "d")


def test_an_empty_list_of_levels_leaves_the_node_as_the_only_one() -> None:
    tree = build_tree(cluster("", node("a"), node("b")))
    assert tree.levels == ("node",)
    assert tree.span_level([0]) == 0
    assert tree.span_level([0, 1]) == WHOLE_CLUSTER


def test_a_level_node_that_is_written_out_is_not_there_twice() -> None:
    assert build_tree(cluster("rack node", node("a", rack="r"))).levels == ("rack", "node")


def test_racks_of_one_short_name_in_two_zones_are_two_domains() -> None:
    tree = build_tree(two_racks_of_two())
    assert tree.domain_of[1].tolist() == [0, 0, 1, 1]
    assert tree.domain_names[1] == ("z1/r1", "z2/r1")


def test_names_that_do_not_nest_are_told_apart_by_their_whole_path() -> None:
    # Rack r1 hangs on two spines, so there are two domains r1, each inside its spine.
    odd = cluster("spine rack", node("a", spine="s1", rack="r1"), node("b", spine="s2", rack="r1"))
    tree = build_tree(odd)
    assert tree.domain_names[1] == ("s1/r1", "s2/r1")
    assert tree.span_level([0, 1]) == WHOLE_CLUSTER


def test_a_name_with_a_slash_is_not_taken_for_a_path() -> None:
    tree = build_tree(cluster("zone rack", node("a", zone="x/y", rack="z"), node("b", zone="x", rack="y/z")))
    assert tree.domain_of[1].tolist() == [0, 1]


def test_a_node_without_a_name_at_a_level_is_in_no_domain_of_it() -> None:
    tree = build_tree(cluster("zone rack", node("a", zone="z1"), node("b", zone="z1", rack="r1")))
    assert tree.domain_of.tolist() == [[0, 0], [-1, 0], [0, 1]]
    assert tree.nodes_outside(1).tolist() == [0]
    assert tree.span_level([0, 1]) == 0


def test_a_missing_level_in_the_middle_is_a_hole_in_the_path() -> None:
    # b and c are in the same rack, though nobody knows its block; a's rack has a block and is another one.
    tree = build_tree(
        cluster("block rack", node("a", block="b1", rack="r1"), node("b", rack="r1"), node("c", rack="r1"))
    )
    assert tree.domain_names == (("b1",), ("b1/r1", "-/r1"), ("a", "b", "c"))
    assert tree.span_level([1, 2]) == 1
    assert tree.span_level([0, 1]) == WHOLE_CLUSTER
    assert tree.parent(1, 0) == (0, 0)
    assert tree.parent(1, 1) == (WHOLE_CLUSTER, -1)


def test_the_span_is_the_narrowest_level_that_holds_all_nodes() -> None:
    tree = build_tree(two_racks_of_two())
    assert tree.span_level([1, 1]) == 2
    assert tree.span_level([0, 1]) == 1
    assert tree.span_level([0, 2]) == WHOLE_CLUSTER
    assert tree.span_name(1) == "rack"
    assert tree.span_name(WHOLE_CLUSTER) == "cluster"


def test_no_nodes_have_no_span() -> None:
    with pytest.raises(ValueError, match="no nodes"):
        build_tree(two_racks_of_two()).span_level([])


def test_the_spans_of_many_gangs_are_taken_at_once() -> None:
    tree = build_tree(two_racks_of_two())
    nodes = np.array([0, 0, 1, 0, 1, 2, 3, 2])
    starts = np.array([0, 1, 3, 6])  # gangs {a}, {a, b}, {a, b, c}, {d, c}
    assert tree.spans(nodes, starts).tolist() == [2, 1, -1, 1]
    assert tree.spans(nodes[:0], starts[:0]).tolist() == []


def test_sums_and_members_are_kept_per_domain() -> None:
    tree = build_tree(cluster("rack", node("a", rack="r2"), node("b"), node("c", rack="r1"), node("d", rack="r2")))
    assert tree.domain_names[0] == ("r2", "r1")
    assert tree.nodes_in(0, 0).tolist() == [0, 3]
    assert tree.nodes_in(0, 1).tolist() == [2]
    assert tree.domain_sizes(0).tolist() == [2, 1]
    assert tree.sum_per_domain(0, np.array([8, 100, 4, 1])).tolist() == [9, 4]


def test_each_domain_knows_the_wider_one_around_it() -> None:
    tree = build_tree(two_racks_of_two())
    assert tree.domains_within(1, 0).tolist() == [0, 1]
    assert tree.domains_within(2, 1).tolist() == [0, 0, 1, 1]


def test_a_domain_is_found_by_its_whole_path_or_else_by_its_last_name() -> None:
    tree = build_tree(two_racks_of_two())
    assert tree.find_domains("z2/r1") == ((1, 1),)
    assert tree.find_domains("r1") == ((1, 0), (1, 1))
    assert tree.find_domains("z2") == ((0, 1),)
    assert tree.find_domains("c") == ((2, 2),)
    assert tree.find_domains("r9") == ()


def test_a_tree_cannot_be_changed_and_can_be_sent_to_another_process() -> None:
    tree = build_tree(two_racks_of_two())
    with pytest.raises(ValueError, match="read-only"):
        tree.domain_of[0, 0] = 7
    with pytest.raises(ValueError, match="read-only"):
        tree.nodes_in(0, 0)[0] = 7
    assert pickle.loads(pickle.dumps(tree)).domain_names == tree.domain_names


def test_a_cluster_without_nodes_has_a_tree_too() -> None:
    tree = build_tree(cluster("rack"))
    assert tree.domain_of.shape == (2, 0)
    assert tree.domain_count(0) == 0


names = st.sampled_from(["x", "y", None])


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    rows = draw(st.lists(st.tuples(names, names, names), min_size=1, max_size=12))
    nodes = [
        node(f"n{i}", 8, None, **{level: name for level, name in zip("abc", row, strict=True) if name is not None})
        for i, row in enumerate(rows)
    ]
    return cluster("a b c", *nodes)


@settings(max_examples=50, deadline=None)
@given(clusters())
def test_arrays_agree_with_the_paths_written_out(odd: Cluster) -> None:
    tree = build_tree(odd)
    for level, name in enumerate(tree.levels[:-1]):
        paths = [
            tuple(n.domains.get(wider) for wider in tree.levels[: level + 1]) if name in n.domains else None
            for n in odd.nodes
        ]
        for i, path in enumerate(paths):
            assert (tree.domain_of[level, i] < 0) == (path is None)
            same = [j for j, other in enumerate(paths) if other == path]
            if path is not None:
                assert tree.nodes_in(level, int(tree.domain_of[level, i])).tolist() == same
    for i in range(len(odd.nodes)):
        for j in range(len(odd.nodes)):
            shared = [lv for lv in range(len(tree.levels)) if tree.domain_of[lv, i] == tree.domain_of[lv, j] >= 0]
            assert tree.span_level([i, j]) == max(shared, default=WHOLE_CLUSTER)
