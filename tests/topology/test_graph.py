"""The topology as a networkx graph."""

from __future__ import annotations

import dataclasses

import networkx as nx  # type: ignore[import-untyped,unused-ignore]

from optsched.topology.graph import ROOT, fabric_graph, graph, islands_of
from optsched.topology.tree import build_tree
from optsched.values.cluster import Cluster, NodeState

from .builders import ALL_TO_ALL, CUBE_MESH, PAIRS, cluster, fabric, node


def one_rack_of_pairs() -> Cluster:
    """Node a in rack r1 with two NVLink pairs, GPU 3 bad; node b in no rack, down, two GPUs without a fabric."""
    a = dataclasses.replace(node("a", gpus=4, fabric="pairs", rack="r1"), gpus_bad=(3,))
    b = dataclasses.replace(node("b", gpus=2), state=NodeState.DOWN)
    return cluster("rack", a, b, pairs=PAIRS)


def test_the_graph_is_a_tree_from_the_cluster_down_to_each_gpu() -> None:
    small = one_rack_of_pairs()
    built = graph(small, build_tree(small))
    assert nx.is_arborescence(built)
    # 1 root, 1 rack, 2 nodes, 2 islands, 6 GPUs
    assert built.number_of_nodes() == 12
    assert set(built.successors(ROOT)) == {("rack", 0), ("node", 1)}
    to_bad_gpu = nx.shortest_path(built, ROOT, ("gpu", 0, 3))
    assert to_bad_gpu == [ROOT, ("rack", 0), ("node", 0), ("island", 0, 1), ("gpu", 0, 3)]
    assert nx.shortest_path(built, ROOT, ("gpu", 1, 0)) == [ROOT, ("node", 1), ("gpu", 1, 0)]


def test_vertices_know_their_level_name_state_and_healthy_gpus() -> None:
    small = one_rack_of_pairs()
    built = graph(small, build_tree(small))
    assert built.nodes[ROOT] == {"level": "cluster", "name": "cluster", "healthy_gpus": 5, "state": "mixed"}
    assert built.nodes["rack", 0] == {"level": "rack", "name": "r1", "healthy_gpus": 3, "state": "up"}
    assert built.nodes["node", 1] == {"level": "node", "name": "b", "healthy_gpus": 2, "state": "down"}
    assert built.nodes["island", 0, 1]["healthy_gpus"] == 1
    assert built.nodes["gpu", 0, 3] == {"level": "gpu", "name": "3", "healthy_gpus": 0, "state": "bad"}


def test_edges_say_how_siblings_reach_each_other() -> None:
    small = one_rack_of_pairs()
    built = graph(small, build_tree(small))
    assert built.edges[("island", 0, 0), ("gpu", 0, 0)] == {"kind": "nvlink", "bandwidth_gb_per_s": 600.0}
    assert built.edges[("node", 0), ("island", 0, 0)]["kind"] == "pcie"
    assert built.edges[("node", 1), ("gpu", 1, 0)] == {"kind": "pcie", "bandwidth_gb_per_s": None}
    assert built.edges[("rack", 0), ("node", 0)]["kind"] == "ib"


def test_an_nvlink_level_joins_its_nodes_by_nvlink() -> None:
    rack_scale = cluster("block nvlink", node("a", gpus=4, block="b1", nvlink="x"))
    built = graph(rack_scale, build_tree(rack_scale))
    assert built.edges[("nvlink", 0), ("node", 0)]["kind"] == "nvlink"
    assert built.edges[("block", 0), ("nvlink", 0)]["kind"] == "ib"


def test_a_rack_without_its_block_hangs_on_the_root() -> None:
    holey = cluster("block rack", node("a", rack="r1"))
    built = graph(holey, build_tree(holey))
    assert built.has_edge(ROOT, ("rack", 0))
    assert built.nodes["rack", 0]["name"] == "-/r1"


def test_the_fabric_of_a_node_is_a_graph_of_its_links() -> None:
    mesh = fabric_graph(CUBE_MESH, 8)
    assert sorted(mesh.neighbors(0)) == [1, 2, 3, 4]
    assert mesh.edges[0, 3] == {"kind": "nvlink", "bandwidth_gb_per_s": 100.0}
    # Six links of 50 GB/s leave every V100: 300 GB/s.
    assert {rate for _, rate in mesh.degree(weight="bandwidth_gb_per_s")} == {300.0}
    assert fabric_graph(CUBE_MESH, 4).number_of_edges() == 6
    assert fabric_graph(None, 2).number_of_nodes() == 2


def test_links_of_a_pair_are_added_and_unknown_ones_left_unknown() -> None:
    bundle = fabric_graph(fabric((0, 1, "nvlink", 25.0), (1, 0, "nvlink", 25.0), (1, 2, "pcie", None)), 3)
    assert bundle.edges[0, 1]["bandwidth_gb_per_s"] == 50.0
    assert bundle.edges[1, 2]["bandwidth_gb_per_s"] is None


def test_islands_are_declared_or_what_nvlink_connects() -> None:
    assert islands_of(CUBE_MESH, 8) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert islands_of(ALL_TO_ALL, 8) == (tuple(range(8)),)
    undeclared = fabric((0, 1, "nvlink", 600.0), (2, 3, "nvlink", 600.0), (1, 2, "pcie", 32.0))
    assert islands_of(undeclared, 4) == ((0, 1), (2, 3))
    assert islands_of(None, 4) == ()
