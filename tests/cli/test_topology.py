"""Clusters and profiles as text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optsched.cli.main import main


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_ten_thousand_gpus_are_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "topology", "show", "h100-10k")
    assert len(text.splitlines()) < 25
    assert text.startswith("h100-10k  1,280 nodes, 10,240 GPUs, 5 pods, 40 blocks, 320 racks\n")
    # 8 blocks · 8 racks · 4 nodes · 8 GPUs = 2,048
    assert "  5 pods h-p0–h-p4: 8 blocks × 8 racks × 4 nodes × 8 GPUs (h100) = 2,048 GPUs each\n" in text
    assert "NVLink     the whole node: 1 island of 8 GPUs (10,240 GPUs in 1,280 nodes)" in text


def test_ragged_sizes_stand_as_smallest_median_largest(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "topology", "show", "mixed-fleet")
    assert "pod a100-p0: 57 racks × 3–8–8 nodes × 8 GPUs (a100) = 3,456 GPUs" in text
    assert "node s1x1-old-n0: 1 GPU (gpu-series-1)" in text
    assert "3 nodes (s1x1-old-n0, a10-old-n0, a10-old-n1) in no domain of level pod" in text


def test_an_nvlink_domain_above_the_node_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "topology", "show", "gb200-nvl72-10k")
    assert "above the node: each nvlink domain; in a node 1 island of 4 GPUs" in text
    assert "18 nvlink domains × 18 nodes × 4 GPUs (gb200) = 1,296 GPUs each" in text


def test_domains_of_several_kinds_are_told_one_below_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        {"id": f"p{p}{kind}{n}", "domains": {"pod": f"p{p}"}, "gpus": gpus, "gpu_type": kind}
        for p in range(2)
        for kind, gpus in (("h", 8), ("a", 4))
        for n in range(3)
    ]
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"levels": ["pod"], "nodes": nodes}))
    text = output(capsys, "topology", "show", str(path))
    # 3 nodes of 8 and 3 of 4 GPUs: 36 a pod
    assert "  2 pods p0, p1: 6 nodes, 36 GPUs each\n" in text
    assert "    6 nodes, 3 a pod p0h0–p0h2, p1h0–p1h2: 8 GPUs (h)\n" in text
    assert "    6 nodes, 3 a pod p0a0–p0a2, p1a0–p1a2: 4 GPUs (a)\n" in text


def test_very_many_kinds_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"nodes": [{"id": f"n{n}", "gpus": n + 1} for n in range(40)]}))
    assert "… and 28 more kinds: 28 nodes" in output(capsys, "topology", "show", str(path))


@pytest.mark.parametrize("nodes", ["[]", "[{id: n, gpus: 0}]"])
def test_an_empty_cluster_can_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], nodes: str) -> None:
    path = tmp_path / "none.yaml"
    path.write_text(f"nodes: {nodes}\n")
    assert "0 GPUs" in output(capsys, "topology", "show", str(path))


def test_a_cluster_as_json_has_its_totals_levels_and_types(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(output(capsys, "topology", "show", "h100-10k", "--format", "json"))
    assert (found["nodes"], found["gpus"], found["states"]) == (1280, 10_240, {"up": 1280})
    assert found["levels"][0] == {
        "level": "pod",
        "domains": 5,
        "nodes": {"minimum": 256, "median": 256, "maximum": 256},
        "gpus": {"minimum": 2048, "median": 2048, "maximum": 2048},
        "ragged": False,
        "nodes_outside": 0,
    }
    assert found["gpu_types"] == [{"gpu_type": "h100", "nodes": 1280, "gpus": 10_240, "healthy_gpus": 10_240}]
    assert found["nvlink"][0]["position"] == "at"
    assert found["findings"] == []


def test_a_valid_cluster_with_oddities_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "validate", "mixed-fleet"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("mixed-fleet: valid: 4,278 nodes, 10,412 GPUs")
    assert out.endswith("; 2 warnings\n")
    assert [line.startswith("warning: ") for line in err.splitlines()] == [True, True]


def test_a_cluster_with_faults_is_told_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("levels: [rack, rack]\nnodes:\n  - {id: n, gpus: 8, domains: {rak: r}}\n")
    assert main(["topology", "validate", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0].startswith(f"{path}:1: levels[1]: ")
    assert lines[1].startswith(f"{path}:3: nodes[0] (n).domains.rak: unknown level; allowed: did you mean 'rack'?")


def test_all_shipped_clusters_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "topology", "list")
    assert "5 pods → 40 blocks → 320 racks → 1,280 nodes" in text
    found = json.loads(output(capsys, "topology", "list", "--format", "json"))
    assert {"h100-10k", "mixed-fleet"} <= {entry["name"] for entry in found["topologies"]}


def test_all_shipped_profiles_are_listed_with_their_differences(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "profile", "list")
    assert "the base of all" in text
    assert "priority_mode" in text
    found = json.loads(output(capsys, "profile", "list", "--format", "json"))
    assert {"default", "quota"} <= {entry["name"] for entry in found["profiles"]}


def test_a_profile_shows_every_knob_and_marks_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    lines = output(capsys, "profile", "show", "quota").splitlines()
    assert lines[0].startswith("Profile quota  1 of ")
    at = next(index for index, line in enumerate(lines) if line.startswith("* "))
    assert lines[at].split() == ["*", "reclaim", "quota"]
    assert lines[at + 1].strip() == "default: fair_share"
    assert json.loads(output(capsys, "profile", "show", "quota", "--format", "json"))["reclaim"] == "quota"
