"""Profiles and clusters: by name, by path, as a mapping; groups; the shipped files."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from optsched.errors import InputError
from optsched.files import data_folder, load_cluster, load_profile, shipped_file, shipped_names
from optsched.values.profile import PreemptTokens, Profile, Reclaim
from tests.files.builders import fault, load, node


def test_the_default_profile_has_every_knob_each_with_a_comment() -> None:
    file = shipped_file("models", "default")
    assert file is not None
    lines = file.read_text().splitlines()
    keys = {line.split(":")[0]: line for line in lines if re.match(r"[a-z]", line)}
    assert set(keys) == {field.name for field in dataclasses.fields(Profile)}
    assert [key for key, line in keys.items() if "#" not in line] == []


def test_the_default_profile_is_that_of_the_code_but_for_speeds_and_domain_prices() -> None:
    profile = load_profile("default")
    assert dataclasses.replace(profile, speed={}, domain_price={}, speed_widest=Profile().speed_widest) == Profile()
    assert (profile.speed["rack"], profile.speed_widest, profile.domain_price["pod"]) == (0.99, 0.9, 100)


@pytest.mark.parametrize("name", ["default", "weighted", "quota", "ethernet"])
def test_every_shipped_profile_loads_under_its_own_name(name: str) -> None:
    assert name in shipped_names("models")
    assert load_profile(name).name == name


def test_the_ethernet_preset_is_two_to_five_times_slower_across_nodes() -> None:
    speeds = load_profile("ethernet").speed
    assert all(0.2 <= speeds[level] <= 0.5 for level in speeds if level not in ("node", "nvlink"))


@pytest.mark.parametrize("name", shipped_names("topologies"))
def test_every_shipped_cluster_loads(name: str) -> None:
    assert load_cluster(name).nodes


def test_a_mapping_changes_what_it_names_and_keeps_the_rest_of_its_base() -> None:
    profile = load_profile(
        {"base": "quota", "horizon_s": 60, "max_loss_ratio": None, "preempt_tokens": {"per_h": 2, "burst": 3}}
    )
    assert (profile.reclaim, profile.horizon_s, profile.max_loss_ratio) == (Reclaim.QUOTA, 60, None)
    assert profile.preempt_tokens == PreemptTokens(per_h=2, burst=3)
    assert load_profile({"preempt_tokens": None}).preempt_tokens is None


def test_a_mapping_inside_a_profile_replaces_that_of_its_base() -> None:
    profile = load_profile({"classes": {"high": 10, "low": 1}})
    assert (profile.classes, profile.weights) == ({"high": 10, "low": 1}, {})


@pytest.mark.parametrize(
    ("profile", "field", "wrong"),
    [
        ({"horizon": 3}, "horizon", "unknown key 'horizon'"),
        ({"horizon_s": 0}, "horizon_s", "given 0"),
        ({"horizon_s": None}, "horizon_s", "given null"),
        ({"priority_mode": "lax"}, "priority_mode", "given 'lax'"),
        ({"emergency_classes": ["P9"]}, "emergency_classes", "'P9' is no class"),
        ({"weights": {"P9": 1}}, "weights", "'P9' is no class"),
        ({"preempt_tokens": {"per_h": 0, "burst": 1}}, "preempt_tokens.per_h", "given 0"),
        ({"speed": {"rack": 0}}, "speed.rack", "given 0"),
        ({"grace_period_s": 9000}, "grace_period_s", "9000 s is longer than max_grace_period_s"),
        ({"base": "defualt"}, "base", "there is no profile named 'defualt'"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(profile: dict[str, object], field: str, wrong: str) -> None:
    found = fault(profile=profile)
    assert (found.field, found.wrong) == (f"profile.{field}", wrong)


def test_a_profile_that_is_its_own_base_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("base: b.yaml\n")
    (tmp_path / "b.yaml").write_text("base: a.yaml\n")
    with pytest.raises(InputError, match=r"the bases never end: a\.yaml -> b\.yaml -> a\.yaml"):
        load_profile(tmp_path / "a.yaml")


def test_the_data_folders_are_found() -> None:
    assert (data_folder("models") / "default.yaml").is_file()
    assert data_folder("topologies").is_dir()


def test_an_unknown_cluster_is_refused_with_the_known_ones() -> None:
    found = fault(cluster="nope")
    assert found.wrong == "there is no cluster named 'nope'"
    assert found.allowed.startswith("known clusters: ")


def nodes_of(*groups: dict[str, object], levels: list[str]) -> dict[str, dict[str, str]]:
    made = load(cluster={"levels": levels, "groups": list(groups)}).cluster.nodes
    return {str(entry.id): dict(entry.domains) for entry in made}  # type: ignore[arg-type]


def test_a_group_makes_nodes_with_their_domains_widest_first() -> None:
    made = nodes_of({"prefix": "a-", "counts": {"pod": 1, "rack": 2, "node": 2}, "gpus": 8}, levels=["pod", "rack"])
    assert list(made) == ["a-p0r0n0", "a-p0r0n1", "a-p0r1n0", "a-p0r1n1"]
    assert made["a-p0r1n0"] == {"pod": "a-p0", "rack": "a-p0r1"}


def test_a_list_of_counts_is_used_in_turn_over_all_parents() -> None:
    # two pods of two racks: racks 0, 1, 2, 3 get 3, 1, 2, 3 nodes
    made = nodes_of({"counts": {"pod": 2, "rack": 2, "node": [3, 1, 2]}, "gpus": 8}, levels=["pod", "rack"])
    assert [sum(name.startswith(rack) for name in made) for rack in ("p0r0", "p0r1", "p1r0", "p1r1")] == [3, 1, 2, 3]


def test_a_level_that_a_group_leaves_out_its_nodes_do_not_have() -> None:
    made = nodes_of({"counts": {"rack": 1, "node": 1}, "gpus": 8}, levels=["pod", "rack"])
    assert made == {"r0n0": {"rack": "r0"}}


def test_levels_that_share_a_letter_are_written_out() -> None:
    made = nodes_of({"counts": {"nvlink": 1, "node": 2}, "gpus": 4}, levels=["nvlink"])
    assert list(made) == ["nvlink0node0", "nvlink0node1"]
    made = nodes_of(
        {"counts": {"k8s.io/zone": 1, "k8s.io/rack": 1, "node": 1}, "gpus": 4}, levels=["k8s.io/zone", "k8s.io/rack"]
    )
    assert list(made) == ["z0r0n0"]


def test_nodes_may_stand_beside_groups() -> None:
    cluster = load(cluster={"levels": [], "groups": [{"counts": {"node": 2}, "gpus": 8}], "nodes": [node("x")]}).cluster
    assert [entry.id for entry in cluster.nodes] == ["n0", "n1", "x"]


@pytest.mark.parametrize(
    ("group", "field", "wrong"),
    [
        ({"counts": {"rack": 2}}, "counts", "has no count for node"),
        ({"counts": {"node": 10**5, "rack": 10**5}}, "counts", "makes 10,000,000,000 nodes"),
        ({"counts": {"node": 2, "pod": 2}}, "counts.pod", "unknown level"),
        ({"counts": {"node": -1}}, "counts.node", "given -1"),
        ({"counts": {"node": 1}, "gpus": 1025}, "gpus", "given 1025"),
        ({"counts": {"node": 1}, "fabric": "x"}, "fabric", "there is no fabric 'x'"),
    ],
)
def test_a_group_that_cannot_be_is_refused(group: dict[str, object], field: str, wrong: str) -> None:
    found = fault(cluster={"levels": ["rack"], "groups": [{"gpus": 8, **group}]})
    assert (found.field, found.wrong) == (f"cluster.groups[0].{field}", wrong)


def test_two_groups_that_make_the_same_ids_are_refused() -> None:
    group = {"counts": {"node": 1}, "gpus": 8}
    wrong = fault(cluster={"groups": [group, group]}).wrong
    assert wrong == "makes the node id 'n0' again, first made at cluster.groups[0]"


def test_a_fabric_has_links_islands_and_nics() -> None:
    fabric = {"links": [[0, 1, "nvlink", 900], [1, 2, "pcie"]], "islands": [[0, 1], [2]], "nics": {"0": "rail0"}}
    found = load(cluster={"fabrics": {"f": fabric}, "nodes": [node("n", fabric="f")]}).cluster.fabrics["f"]
    assert [(link.first, link.second, link.kind, link.bandwidth_gb_per_s) for link in found.links] == [
        (0, 1, "nvlink", 900.0),
        (1, 2, "pcie", None),
    ]
    assert (found.islands, found.nics) == (((0, 1), (2,)), {0: "rail0"})


@pytest.mark.parametrize(
    "link", [[0, 0, "nvlink"], [0, 1], [0, 1, "nvlink", -1], [0, 1, "nvlink", 9, 9], [0, 1, 2], ["0", 1, "x"]]
)
def test_a_link_that_cannot_be_is_refused(link: list[object]) -> None:
    found = fault(cluster={"fabrics": {"f": {"links": [link]}}, "nodes": [node("n")]})
    assert found.field == "cluster.fabrics.f.links[0]"


def test_bad_gpus_lie_on_the_node() -> None:
    assert fault(cluster={"nodes": [node("n", gpus_bad=[8])]}).wrong == "given 8 on a node of 8 GPUs"
    assert load(cluster={"nodes": [node("n", gpus_bad=[3, 1])]}).cluster.nodes[0].healthy_gpus == 6
