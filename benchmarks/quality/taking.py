"""Rounds in which somebody has to make room: victims, moves, elastic sizes, shares, deadlines."""

from __future__ import annotations

from benchmarks.quality.parts import Plain, document, fixed, inside, racks, runs, saved, waits, whole_nodes


def scattered_victims() -> Plain:
    """The cheapest victims form no rack."""
    jobs = []
    for rack in range(4):
        for n in range(4):
            ages = (700 + 10 * n, 720 + 10 * n) if rack == 3 else (30 + n, 2900 + 100 * rack)
            for half, age in enumerate(ages):
                jobs.append(runs(f"job-{rack}{n}{half}", {f"r{rack}n{n}": 4}, **saved(age)))
    return document(
        "scattered-victims",
        "On every node of three racks one of two jobs costs next to nothing to stop and the other one a lot; in the "
        "fourth all cost the same: taken one by one the cheapest victims free half nodes in three racks.",
        "It stops six jobs of middling cost on three nodes of the fourth rack.",
        racks(4, 4, 4, 4),
        [*jobs, waits("gang", 24, 300, priority="P1", gpus_per_node=8, **inside("rack"))],
        migration=False,
    )


def hidden_checkpoints() -> Plain:
    """What victims report and what they lose are two things."""
    signal: Plain = {"checkpoint": {"on_signal": True, "cost_s": 20, "restart_s": 60}}
    jobs = [
        runs("new-unsaved", {"r0n0": 8}, since_s=1500, last_checkpoint_at=-1490),
        runs("silent-old", {"r0n1": 8}, since_s=50_000),
        runs("on-signal", {"r0n2": 8}, since_s=40_000, last_checkpoint_at=-9000, **signal),
        runs("reports-late", {"r0n3": 8}, since_s=3000, last_checkpoint_at=-2500),
        runs("silent-new", {"r1n0": 8}, since_s=1200),
        runs("reports-soon", {"r1n1": 8}, since_s=9000, last_checkpoint_at=-200, checkpoint={"restart_s": 600}),
        runs("on-signal-2", {"r1n2": 8}, since_s=30_000, last_checkpoint_at=-8000, **signal),
        runs("reports-never", {"r1n3": 8}, since_s=4000, last_checkpoint_at=-4000),
    ]
    return document(
        "hidden-checkpoints",
        "Two jobs report no checkpoint, two report old ones but save when they are told to stop, and the newest would "
        "lose all that they did: neither age nor the last report says what a stop costs.",
        "It stops the two that save when asked, old as their checkpoints are and though they lie on two racks: they "
        "lose nothing.",
        racks(4, 4),
        [*jobs, waits("urgent", 16, 120, priority="P1", gpus_per_node=8)],
        migration=False,
    )


def chain_of_moves() -> Plain:
    """A rack becomes free by three moves, each into what the one before left."""
    jobs = [
        runs("whole", {"r0n0": 8}, **saved(600), checkpoint={"restart_s": 60}),
        runs("half-a", {"r1n0": 4}, **saved(600), checkpoint={"restart_s": 60}),
        fixed("half-b", {"r1n1": 4}),
        runs("pair", {"r1n2": 6}, **saved(600), checkpoint={"restart_s": 60}),
        fixed("held", {"r1n3": 8}),
        runs("small", {"r2n0": 2}, **saved(60), checkpoint={"restart_s": 30}),
        fixed("held-2", {"r2n1": 8, "r2n2": 8, "r2n3": 8}),
        runs("lone", {"r0n1": 6}, **saved(300), checkpoint={"restart_s": 60}),
    ]
    return document(
        "chain-of-moves",
        "A gang needs a whole rack, in which two jobs of its own priority run: nobody may be stopped for it, and where "
        "the larger of them could go there are only halves of nodes.",
        "It moves half a node's worth of work onto another half, the larger job into the hole that this makes, and the "
        "smaller one into a hole elsewhere.",
        racks(4, 4, 4),
        [*jobs, waits("gang", 32, 1200, priority="P3", gpus_per_node=8, **inside("rack"))],
    )


def shrinking() -> Plain:
    """Elastic jobs can give some of the room, at different prices."""
    elastic: Plain = {
        "gpus_per_node": 8,
        "min_gpus": 8,
        "max_gpus": 16,
        "checkpoint": {"elastic": True, "restart_s": 60},
    }
    jobs = [
        runs("elastic-a", {"r0n0": 8, "r0n1": 8}, **elastic, **saved(1500)),
        runs("elastic-b", {"r0n2": 8, "r0n3": 8}, **elastic, **saved(300)),
        runs("elastic-c", {"r1n0": 8, "r1n1": 8}, **elastic, **saved(200)),
        runs("cheap", {"r1n2": 8}, **saved(100)),
        runs("dear", {"r1n3": 8}, **saved(3000)),
    ]
    return document(
        "elastic-shrink",
        "A gang of three nodes needs a rack; by shrinking alone neither rack has three nodes, so it takes a mixture of "
        "shrinking and stopping, and the job that is cheapest to stop is not in the rack that gives most by shrinking.",
        "It runs as many GPUs as any plan can at every rank, and of those plans takes the one that loses least.",
        racks(4, 4),
        [*jobs, waits("gang", 24, 600, priority="P1", gpus_per_node=8, **inside("rack"))],
    )


def growing() -> Plain:
    """Elastic jobs would grow into what a queued gang needs."""
    elastic: Plain = {
        "gpus_per_node": 8,
        "min_gpus": 8,
        "checkpoint": {"elastic": True, "on_signal": True, "restart_s": 20},
    }
    jobs = [
        runs("grows-a", {"r0n0": 8}, **elastic | {"gpus": 32, "max_gpus": 32}),
        runs("grows-b", {"r1n0": 8}, **elastic | {"gpus": 24, "max_gpus": 24}),
        fixed("held", {"r1n1": 8}),
        waits("starts-elastic", 24, 900, priority="P3", **elastic | {"max_gpus": 24}),
        waits("gang", 24, 300, priority="P3", gpus_per_node=8, **inside("rack")),
        waits("single", 8, 200, priority="P3"),
    ]
    return document(
        "elastic-growth",
        "Five nodes are free, two elastic jobs would grow into them and a third would start with three of them, but "
        "behind it waits a gang that has room in one rack only.",
        "It starts the elastic job at its minimum in the rack that the gang cannot use, the gang, then the single job "
        "where room is left, and grows nobody at their expense.",
        racks(4, 4),
        jobs,
    )


def floors() -> Plain:
    """The cheapest victims belong to the team that must not lose any more."""
    jobs = [
        *(runs(f"c-{n}", {f"r0n{n}": 8}, team="c", **saved(10)) for n in range(3)),
        runs("b-0", {"r0n3": 8}, team="b", **saved(1000)),
        *(runs(f"b-{n + 1}", {f"r1n{n}": 8}, team="b", **saved(600 + 300 * n)) for n in range(4)),
    ]
    return document(
        "floors",
        "A team inside its quota may take from the two that run beyond theirs, but leaves each its quota: the cheap "
        "victims in the first rack belong to a team that can lose only one of them.",
        "It frees three nodes of the second rack, the cheapest three, and leaves the other team alone.",
        racks(4, 4),
        [*jobs, waits("gang", 24, 600, team="a", priority="P3", gpus_per_node=8, **inside("rack"))],
        teams=[
            {"id": "a", "quota": {"gpus": 24}},
            {"id": "b", "quota": {"gpus": 16}},
            {"id": "c", "quota": {"gpus": 16}},
        ],
        migration=False,
    )


def deadline() -> Plain:
    """A job of low priority whose start deadline is due, and an urgent gang that could go elsewhere."""
    jobs = [
        fixed("held", whole_nodes(("r0", 2))),
        *(runs(f"late-{n}", {f"r1n{n}": 8}, priority="P4", **saved(300 + 100 * n)) for n in range(4)),
        waits("urgent", 16, 900, priority="P1", **inside("rack")),
        waits(
            "due",
            16,
            3600,
            priority="P3",
            start_deadline_at=200,
            exclude_nodes=["r1n0", "r1n1", "r1n2"],
            **inside("rack"),
        ),
        waits("next", 16, 100, priority="P2", **inside("rack")),
    ]
    return document(
        "deadline-due",
        "A job of low priority must start now, and only where room is free; two gangs of higher priority would take "
        "that room, being first in the order, and can also be served by stopping others.",
        "It gives the free room to the job that is due, and stops work of the lowest priority for the two others.",
        racks(4, 4),
        jobs,
        migration=False,
    )


TAKING = (scattered_victims, hidden_checkpoints, chain_of_moves, shrinking, growing, floors, deadline)
"""Rounds with victims, moves and resizes."""
