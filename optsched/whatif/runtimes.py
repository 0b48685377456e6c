"""How long jobs really run: drawn around what was stated, the same for the same seed and job."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from optsched.errors import UsageError
from optsched.files.report import show
from optsched.sim.draws import uniform
from optsched.sim.traces.tables import Floats, bands_of
from optsched.sim.traces.walltimes import requested
from optsched.values.job import Job

LONGEST_S = 30 * 86_400.0
"""No time limit of the published model is above this."""

_QUANTILES = (np.arange(200) + 0.5) / 200
_USES = (np.arange(40) + 0.5) / 40
_FAR = 1.7
"""Stated times are alike that differ by less than this factor."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """A model of real run times.

    `published`: what is stated is a time limit, and jobs use of it what jobs of that size with such a limit did in
    published logs. `stated`: what is stated is right. `spread`: the ratio of real to stated time is log-normal around 1
    with this standard deviation of its logarithm. A job that states nothing runs as long as jobs of its size did in the
    Philly trace, in all models.
    """

    model: str = "published"
    spread: float = 0.0

    def draw(self, job: Job, elapsed_s: float, seed: int) -> float:
        """Return how long a job runs in all, in seconds, given that it has run for `elapsed_s` already."""
        place = uniform(seed, "run time", job.id)
        stated = job.estimated_runtime_s
        if stated is not None and self.model == "stated":
            return stated if stated > elapsed_s else _goes_on(elapsed_s, place)
        if stated is not None and self.model == "spread":
            return _log_normal(stated, self.spread, elapsed_s, place)
        times = _times_of(_size_of(job.gpus), None if stated is None else _step_of(stated))
        scale = 1.0 if stated is None else stated / _stated_at(_step_of(stated))
        longer = times[times * scale > elapsed_s] * scale
        if not len(longer):
            return _goes_on(elapsed_s, place)
        return float(longer[min(len(longer) - 1, int(place * len(longer)))])

    def mean(self, job: Job) -> float:
        """Return the mean time that such jobs run, in seconds, > 0."""
        stated = job.estimated_runtime_s
        if stated is not None and self.model != "published":
            return stated * math.exp(self.spread**2 / 2)
        times = _times_of(_size_of(job.gpus), None if stated is None else _step_of(stated))
        scale = 1.0 if stated is None else stated / _stated_at(_step_of(stated))
        return max(1.0, float(times.mean()) * scale)


def run_times(text: str) -> RunTimes:
    """Return the model that a word names: published, stated, or spread=S. Raises UsageError."""
    name, _, number = text.partition("=")
    if text in ("published", "stated"):
        return RunTimes(text)
    try:
        spread = float(number)
    except ValueError:
        spread = math.nan
    if name != "spread" or not 0 < spread <= 3:
        raise UsageError(f"given {show(text)}; allowed: published, stated, or spread=S with S above 0, at most 3")
    return RunTimes("spread", spread)


def _goes_on(elapsed_s: float, place: float) -> float:
    """Return the time of a job that has outrun all that is known: as likely as not it lasts as long again."""
    return max(1.0, elapsed_s) * min(10.0, 1.0 / max(1e-9, 1.0 - place)) + 1.0


def _log_normal(stated_s: float, spread: float, elapsed_s: float, place: float) -> float:
    """Return the quantile `place` of a log-normal time beyond what has gone by."""
    from statistics import NormalDist

    normal = NormalDist(math.log(stated_s), spread)
    gone = normal.cdf(math.log(elapsed_s)) if elapsed_s > 0 else 0.0
    at = gone + place * (1.0 - gone)
    if not 0 < at < 1 - 1e-12:
        return _goes_on(elapsed_s, place) if at > 0.5 else 1.0
    return max(elapsed_s + 1.0, math.exp(normal.inv_cdf(at)))


def _size_of(gpus: int) -> int:
    """Return a size of the table that stands for all like it."""
    bounds = bands_of("philly_durations", "gpus_up_to", upper_inside=True).bounds
    return int(bounds[min(int(np.searchsorted(bounds, gpus)), len(bounds) - 1)])


def _step_of(stated_s: float) -> int:
    """Return which step of the logarithm a stated time is near."""
    return round(math.log(max(1.0, min(stated_s, LONGEST_S))) / math.log(_FAR))


def _stated_at(step: int) -> float:
    return float(_FAR**step)


@cache
def _pairs(gpus: int) -> tuple[Floats, Floats]:
    """Return real times of jobs of a size, and what would have been stated for them: all pairs are as likely."""
    table = bands_of("philly_durations", "gpus_up_to", upper_inside=True)
    real = table.draw(np.full(len(_QUANTILES), gpus, dtype=float), _QUANTILES, log=True).clip(1.0)
    times = np.repeat(real, len(_USES))
    return times, requested(times, np.tile(_USES, len(real)), LONGEST_S)


@cache
def _times_of(gpus: int, step: int | None) -> Floats:
    """Return the real times, ascending and as likely, of jobs of a size that state about so much (None: nothing)."""
    times, asked = _pairs(gpus)
    if step is None:
        return np.unique(times)
    near = np.abs(np.log(asked) / math.log(_FAR) - step)
    chosen = near <= max(0.5, float(near.min()))
    # Each is scaled from what it stated to the step itself.
    found: Floats = np.sort(times[chosen] * (_stated_at(step) / asked[chosen]))
    return found
