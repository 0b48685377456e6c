"""What each team is entitled to: its quota first, the rest by weighted dominant resource fairness down the team tree.

Resources are, in this order: one per GPU type (as the caller orders the types), CPUs, memory in GB. A demand class is
what one team wants on one GPU type: GPUs of it and the CPUs and memory that go with them.

1. Every team first has min(demand, quota). Of GPUs, what the quota names: a number of any type is split over the types
   in proportion to the team's demand, a type that a quota by type does not name has none, and a quota that names no
   GPUs guarantees none. CPUs and memory go with these GPUs in proportion to the demand, up to the quota where it names
   them. A team with teams below it has at least what they and its own jobs have, and at least min(demand of all below,
   quota). Quotas that together exceed the capacity stand as they are.
2. The rest is filled level by level: the roots share the cluster, then the children of each team share what it was
   allotted. Always the team with the smallest dominant share (over the whole cluster's capacity) divided by its weight
   is raised, up to its demand and its limit. A team's own jobs are one more child of weight 1 where it has teams below.
   Weight 0 is given nothing here, and what lies below it shares no more than its quota. What a team was allotted and
   cannot use (because the teams below want their resources in other proportions) is filled again, a last crumb in order
   of the weighted shares.

Ghodsi et al., "Dominant Resource Fairness", NSDI 2011; Bhattacharya et al., "Hierarchical Scheduling for Diverse
Datacenter Workloads", SoCC 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.policy.apportion import largest_remainder, round_down_the_tree
from optsched.policy.filling import TOLERANCE, Bools, Floats, Group, Ints, fill, pooled
from optsched.policy.shares import dominant_share, weighted_share
from optsched.policy.team_tree import TeamTree, build_team_tree, sums_below
from optsched.values.ids import GpuType
from optsched.values.resources import Amounts

__all__ = [
    "DemandClasses",
    "Entitlements",
    "TeamTree",
    "amount_columns",
    "build_team_tree",
    "dominant_share",
    "entitlements",
    "weighted_share",
]

PASSES = 3
"""How often the tree is filled. One pass is enough where neither CPUs, memory nor limits over several types stop teams;
then each further one leaves about a tenth, and what is left after the last (some 0.1 % of the cluster) is handed out in
order."""


@dataclass(frozen=True, slots=True)
class DemandClasses:
    """K demand classes: `team` (K,) and `pool` (K,) index the tree's teams and the GPU types, `amounts` is (K, R).

    Of GPUs, a class wants only those of its own type. Classes of the same team and type are added up.
    """

    team: Ints
    pool: Ints
    amounts: Floats


@dataclass(frozen=True, slots=True)
class Entitlements:
    """Per team, for the team's own jobs (those of teams below it not counted)."""

    amounts: Floats
    """(n, R) the entitlement per resource, real-valued."""
    gpus: Ints
    """(n, P) the entitlement in whole GPUs per type."""
    base: Ints
    """(n, P) the part of it that the quota guarantees: min(demand, quota) in whole GPUs per type."""
    allotted: Floats
    """(n, R) the sum of `amounts` over the team and all teams below it."""


def amount_columns(amounts: Amounts | None, gpu_types: Sequence[GpuType]) -> Floats:
    """Return what `amounts` names as (R + 1,): per type, CPUs, memory, GPUs of any type; inf where it names nothing."""
    row = np.full(len(gpu_types) + 3, np.inf)
    if amounts is not None:
        row[: len(gpu_types)] = [amounts.gpus_by_type.get(name, np.inf) for name in gpu_types]
        row[-3] = np.inf if amounts.cpus is None else amounts.cpus
        row[-2] = np.inf if amounts.memory_gb is None else amounts.memory_gb
        row[-1] = np.inf if amounts.gpus is None else amounts.gpus
    return row


def entitlements(
    tree: TeamTree,
    gpu_types: Sequence[GpuType],
    capacity: Floats,
    demand: DemandClasses,
    quota: Sequence[Amounts | None],
    limit: Sequence[Amounts | None],
) -> Entitlements:
    """Return every team's entitlement.

    `capacity` (R,) is what healthy nodes have; `quota` and `limit` follow the teams of the tree. Demand classes
    must count only jobs, running and queued, that healthy nodes could run.
    """
    teams, pools = len(tree.team_ids), len(gpu_types)
    if not teams:
        none = np.zeros((0, pools), dtype=np.int64)
        return Entitlements(np.zeros((0, pools + 2)), none, none, np.zeros((0, pools + 2)))
    quotas = _columns(quota, gpu_types)
    limits = np.full((len(tree.node_parent), pools + 3), np.inf)
    limits[:teams] = _columns(limit, gpu_types)
    own = np.zeros((teams, pools, pools + 2))
    np.add.at(own, (demand.team, demand.pool), demand.amounts)
    if _plenty(tree, capacity, own, limit):
        return _all_of_it(tree, own, quotas, quota)
    own *= _ratio(limits[:teams, :-3], _gpus(own))[:, :, None]
    base = _within(np.zeros((teams, pools + 2)), _guaranteed(own, quotas), limits[:teams])
    node_count = len(tree.node_parent)
    held = np.zeros((node_count, pools, pools + 2))
    held[tree.own_node] = base
    missing = np.zeros_like(held)
    missing[tree.own_node] = own - base
    weight = np.concatenate((tree.weight, np.ones(node_count - teams)))
    for turn in range(PASSES):
        live = _unblocked(tree, capacity, limits, held, missing)
        if not live.any():
            break
        more = _pass(tree, capacity, weight, limits, quotas if turn == 0 else None, held, missing * live[:, :, None])
        held += more
        missing = (missing - more) * _claiming(tree, weight)[:, None, None]
    else:
        _top_up(tree, capacity, weight, limits, held, missing)
    result = held[tree.own_node]
    base_gpus = _round_base(own, base, quotas) if base.any() else np.zeros((teams, pools), dtype=np.int64)
    return Entitlements(
        amounts=result.sum(axis=1),
        gpus=round_down_the_tree(tree, capacity, weight, _gpus(own), _gpus(result), base_gpus),
        base=base_gpus,
        allotted=sums_below(tree, held)[:teams].sum(axis=1),
    )


def _plenty(tree: TeamTree, capacity: Floats, own: Floats, limit: Sequence[Amounts | None]) -> bool:
    """Return whether there is as much as all teams together want, whole GPUs, and nothing keeps anybody from it."""
    free = all(each is None for each in limit) and bool((tree.weight > 0).all())
    whole = free and bool((_gpus(own) % 1 == 0).all())
    return whole and bool((own.sum(axis=(0, 1)) <= capacity).all())


def _all_of_it(tree: TeamTree, own: Floats, quotas: Floats, quota: Sequence[Amounts | None]) -> Entitlements:
    """Return what teams are entitled to that may all have what they want: filling comes to that, step by step."""
    base = np.zeros(_gpus(own).shape, dtype=np.int64)
    if any(each is not None for each in quota):
        base = _round_base(own, _guaranteed(own, quotas), quotas)
    held = np.zeros((len(tree.node_parent), *own.shape[1:]))
    held[tree.own_node] = own
    return Entitlements(
        amounts=own.sum(axis=1),
        gpus=np.maximum(_gpus(own).astype(np.int64), base),
        base=base,
        allotted=sums_below(tree, held)[: len(own)].sum(axis=1),
    )


def _columns(amounts: Sequence[Amounts | None], gpu_types: Sequence[GpuType]) -> Floats:
    return np.stack([amount_columns(each, gpu_types) for each in amounts])


def _gpus(classes: Floats) -> Floats:
    """Return the GPUs per type (..., P) of classes (..., P, R): class p holds GPUs of type p only."""
    return np.asarray(np.diagonal(classes, axis1=-2, axis2=-1)).copy()


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole inside 0..1, and 1 where the whole is nothing or the part unbounded."""
    ratio = np.divide(part, whole, out=np.ones(np.broadcast_shapes(part.shape, whole.shape)), where=whole > 0)
    return np.clip(ratio, 0.0, 1.0)


def _within(held: Floats, wanted: Floats, limits: Floats) -> Floats:
    """Return as much of `wanted` (E, P, R) on top of `held` (E, R) as the limits (E, R + 1) leave room for."""
    if np.isinf(limits).all():
        return wanted
    wanted = wanted * _ratio(limits[:, :-3] - held[:, :-2], _gpus(wanted))[:, :, None]
    room = np.concatenate((limits[:, -1:], limits[:, -3:-1]), axis=1) - pooled(held)
    for column in range(3):
        need = pooled(wanted)[:, :, column]
        factor = _ratio(room[:, column], need.sum(axis=1))
        wanted = wanted * np.where(need > 0, factor[:, None], 1.0)[:, :, None]
    return wanted


def _guaranteed(wanted: Floats, quotas: Floats) -> Floats:
    """Return min(demand, quota) by class (E, P, R) for demands (E, P, R) and quotas (E, R + 1)."""
    if np.isinf(quotas).all():
        return np.zeros_like(wanted)
    gpus = _gpus(wanted)
    any_type = np.isfinite(quotas[:, -1:])
    by_type = np.where(np.isfinite(quotas[:, :-3]), quotas[:, :-3], 0.0)
    factor = np.where(
        any_type,
        _ratio(np.where(any_type, quotas[:, -1:], 0.0), gpus.sum(axis=1, keepdims=True)),
        _ratio(by_type, gpus),
    )
    named = any_type | np.isfinite(quotas[:, :-3])
    base = wanted * np.where(named, factor, 0.0)[:, :, None]
    base[:, :, -2:] *= _ratio(quotas[:, -3:-1], base[:, :, -2:].sum(axis=1))[:, None, :]
    return base


def _claiming(tree: TeamTree, weight: Floats) -> Bools:
    """Return the tree nodes (N,) that have a weight above 0, as has everything above them."""
    claiming = weight > 0
    for depth in tree.depths[1:]:
        claiming[depth.nodes] &= claiming[depth.parents][depth.group.of]
    return claiming


def _with_any_type(amounts: Floats) -> Floats:
    """Return amounts (..., R) with GPUs of any type as one more column, the order of `amount_columns`."""
    return np.concatenate((amounts, amounts[..., :-2].sum(axis=-1, keepdims=True)), axis=-1)


def _unblocked(tree: TeamTree, capacity: Floats, limits: Floats, held: Floats, missing: Floats) -> Bools:
    """Return the classes (N, P) for which nothing that they miss is exhausted, in the cluster or at a limit above."""
    tolerance = TOLERANCE * np.maximum(capacity, 1.0)
    tolerance = _with_any_type(tolerance)
    used = _with_any_type(sums_below(tree, held).sum(axis=1))
    blocked = limits - used <= tolerance
    roots = tree.depths[0].nodes
    blocked[roots, :-1] |= capacity - used[roots, :-1].sum(axis=0) <= tolerance[:-1]
    for depth in tree.depths[1:]:
        blocked[depth.nodes] |= blocked[depth.parents][depth.group.of]
    need = _with_any_type(missing) > tolerance
    unblocked: Bools = np.any(need, axis=2) & ~np.any(need & blocked[:, None, :], axis=2)
    return unblocked


def _top_up(tree: TeamTree, capacity: Floats, weight: Floats, limits: Floats, held: Floats, missing: Floats) -> None:
    """Give what is still there, class by class, to the smallest weighted share first; changes `held` and `missing`."""
    live = _unblocked(tree, capacity, limits, held, missing)
    if not live.any():
        return
    below = sums_below(tree, held).sum(axis=1)
    share = weighted_share(below, capacity, weight)
    room = np.vstack((limits - _with_any_type(below), np.append(capacity - held.sum(axis=(0, 1)), np.inf)))
    nodes, pools = np.nonzero(live)
    for at in np.lexsort((pools, nodes, share[nodes])):
        node, pool = int(nodes[at]), int(pools[at])
        if room[-1, pool] <= TOLERANCE < missing[node, pool, pool]:
            continue
        above = [node]
        while above[-1] >= 0:
            above.append(int(tree.node_parent[above[-1]]))  # the last, -1, is the row of the whole cluster
        want = _with_any_type(missing[node, pool])
        part = np.divide(room[above], want, out=np.full((len(above), len(want)), np.inf), where=want > 0).min()
        more = np.clip(part, 0.0, 1.0) * want
        room[above] -= more
        held[node, pool] += more[:-1]
        missing[node, pool] -= more[:-1]


def _pass(
    tree: TeamTree,
    capacity: Floats,
    weight: Floats,
    limits: Floats,
    quotas: Floats | None,
    held: Floats,
    missing: Floats,
) -> Floats:
    """Fill once down the tree; return what each node with own jobs gets (N, P, R).

    `held` and `missing` (N, P, R) are set at the nodes with own jobs only. `quotas` (n, R + 1) are those that may lift
    what a team with teams below it starts from; None: what the nodes hold is what counts.
    """
    holds, wants = held.copy(), missing.copy()
    for depth in reversed(tree.depths):
        nodes = depth.nodes
        if quotas is not None:
            lifted = nodes[nodes < len(quotas)]
            lifted = lifted[tree.own_node[lifted] != lifted]
            extra = np.maximum(_guaranteed(holds[lifted] + wants[lifted], quotas[lifted]) - holds[lifted], 0.0)
            extra = _within(holds[lifted].sum(axis=1), extra, limits[lifted])
            holds[lifted] += extra
            wants[lifted] -= extra
        room = limits[nodes, :-3] - holds[nodes].sum(axis=1)[:, :-2]
        wants[nodes] *= _ratio(room, _gpus(wants[nodes]))[:, :, None]
        wants[nodes[weight[nodes] == 0]] = 0.0
        if depth.parents[0] >= 0:
            usable = _within(holds[nodes].sum(axis=1), wants[nodes], limits[nodes])
            holds[depth.parents] += depth.group.sums(holds[nodes])
            wants[depth.parents] += depth.group.sums(usable)
    more = np.zeros_like(held)
    box = capacity[None, :]
    for depth in tree.depths:
        nodes = depth.nodes
        if depth.parents[0] >= 0:
            box = (holds[depth.parents] + more[depth.parents]).sum(axis=1)
        bound = np.concatenate((limits[nodes, -1:], limits[nodes, -3:-1]), axis=1)
        more[nodes] = fill(capacity, depth.group, box, weight[nodes], holds[nodes].sum(axis=1), wants[nodes], bound)
    own = np.zeros_like(more)
    own[tree.own_node] = more[tree.own_node]
    return own


def _round_base(own: Floats, base: Floats, quotas: Floats) -> Ints:
    """Return the quota part in whole GPUs (n, P): a quota of any type loses nothing by being split over types."""
    gpus = _gpus(base)
    total = np.floor(np.where(np.isfinite(quotas[:, -1]), gpus.sum(axis=1), np.floor(gpus + 1e-6).sum(axis=1)) + 1e-6)
    group = Group(np.arange(gpus.size) // gpus.shape[1], np.arange(0, gpus.size, gpus.shape[1]))
    zero = np.zeros(gpus.size, dtype=np.int64)
    most = np.floor(_gpus(own) + 1e-6).astype(np.int64).ravel()
    return largest_remainder(group, total.astype(np.int64), gpus.ravel(), zero, most, np.zeros(gpus.size)).reshape(
        gpus.shape
    )
