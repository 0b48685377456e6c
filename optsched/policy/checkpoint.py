"""How often a job should checkpoint, and what checkpoints, failures and restarts cost it.

Times in seconds. `cost_s` (δ) is the time for which one checkpoint blocks training, not the time its upload takes
behind; `interval_s` (τ) the time of training between two checkpoints, δ not counted; `mtbf_s` (M) the mean time
between failures of the whole job, not of a node; `restart_s` (R) the time from a failure until training goes on.

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974; J. T. Daly,
"A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006: its model of
failures that come at random at a constant rate, at any time, restarts included, and its equation 37. What uploads add
is derived here.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

SMALL_COST = 0.001
"""Up to this share of M is δ small: at it, Young's interval is 1.5 % too long, which wastes 0.0005 % of the time."""


class Formula(enum.Enum):
    """What an interval comes from."""

    YOUNG = "young"
    """Young's first order, where δ is small against M."""
    DALY = "daly"
    """Daly's higher order, where it is not."""
    UPLOAD = "upload"
    """The upload of one checkpoint: the next one waits for it."""
    TIERED = "tiered"
    """Several tiers, each with the failures that it is there for."""
    GIVEN = "given"
    """The job names its own."""


@dataclass(frozen=True, slots=True)
class Waste:
    """Shares of the wall time, 0 to 1, that train nothing new."""

    writing: float
    """Training is blocked by a checkpoint."""
    lost_work: float
    """Work that a failure throws away, checkpoints inside it included."""
    restarting: float
    """From failures until training goes on."""

    @property
    def total(self) -> float:
        """The share of the time that is wasted, 0 to 1."""
        return self.writing + self.lost_work + self.restarting

    def wall_s(self, work_s: float) -> float:
        """Return how long `work_s` of training is expected to take; inf where it gets nowhere."""
        useful = 1.0 - self.total
        return work_s / useful if useful > 0.0 else math.inf


@dataclass(frozen=True, slots=True)
class Interval:
    """A recommended interval, what it comes from, and what is wasted with it."""

    interval_s: float
    formula: Formula
    waste: Waste


def young_s(cost_s: float, mtbf_s: float) -> float:
    """Return Young's interval √(2δM)."""
    return math.sqrt(2.0 * cost_s * mtbf_s)


def daly_s(cost_s: float, mtbf_s: float) -> float:
    """Return Daly's interval (2006, equation 37): M where δ >= 2M."""
    if cost_s >= 2.0 * mtbf_s:
        return mtbf_s
    ratio = cost_s / (2.0 * mtbf_s)
    return young_s(cost_s, mtbf_s) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - cost_s


def exact_s(cost_s: float, mtbf_s: float) -> float:
    """Return the interval that wastes least in Daly's model, which the formulas approximate.

    With u = τ/M it solves (1 − u)·eᵘ = e^(−δ/M), that is τ = M·(1 + W₀(−e^(−1−δ/M))). It is found by halving: u +
    ln(1 − u) falls from 0 without end as u goes from 0 to 1.
    """
    ratio = cost_s / mtbf_s
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2.0) < high:
        if middle + math.log1p(-middle) + ratio > 0.0:
            low = middle
        else:
            high = middle
    return mtbf_s * low


def waste(interval_s: float, cost_s: float, mtbf_s: float, restart_s: float = 0.0, upload_s: float = 0.0) -> Waste:
    """Return what is wasted in Daly's model; `interval_s` and `mtbf_s` above 0.

    A stretch of training with its checkpoint, τ + δ, is tried until no failure interrupts it, which takes
    M·(e^((τ+δ)/M) − 1) on average; every failure adds a restart, itself tried until it succeeds.

    A checkpoint that is still being uploaded when the failure comes does not count. On average that loses `upload_s`
    more per failure (exact to first order where uploads do not overlap); it is put where the restart is: our
    derivation.
    """
    tries = (interval_s + cost_s) / mtbf_s
    # The share of the time that is no restart: failures come at rate 1/M, and each costs M·(1 − e^(−R/M)).
    at_work = math.exp(-restart_s / mtbf_s)
    kept = at_work * math.exp(-upload_s / mtbf_s)
    # x/(e^x − 1), written so that it does not overflow for a job that fails a thousand times per checkpoint.
    useful = kept * (interval_s / mtbf_s) * math.exp(-tries) / -math.expm1(-tries)
    writing = useful * cost_s / interval_s
    return Waste(writing, max(0.0, at_work - useful - writing), 1.0 - at_work)


def auto_interval(cost_s: float, mtbf_s: float, restart_s: float = 0.0, upload_s: float = 0.0) -> Interval:
    """Return the interval for a job with one kind of checkpoint; `cost_s` and `mtbf_s` above 0.

    Young's where δ is at most `SMALL_COST` of M, Daly's beyond, never below `upload_s`: one upload is in flight, and
    what it reads is not overwritten before it is done. How long an upload takes changes what a failure costs, not the
    optimum.
    """
    if cost_s <= SMALL_COST * mtbf_s:
        interval, formula = young_s(cost_s, mtbf_s), Formula.YOUNG
    else:
        interval, formula = daly_s(cost_s, mtbf_s), Formula.DALY
    if interval < upload_s:
        interval, formula = upload_s, Formula.UPLOAD
    return Interval(interval, formula, waste(interval, cost_s, mtbf_s, restart_s, upload_s))
