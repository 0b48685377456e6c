"""Which GPUs of a node to take.

The best set has, in this order: the fastest slowest pair, the highest total bandwidth, the highest total bandwidth
among the free GPUs that it leaves, the smallest indices. Up to 16 free GPUs (and wherever there are no more than
`MAX_SETS` sets to compare) the answer is exact, by enumeration, and cached. Beyond that sets are grown greedily: from
each free GPU in turn, always by the one that keeps the slowest pair fastest, then adds most bandwidth, then has the
smallest index; the best of the sets so grown is taken.

Where nothing is known about a node's links, neighbours in number are taken to be neighbours in the box: the indices
are halved again and again, and the GPUs come from the fullest half that they fit into.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from optsched.topology.quality import MAX_GPUS, FabricKey, Matrix, fabric_key, pair_matrix
from optsched.values.cluster import Fabric

MAX_SETS = 12_870
"""The most sets that are compared one by one: 8 of 16 GPUs."""

Gpus = tuple[int, ...]
"""GPU indices of one node, ascending."""

NodeView = tuple[FabricKey | None, Gpus]
"""What one node offers: its fabric and its free GPUs."""


def choose_gpus(fabric: Fabric | None, free: Sequence[int], count: int) -> Gpus:
    """Return the `count` best linked GPUs out of the `free` ones of a node, ascending.

    Raises ValueError where count is negative or more than there are.
    """
    gpus = _checked(free, count)
    return gpus if count == len(gpus) else _choose_cached(fabric_key(fabric), gpus, count)


def choose_common_gpus(nodes: Sequence[tuple[Fabric | None, Sequence[int]]], count: int) -> Gpus | None:
    """Return the best set of GPU indices that is free on all of these nodes, None if there is none.

    On a rail-optimised network GPUs of one index share a leaf switch, so a gang that takes a part of each of its
    nodes takes the same part. A set is as good as its slowest pair on any of the nodes, then as the totals over all
    nodes.
    """
    if count < 0:
        raise ValueError(f"cannot choose {count} GPUs")
    if not nodes:
        return None
    views: Counter[NodeView] = Counter()
    for fabric, free in nodes:
        views[fabric_key(fabric), _checked(free, 0)] += 1
    common = tuple(sorted(set[int].intersection(*(set(free) for _, free in views))))
    if len(common) < count:
        return None
    if len(views) == 1 or all(key is None for key, _ in views):
        return _choose_cached(next(iter(views))[0], common, count)
    return _best_set(common, count, tuple(views.items()))


def _checked(free: Sequence[int], count: int) -> Gpus:
    gpus = tuple(sorted(set(free)))
    if gpus and not 0 <= gpus[0] <= gpus[-1] < MAX_GPUS:
        raise ValueError(f"GPU indices from {gpus[0]} to {gpus[-1]}, not from 0 to {MAX_GPUS - 1}")
    if not 0 <= count <= len(gpus):
        raise ValueError(f"cannot choose {count} of {len(gpus)} GPUs")
    return gpus


@lru_cache(maxsize=65_536)
def _choose_cached(key: FabricKey | None, free: Gpus, count: int) -> Gpus:
    if count in (0, len(free)):
        return free[:count]
    if key is None:
        return _fullest_half(free, 0, 1 << free[-1].bit_length(), count)
    return _best_set(free, count, (((key, free), 1),))


def _fullest_half(free: Gpus, low: int, high: int, count: int) -> Gpus:
    """Choose from the indices low..high-1, a power of two of them, without knowing their links."""
    if count in (0, len(free)):
        return free[:count]
    middle = (low + high) // 2
    halves = [
        (tuple(g for g in free if g < middle), low, middle),
        (tuple(g for g in free if g >= middle), middle, high),
    ]
    halves.sort(key=lambda half: len(half[0]))
    for part, start, end in halves:
        if len(part) >= count:
            return _fullest_half(part, start, end, count)
    (whole, _, _), (part, start, end) = halves
    return tuple(sorted(whole + _fullest_half(part, start, end, count - len(whole))))


def _best_set(candidates: Gpus, count: int, views: tuple[tuple[NodeView, int], ...]) -> Gpus:
    """Choose among the candidates, which are free on all nodes; views come with the number of nodes that have them."""
    gpus = max(free[-1] for (_, free), _ in views) + 1
    matrices = [pair_matrix(key, gpus) for (key, _), _ in views]
    inside = np.ix_(candidates, candidates)
    slowest: Matrix = np.minimum.reduce([matrix[inside] for matrix in matrices])
    total: Matrix = np.zeros_like(slowest)
    for matrix, (_, nodes) in zip(matrices, views, strict=True):
        total += matrix[inside] * nodes
    if comb(len(candidates), count) > MAX_SETS:
        return tuple(candidates[i] for i in _grow_greedily(slowest, total, count))
    # What is left on a node loses the chosen GPUs' links to all that is free there, pairs inside the set counted twice.
    lost = np.zeros(len(candidates), dtype=np.int64)
    for matrix, ((_, free), nodes) in zip(matrices, views, strict=True):
        lost += matrix[np.ix_(candidates, free)].sum(axis=1) * nodes
    return tuple(candidates[i] for i in _enumerate(slowest, total, lost, count))


def _enumerate(slowest: Matrix, total: Matrix, lost: npt.NDArray[np.int64], count: int) -> list[int]:
    """Compare all sets of `count` of the n candidates; shapes (n, n), (n, n), (n,)."""
    sets = _all_sets(len(lost), count)
    bottleneck = np.full(len(sets), np.iinfo(np.int64).max)
    totals = np.zeros(len(sets), dtype=np.int64)
    for i, j in combinations(range(count), 2):
        np.minimum(bottleneck, slowest[sets[:, i], sets[:, j]], out=bottleneck)
        totals += total[sets[:, i], sets[:, j]]
    remaining = totals - lost[sets].sum(axis=1)
    # Sets come in lexicographic order and the sort is stable, so among equals the smallest indices win.
    return [int(i) for i in sets[np.lexsort((-remaining, -totals, -bottleneck))[0]]]


@lru_cache(maxsize=256)
def _all_sets(candidates: int, count: int) -> npt.NDArray[np.int64]:
    """Return all sets of `count` of the candidates, in lexicographic order, shape (number of sets, count)."""
    sets = np.array(list(combinations(range(candidates), count)), dtype=np.int64).reshape(-1, count)
    sets.setflags(write=False)
    return sets


def _grow_greedily(slowest: Matrix, total: Matrix, count: int) -> list[int]:
    """Grow a set from every candidate and return the best one; not always the best there is."""
    best: tuple[int, int, list[int]] | None = None
    for seed in range(len(slowest)):
        chosen = [seed]
        bottleneck, added = slowest[seed].copy(), total[seed].copy()
        bottleneck[seed] = -1
        worst, together = int(np.iinfo(np.int64).max), 0
        while len(chosen) < count:
            best_bottleneck = bottleneck == bottleneck.max()
            pick = int(np.argmax(np.where(best_bottleneck, added, -1)))
            worst, together = min(worst, int(bottleneck[pick])), together + int(added[pick])
            chosen.append(pick)
            np.minimum(bottleneck, slowest[pick], out=bottleneck)
            added += total[pick]
            bottleneck[chosen] = -1
        candidate = (-worst, -together, sorted(chosen))
        if best is None or candidate < best:
            best = candidate
    assert best is not None, "there is at least one candidate"
    return best[2]
