"""Rounds in which only what is free matters: shapes, CPUs, memory, slices, types, windows."""

from __future__ import annotations

from benchmarks.quality.parts import Plain, document, fixed, group, inside, racks, rather, waits


def tight_holes() -> Plain:
    """Two holes of 6 GPUs, jobs of 2, 2, 4, 4, and a gang that needs the empty rack."""
    busy = [fixed("held-a", {"r0n0": 2}), fixed("held-b", {"r0n1": 2}), fixed("held-c", {"r0n2": 8, "r0n3": 8})]
    queue = [waits("two-a", 2, 900), waits("two-b", 2, 800), waits("four-a", 4, 700), waits("four-b", 4, 600)]
    queue.append(waits("gang", 32, 300, gpus_per_node=8, **inside("rack")))
    return document(
        "tight-holes",
        "The fullest node that fits, job by job in order of age, puts both small jobs into one hole, so that one of "
        "the middle ones breaks up the only empty rack, which the youngest needs whole.",
        "It puts one small and one middle job into each hole; all five start.",
        racks(4, 4),
        [*busy, *queue],
    )


def wrong_rack() -> Plain:
    """The tightest rack for the oldest gang is the only one of the next."""
    cluster = {"levels": ["rack"], "groups": [group(2, 3, 4), group(2, gpu_type="a100", prefix="a")]}
    elsewhere = {"exclude_nodes": ["r1n0", "r1n1", "r1n2", "r2n0", "r2n1", "r2n2", "r2n3"]}
    queue = [
        waits("either", 16, 900, gpu_types={"h100": 1.0, "a100": 0.6}, **inside("rack")),
        waits("only-r0", 16, 800, gpu_types=["h100"], **elsewhere, **inside("rack")),
        waits("three-nodes", 24, 700, gpu_types=["h100"], **inside("rack")),
        waits("four-nodes", 32, 600, gpu_types=["h100"], **inside("rack")),
    ]
    return document(
        "wrong-rack",
        "The oldest gang's tightest and fastest rack is the only one that the second may use, and each further rack "
        "is just large enough for one of the others.",
        "It gives the oldest the slower GPUs that nobody else can use; all four gangs start.",
        cluster,
        queue,
    )


def cpu_hogs() -> Plain:
    """GPUs are free where CPUs are not, and the other way round."""
    busy = [fixed(f"hog-{n}", {f"r0n{n}": 2}, cpus=48) for n in range(4)]
    busy += [fixed(f"lean-{n}", {f"r1n{n}": 6}, cpus=12) for n in range(4)]
    queue = [waits(f"light-{i}", 2, 900 - i, cpus=4) for i in range(4)]
    queue += [waits(f"middle-{i}", 4, 800 - i, cpus=12) for i in range(4)]
    queue += [waits(f"heavy-{i}", 2, 700 - i, cpus=48) for i in range(4)]
    return document(
        "cpu-hogs",
        "Four nodes have 6 GPUs free but only 16 CPUs, four have 2 GPUs and 52 CPUs: by GPUs alone the light jobs, "
        "which are older, fit the small holes best, and the only CPUs for the heavy ones are gone.",
        "It puts a light and a middle job on every node that is short of CPUs and keeps the others for the heavy ones; "
        "all twelve start.",
        racks(4, 4, cpus=64),
        [*busy, *queue],
    )


def memory_pairs() -> Plain:
    """Jobs of 4 GPUs that only fit together in the right pairs."""
    queue = [waits(f"small-{i}", 4, 900 - i, memory_gb=300) for i in range(6)]
    queue += [waits(f"large-{i}", 4, 800 - i, memory_gb=700) for i in range(6)]
    return document(
        "memory-pairs",
        "Twelve jobs of half a node each fill six nodes by GPUs however they are paired, but two with much memory do "
        "not fit on one node, and the older ones all have little.",
        "It pairs each job with little memory with one that needs much; all twelve start.",
        racks(3, 3, memory_gb=1024),
        queue,
    )


def nvl72_slices() -> Plain:
    """Three NVL72 racks, gangs whose slices use up every hole to the GPU."""
    cluster = racks(18, 18, 18, level="nvlink", gpus=4, gpu_type="gb200")
    busy = [
        fixed("held-a", {"nvlink0node0": 4}),
        fixed("held-b", {"nvlink1node0": 4, "nvlink1node1": 4}),
        fixed("held-c", {"nvlink2node0": 4, "nvlink2node1": 4}),
    ]
    queue = [
        waits("slices-of-32", 96, 900, slices=[{"gpus": 32, "within": "nvlink"}]),
        waits("slices-of-16", 64, 800, slices=[{"gpus": 16, "within": "nvlink"}]),
        waits("one-domain", 36, 700, **inside("nvlink")),
    ]
    return document(
        "nvl72-slices",
        "Free are 68, 64 and 64 GPUs in three NVLink domains, and all 196 are wanted: whoever puts the first gang into "
        "as few domains as it can leaves no domain for the last one.",
        "It puts one slice of 32 into each domain, and the gang of 36 into the one with 68; all three gangs start.",
        cluster,
        [*busy, *queue],
    )


def maintenance() -> Plain:
    """Most of what is free is taken away in an hour."""
    nodes = [f"r1n{n}" for n in range(4)]
    queue = [waits(f"short-{i}", 4, 900 - i, estimated_runtime_s=1800) for i in range(8)]
    queue += [waits(f"long-{i}", 4, 800 - i, estimated_runtime_s=40_000, preemptible=False) for i in range(4)]
    return document(
        "maintenance-window",
        "An empty rack goes into maintenance in an hour. The older jobs would be done by then, but fit the half-filled "
        "nodes of the other rack better, which are all that the longer ones behind them can use.",
        "It puts what ends within the hour where the maintenance will be, breaking up empty nodes; all start.",
        racks(4, 4),
        [*(fixed(f"held-{n}", {f"r0n{n}": 4}) for n in range(4)), *queue],
        reservations=[{"id": "power", "nodes": nodes, "start_at": 3600, "end_at": 10_800}],
    )


def two_types() -> Plain:
    """Those who may take the slower type come first."""
    cluster = {"levels": ["rack"], "groups": [group(3, 3), group(3, 3, gpu_type="a100", prefix="a")]}
    queue = [waits(f"any-{i}", 16, 900 - i, gpu_types={"h100": 1.0, "a100": 0.5}) for i in range(2)]
    queue += [waits(f"a-{i}", 8, 850 - i, gpu_types=["a100"]) for i in range(2)]
    queue += [waits(f"fast-{i}", 24, 800 - i, gpu_types=["h100"], **inside("rack")) for i in range(2)]
    return document(
        "two-types",
        "The older gangs run twice as fast on the GPUs that the younger ones cannot do without.",
        "It runs the older ones at half their speed: GPUs that run come before how well they run; all six start.",
        cluster,
        queue,
    )


def ragged_leaves() -> Plain:
    """Leaves of 5, 5 and 4 nodes, gangs of 2, 2, 3, 3 and 4 nodes on a slow fabric."""
    sizes = {"a": 2, "b": 2, "c": 3, "d": 3, "e": 4}
    queue = [waits(f"gang-{k}", 8 * n, 900 - 10 * i, **rather("leaf")) for i, (k, n) in enumerate(sizes.items())]
    return document(
        "ragged-leaves",
        "All five gangs fit, but over slow Ethernet a gang across leaves loses much more speed than one inside, and in "
        "order of age the two smallest fill the smallest leaf, which the largest gang needs.",
        "It puts a gang of two and one of three nodes into each leaf of five, and the largest into the leaf of four.",
        racks(5, 5, 4, level="leaf"),
        queue,
        base="ethernet",
    )


def grant() -> Plain:
    """What is granted to one team looks free to all others."""
    busy = [fixed("held-a", {"r0n0": 8}), fixed("held-b", {"r1n0": 8, "r1n1": 8})]
    queue = [
        waits("single", 8, 900),
        waits("gang", 16, 800, **inside("rack")),
        waits("granted", 16, 100, team="mission", **inside("rack")),
    ]
    return document(
        "grant",
        "16 of the 24 free GPUs in one rack are granted to a team whose gang came last; the oldest job fits the other "
        "rack best, where it would break up the only room left for the gang behind it.",
        "It puts the single job into what the grant leaves over, so that both gangs start.",
        racks(4, 4),
        [*busy, *queue],
        teams=[{"id": "lab"}, {"id": "mission"}],
        reservations=[
            {
                "id": "mission-1",
                "kind": "grant",
                "gpus": 16,
                "within": "r0",
                "teams": ["mission"],
                "start_at": -60,
                "end_at": 90_000,
            }
        ],
    )


def room_kept() -> Plain:
    """What is free now is wanted whole in half an hour."""
    busy = [fixed(f"ends-{n}", {f"r0n{n}": 8}, estimated_runtime_s=9000) for n in range(2)]
    busy.append(fixed("stays", {f"r1n{n}": 8 for n in range(4)}))
    queue = [
        waits("gang", 32, 3000, gpus_per_node=8, **inside("rack")),
        waits("endless", 16, 900, preemptible=False),
        waits("brief", 8, 600, estimated_runtime_s=1500, preemptible=False),
    ]
    return document(
        "room-kept",
        "A gang at the head cannot start before half an hour from now, when its rack is free; a job without an end "
        "fits into what is free of it now. Judged by this moment alone, keeping that room is a loss.",
        "By this moment alone it starts the endless job. A scheduler that keeps the room starts the brief one only, "
        "and is behind here on purpose.",
        racks(4, 4),
        [*busy, *queue],
        max_reservations=8,
    )


PACKING = (
    tight_holes, wrong_rack, cpu_hogs, memory_pairs, nvl72_slices,
    maintenance, two_types, ragged_leaves, grant, room_kept,
)  # fmt: skip
"""Rounds without victims."""
