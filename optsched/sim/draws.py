"""Chance by name: the same seed and the same names give the same number, in whatever order they are asked for.

So two policies meet the same failures at the same instants, and nothing of the chance has to be saved.
"""

from __future__ import annotations

import hashlib
import math

_SCALE = float(1 << 64)


def uniform(seed: int, *what: object) -> float:
    """Return a number from [0, 1) for what is named."""
    text = "\x1f".join([str(seed), *map(str, what)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / _SCALE


def exponential(mean: float, seed: int, *what: object) -> float:
    """Return a number > 0 from the exponential distribution of that mean (inf: inf) for what is named."""
    return math.inf if math.isinf(mean) else -mean * math.log1p(-uniform(seed, *what))


def below(count: int, seed: int, *what: object) -> int:
    """Return a whole number from 0 to count - 1 for what is named; `count` >= 1."""
    return min(count - 1, int(uniform(seed, *what) * count))
