"""The cluster files that come with optsched say what their sources say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from optsched.topology.graph import fabric_graph
from optsched.topology.links import choose_gpus
from optsched.topology.tree import build_tree
from optsched.topology.validate import NvlinkPosition, describe

from .builders import CUBE_MESH, TOPOLOGIES, read_topology

FILES = [
    "a100-pcie-nvlink-pairs",
    "dgx-h100-superpod-4su",
    "gb200-nvl72-10k",
    "h100-10k",
    "mixed-fleet",
    "philly-160",
    "philly-2490",
    "v100-cube-mesh",
]


def path_of(name: str) -> Path:
    return TOPOLOGIES / f"{name}.yaml"


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_named_like_its_cluster_and_tells_its_source(name: str) -> None:
    text = yaml.safe_load(path_of(name).read_text())
    assert text["name"] == name
    assert text["about"].strip()
    assert text["source"].strip()


# Nodes; GPUs; domains per level without the node.
SHAPES = {
    "a100-pcie-nvlink-pairs": (64, 256, [8]),  # 8 racks of 8 nodes of 4
    "dgx-h100-superpod-4su": (127, 1016, [4, 32]),  # 4 · 8 · 4 - 1 nodes of 8
    "gb200-nvl72-10k": (2592, 10_368, [8, 144]),  # 8 · 18 racks of 18 trays of 4
    "h100-10k": (1280, 10_240, [5, 40, 320]),  # 5 · 8 · 8 racks of 4 nodes of 8
    # 8 · (432 + 219 + 122 + 22 + 77) + 4 · 10 + 902 + 2,494 GPUs; 57 + 34 + 17 + 3 + 10 + 2 racks
    "mixed-fleet": (4278, 10_412, [9, 123]),
    "philly-160": (20, 160, [2, 5]),  # 3 + 2 racks of 4 nodes of 8
    "philly-2490": (552, 2490, [36]),  # 321 nodes of 2 in 21 racks, 231 of 8 in 15
    "v100-cube-mesh": (16, 128, [4]),
}


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_its_nodes_gpus_and_domains(name: str) -> None:
    given = read_topology(path_of(name))
    tree = build_tree(given)
    domains = [tree.domain_count(level) for level in range(tree.node_level)]
    assert (len(given.nodes), sum(n.gpus for n in given.nodes), domains) == SHAPES[name]
    assert len(tree.node_index) == len(given.nodes)


@pytest.mark.parametrize("name", [name for name in FILES if name not in {"mixed-fleet", "philly-2490"}])
def test_files_of_one_kind_of_node_raise_no_findings(name: str) -> None:
    given = read_topology(path_of(name))
    assert describe(given, build_tree(given)).findings == ()


def test_a_superpod_has_one_unit_of_31_systems_and_three_of_32() -> None:
    tree = build_tree(read_topology(path_of("dgx-h100-superpod-4su")))
    assert tree.domain_sizes(0).tolist() == [31, 32, 32, 32]


@pytest.mark.parametrize(
    ("name", "position", "islands"),
    [
        ("dgx-h100-superpod-4su", NvlinkPosition.AT, (8,)),
        ("gb200-nvl72-10k", NvlinkPosition.ABOVE, (4,)),
        ("a100-pcie-nvlink-pairs", NvlinkPosition.INSIDE, (2, 2)),
        ("v100-cube-mesh", NvlinkPosition.INSIDE, (4, 4)),
    ],
)
def test_the_nvlink_domain_is_where_the_hardware_has_it(
    name: str, position: NvlinkPosition, islands: tuple[int, ...]
) -> None:
    given = read_topology(path_of(name))
    (nvlink,) = describe(given, build_tree(given)).nvlink
    assert (nvlink.position, nvlink.island_sizes) == (position, islands)


def test_an_nvl72_rack_holds_72_gpus() -> None:
    given = read_topology(path_of("gb200-nvl72-10k"))
    nvlink = describe(given, build_tree(given)).levels[1]
    assert (nvlink.nodes.minimum, nvlink.gpus.maximum) == (18, 72)


def test_the_cube_mesh_has_six_links_per_gpu_and_the_known_pairs() -> None:
    (mesh,) = read_topology(path_of("v100-cube-mesh")).fabrics.values()
    wired = fabric_graph(mesh, 8)
    assert {rate for _, rate in wired.degree(weight="bandwidth_gb_per_s")} == {300}
    assert choose_gpus(mesh, range(8), 2) == choose_gpus(CUBE_MESH, range(8), 2) == (0, 3)


def test_the_mixed_fleet_has_its_six_models_and_ragged_racks() -> None:
    given = read_topology(path_of("mixed-fleet"))
    about = describe(given, build_tree(given))
    gpus = {summary.gpu_type: summary.gpus for summary in about.gpu_types}
    # GPU-series-1: 902 · 1 + 10 · 4 + 77 · 8
    assert gpus == {"a100": 3456, "a10": 2494, "h800": 1752, "gpu-series-1": 1558, "gpu-series-2": 976, "a800": 176}
    rack = about.levels[1]
    assert rack.ragged
    assert (rack.nodes.minimum, rack.nodes.maximum) == (2, 8)
    assert rack.nodes_outside == 902 + 2494
