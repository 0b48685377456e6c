"""How often the nodes of a class fail, from a prior and from what was observed, and so how often a job fails.

Failures of a node class are taken as a Poisson process in node-hours, its rate as gamma distributed. A prior is worth
so many node-hours of observation; what was observed is added to it. A gang fails with any of its nodes, so M of a job
is M of a node divided by the number of nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from types import MappingProxyType

from optsched.errors import InternalError

TAIL = 0.05
"""The chance of a rate below the interval of an estimate, and of one above."""


@dataclass(frozen=True, slots=True)
class PublishedRate:
    """A failure rate that somebody measured: `failures` that stopped a job in `gpu_h` GPU-hours, on nodes of 8 GPUs."""

    failures: float
    gpu_h: float
    source: str

    def node_mtbf_h(self, gpus_per_node: int) -> float:
        """Return the MTBF of a node in hours, for nodes that fail in proportion to their GPUs (our assumption)."""
        return self.gpu_h / self.failures / gpus_per_node


PUBLISHED: Mapping[str, PublishedRate] = MappingProxyType(
    {
        "llama3": PublishedRate(
            419, 54 * 24 * 16_384, "Llama 3 (2024), table 5: 419 unexpected interruptions in 54 days on 16,384 H100"
        ),
        "rsc1": PublishedRate(
            6.5, 1000 * 24 * 8, "Kokolis et al., HPCA 2025, RSC-1: 6.50 failures per 1,000 node-days of 8 A100"
        ),
        "rsc1-small-jobs": PublishedRate(
            1, 7.9 * 1024, "Kokolis et al., HPCA 2025, RSC-1: jobs of 1,024 A100 fail every 7.9 h, not only by hardware"
        ),
    }
)
"""What a fleet can be compared with until it has figures of its own; they differ by a factor of 6."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before anything was observed: an MTBF, and how many node-hours of observation that is worth."""

    mtbf_h: float
    strength_node_h: float


def weak_prior(mtbf_h: float) -> Prior:
    """Return a prior worth one failure.

    Published fleets differ so much: the mean of the three rates in `PUBLISHED` is 1.05 of their standard deviation, and
    a gamma distribution of that spread has shape 1.05² = 1.1.
    """
    return Prior(mtbf_h, mtbf_h)


@dataclass(frozen=True, slots=True)
class MtbfEstimate:
    """The MTBF of a node in hours; it lies between `low_h` and `high_h` with a probability of 90 %."""

    mtbf_h: float
    low_h: float
    high_h: float


def estimate_mtbf(prior: Prior | None, failures: int = 0, node_h: float = 0.0) -> MtbfEstimate:
    """Return the estimate for one node class after `failures` in `node_h` node-hours (of nodes at work).

    The rate is gamma distributed with shape (failures the prior is worth + failures seen) and the sum of node-hours;
    the estimate is 1 / its mean. Without a prior, failures / node-hours alone count. Raises InternalError where
    neither says anything.
    """
    shape, hours = float(failures), node_h
    if prior is not None:
        shape += prior.strength_node_h / prior.mtbf_h
        hours += prior.strength_node_h
    if shape <= 0.0 or hours <= 0.0:
        raise InternalError("an MTBF needs a prior, or a failure that was seen in some time")
    return MtbfEstimate(hours / shape, hours / gamma_quantile(1.0 - TAIL, shape), hours / gamma_quantile(TAIL, shape))


def job_nodes(gpus: int, gpus_per_node: int) -> int:
    """Return how many nodes a gang stands on; each of them stops it when it fails."""
    return -(-gpus // gpus_per_node)


def job_mtbf_s(node_mtbf_h: float, nodes: int) -> float:
    """Return the MTBF of a job on `nodes` nodes, in seconds."""
    return node_mtbf_h * 3600.0 / nodes


def gamma_quantile(probability: float, shape: float) -> float:
    """Return x such that a gamma variable of that shape and scale 1 is below x with `probability`, 0.01 to 0.99.

    From the series of the incomplete gamma function up to a shape of 100; above by Wilson and Hilferty (PNAS 1931),
    whose error is less than 0.1 % there. At least the smallest number whose inverse is finite.
    """
    if shape > 100.0:
        return shape * (1.0 - 1.0 / (9.0 * shape) + NormalDist().inv_cdf(probability) / (3.0 * math.sqrt(shape))) ** 3
    low, high = -690.0, math.log(shape + 20.0 + 10.0 * math.sqrt(shape))
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _below(math.exp(middle), shape) < probability else (low, middle)
    return math.exp(high)


def _below(x: float, shape: float) -> float:
    """Return the probability that a gamma variable is below x.

    x^a·e^(−x)/Γ(a+1) · (1 + x/(a+1) + x²/((a+1)(a+2)) + …), a series of terms above 0.
    """
    term = total = 1.0
    step = shape
    while term > 1e-16 * total:
        step += 1.0
        term *= x / step
        total += term
    return math.exp(shape * math.log(x) - x - math.lgamma(shape + 1.0)) * total
