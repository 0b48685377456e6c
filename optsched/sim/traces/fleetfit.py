"""The joint distribution behind published totals: sizes, durations and days of the fleet of 10,412 GPUs (2026).

Published are totals: jobs and GPU-seconds by size and by duration, jobs, GPUs and GPU-seconds by hour, and by model,
organization and type. What stands between them is not, so that the least is assumed: within a cell of size and duration
the two are independent, and everything else is an exponential tilt, just strong enough to meet the totals.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from optsched.sim.traces.tables import Floats, column, rows_of

SIZES: tuple[tuple[str, dict[float, float]], ...] = (
    ("0", {0.1: 0.1, 0.2: 0.2, 0.25: 0.2, 0.5: 0.3, 0.8: 0.2}),
    ("1", {1: 1.0}),
    ("2 to 4", {2: 0.55, 3: 0.05, 4: 0.40}),
    ("5 to 8", {5: 0.02, 6: 0.05, 7: 0.01, 8: 0.92}),
    ("9 to 16", {10: 0.04, 12: 0.10, 14: 0.02, 16: 0.84}),
    ("17 to 32", {24: 0.2, 32: 0.8}),
    ("33 to 64", {40: 0.1, 48: 0.15, 64: 0.75}),
    ("65 to 128", {80: 0.1, 96: 0.2, 128: 0.7}),
)
"""Published bands of GPUs per job; the shares inside each are assumed: nearly all powers of two."""

LARGEST = 1408
LARGE = "129 plus"
"""The last band: multiples of 8 up to the largest job, by a power law that makes the sum of all GPUs right."""

DURATIONS = (
    ("0 to 1 min", 1, 60),
    ("1 to 10 min", 60, 600),
    ("10 to 60 min", 600, 3600),
    ("1 to 6 hours", 3600, 21_600),
    ("6 to 24 hours", 21_600, 86_400),
    ("1 to 3 days", 86_400, 259_200),
    ("over 3 days", 259_200, 15_897_600),
)
"""Published bands of durations, in seconds; the last ends with the trace."""

END_S = 15_897_600.0
"""When the trace ends; no job runs on."""

DAY_H = 24
_ROUNDS, _STEPS = 40, 12


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """G groups of hours (hour 0 alone, then days), S sizes, D durations.

    `cells` (G, S, D) are probabilities, each group's sum 1. `jobs` (G,) and `hours` name the groups; `mean_gpus` (S,)
    and `mean_s` (D,) are the bands' means; durations of a band lie from `low_s` (D,) to `high_s` (G, D), with the
    density of their logarithms in proportion to an exponential, whose `steepness` (D,) is 0 where it is flat.
    """

    cells: Floats
    jobs: Floats
    hours: tuple[range, ...]
    sizes: tuple[tuple[Floats, Floats], ...]
    mean_gpus: Floats
    mean_s: Floats
    low_s: Floats
    high_s: Floats
    steepness: Floats

    @property
    def totals(self) -> Floats:
        """Jobs by size and duration over all groups, shape (S, D)."""
        total: Floats = np.tensordot(self.jobs, self.cells, axes=1)
        return total


@functools.cache
def fit() -> Fit:
    """Return the distribution, fitted to the tables; the same every time."""
    sizes = _sizes()
    mean_gpus = np.array([float(values @ shares) for values, shares in sizes])
    jobs_s, work_s = _table("fleet2026_sizes", [name for name, _ in SIZES] + [LARGE])
    jobs_d, work_d = _table("fleet2026_durations", [name for name, _, _ in DURATIONS])
    low, high = (np.array([band[side] for band in DURATIONS], dtype=float) for side in (1, 2))
    hours, jobs_g, gpus_g, work_g = _groups()
    # No job outlives the trace, so that the upper end of the long bands comes nearer, group by group.
    left_s = END_S - np.array([group.start for group in hours]) * 3600.0
    ends = np.maximum(np.minimum(high[None, :], left_s[:, None]), low[None, :] * 1.01)
    mean_s = _consistent(mean_gpus, jobs_s, work_s, jobs_d, work_d, low, high)
    totals = _totals(mean_gpus, mean_s, jobs_s, work_s, jobs_d, work_d)
    log_m = np.log(mean_gpus)
    prior = totals / totals.sum()
    tilts = np.zeros((2, len(hours)))
    cells = np.broadcast_to(prior, (len(hours), *prior.shape))
    steepness = np.zeros(len(low))
    for _ in range(_ROUNDS):
        steepness = _steepness(low, ends, jobs_g @ cells.sum(axis=1), jobs_g[:, None] * cells.sum(axis=1), mean_s)
        times = _mean(low, ends, steepness)
        tilts = _tilts(np.log(prior), log_m, np.log(times), gpus_g / jobs_g, work_g / jobs_g, tilts)
        cells = _cells(np.log(prior), log_m, np.log(times), tilts)
        prior = prior * (totals / np.tensordot(jobs_g, cells, axes=1)) ** 0.8
    return Fit(cells, jobs_g, hours, sizes, mean_gpus, mean_s, low, ends, steepness)


def _consistent(
    m: Floats, jobs_s: Floats, work_s: Floats, jobs_d: Floats, work_d: Floats, low: Floats, high: Floats
) -> Floats:
    """Return mean durations of the bands that the totals allow, shape (D,).

    GPUs by size must be GPU-seconds by duration over these means, and likewise the seconds of all jobs. The short bands
    are log-uniform but for a common factor, which the first of these conditions gives; the second gives the last band.
    """
    means = (high - low) / np.log(high / low)
    for _ in range(20):
        short = (m @ jobs_s - work_d[-1] / means[-1]) / (work_d[:-1] / means[:-1]).sum()
        means[:-1] /= short
        means[-1] = ((work_s / m).sum() - means[:-1] @ jobs_d[:-1]) / jobs_d[-1]
    return means


def _mean(low: Floats, high: Floats, k: Floats) -> Floats:
    """Return the mean of low * (high / low) ** u, with u in 0 to 1 by a density in proportion to exp(k u)."""

    def part(x: Floats) -> Floats:
        safe = np.where(np.abs(x) < 1e-9, 1e-9, x)
        found: Floats = np.expm1(safe) / safe
        return found

    mean: Floats = low * part(k + np.log(high / low)) / part(np.broadcast_to(k, high.shape))
    return mean


def _steepness(low: Floats, ends: Floats, jobs: Floats, weights: Floats, wanted: Floats) -> Floats:
    """Return k for each band (D,), so that the mean over all groups' jobs in it is as wanted; found by halving."""
    below, above = np.full(len(low), -20.0), np.full(len(low), 20.0)
    for _ in range(40):
        k = (below + above) / 2
        less = (weights * _mean(low, ends, k)).sum(axis=0) / jobs < wanted
        below, above = np.where(less, k, below), np.where(less, above, k)
    found: Floats = (below + above) / 2
    return found


def within(low: Floats, high: Floats, k: Floats, uniform: Floats) -> Floats:
    """Return durations inside bands, at the quantile `uniform` (0 to 1) of the density that `_mean` tells."""
    safe = np.where(np.abs(k) < 1e-6, 1e-6, k)
    drawn: Floats = low * (high / low) ** (np.log1p(uniform * np.expm1(safe)) / safe)
    return drawn


def _totals(m: Floats, t: Floats, jobs_s: Floats, work_s: Floats, jobs_d: Floats, work_d: Floats) -> Floats:
    """Return jobs by size and duration, shape (S, D): of all that meet the totals, the least informed.

    The totals are linear in the cells: jobs and GPU-seconds of each size and of each duration. So the cells are the
    exponential of a sum of a multiplier for each of these, which Newton's method finds (the dual is convex).
    """
    sizes, durations = len(m), len(t)
    jobs = jobs_s.sum()
    rows, wanted = [], []
    for index in range(sizes):
        line = np.zeros((sizes, durations))
        line[index] = 1
        weighed = line * t / (work_s[index] / jobs_s[index] / m[index])
        rows += [line, weighed]
        wanted += [jobs_s[index] / jobs] * 2
    for index in range(durations):
        line = np.zeros((sizes, durations))
        line[:, index] = 1
        weighed = line * m[:, None] / (work_d[index] / jobs_d[index] / t[index])
        rows += [line, weighed]
        wanted += [jobs_d[index] / jobs] * 2
    matrix = np.array([row.ravel() for row in rows])
    goal = np.array(wanted)
    start = np.log(np.outer(jobs_s, jobs_d).ravel() / jobs**2)
    multipliers = np.zeros(len(goal))

    def dual(at: Floats) -> float:
        return float(np.exp(np.minimum(start + at @ matrix, 50)).sum() - at @ goal + 1e-9 * at @ at)

    for _ in range(200):
        cells = np.exp(start + multipliers @ matrix)
        slope = matrix @ cells - goal + 2e-9 * multipliers
        curve = (matrix * cells) @ matrix.T + 2e-9 * np.eye(len(goal))
        step = np.linalg.solve(curve, slope)
        length, now = 1.0, dual(multipliers)
        while dual(multipliers - length * step) > now - 1e-4 * length * float(slope @ step) and length > 1e-8:
            length /= 2
        multipliers = multipliers - length * step
        if np.abs(slope).max() < 1e-9:
            break
    found: Floats = np.exp(start + multipliers @ matrix).reshape(sizes, durations) * jobs
    return found


def _table(name: str, labels: list[str]) -> tuple[Floats, Floats]:
    """Return jobs and GPU-seconds of a table of bands, in the order of `labels`."""
    found = {row["bucket"]: row for row in rows_of(name)}
    jobs, work = (np.array([float(found[label][key]) for label in labels]) for key in ("jobs", "gpu_s"))
    return jobs, work


def _sizes() -> tuple[tuple[Floats, Floats], ...]:
    """Return the GPUs and their shares in each band. The power of the last band is found by halving."""
    known = [(np.array(list(shares)), np.array(list(shares.values()))) for _, shares in SIZES]
    jobs, _ = _table("fleet2026_sizes", [name for name, _ in SIZES] + [LARGE])
    others = sum(count * float(values @ shares) for count, (values, shares) in zip(jobs, known, strict=False))
    wanted = (column("fleet2026_hourly", "gpus").sum() - others) / jobs[-1]
    values = np.arange(136, LARGEST + 1, 8, dtype=float)
    low, high = -6.0, 6.0
    for _ in range(60):
        power = (low + high) / 2
        shares = values**power / (values**power).sum()
        low, high = (power, high) if float(values @ shares) < wanted else (low, power)
    return (*known, (values, shares))


def _groups() -> tuple[tuple[range, ...], Floats, Floats, Floats]:
    """Return groups of hours with their jobs, GPUs and GPU-seconds. Hour 0 holds the jobs that were running already."""
    jobs, gpus, work = (column("fleet2026_hourly", key) for key in ("jobs", "gpus", "gpu_h"))
    starts = [0, 1, *range(DAY_H, len(jobs), DAY_H)]
    hours = tuple(range(start, end) for start, end in zip(starts, [*starts[1:], len(jobs)], strict=True))
    hours = tuple(group for group in hours if jobs[group.start : group.stop].sum() > 0)
    sums = [np.array([values[group.start : group.stop].sum() for group in hours]) for values in (jobs, gpus, work)]
    return hours, sums[0], sums[1], sums[2] * 3600


def _cells(base: Floats, log_m: Floats, log_t: Floats, tilts: Floats) -> Floats:
    powers = base[None] + tilts[0][:, None, None] * log_m[None, :, None] + (tilts[1][:, None] * log_t)[:, None, :]
    weights = np.exp(powers - powers.max(axis=(1, 2), keepdims=True))
    cells: Floats = weights / weights.sum(axis=(1, 2), keepdims=True)
    return cells


def _tilts(base: Floats, log_m: Floats, log_t: Floats, gpus: Floats, work: Floats, start: Floats) -> Floats:
    """Return the tilts (2, G) by size and by duration that make each group's mean GPUs and GPU-seconds right.

    Newton's method on the logarithms of both means, with steps of at most 1, from `start`.
    """
    m, a = np.exp(log_m)[None, :, None], log_m[None, :, None]
    both, b = m * np.exp(log_t)[:, None, :], log_t[:, None, :]
    tilts = start
    for _ in range(_STEPS):
        cells = _cells(base, log_m, log_t, tilts)
        e_m, e_w, e_a, e_b = ((cells * of).sum(axis=(1, 2)) for of in (m, both, a, b))
        off = np.stack([np.log(e_m / gpus), np.log(e_w / work)])
        j11, j12 = ((cells * m * of).sum(axis=(1, 2)) / e_m - e_of for of, e_of in ((a, e_a), (b, e_b)))
        j21, j22 = ((cells * both * of).sum(axis=(1, 2)) / e_w - e_of for of, e_of in ((a, e_a), (b, e_b)))
        size = j11 * j22 - j12 * j21 + 1e-9
        step = np.stack([j22 * off[0] - j12 * off[1], j11 * off[1] - j21 * off[0]]) / size
        tilts = tilts - np.clip(step, -1, 1)
    return tilts


def split(totals: Floats, mean_gpus: Floats, mean_s: Floats, jobs: Floats, gpus: Floats | None, work: Floats) -> Floats:
    """Return the probabilities (K, S, D) of K classes in each cell that meet the classes' jobs, GPUs and GPU-seconds.

    A class has a weight, a power of the size and a power of the duration; the three are corrected by turns. Where
    `gpus` is None, not published, there is no power of the size.
    """
    log_m, log_t = np.log(mean_gpus), np.log(mean_s)
    log_m, log_t = log_m - log_m.mean(), log_t - log_t.mean()
    base, by_size, by_time = np.log(jobs / jobs.sum()), np.zeros(len(jobs)), np.zeros(len(jobs))
    shares = np.empty(0)
    for _ in range(400):
        powers = base[:, None, None] + by_size[:, None, None] * log_m[:, None] + by_time[:, None, None] * log_t
        weights = np.exp(powers - powers.max(axis=0, keepdims=True))
        shares = weights / weights.sum(axis=0, keepdims=True)
        inside = shares * totals
        held = inside.sum(axis=(1, 2))
        asked = (inside.sum(axis=2) * mean_gpus).sum(axis=1)
        used = (inside * mean_gpus[:, None] * mean_s).sum(axis=(1, 2))
        base += 0.5 * np.log(jobs / held)
        if gpus is not None:
            by_size += 0.15 * np.log((gpus / jobs) / (asked / held))
            by_time += 0.08 * np.log((work / gpus) / (used / asked))
        else:
            by_time += 0.08 * np.log((work / jobs) / (used / held))
        by_size, by_time = np.clip(by_size, -4, 4), np.clip(by_time, -4, 4)
    return shares
