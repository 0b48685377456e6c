"""Generated rounds: one seed gives the same bytes, every kind is a valid busy cluster, rich ones have everything."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rounds import KINDS, compress, encode, generate
from benchmarks.rounds.__main__ import main
from optsched.files import load_snapshot, parse_snapshot
from optsched.files.schema import (
    AmountsIn,
    CheckpointIn,
    FabricIn,
    JobIn,
    NodeIn,
    ReservationIn,
    RetriesIn,
    TeamIn,
    TierIn,
)
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.score import score
from optsched.solve.greedy import greedy

Document = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]

SHARES = {
    "h100-1k": 0.5,
    "h100-10k": 0.05,
    "h100-100k": 0.005,
    "nvl72-10k": 0.05,
    "mixed-10k": 0.05,
    "rich-10k": 0.05,
    "rich-mixed-10k": 0.03,
    "rich-40": 1.0,
}
"""Each kind with so few nodes (42 to 221) that it takes a moment."""

RICH = [name for name, kind in KINDS.items() if kind.rich]


@cache
def small(name: str, seed: int = 1) -> Document:
    kind = KINDS[name]
    return generate(kind if SHARES[name] == 1.0 else kind.smaller(SHARES[name]), seed)


def gpus_held(job: Document) -> int:
    return sum(held if isinstance(held, int) else len(held) for held in job.get("placement", {}).values())


def shares(document: Document) -> tuple[float, float]:
    """Return what runs and what is queued, as shares of all GPUs."""
    gpus = sum(node["gpus"] for node in document["cluster"]["nodes"])
    queued = sum(job["gpus"] for job in document["jobs"] if job["state"] == "queued")
    return sum(map(gpus_held, document["jobs"])) / gpus, queued / gpus


def assert_greedy_plans_it(document: Document) -> None:
    """It is read without a fault, breaks no rule by what runs, and greedy has a valid plan that starts something."""
    snapshot, warnings = parse_snapshot(document)
    assert all(text.startswith("above their quota, on what others lend") for text in warnings)
    problem = build_problem(snapshot)
    plan = greedy(problem)
    assert not check(problem, plan)
    assert plan.changed
    mode = problem.profile.priority_mode
    assert score(problem, plan).key(mode) > score(problem, type(plan)()).key(mode)


def test_every_kind_is_tested() -> None:
    """A new kind needs a share here."""
    assert SHARES.keys() == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
def test_a_small_round_of_each_kind_is_valid_and_busy(name: str) -> None:
    """Small ones lose more of their GPUs to a node that is down or spare, and one gang is much of what they ask for."""
    document = small(name)
    assert_greedy_plans_it(document)
    in_use, asked = shares(document)
    assert 0.85 <= in_use <= 0.97
    assert 0.75 <= asked <= 1.25


def test_a_round_of_full_size_is_as_large_and_as_busy_as_it_says() -> None:
    """10,240 GPUs: 95 % in use, about as many asked for again, 600 jobs queued, one of them of 4,096 GPUs."""
    document = generate("rich-10k", 3)
    nodes, jobs = document["cluster"]["nodes"], document["jobs"]
    assert [len({tuple(node["domains"].items())[: depth + 1] for node in nodes}) for depth in range(3)] == [5, 40, 320]
    assert sum(node["gpus"] for node in nodes) == 10_240
    in_use, asked = shares(document)
    assert 0.92 <= in_use <= 0.97
    assert 0.8 <= asked <= 1.15
    assert sum(job["state"] == "queued" for job in jobs) == 600
    assert 500 <= sum(job["state"] == "running" for job in jobs) <= 2000
    (giant,) = [job for job in jobs if job["gpus"] == 4096]
    assert giant["state"] == "queued"
    assert [part["within"] for part in giant["slices"]] == ["block", "rack"]
    assert_greedy_plans_it(document)


@pytest.mark.parametrize(
    ("name", "nodes", "gpus"),
    [
        ("h100-1k", 128, 1024),
        ("h100-10k", 1280, 10_240),
        ("h100-100k", 12_800, 102_400),
        ("nvl72-10k", 2592, 10_368),
        ("mixed-10k", 4278, 10_412),
        ("rich-10k", 1280, 10_240),
        ("rich-mixed-10k", 2294, 9952),
        ("rich-40", 42, 336),
    ],
)
def test_a_kind_has_as_many_nodes_as_its_name_promises(name: str, nodes: int, gpus: int) -> None:
    """Counted from the pools: the product of the counts, or the ragged number of nodes."""
    count = total = 0
    for pool in KINDS[name].pools:
        here = pool.ragged or 1
        for children in pool.counts:
            here *= children
        count, total = count + here, total + here * pool.gpus
    assert (count, total) == (nodes, gpus)


def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    """Also where Python orders its sets otherwise, as another process does."""
    command = [sys.executable, "-m", "benchmarks.rounds", "rich-40", "7"]
    salted = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(command, cwd=ROOT, env=salted, capture_output=True, check=True)
    assert done.stdout.rstrip(b"\n") == encode(generate("rich-40", 7))


def test_another_seed_gives_another_round() -> None:
    """Other jobs, on other nodes."""
    one, two = small("h100-10k", 1), small("h100-10k", 2)
    assert one["jobs"] != two["jobs"]
    assert one["teams"] != two["teams"]


def test_gzipped_bytes_have_no_date_in_them() -> None:
    """Bytes 4 to 7 of a gzip file are its time."""
    data = compress(b"{}")
    assert data[4:8] == bytes(4)
    assert gzip.decompress(data) == b"{}"


def test_free_gpus_are_where_jobs_have_left_them() -> None:
    """Neither all on empty nodes nor spread like dust: most free GPUs of a round are on nodes that are partly used or
    were freed whole, and few nodes are partly used, since the tightest fit fills them again."""
    document = small("h100-10k")
    free = {node["id"]: node["gpus"] for node in document["cluster"]["nodes"] if node.get("state") != "down"}
    for job in document["jobs"]:
        for node, held in job.get("placement", {}).items():
            free[node] -= held
    partly = [gpus for gpus in free.values() if 0 < gpus < 8]
    assert min(free.values()) >= 0
    assert partly
    assert len(partly) <= 0.3 * len(free)
    assert sum(gpus == 0 for gpus in free.values()) >= 0.6 * len(free)


# What a rich round has


def running(document: Document) -> list[Document]:
    return [job for job in document["jobs"] if job["state"] == "running"]


def queued(document: Document) -> list[Document]:
    return [job for job in document["jobs"] if job["state"] == "queued"]


def checkpoint(job: Document) -> Document:
    return job.get("checkpoint", {})


def elastic(job: Document) -> bool:
    return "min_gpus" in job and job["min_gpus"] < job["max_gpus"]


def per_node(document: Document, resource: str) -> dict[str, float]:
    """Return what is free of cpus or memory_gb for each free GPU of a node, where GPUs are free."""
    free = {node["id"]: [node["gpus"] - len(node.get("gpus_bad", [])), node[resource]] for node in nodes(document)}
    for node in nodes(document):
        free[node["id"]][1] -= node["cpus_reserved"] if resource == "cpus" else 0
    for job in running(document):
        for node, held in job["placement"].items():
            free[node][0] -= len(held)
            free[node][1] -= job[resource] / job["gpus"] * len(held)
    return {node: amount / gpus for node, (gpus, amount) in free.items() if gpus > 0}


def nodes(document: Document) -> list[Document]:
    return list(document["cluster"]["nodes"])


def preemptions_used_up(job: Document) -> bool:
    """By the default bucket: two at once, one an hour more since submission."""
    return 2 - job.get("submitted_at", 0) / 3600 - job.get("preemptions", 0) < 1


def deadline(job: Document, most_s: float, least_s: float = 0.0) -> bool:
    return least_s < job.get("start_deadline_at", 1e12) <= most_s


FEATURES: dict[str, Callable[[Document], bool]] = {
    "slices, running": lambda d: any(job.get("slices") for job in running(d)),
    "slices, queued": lambda d: any(job.get("slices") for job in queued(d)),
    "slices three deep": lambda d: any(len(job.get("slices", ())) == 3 for job in queued(d)),
    "tasks that share nodes": lambda d: any(
        any(len(held) > job.get("gpus_per_task", 99) for held in job["placement"].values()) for job in running(d)
    ),
    "tasks that share nodes, queued": lambda d: any("gpus_per_task" in job for job in queued(d)),
    "nodes short of CPUs": lambda d: min(per_node(d, "cpus").values()) < 4,
    "nodes short of memory": lambda d: min(per_node(d, "memory_gb").values()) < 32,
    "team limits in GPUs": lambda d: any("gpus" in team.get("limit", {}) for team in d["teams"]),
    "team limits in CPUs": lambda d: any("cpus" in team.get("limit", {}) for team in d["teams"]),
    "user limits": lambda d: any("user_limit" in team for team in d["teams"]),
    "teams in teams in departments": lambda d: any(
        team.get("parent") in {inner["id"] for inner in d["teams"] if "parent" in inner} for team in d["teams"]
    ),
    "weights": lambda d: {0, 1, 2} <= {team.get("weight", 1) for team in d["teams"]},
    "quotas by GPU type": lambda d: any(isinstance(team.get("quota", {}).get("gpus"), dict) for team in d["teams"]),
    "a team without a quota, one with none to give": lambda d: (
        any("quota" not in team for team in d["teams"][5:]) and any(t.get("quota") == {"gpus": 0} for t in d["teams"])
    ),
    "a ceiling on priority": lambda d: any("max_priority" in team for team in d["teams"]),
    "no estimate, running": lambda d: any("estimated_runtime_s" not in job for job in running(d)),
    "no estimate, queued": lambda d: any("estimated_runtime_s" not in job for job in queued(d)),
    "past its estimate": lambda d: any(job.get("estimated_runtime_s", 1e12) < -job["started_at"] for job in running(d)),
    "hidden checkpoints": lambda d: any("last_checkpoint_at" not in job for job in running(d)),
    "checkpoints on signal": lambda d: any(checkpoint(job).get("on_signal") for job in running(d)),
    "elastic, running": lambda d: any(map(elastic, running(d))),
    "elastic, queued": lambda d: any(map(elastic, queued(d))),
    "not preemptible, running": lambda d: any(not job["preemptible"] for job in running(d)),
    "not preemptible, queued": lambda d: any(not job["preemptible"] for job in queued(d)),
    "grants to a team, a run and a queued job": lambda d: (
        {"grant-team", "grant-run", "grant-queued"} <= {entry["id"] for entry in d["reservations"]}
    ),
    "a maintenance window to come": lambda d: any(entry["start_at"] > 0 for entry in d["reservations"]),
    "a maintenance window that is on": lambda d: any(
        entry["start_at"] < 0 and entry["kind"] == "maintenance" for entry in d["reservations"] if "kind" in entry
    ),
    "a far deadline": lambda d: any(deadline(job, 200_000, 720) for job in queued(d)),
    "a near deadline": lambda d: any(deadline(job, 720, 240) for job in queued(d)),
    "a due deadline": lambda d: any(deadline(job, 240) for job in queued(d)),
    "a team that may break guarantees for deadlines": lambda d: (
        {job["team"] for job in queued(d) if deadline(job, 240)}
        <= {team["id"] for team in d["teams"] if team.get("max_deadline_gpus")}
    ),
    "all states of nodes": lambda d: (
        {node.get("state", "up") for node in nodes(d)} == {"up", "draining", "cordoned", "suspect", "down"}
    ),
    "bad GPUs": lambda d: any(node.get("gpus_bad") for node in nodes(d)),
    "spare nodes": lambda d: any(node.get("spare") for node in nodes(d)),
    "node selectors": lambda d: any("node_selector" in job for job in queued(d)),
    "excluded nodes": lambda d: any("exclude_nodes" in job for job in queued(d)),
    "preempt tokens used up": lambda d: any(map(preemptions_used_up, running(d))),
    "required and preferred levels": lambda d: (
        {"required", "preferred"} <= {k for j in queued(d) for k in j.get("topology", ())}
    ),
    "emergency and deadline classes": lambda d: {"emergency_classes", "deadline_classes"} <= d["profile"].keys(),
    "every class, and a number": lambda d: {"P0", "P1", "P2", "P3", 1500} <= {job["priority"] for job in d["jobs"]},
}


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("name", RICH)
def test_a_rich_round_has(name: str, feature: str) -> None:
    """However few nodes it has."""
    assert FEATURES[feature](small(name))


@pytest.mark.parametrize("name", ["mixed-10k", "rich-mixed-10k", "rich-40"])
def test_jobs_of_a_mixed_round_may_take_one_of_two_types_at_different_speeds(name: str) -> None:
    """Types that nodes have."""
    document = small(name)
    types = {node["gpu_type"] for node in nodes(document)}
    pairs = [job["gpu_types"] for job in document["jobs"] if isinstance(job["gpu_types"], dict)]
    assert pairs
    assert all(len(set(pair.values())) == 2 and pair.keys() <= types for pair in pairs)


def test_a_mixed_round_has_ragged_racks_and_nodes_in_none() -> None:
    """Racks of different sizes in one pool, and single-GPU nodes that are in a block only."""
    found = nodes(small("mixed-10k"))
    racks: dict[str, int] = {}
    for node in found:
        if node["gpu_type"] == "a10" and "rack" in node["domains"]:
            racks[node["domains"]["rack"]] = racks.get(node["domains"]["rack"], 0) + 1
    assert len(set(racks.values())) > 1
    assert any("rack" not in node["domains"] for node in found)


def keys_of(entries: list[Any]) -> set[str]:
    return {key for entry in entries for key in entry}


def test_a_rich_round_uses_every_key_of_the_schema() -> None:
    """Held against the schema itself, so that a new key has to be generated too."""
    document = small("rich-40")
    jobs = document["jobs"]
    checkpoints = [checkpoint(job) for job in jobs]
    amounts = [team[key] for team in document["teams"] for key in ("quota", "limit", "user_limit") if key in team]
    assert keys_of(jobs) == JobIn.model_fields.keys()
    assert keys_of(nodes(document)) == NodeIn.model_fields.keys()
    assert keys_of(document["teams"]) == TeamIn.model_fields.keys()
    assert keys_of(amounts) == AmountsIn.model_fields.keys()
    assert keys_of(document["reservations"]) == ReservationIn.model_fields.keys()
    assert keys_of(list(document["cluster"]["fabrics"].values())) == FabricIn.model_fields.keys()
    assert keys_of(checkpoints) == CheckpointIn.model_fields.keys()
    assert keys_of([tier for each in checkpoints for tier in each.get("tiers", [])]) == TierIn.model_fields.keys()
    assert keys_of([job.get("retries", {}) for job in jobs]) == RetriesIn.model_fields.keys()


# The command line


def test_the_command_line_writes_a_file_that_can_be_planned(tmp_path: Path) -> None:
    """Gzipped by its name."""
    out = tmp_path / "round.json.gz"
    assert main(["rich-40", "5", "--out", str(out)]) == 0
    assert json.loads(gzip.decompress(out.read_bytes())) == generate("rich-40", 5)
    assert len(load_snapshot(out)[0].cluster.nodes) == 42


def test_the_command_line_lists_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, beginning with its name."""
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(KINDS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "KIND and SEED are missing"),
        (["h100-1k"], "KIND and SEED are missing"),
        (["h100", "1"], "KIND: 'h100' is not known; allowed: h100-1k, h100-10k"),
        (["h100-1k", "-1"], "SEED: '-1' is no seed"),
        (["h100-1k", "one"], "SEED: 'one' is no seed; allowed: a whole number from 0 on"),
        (["h100-1k", "1", "--out", "round.txt"], "neither .json nor .json.gz"),
        (["h100-1k", "1", "--out", "nowhere/round.json"], "'nowhere' is no folder"),
        (["h100-1k", "1", "--loud"], "unrecognized arguments: --loud"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong and what is allowed."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
