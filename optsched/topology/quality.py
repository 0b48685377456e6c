"""How well the GPUs of one node are linked: a number per pair, and the quality of a set of GPUs.

Numbers are integers (MB/s), so that sums are exact and ties are true ties.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optsched.values.cluster import Fabric, Link

Matrix = npt.NDArray[np.int64]
"""Symmetric, shape (n, n): MB/s between two GPU indices; 0 on the diagonal."""

MB_PER_GB = 1000

ASSUMED_GB_PER_S = {"nvlink": 200.0, "pcie": 32.0, "ib": 25.0}
"""Bandwidth of a link whose own is not known, by kind: orders of magnitude, so that a fast kind beats a slow one."""

ISLAND_KIND = "pcie"
"""The kind that two GPUs of one island have at least, where no link between them is listed."""

MAX_GPUS = 1024
"""More GPUs than any node has: an index beyond it is a mistake in a file, not a row of a matrix."""


class FabricKey(NamedTuple):
    """What decides link quality, hashable: a `Fabric` without its network adapters."""

    links: tuple[Link, ...]
    islands: tuple[tuple[int, ...], ...]


def fabric_key(fabric: Fabric | None) -> FabricKey | None:
    """Return the key of a fabric; None for one that says nothing about links."""
    if fabric is None or not (fabric.links or fabric.islands):
        return None
    return FabricKey(fabric.links, fabric.islands)


@lru_cache(maxsize=1024)
def pair_matrix(key: FabricKey | None, gpus: int) -> Matrix:
    """Return the link quality of every pair of the GPUs 0..gpus-1, read-only, shape (gpus, gpus).

    A listed link counts with its bandwidth, or with the one assumed for its kind; links listed twice for a pair add
    up (an NVLink bundle). A pair of one island without a listed link counts as PCIe, any other pair as 0. Indices
    beyond `gpus` are ignored.
    """
    matrix = np.zeros((gpus, gpus), dtype=np.int64)
    for link in key.links if key else ():
        if link.first != link.second and 0 <= min(link.first, link.second) <= max(link.first, link.second) < gpus:
            known = link.bandwidth_gb_per_s
            per_s = known if known is not None else ASSUMED_GB_PER_S.get(link.kind, 0.0)
            matrix[link.first, link.second] += round(per_s * MB_PER_GB)
            matrix[link.second, link.first] = matrix[link.first, link.second]
    for island in key.islands if key else ():
        inside = [gpu for gpu in island if 0 <= gpu < gpus]
        block = np.ix_(inside, inside)
        matrix[block] = np.maximum(matrix[block], round(ASSUMED_GB_PER_S[ISLAND_KIND] * MB_PER_GB))
    np.fill_diagonal(matrix, 0)
    matrix.setflags(write=False)
    return matrix


@dataclass(frozen=True, slots=True, order=True)
class LinkQuality:
    """How good a set of GPUs is; a larger one is better, compared in this order. All in MB/s.

    `bottleneck` is the slowest pair of the set and `total` the sum over its pairs (both 0 for fewer than two GPUs);
    `remaining` is the sum over the pairs of free GPUs that are left.
    """

    bottleneck: int
    total: int
    remaining: int = 0


def link_quality(fabric: Fabric | None, chosen: Iterable[int], free: Iterable[int] = ()) -> LinkQuality:
    """Return the quality of the GPUs `chosen` out of `free` (indices of one node)."""
    taken = sorted(set(chosen))
    left = sorted(set(free) - set(taken))
    matrix = pair_matrix(fabric_key(fabric), max([*taken, *left], default=-1) + 1)
    pairs = matrix[np.ix_(taken, taken)][np.triu_indices(len(taken), k=1)]
    bottleneck = int(pairs.min()) if pairs.size else 0
    return LinkQuality(bottleneck, int(pairs.sum()), int(matrix[np.ix_(left, left)].sum()) // 2)
