"""Dominant shares: the largest fraction of any one resource."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optsched.policy.filling import Floats


def dominant_share(usage: Floats, capacity: Floats) -> Floats:
    """Return the largest usage / capacity over the resources (the last axis); one without capacity is no share."""
    fraction = np.divide(usage, capacity, out=np.zeros(np.shape(usage)), where=capacity > 0)
    return np.asarray(fraction.max(axis=-1, initial=0.0))


def weighted_share(usage: Floats, capacity: Floats, weight: Floats) -> Floats:
    """Return the dominant share divided by the weight; inf for weight 0."""
    share = dominant_share(usage, capacity)
    return np.asarray(np.divide(share, weight, out=np.full(np.shape(share), np.inf), where=np.asarray(weight) > 0))


def weighted_share_of_one(usage: Sequence[float], capacity: Sequence[float], weight: float) -> float:
    """Return `weighted_share` of one team in plain numbers."""
    if weight <= 0:
        return math.inf
    return max((used / there for used, there in zip(usage, capacity, strict=True) if there > 0), default=0.0) / weight
