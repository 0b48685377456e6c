"""What jobs ask for: sizes, durations, cuts, places, priorities; drawn one job at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.rounds.kinds import Kind, Pool
from benchmarks.rounds.layout import RESERVED_CPUS, Layout
from benchmarks.rounds.teams import Team, Teams

SIGMA = 1.1
MEDIAN_S = 1800.0
"""True durations are lognormal; the median is that of a job of one GPU and grows with the size."""

MAX_ESTIMATE_S = 30 * 86_400
PRIORITIES = {"P1": 0.20, "P2": 0.50, "P3": 0.30}
RICH_PRIORITIES = {"P0": 0.01, "P1": 0.19, "P2": 0.48, "P3": 0.27, "P4": 0.05}


@dataclass(frozen=True, slots=True)
class Want:
    """One job. `types` maps GPU types to speeds, fastest first; `keys` go into the file as they are."""

    id: str
    team: Team
    user: str
    priority: str | int
    gpus: int
    minimum: int
    maximum: int
    per_node: int | None
    per_task: int | None
    cpus_per_gpu: int
    memory_per_gpu: int
    types: tuple[tuple[str, float], ...]
    required: str | None
    preferred: str | None
    slices: tuple[tuple[int, str], ...]
    selector: tuple[tuple[str, str], ...]
    excluded: tuple[str, ...]
    preemptible: bool
    duration_s: float
    estimate_s: int | None
    submitted_s: float
    period_s: int
    hidden: bool
    keys: Mapping[str, object]
    preemptions: int = 0

    @property
    def shape(self) -> tuple[object, ...]:
        """What decides where it fits."""
        cut = (self.gpus, self.minimum, self.per_node, self.per_task, self.cpus_per_gpu, self.memory_per_gpu)
        return (*cut, self.types, self.required, self.slices, self.selector, self.excluded)

    def held(self, gpus: int, gpu_type: str) -> dict[str, int]:
        """Return what so many of its GPUs hold, as teams count it."""
        return {
            "gpus": gpus,
            gpu_type: gpus,
            "cpus": gpus * self.cpus_per_gpu,
            "memory_gb": gpus * self.memory_per_gpu,
        }


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes of a pool and their cumulative shares among running and among arriving jobs."""

    sizes: tuple[int, ...]
    running: np.ndarray
    arriving: np.ndarray


class Demand:
    """Draws jobs. Every draw takes the same seeded generator, so the order of calls is part of the seed's meaning."""

    def __init__(self, kind: Kind, layout: Layout, teams: Teams, rng: np.random.Generator) -> None:
        self.kind, self.layout, self.teams, self.rng = kind, layout, teams, rng
        self._number = 0
        self._types_known = set(layout.gpu_type)
        self._team_steps = np.cumsum([leaf.share for leaf in teams.leaves])
        priorities = RICH_PRIORITIES if kind.rich else PRIORITIES
        self._classes, self._class_steps = list(priorities), np.cumsum(list(priorities.values()))
        room = dict.fromkeys(kind.pools, 0)
        for node in layout.nodes:
            room[node.pool] += node.pool.gpus
        self.pool_gpus = room
        self._sizes = {pool: _sizes(pool, room[pool]) for pool in kind.pools}
        per_job = [room[pool] / self.mean_size(pool) for pool in kind.pools]
        self._pool_steps = np.cumsum(per_job) / sum(per_job)
        self._level_gpus = self._domain_gpus()

    def mean_size(self, pool: Pool) -> float:
        """Return the mean size of a pool's running jobs, in GPUs."""
        of = self._sizes[pool]
        return float(np.diff(of.running, prepend=0.0) @ np.array(of.sizes))

    def gang_share(self) -> float:
        """Return the share of the GPUs in use that jobs larger than a node should hold."""
        gangs = every = 0.0
        for pool, gpus in self.pool_gpus.items():
            of = self._sizes[pool]
            weights = np.diff(of.running, prepend=0.0) * np.array(of.sizes)
            gangs += gpus * weights[np.array(of.sizes) > pool.gpus].sum() / weights.sum()
            every += gpus
        return gangs / every

    def _domain_gpus(self) -> dict[tuple[str, str], int]:
        """Return the GPUs of the largest domain by pool's GPU type and level."""
        found: dict[tuple[str, str], int] = {}
        gpus = np.array([node.pool.gpus for node in self.layout.nodes])
        kinds = np.array(self.layout.gpu_type)
        for gpu_type in sorted(self._types_known):
            for depth, level in enumerate(self.layout.levels):
                here = np.where((kinds == gpu_type) & self.layout.inside[depth], gpus, 0)
                found[gpu_type, level] = int(np.bincount(self.layout.domain[depth], weights=here).max())
        return found

    def _pick(self, steps: np.ndarray) -> int:
        return min(int(np.searchsorted(steps, self.rng.random() * steps[-1], side="right")), len(steps) - 1)

    def _one(self, options: Sequence[int]) -> int:
        """Draw one of a few, all alike; Generator.choice takes far longer."""
        return options[int(self.rng.random() * len(options))]

    def pool(self) -> Pool:
        """Draw a pool, so that each is asked for in proportion to its GPUs."""
        return self.kind.pools[self._pick(self._pool_steps)]

    def size(self, pool: Pool, *, running: bool) -> int:
        """Draw a size as running jobs have it, or as arriving ones do: what runs long arrives rarely."""
        of = self._sizes[pool]
        return of.sizes[self._pick(of.running if running else of.arriving)]

    def gang_sizes(self, pool: Pool, least: int) -> list[int]:
        """Return the sizes of a pool from `least` GPUs on."""
        return [size for size in self._sizes[pool].sizes if size >= least]

    def draw(self, pool: Pool, gpus: int, submitted_s: float, *, long: bool = False) -> Want:
        """Draw a job of a size. `long`: among those that run at a moment, where long ones are the more frequent."""
        rng, habits = self.rng, self.kind.habits
        self._number += 1
        team = self.teams.leaves[self._pick(self._team_steps)]
        priority = self._classes[self._pick(self._class_steps)]
        if team.best_class is not None:
            priority = max(priority, team.best_class)
        median_s = MEDIAN_S * stretch(gpus) * (math.exp(SIGMA**2) if long else 1.0)
        duration_s = min(max(median_s * math.exp(SIGMA * rng.standard_normal()), 240.0), 20 * 86_400.0)
        per_node, per_task = self._cut(pool, gpus)
        cpus, memory = self._per_gpu(pool, gpus)
        required, preferred = self._topology(pool, gpus)
        elastic = gpus > pool.gpus and gpus // pool.gpus % 2 == 0 and rng.random() < habits.elastic
        slices = () if elastic or per_task is not None else self._slices(pool, gpus, required)
        return Want(
            id=f"j{self._number}",
            team=team,
            user=f"{team.id}-u{int(rng.integers(team.users))}",
            priority=priority,
            gpus=gpus,
            minimum=gpus // 2 if elastic else gpus,
            maximum=gpus * 2 if elastic else gpus,
            per_node=per_node,
            per_task=per_task,
            cpus_per_gpu=cpus,
            memory_per_gpu=memory,
            types=self._types(pool),
            required=required,
            preferred=preferred,
            slices=slices,
            selector=(("disk", "nvme"),) if pool.gpus > 1 and rng.random() < habits.selective else (),
            excluded=(),
            preemptible=rng.random() >= 0.07 or not team.firm,
            duration_s=duration_s,
            estimate_s=self._estimate(duration_s),
            submitted_s=submitted_s,
            period_s=self._one((900, 1800, 1800, 3600)),
            hidden=rng.random() < habits.hidden,
            keys=self._checkpoint(gpus),
        )

    def _cut(self, pool: Pool, gpus: int) -> tuple[int | None, int | None]:
        if 1 < gpus <= 64 and pool.gpus > 1 and self.rng.random() < self.kind.habits.per_task:
            tasks = [task for task in (1, 2, 4) if gpus % task == 0 and task < gpus]
            return None, self._one(tasks)
        return (None if gpus <= pool.gpus else pool.gpus), None

    def _per_gpu(self, pool: Pool, gpus: int) -> tuple[int, int]:
        """Draw CPUs and memory per GPU; a hungry job takes more than its GPUs' share of the node."""
        cpus = self._one((4, 8, 12))
        memory = self._one((32, 64, 100))
        fair_cpus, fair_memory = (pool.cpus - RESERVED_CPUS) // pool.gpus, pool.memory_gb // pool.gpus
        if 2 * gpus <= pool.gpus and self.rng.random() < self.kind.habits.hungry:
            cpus, memory = (2 * fair_cpus - 4, memory) if self.rng.random() < 0.5 else (cpus, 2 * fair_memory - 16)
        elif self.kind.habits.hungry:
            cpus = min(cpus, fair_cpus)
        return min(cpus, 2 * fair_cpus), min(memory, 2 * fair_memory)

    def _types(self, pool: Pool) -> tuple[tuple[str, float], ...]:
        if len(self._types_known) == 1:
            return ()
        own = ((pool.gpu_type, 1.0),)
        others = [(other, speed) for (first, other), speed in self.kind.speeds.items() if first == pool.gpu_type]
        if pool.gpus < 8 or not others or self.rng.random() >= self.kind.habits.two_types:
            return own
        return tuple(sorted((*own, others[int(self.rng.integers(len(others)))]), key=lambda pair: -pair[1]))

    def _topology(self, pool: Pool, gpus: int) -> tuple[str | None, str | None]:
        """Of gangs that fit into a domain, most prefer and some require the narrowest that holds them."""
        draw = self.rng.random()
        if gpus <= pool.gpus:
            return None, None
        fitting = [level for level in self.layout.levels if self._level_gpus[pool.gpu_type, level] >= gpus]
        if not fitting:
            return None, self.layout.levels[0] if draw < 0.3 else None
        if draw < 0.55:
            return None, fitting[-1]
        return (fitting[-1], None) if draw < 0.65 else (None, None)

    def _slices(self, pool: Pool, gpus: int, required: str | None) -> tuple[tuple[int, str], ...]:
        """Draw groups that stay together: inside the narrowest level above the node, often inside wider ones too."""
        if gpus < 4 * pool.gpus or pool.gpus == 1 or self.rng.random() >= self.kind.habits.slices:
            return ()
        levels = [level for level in self.layout.levels if required is None or self._narrower(level, required)]
        found: list[tuple[int, str]] = []
        outer = gpus
        for level in levels:
            size = _largest_part(outer, self._level_gpus[pool.gpu_type, level], pool.gpus)
            if size < outer or (found == [] and level == levels[-1]):
                found.append((size, level))
                outer = size
        keep = int(self.rng.integers(1, 4))
        return (*found, (pool.gpus, "node"))[-keep:] if keep > 1 else tuple(found[-1:])

    def _narrower(self, level: str, other: str) -> bool:
        return self.layout.levels.index(level) > self.layout.levels.index(other)

    def _estimate(self, duration_s: float) -> int | None:
        """Draw what the user guesses: far too much, as a rule; a few guess too little, and some do not say."""
        rng = self.rng
        used = 0.08 + 0.92 * rng.random() ** 2.0
        late = rng.random() < 0.02
        if rng.random() < self.kind.habits.no_estimate:
            return None
        return int(min(max(duration_s * (0.5 if late else 1 / used), 300.0), MAX_ESTIMATE_S))

    def _checkpoint(self, gpus: int) -> dict[str, object]:
        rng = self.rng
        if rng.random() < 0.4:
            return {}
        checkpoint: dict[str, object] = {"interval_s": self._one((900, 1800, 3600))}
        checkpoint |= {
            "cost_s": int(rng.integers(5, 61)),
            "restart_s": int(rng.integers(5, 21)) * (60 if gpus > 8 else 12),
        }
        if rng.random() < 0.25:
            checkpoint["on_signal"] = True
        return {"checkpoint": checkpoint}


def stretch(gpus: int) -> float:
    """Return how many times longer a gang runs than a job of one GPU."""
    return float(gpus**0.4)


def _sizes(pool: Pool, gpus: int) -> _Sizes:
    known = dict(pool.sizes)
    sizes = tuple(sorted(size for size in known if size <= max(1, gpus // 4) and _cuttable(size, pool)))
    shares = np.array([known[size] for size in sizes])
    rates = shares / np.array([stretch(size) for size in sizes])
    return _Sizes(sizes, np.cumsum(shares / shares.sum()), np.cumsum(rates / rates.sum()))


def _cuttable(size: int, pool: Pool) -> bool:
    return size <= pool.gpus or size % pool.gpus == 0


def _largest_part(gpus: int, most: int, step: int) -> int:
    """Return the largest multiple of `step` that divides `gpus` and is at most `most`."""
    parts: Sequence[int] = [part for part in range(step, min(gpus, most) + 1, step) if gpus % part == 0]
    return parts[-1] if parts else step
