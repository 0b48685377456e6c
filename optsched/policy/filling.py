"""Progressive filling inside boxes: exact, event by event, for many independent groups at once.

A group shares one box of resources. Each of its entities holds something already, and raises its holding along its
remaining demand. The water level t of a group rises; an entity of weight w may hold a dominant share of at most w * t.
So the fraction of its remaining demand that it has at level t is the lowest of a few straight lines in t, and
everything that changes a slope (an entity that comes in, another resource that becomes dominant, a demand that is met)
happens at a level that can be computed. Between two such levels all is linear: the level at which the box is full is
found by a binary search over them and one interpolation.

Weighted dominant shares: Ghodsi et al., "Dominant Resource Fairness", NSDI 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TOLERANCE = 1e-9
"""What counts as nothing, as a fraction of the cluster's amount of a resource (of 1 where that is smaller)."""


@dataclass(frozen=True, slots=True)
class Group:
    """Which entities (E of them, sorted by group) fill which box (G of them).

    `of` (E,) is the box of each entity; `starts` (G,) the first entity of each box. No box is without an entity.
    """

    of: Ints
    starts: Ints

    def sums(self, amounts: Floats) -> Floats:
        """Return the sum of `amounts` (E, ...) per box (G, ...)."""
        return np.asarray(np.add.reduceat(amounts, self.starts, axis=0))


def pooled(amounts: Floats) -> Floats:
    """Return GPUs of any type, CPUs and memory (..., 3) of amounts per resource (..., R): types, CPUs, memory."""
    return np.concatenate((amounts[..., :-2].sum(axis=-1, keepdims=True), amounts[..., -2:]), axis=-1)


def fill(
    capacity: Floats,
    group: Group,
    box: Floats,
    weight: Floats,
    held: Floats,
    wanted: Floats,
    bound: Floats,
) -> Floats:
    """Fill the boxes and return what each entity is given of each of its classes, (E, P, R).

    `capacity` (R,) is the cluster's, over which dominant shares are taken; `box` (G, R) is what a group may hold in
    all, of which its entities hold `held` (E, R). `wanted` (E, P, R) is what they want more, by class: a class is
    raised in proportion to its vector, all classes of an entity by the same fraction of what they want. `bound` (E, 3)
    is the most that an entity may hold of GPUs of any type, CPUs and memory. A class stops for good when a resource
    that it needs is exhausted, the other classes of its entity go on. Weight 0 is given nothing.
    """
    tolerance = TOLERANCE * np.maximum(capacity, 1.0)
    tolerance3 = pooled(tolerance)
    held, wanted = held.copy(), wanted * (weight > 0)[:, None, None]
    given = np.zeros_like(wanted)
    exhausted = box - group.sums(held) <= tolerance
    tight = bound - pooled(held) <= tolerance3
    while True:
        needs = wanted > tolerance
        stopped = np.any(needs & exhausted[group.of][:, None, :], axis=2)
        stopped |= np.any((pooled(wanted) > tolerance3) & tight[:, None, :], axis=2)
        live = np.any(needs, axis=2) & ~stopped
        if not live.any():
            return given
        rising = np.where(live[:, :, None], wanted, 0.0)
        step = rising.sum(axis=1)
        step3 = pooled(step)
        room3 = np.divide(bound - pooled(held), step3, out=np.full_like(step3, np.inf), where=step3 > 0)
        most = np.where(live.any(axis=1), np.clip(room3.min(axis=1), 0.0, 1.0), 0.0)
        slack = np.maximum(box - group.sums(held), 0.0)
        fraction, full = _raise_level(_Lines.of(capacity, weight, held, step, most), group, slack, step)
        more = fraction[:, None, None] * rising
        given += more
        wanted = wanted - more
        held += fraction[:, None] * step
        exhausted |= full | (box - group.sums(held) <= tolerance)
        at_bound = (fraction >= most) & (most < 1.0) & live.any(axis=1)
        tight |= (bound - pooled(held) <= tolerance3) | (at_bound[:, None] & (room3 <= most[:, None]))


@dataclass(frozen=True, slots=True)
class _Lines:
    """The fraction of its step that each entity has at level t: 0 below `start`, then min over r of slope * t - less.

    Lines of resources that an entity does not need, or that the cluster lacks, are the constant `most`, the fraction at
    which it stops. `start`, `most` (E,); `slope`, `less` (E, R).
    """

    start: Floats
    most: Floats
    slope: Floats
    less: Floats

    @staticmethod
    def of(capacity: Floats, weight: Floats, held: Floats, step: Floats, most: Floats) -> _Lines:
        bounding = (step > 1e-15 * capacity) & (capacity > 0)
        divisor = np.where(bounding, step, 1.0)
        slope = np.where(bounding, weight[:, None] * capacity / divisor, 0.0)
        less = np.where(bounding, held / divisor, -most[:, None])
        share = np.divide(held, capacity, out=np.zeros_like(held), where=capacity > 0).max(axis=1)
        start = np.divide(share, weight, out=np.zeros_like(share), where=weight > 0)
        # Equal shares that differ in their last bits must come in together: which is first would decide who gets all.
        mantissa, exponent = np.frexp(start)
        start = np.ldexp(np.round(mantissa * 2.0**40) / 2.0**40, exponent)
        return _Lines(start, most, np.ascontiguousarray(slope.T), np.ascontiguousarray(less.T))

    def at(self, level: Floats) -> Floats:
        """Return the fraction (E,) of each entity at its level (E,)."""
        lowest = (self.slope * level - self.less).min(axis=0)
        return np.where(level >= self.start, np.clip(lowest, 0.0, self.most), 0.0)

    def events(self) -> Floats:
        """Return, sorted, every level at which a slope may change, just below every start too (a fraction may jump)."""
        rising = self.most > 0
        start, most = self.start[rising], self.most[rising]
        slope, less = self.slope[:, rising], self.less[:, rising]
        ends = np.divide(most + less, slope, out=np.zeros_like(slope), where=slope > 0)
        end = np.maximum(ends.max(axis=0), start)
        first, second = np.triu_indices(len(slope), k=1)
        by = slope[first] - slope[second]
        crossing = np.divide(less[first] - less[second], by, out=np.zeros_like(by), where=by != 0)
        crossing = crossing[(crossing > start) & (crossing < end)]
        below: Any = np.nextafter(start, -1.0)
        return np.unique(np.concatenate((below, start, crossing, end)))


def _raise_level(lines: _Lines, group: Group, slack: Floats, step: Floats) -> tuple[Floats, Bools]:
    """Raise every group's level until a resource of its box is full or all its entities have stopped.

    Returns the fraction (E,) of `step` (E, R) that each entity gets, and which resources of the boxes are full (G, R).
    """
    levels = lines.events()

    def used_at(index: Ints) -> tuple[Floats, Floats]:
        fraction = lines.at(levels[index][group.of])
        return fraction, group.sums(fraction[:, None] * step)

    low = np.zeros(len(group.starts), dtype=np.int64)
    high = np.full_like(low, len(levels) - 1)
    fits = (used_at(high)[1] <= slack).all(axis=1)
    low[fits] = high[fits]
    while (high - low > 1).any():
        middle = (low + high) // 2
        fits = (used_at(middle)[1] <= slack).all(axis=1)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    fraction, used = used_at(low)
    next_fraction, next_used = used_at(high)
    more = next_used - used
    part = np.divide(slack - used, more, out=np.full_like(more, np.inf), where=more > 0)
    least = part.min(axis=1)
    full = (low < high)[:, None] & (more > 0) & (part <= least[:, None])
    reached = np.clip(least, 0.0, 1.0)
    return fraction + reached[group.of] * (next_fraction - fraction), full
