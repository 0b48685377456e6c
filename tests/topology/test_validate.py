"""What a cluster looks like, and what looks wrong in it."""

from __future__ import annotations

import dataclasses

from optsched.topology.findings import Finding, FindingKind, findings
from optsched.topology.tree import build_tree
from optsched.topology.validate import (
    Description,
    GpuTypeSummary,
    LevelSummary,
    NvlinkPosition,
    NvlinkSummary,
    Spread,
    describe,
)
from optsched.values.cluster import Cluster, NodeState
from optsched.values.ids import GpuType

from .builders import ALL_TO_ALL, CUBE_MESH, PAIRS, RACK, cluster, fabric, node, two_racks_of_two


def described(given: Cluster) -> Description:
    return describe(given, build_tree(given))


def found(given: Cluster) -> dict[FindingKind, Finding]:
    return {finding.kind: finding for finding in findings(given, build_tree(given))}


def test_each_level_tells_its_domains_and_their_sizes() -> None:
    # Racks of 1, 2 and 3 nodes with 8, 16 and 4 + 4 + 8 = 16 GPUs; one node in no rack.
    nodes = [
        node("a", rack="r1"),
        *(node(name, rack="r2") for name in "bc"),
        *(node(name, gpus, rack="r3") for name, gpus in [("d", 4), ("e", 4), ("f", 8)]),
        node("g"),
    ]
    rack, single = described(cluster("rack", *nodes)).levels
    assert rack == LevelSummary(RACK, 3, Spread(1, 2.0, 3), Spread(8, 16.0, 16), ragged=True, nodes_outside=1)
    assert (single.level, single.domains, single.nodes) == ("node", 7, Spread(1, 1.0, 1))
    assert single.ragged


def test_even_racks_are_not_ragged() -> None:
    assert not any(level.ragged for level in described(two_racks_of_two()).levels)


def test_totals_count_health_states_spares_and_what_is_not_known() -> None:
    a = dataclasses.replace(node("a"), gpus_bad=(0, 5), cpus=96.0, memory_gb=1024.0, spare=True)
    b = dataclasses.replace(node("b"), state=NodeState.DOWN, cpus=64.0)
    about = described(cluster("", a, b))
    assert (about.nodes, about.gpus, about.healthy_gpus, about.spare_nodes) == (2, 16, 14, 1)
    assert (about.cpus, about.cpus_unknown, about.memory_gb, about.memory_unknown) == (160.0, 0, 1024.0, 1)
    assert about.states == ((NodeState.UP, 1), (NodeState.DOWN, 1))


def test_gpu_types_come_with_the_largest_first() -> None:
    a, b = (dataclasses.replace(node(name), gpu_type=GpuType("h100"), gpus_bad=(1,)) for name in "ab")
    c = dataclasses.replace(node("c", gpus=4), gpu_type=GpuType("a100"))
    h100, a100 = described(cluster("", c, a, b)).gpu_types
    assert h100 == GpuTypeSummary(GpuType("h100"), nodes=2, gpus=16, healthy_gpus=14)
    assert a100 == GpuTypeSummary(GpuType("a100"), nodes=1, gpus=4, healthy_gpus=4)


def test_the_nvlink_domain_ends_inside_at_or_above_the_node() -> None:
    mixed = cluster(
        "nvlink",
        node("hgx", fabric="hgx"),
        node("dgx1", fabric="mesh"),
        node("pcie", gpus=4, fabric="pairs"),
        node("tray", gpus=2, nvlink="rack1"),
        node("plain", gpus=1),
        hgx=ALL_TO_ALL,
        mesh=CUBE_MESH,
        pairs=PAIRS,
    )
    assert described(mixed).nvlink == (
        NvlinkSummary(NvlinkPosition.AT, None, (8,), nodes=1, gpus=8),
        NvlinkSummary(NvlinkPosition.INSIDE, None, (4, 4), nodes=1, gpus=8),
        NvlinkSummary(NvlinkPosition.INSIDE, None, (2, 2), nodes=1, gpus=4),
        NvlinkSummary(NvlinkPosition.ABOVE, mixed.levels[0], (), nodes=1, gpus=2),
        NvlinkSummary(NvlinkPosition.NONE, None, (), nodes=1, gpus=1),
    )


def test_a_cluster_without_nodes_can_be_described() -> None:
    about = described(cluster("rack"))
    assert about.levels[0].nodes == Spread(0, 0.0, 0)
    assert about.findings[0].kind is FindingKind.LEVEL_UNUSED


def test_a_clean_cluster_has_no_findings() -> None:
    clean = cluster("rack", *(node(name, fabric="hgx", rack="r1") for name in "ab"), hgx=ALL_TO_ALL)
    assert found(clean) == {}


def test_nodes_outside_a_level_are_named() -> None:
    finding = found(cluster("rack", node("a", rack="r"), node("b", rack="r"), *map(node, "cdefg")))
    outside = finding[FindingKind.NODE_OUTSIDE_LEVEL]
    assert (outside.subject, outside.count) == ("rack", 5)
    assert "c, d, e and 2 more" in outside.text


def test_a_level_that_nobody_uses_and_one_that_is_not_listed_are_told() -> None:
    finding = found(cluster("rack", node("a", row="x"), node("b", row="x")))
    assert finding[FindingKind.LEVEL_UNUSED].subject == "rack"
    assert finding[FindingKind.LEVEL_UNKNOWN].subject == "row"
    assert FindingKind.NODE_OUTSIDE_LEVEL not in finding


def test_domains_of_one_node_are_told() -> None:
    finding = found(cluster("rack", node("a", rack="r1"), node("b", rack="r2"), node("c", rack="r2")))
    assert finding[FindingKind.DOMAIN_OF_ONE_NODE].text.startswith("1 domain (r1)")


def test_one_short_name_for_several_domains_is_told() -> None:
    repeated = found(two_racks_of_two())[FindingKind.SAME_SHORT_NAME]
    assert (repeated.subject, repeated.count) == ("rack", 1)
    assert "r1" in repeated.text


def test_fabrics_that_nobody_has_or_nobody_describes_are_told() -> None:
    finding = found(cluster("", node("a", fabric="hgx"), pairs=PAIRS))
    assert finding[FindingKind.FABRIC_MISSING].subject == "hgx"
    assert finding[FindingKind.FABRIC_UNUSED].subject == "pairs"


def test_mistakes_inside_a_fabric_are_told() -> None:
    wrong = fabric((0, 0, "nvlink", 1.0), (0, 4, "nvlink", 1.0), islands=[(0, 1), (1, 2)])
    finding = found(cluster("", node("a", gpus=4, fabric="wrong"), wrong=wrong))
    assert "GPU 4" in finding[FindingKind.INDEX_OUT_OF_RANGE].text
    assert "GPU 0" in finding[FindingKind.LINK_TO_ITSELF].text
    assert "GPU 1" in finding[FindingKind.ISLANDS_OVERLAP].text
    assert "GPU 3" in finding[FindingKind.GPU_IN_NO_ISLAND].text


def test_nodes_without_a_healthy_gpu_are_told() -> None:
    broken = dataclasses.replace(node("a", gpus=2), gpus_bad=(0, 1))
    assert found(cluster("", broken, node("b", gpus=0)))[FindingKind.NO_HEALTHY_GPU].count == 2
