"""The published family: demand equals capacity, sizes and priorities in their shares, and a seed says it all."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.priority_matters import MOVE_GPU_S, PRIORITIES, SHARES, SIZES, draw_pods, family_round, main
from optsched.files import load_snapshot, parse_snapshot
from optsched.rounds.build import build_problem


@pytest.mark.parametrize("nodes", [1, 2, 32, 64, 1280])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_pods_ask_for_every_gpu_and_no_more(nodes, seed):
    """8 GPUs a node."""
    assert sum(pod.gpus for pod in draw_pods(nodes, seed)) == 8 * nodes


def test_sizes_and_priorities_have_their_shares():
    """1,280 nodes: about 10,240 / 3.4 = 3,012 pods; shares within 3 %, more than three standard deviations (0.9 %)."""
    pods = draw_pods(1280, 0)
    assert 2900 <= len(pods) <= 3120
    sizes, classes = Counter(pod.gpus for pod in pods), Counter(pod.priority for pod in pods)
    assert {size: sizes[size] / len(pods) for size in SIZES} == pytest.approx(
        dict(zip(SIZES, SHARES, strict=True)), abs=0.03
    )
    assert {name: classes[name] / len(pods) for name in PRIORITIES} == pytest.approx(
        dict.fromkeys(PRIORITIES, 0.25), abs=0.03
    )


@pytest.mark.parametrize(("nodes", "pods"), [(64, 160), (128, 300)])
def test_rounds_are_of_the_published_size(nodes, pods):
    """Some 160 pods on 64 nodes, 300 on 128: within a sixth."""
    for seed in range(3):
        assert len(draw_pods(nodes, seed)) == pytest.approx(pods, rel=1 / 6)


def test_running_pods_fit_and_what_waits_fits_on_no_node_though_there_is_room():
    """Placed one by one on the emptiest node: no node is overbooked, and a pod that waits found none with its GPUs."""
    pods = draw_pods(64, 0)
    used = Counter[int]()
    for pod in pods:
        if pod.node is not None:
            used[pod.node] += pod.gpus
    free = [8 - used[n] for n in range(64)]
    waiting = [pod for pod in pods if pod.node is None]
    assert min(free) >= 0
    assert waiting
    assert min(pod.gpus for pod in waiting) > max(free)
    assert sum(pod.gpus for pod in waiting) == sum(free)


def test_a_seed_gives_one_round_and_another_seed_another():
    """The document is the same, key by key."""
    assert family_round(16, 7) == family_round(16, 7)
    assert draw_pods(16, 7) != draw_pods(16, 8)


def test_a_round_loads_without_warnings_and_knows_what_the_published_model_knows():
    """Everything that runs may be moved and stopped, every move costs the same, and no rule of ours is in force."""
    snapshot, warnings = parse_snapshot(family_round(16, 0))
    assert warnings == ()
    problem = build_problem(snapshot)
    assert all(job.movable and job.stoppable and job.costs.move == MOVE_GPU_S for job in problem.running)
    assert problem.holds == ()
    assert problem.ceilings == ()
    assert problem.domain_price == (0,)
    assert [problem.priority_names[p] for p in range(4)] == list(PRIORITIES)


@pytest.mark.parametrize("name", ["round.json", "round.json.gz"])
def test_the_command_writes_a_snapshot_file(tmp_path, name):
    """Plain or packed, it loads as the round that it was asked for."""
    main(["4", "3", str(tmp_path / name)])
    assert load_snapshot(tmp_path / name)[0].jobs == parse_snapshot(family_round(4, 3))[0].jobs


@pytest.mark.parametrize(("nodes", "seed"), [(0, 0), (4, -1)])
def test_a_round_that_cannot_be_is_refused(nodes, seed):
    """What is allowed is said."""
    with pytest.raises(ValueError, match="allowed: at least 1 node, and a seed from 0 on"):
        family_round(nodes, seed)
