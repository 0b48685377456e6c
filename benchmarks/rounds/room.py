"""Free room on the nodes, and where a gang goes: the narrowest domain that holds it, and there the tightest fit."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.rounds.demand import Want
from benchmarks.rounds.layout import RESERVED_CPUS, Flags, Ints, Layout

Spread = dict[int, int]
"""GPUs by node number."""


class Room:
    """What is free; booked and given back by the GPU index."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        nodes = layout.nodes
        self.free: Ints = np.array([n.pool.gpus - len(n.bad) if n.open else 0 for n in nodes], dtype=np.int64)
        self.capacity: Ints = self.free.copy()
        self.cpus: Ints = np.array([n.pool.cpus - RESERVED_CPUS for n in nodes], dtype=np.int64)
        self.memory: Ints = np.array([n.pool.memory_gb for n in nodes], dtype=np.int64)
        self._masks = [sum(1 << g for g in range(n.pool.gpus) if g not in n.bad) for n in nodes]
        self._types = np.array(layout.gpu_type)
        self._suits: dict[object, Flags] = {}

    def take(self, want: Want, spread: Spread) -> dict[int, list[int]]:
        """Book GPUs, the lowest free indices of each node; return the indices by node."""
        held = {}
        for n, count in spread.items():
            mask, chosen = self._masks[n], []
            for _ in range(count):
                lowest = mask & -mask
                chosen.append(lowest.bit_length() - 1)
                mask ^= lowest
            self._masks[n] = mask
            held[n] = chosen
        self._book(want, spread, 1)
        return held

    def give(self, want: Want, held: dict[int, list[int]]) -> None:
        """Free what a job holds."""
        for n, indices in held.items():
            for index in indices:
                self._masks[n] |= 1 << index
        self._book(want, {n: len(indices) for n, indices in held.items()}, -1)

    def _book(self, want: Want, spread: Spread, sign: int) -> None:
        nodes = np.fromiter(spread, dtype=np.int64, count=len(spread))
        counts = np.fromiter(spread.values(), dtype=np.int64, count=len(spread)) * sign
        self.free[nodes] -= counts
        self.cpus[nodes] -= counts * want.cpus_per_gpu
        self.memory[nodes] -= counts * want.memory_per_gpu

    def find(self, want: Want, gpus: int) -> Spread | None:
        """Return where `gpus` GPUs of the job could go now, on the fastest of its GPU types that has room."""
        for gpu_type, _ in want.types or ((None, 1.0),):
            spread = self._find(want, gpus, gpu_type)
            if spread is not None:
                return spread
        return None

    def _find(self, want: Want, gpus: int, gpu_type: str | None) -> Spread | None:
        one_node = want.per_node is None and want.per_task is None
        unit = gpus if one_node else want.per_node or want.per_task or 1
        if not one_node and want.slices and want.slices[-1][1] == "node":
            unit = math.lcm(unit, want.slices[-1][0])
        nodes = np.flatnonzero((self.free >= unit) & self._suiting(want, gpu_type))
        units = self.free[nodes] // unit
        units = np.minimum(units, self.cpus[nodes] // (want.cpus_per_gpu * unit))
        units = np.minimum(units, self.memory[nodes] // (want.memory_per_gpu * unit))
        if want.per_node is not None or one_node:
            units = np.minimum(units, 1)
        nodes, units = nodes[units > 0], units[units > 0]
        need = gpus // unit
        if int(units.sum()) < need:
            return None
        if one_node or (want.per_task is not None and int(units.max()) >= need):
            return {self._tightest(nodes[units >= need]): gpus}
        chosen = self._within(want, need, unit, nodes, units)
        return None if chosen is None else {n: count * unit for n, count in chosen.items()}

    def _suiting(self, want: Want, gpu_type: str | None) -> Flags:
        levels = tuple(level for _, level in want.slices if level != "node")
        key = (gpu_type, want.selector, want.excluded, want.required, levels)
        found = self._suits.get(key)
        if found is None:
            nodes, layout = self.layout.nodes, self.layout
            found = np.ones(len(nodes), dtype=bool) if gpu_type is None else self._types == gpu_type
            if want.selector or want.excluded:
                wanted = dict(want.selector).items()
                found &= np.array([wanted <= (n.labels or {}).items() and n.id not in want.excluded for n in nodes])
            for level in {*levels, want.required} - {None, "node"}:
                found &= layout.inside[layout.levels.index(level)]
            self._suits[key] = found
        return found

    def _tightest(self, nodes: Ints) -> int:
        """Return the node that is fullest, then the one in the fullest rack, then the first."""
        tight = nodes[self.free[nodes] == self.free[nodes].min()]
        last = self.layout.domain[-1]
        if len(tight) > 1:
            racks = last[tight]
            free = np.array([self.free[self.layout.children[-1][rack]].sum() for rack in racks.tolist()[:16]])
            return int(tight[int(free.argmin())])
        return int(tight[0])

    def _within(self, want: Want, need: int, unit: int, nodes: Ints, units: Ints) -> Spread | None:
        """Return units by node inside the narrowest domain that holds them, whole slices in each domain of theirs."""
        layout = self.layout
        depth = len(layout.levels)
        step = {layout.levels.index(level): gpus // unit for gpus, level in want.slices if level != "node"}
        held: list[Ints] = [np.zeros(0, dtype=np.int64)] * depth
        for level in reversed(range(depth)):
            if level == depth - 1:
                group, amount = layout.domain[level][nodes], units
            else:
                group, amount = layout.parent[level + 1], held[level + 1]
            total = np.bincount(group, weights=amount, minlength=len(layout.parent[level])).astype(np.int64)
            held[level] = total // step.get(level, 1) * step.get(level, 1)
        widest = 0 if want.required is None else layout.levels.index(want.required)
        by_node = np.zeros(len(layout.nodes), dtype=np.int64)
        by_node[nodes] = units
        for level in reversed(range(widest, depth)):
            fitting = np.flatnonzero(held[level] >= need)
            if len(fitting):
                best = int(fitting[int(held[level][fitting].argmin())])
                return self._down(level, {best: need}, held, by_node)
        if want.required is not None or int(held[0].sum()) < need:
            return None
        return self._down(0, _fewest(np.arange(len(held[0])), held[0], need), held, by_node)

    def _down(self, level: int, amounts: Spread, held: list[Ints], by_node: Ints) -> Spread:
        """Return units by node, from units by domain of a level."""
        for depth in range(level, len(held)):
            have = held[depth + 1] if depth + 1 < len(held) else by_node
            finer: Spread = {}
            for domain, need in amounts.items():
                members = self.layout.children[depth][domain]
                finer |= _fewest(members, have[members], need)
            amounts = finer
        return amounts


def _fewest(members: Ints, have: Ints, need: int) -> Spread:
    """Return how much each of the fewest members gives, the fullest first and the tightest that ends it."""
    chosen: Spread = {}
    order = np.argsort(-have, kind="stable")
    for at, i in enumerate(order.tolist()):
        rest = order[at:]
        ends = rest[have[rest] >= need]
        if len(ends):
            chosen[int(members[ends[-1]])] = need
            return chosen
        chosen[int(members[i])] = int(have[i])
        need -= int(have[i])
    raise AssertionError("the caller has counted enough")
