"""Placing one gang: sums tell whether there is a placement, and which domains are taken whole."""

from __future__ import annotations

import random

import numpy as np
import pytest

from optsched.rounds.build import build_problem
from optsched.rounds.room import room_in_cluster, whole_slices
from optsched.solve.packing import fits, pack
from tests.builders import job, node, snapshot

GANGS = [
    job("a").gang(1),
    job("a").gang(8),
    job("a").gang(16).per_node(4),
    job("a").gang(24).per_node(8),
    job("a").gang(16).per_node(4).within("rack"),
    job("a").gang(32).per_node(8).within("block"),
    job("a").gang(12).per_task(2),
    job("a").gang(40),
    job("a").gang(16).per_node(2).slices((8, "rack")),
    job("a").gang(12).per_node(4).types(x=1.0, y=0.5),
    job("a").gang(8).per_node(4).cpus(64),
]


def ragged(draw):
    """Twenty nodes of 8 GPUs and two types in blocks and racks; some are in no rack, one in no block."""
    made = []
    for n in range(20):
        inside = {"block": f"b{n // 10}", "rack": f"r{n // 3}"}
        if draw.random() < 0.15:
            inside.pop("rack")
        if n == 13:
            inside.pop("block")
        made.append(node(f"n{n}", 8, "xy"[n % 10 == 9], cpus=100.0, **inside))
    return made


@pytest.mark.parametrize("gang", range(len(GANGS)))
@pytest.mark.parametrize("seed", range(6))
def test_sums_tell_whether_there_is_a_placement(gang, seed):
    """`fits` says of random rooms what `pack` comes to, and what is placed lies in the room and adds up."""
    draw = random.Random(100 * gang + seed)
    problem = build_problem(snapshot(ragged(draw), GANGS[gang], levels="block rack"))
    (wanted,) = problem.queued
    nodes = problem.nodes
    for full in (0.1, 0.3, 0.5, 0.7, 0.9):
        gpus = np.array([0 if draw.random() < full else draw.randint(1, 8) for _ in range(20)], dtype=np.int64)
        cpus = np.array([draw.randint(0, 100) * 1_000_000 for _ in range(20)], dtype=np.int64)
        found = pack(problem, wanted, gpus, cpus, nodes.memory_u, wanted.minimum)
        assert fits(problem, wanted, gpus, cpus, nodes.memory_u) is (found is not None)
        if found is not None:
            assert sum(count for _, count in found) == wanted.minimum
            assert all(count <= gpus[n] for n, count in found)
            assert [n for n, _ in found] == sorted({n for n, _ in found})


@pytest.mark.parametrize("seed", range(20))
def test_a_gang_takes_the_largest_domains_whole_and_the_tightest_for_the_rest(seed):
    """Four racks of four nodes with room on some: of a rack that is taken whole it is every node with room."""
    draw = random.Random(seed)
    made = [node(f"n{n}", 8, rack=f"r{n // 4}") for n in range(16)]
    problem = build_problem(snapshot(made, job("a").gang(48).per_node(8), levels="rack"))
    (wanted,) = problem.queued
    gpus = np.array([8 if draw.random() < 0.7 else 0 for _ in range(16)], dtype=np.int64)
    found = pack(problem, wanted, gpus, problem.nodes.cpus_u, problem.nodes.memory_u, 48)
    if room_in_cluster(wanted, problem.tree, gpus) < 48:
        assert found is None
        return
    totals = whole_slices(wanted, problem.tree, gpus, 0).tolist()
    used = [sum(count for n, count in found if n // 4 == rack) for rack in range(4)]
    left = 48
    for _ in range(4):
        enough = [total for total in totals if total >= left]
        rack = totals.index(min(enough) if enough else max(totals))
        assert used[rack] == min(left, totals[rack])
        left -= used[rack]
        totals[rack] = 0
        if not left:
            break
    assert left == 0
