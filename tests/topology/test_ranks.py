"""Ranks follow the topology, and slices are contiguous in rank."""

from __future__ import annotations

from optsched.topology.ranks import assign_tasks, holds_slices, task_order
from optsched.topology.tree import Tree, build_tree
from optsched.values.ids import JobId, LevelName, NodeId, TeamId
from optsched.values.job import Job, Placement, Slice
from optsched.values.plan import TaskPlacement

from .builders import CUBE_MESH, PAIRS, RACK, cluster, node

NODE = LevelName("node")


def interleaved() -> Tree:
    """Two racks whose nodes are listed in turns: a and c in r1, b and d in r2."""
    return build_tree(
        cluster("rack", node("a", rack="r1"), node("b", rack="r2"), node("c", rack="r1"), node("d", rack="r2"))
    )


def job(gpus: int, *slices: Slice, per_task: int | None = None) -> Job:
    return Job(JobId("j"), TeamId("t"), gpus, gpus_per_task=per_task, slices=slices)


def on(**booked: int | tuple[int, ...]) -> Placement:
    return {NodeId(name): gpus for name, gpus in booked.items()}


def rows(tasks: tuple[TaskPlacement, ...]) -> list[tuple[int, str, int | tuple[int, ...], tuple[int, ...]]]:
    return [(task.rank, task.node, task.gpus, task.slice) for task in tasks]


def test_nodes_of_one_domain_are_neighbours_in_rank() -> None:
    assert task_order(interleaved(), [3, 2, 1, 0]).tolist() == [0, 2, 1, 3]
    assert task_order(interleaved(), []).tolist() == []


def test_a_node_outside_a_level_does_not_tear_a_domain_apart() -> None:
    tree = build_tree(cluster("rack", node("a", rack="r1"), node("b"), node("c", rack="r1")))
    assert task_order(tree, [0, 1, 2]).tolist() == [1, 0, 2]


def test_without_a_task_size_each_node_runs_one_task_with_all_its_gpus() -> None:
    tasks = assign_tasks(interleaved(), job(24), on(b=8, a=8, c=8))
    assert rows(tasks) == [(0, "a", 8, ()), (1, "c", 8, ()), (2, "b", 8, ())]


def test_tasks_share_a_node_and_keep_its_gpus_apart() -> None:
    tasks = assign_tasks(interleaved(), job(6, per_task=2), on(a=(4, 5, 6, 7), b=(0, 1)))
    assert rows(tasks) == [(0, "a", (4, 5), ()), (1, "a", (6, 7), ()), (2, "b", (0, 1), ())]


def test_where_indices_are_unknown_a_task_has_a_count() -> None:
    tasks = assign_tasks(interleaved(), job(6, per_task=2), on(a=4, b=2))
    assert [task.gpus for task in tasks] == [2, 2, 2]


def test_gpus_of_a_task_are_well_linked() -> None:
    # On a cube mesh 0-3 and 1-2 are double links, 0-1 and 2-3 are not both.
    tree = interleaved()
    tasks = assign_tasks(tree, job(4, per_task=2), on(a=(0, 1, 2, 3)), {NodeId("a"): CUBE_MESH})
    assert [task.gpus for task in tasks] == [(0, 3), (1, 2)]
    tasks = assign_tasks(tree, job(4, per_task=2), on(a=(0, 1, 2, 3)), {NodeId("a"): PAIRS})
    assert [task.gpus for task in tasks] == [(0, 1), (2, 3)]


def test_slices_number_the_tasks_and_stay_inside_their_domain() -> None:
    tree, gang = interleaved(), job(32, Slice(16, RACK), Slice(8, NODE))
    tasks = assign_tasks(tree, gang, on(a=8, b=8, c=8, d=8))
    assert rows(tasks) == [(0, "a", 8, (0, 0)), (1, "c", 8, (0, 1)), (2, "b", 8, (1, 2)), (3, "d", 8, (1, 3))]
    assert holds_slices(tree, gang, tasks)


def test_slices_of_several_nodes_need_not_be_even() -> None:
    # 12 + 4 GPUs on r1 are one slice of 16 made of four slices of 4; r2 holds another.
    tree, gang = interleaved(), job(32, Slice(16, RACK), Slice(4, NODE), per_task=4)
    tasks = assign_tasks(tree, gang, on(a=12, c=4, b=8, d=8))
    assert [task.slice for task in tasks] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (1, 6), (1, 7)]
    assert holds_slices(tree, gang, tasks)


def test_slices_inside_a_node_are_well_linked_groups_of_tasks() -> None:
    # Slices of four on a cube mesh are its two faces, tasks of two the double links in them.
    tasks = assign_tasks(
        interleaved(), job(8, Slice(4, NODE), per_task=2), on(a=tuple(range(8))), {NodeId("a"): CUBE_MESH}
    )
    assert [(task.gpus, task.slice) for task in tasks] == [
        ((0, 3), (0,)),
        ((1, 2), (0,)),
        ((4, 7), (1,)),
        ((5, 6), (1,)),
    ]


def test_a_task_larger_than_a_slice_carries_the_number_of_its_first() -> None:
    tasks = assign_tasks(interleaved(), job(16, Slice(4, NODE)), on(a=8, c=8))
    assert [task.slice for task in tasks] == [(0,), (2,)]


def test_a_slice_torn_between_domains_is_noticed() -> None:
    # 8 GPUs in r1 and 8 in r2 make no slice of 16 inside a rack; 8 + 4 make no whole slices of 8.
    tree = interleaved()
    torn, odd = job(16, Slice(16, RACK)), job(12, Slice(8, RACK))
    assert not holds_slices(tree, torn, assign_tasks(tree, torn, on(a=8, b=8)))
    assert not holds_slices(tree, odd, assign_tasks(tree, odd, on(a=8, b=4)))


def test_a_slice_on_a_node_outside_its_level_is_noticed() -> None:
    tree = build_tree(cluster("rack", node("a"), node("b")))
    gang = job(16, Slice(16, RACK))
    assert not holds_slices(tree, gang, assign_tasks(tree, gang, on(a=8, b=8)))


def test_a_job_that_is_placed_nowhere_has_no_tasks_and_tears_no_slice() -> None:
    assert assign_tasks(interleaved(), job(8, Slice(8, RACK)), {}) == ()
    assert holds_slices(interleaved(), job(8, Slice(8, RACK)), ())


def test_a_gang_on_the_same_gpus_of_each_node_runs_the_same_tasks_there() -> None:
    fabrics = {NodeId("a"): CUBE_MESH, NodeId("c"): CUBE_MESH}
    tasks = assign_tasks(interleaved(), job(8, per_task=2), on(a=(4, 5, 6, 7), c=(4, 5, 6, 7)), fabrics)
    assert [task.gpus for task in tasks[:2]] == [task.gpus for task in tasks[2:]] == [(4, 7), (5, 6)]
