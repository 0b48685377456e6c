"""Whole GPUs out of real-valued shares, by largest remainder."""

from __future__ import annotations

import numpy as np

from optsched.policy.filling import Floats, Group, Ints
from optsched.policy.shares import weighted_share
from optsched.policy.team_tree import TeamTree, sums_below


def round_down_the_tree(
    tree: TeamTree, capacity: Floats, weight: Floats, own: Floats, gpus: Floats, base: Ints
) -> Ints:
    """Return whole GPUs (n, P) by largest remainder, level by level down the tree, per type.

    The sum per type is the sum of `gpus` (n, P), rounded down. Never below `base`, never above the demand `own`. Equal
    remainders go to the smaller weighted share, then to the team that comes first.
    """
    pools = gpus.shape[1]
    nodes = len(tree.node_parent)
    real, lowest, most = np.zeros((nodes, pools)), np.zeros((nodes, pools)), np.zeros((nodes, pools))
    real[tree.own_node] = np.maximum(gpus, base)
    lowest[tree.own_node] = base
    most[tree.own_node] = np.maximum(np.floor(own + 1e-6), base)
    real, lowest, most = sums_below(tree, real), sums_below(tree, lowest), sums_below(tree, most)
    share = weighted_share(np.pad(real, ((0, 0), (0, 2))), capacity, weight)
    whole = np.zeros((nodes, pools), dtype=np.int64)
    for depth in tree.depths:
        at, of = depth.nodes, depth.group.of
        # One flat group per (box, type): entries sorted by box, then type.
        keys = (of[:, None] * pools + np.arange(pools)).ravel()
        flat = np.argsort(keys, kind="stable")
        keys = keys[flat]
        group = Group(keys, np.searchsorted(keys, np.arange(keys[-1] + 1)).astype(np.int64))
        if depth.parents[0] >= 0:
            total = whole[depth.parents].ravel()
        else:
            total = np.floor(gpus.sum(axis=0) + 1e-6).astype(np.int64)
        parts = largest_remainder(
            group,
            total,
            real[at].ravel()[flat],
            lowest[at].ravel()[flat].astype(np.int64),
            most[at].ravel()[flat].astype(np.int64),
            np.repeat(share[at], pools)[flat],
        )
        placed = np.empty(len(flat), dtype=np.int64)
        placed[flat] = parts
        whole[at] = placed.reshape(len(at), pools)
    return whole[tree.own_node]


def largest_remainder(group: Group, total: Ints, real: Floats, lowest: Ints, most: Ints, share: Floats) -> Ints:
    """Split `total` (G,) over entries (E,) near `real` (E,), inside lowest..most; smaller `share` first on ties.

    Where the bounds leave no such split the bounds stand and the sum gives way.
    """
    whole = np.clip(np.floor(real + 1e-6).astype(np.int64), lowest, most)
    position = np.arange(len(real))
    while True:
        open_ = total - group.sums(whole.astype(np.float64)).astype(np.int64)
        raise_ = open_[group.of] > 0
        possible = np.where(raise_, whole < most, (open_[group.of] < 0) & (whole > lowest))
        if not possible.any():
            return whole
        # To be raised: largest remainder first; to be lowered: smallest first.
        remainder = np.round(real - whole, 9) * np.where(raise_, -1.0, 1.0)
        order = np.lexsort((position, np.where(raise_, share, -share), remainder, ~possible, group.of))
        rank = np.empty(len(real), dtype=np.int64)
        rank[order] = position - group.starts[group.of]
        chosen = possible & (rank < np.abs(open_)[group.of])
        whole = whole + np.where(chosen, np.where(raise_, 1, -1), 0)
