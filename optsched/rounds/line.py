"""A team's line: how the GPUs that run are laid along quota and entitlement, and what that makes of them.

The parts of a line: first the minimum GPUs of all jobs of the team by priority, then the GPUs above their minimum by
priority. A key is part · P + priority index, 0 .. 2P-1. `held` arrays have shape (T, 2P, Y): GPUs by team, key and
type.

Rows are the ranks in order of precedence, shape (8P,): for each part, for each tier (deadline, guaranteed, fair,
opportunistic), for each priority.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import add

import numpy as np

from optsched.rounds.problem import Ints, Item, Lines, Occupancy, RoundJob, What

TIERS = 4


def row(part: int, tier: int, priority: int, priorities: int) -> int:
    """Return the index of a rank."""
    return (part * TIERS + tier) * priorities + priority


def row_gpus(lines: Lines, held: Ints, deadline_team: int) -> Ints:
    """Return the GPUs of every rank, shape (8P,), summed over the teams."""
    total: Ints = rows_by_team(lines, held, np.arange(held.shape[0]), deadline_team).sum(axis=0)
    return total


def rows_by_team(lines: Lines, held: Ints, teams: Ints, deadline_team: int) -> Ints:
    """Return the GPUs of every rank for each of `teams`, shape (len(teams), 8P).

    `held` has the same teams, shape (len(teams), 2P, Y).
    """
    count, keys, _ = held.shape
    priorities = keys // 2
    through = held.cumsum(axis=1)
    total = through.sum(axis=2)
    fair = np.minimum(through, lines.fair_by_type[teams][:, None, :])
    typed = lines.typed[teams][:, None]
    quota_by_type = lines.quota_by_type[teams][:, None, :]
    quota_any = lines.quota_any[teams][:, None]
    guaranteed = np.where(typed, np.minimum(through, quota_by_type).sum(axis=2), np.minimum(total, quota_any))
    entitled = np.where(
        typed,
        np.minimum(through, quota_by_type + lines.fair_by_type[teams][:, None, :]).sum(axis=2),
        np.minimum(total, quota_any + fair.sum(axis=2)),
    )
    zero = np.zeros((count, 1), dtype=np.int64)
    by_tier = np.stack([guaranteed, entitled - guaranteed, total - entitled], axis=1)
    steps = np.diff(np.concatenate([zero[:, :, None].repeat(3, axis=1), by_tier], axis=2), axis=2)
    rows = np.zeros((count, 2, TIERS, priorities), dtype=np.int64)
    rows[:, :, 1:, :] = steps.reshape(count, 3, 2, priorities).transpose(0, 2, 1, 3)
    near = teams == deadline_team
    if near.any():
        rows[near] = 0
        rows[near, :, 0, :] = held[near].sum(axis=2).reshape(-1, 2, priorities)
    return rows.reshape(count, 2 * TIERS * priorities)


@dataclass(frozen=True, slots=True)
class Line:
    """One team's row of `Lines` as plain numbers: for many small questions they are faster than arrays.

    `both` is `quota` and `fair` together, which is what a quota by type leaves entitled. `near` marks the line of near
    deadlines, all of which is one tier.
    """

    typed: bool
    quota_any: int
    quota: list[int]
    fair: list[int]
    both: list[int]
    near: bool

    def rows(self, held: Sequence[Sequence[int]]) -> list[int]:
        """Return the GPUs of each of the 8P ranks, `held` of shape (2P, Y): `rows_by_team` of one team."""
        priorities = len(held) // 2
        rows = [0] * (2 * TIERS * priorities)
        through, total, guaranteed, entitled = [0] * len(self.fair), 0, 0, 0
        for key, by_type in enumerate(held):
            more = sum(by_type)
            if not more:
                continue
            part, priority = divmod(key, priorities)
            at = (part * TIERS + 1) * priorities + priority
            if self.near:
                rows[at - priorities] = more
                continue
            through = list(map(add, through, by_type))
            total += more
            if self.typed:
                now = sum(map(min, through, self.quota))
                within = sum(map(min, through, self.both))
            else:
                now = min(total, self.quota_any)
                within = min(total, self.quota_any + sum(map(min, through, self.fair)))
            rows[at] = now - guaranteed
            rows[at + priorities] = (within - now) - (entitled - guaranteed)
            rows[at + 2 * priorities] = more - (within - entitled)
            guaranteed, entitled = now, within
        return rows


def line_of(lines: Lines, team: int, deadline_team: int) -> Line:
    """Return one team's line."""
    return Line(
        typed=bool(lines.typed[team]),
        quota_any=int(lines.quota_any[team]),
        quota=lines.quota_by_type[team].tolist(),
        fair=lines.fair_by_type[team].tolist(),
        both=(lines.quota_by_type[team] + lines.fair_by_type[team]).tolist(),
        near=team == deadline_team,
    )


@dataclass(frozen=True, slots=True)
class Use:
    """What teams use by key: GPUs (T, 2P, Y), CPUs and memory in millionths (T, 2P)."""

    gpus: Ints
    cpus: Ints
    memory: Ints

    def through(self, team: int, key: int, item: Item) -> int:
        """Return what the team uses of one named resource at keys up to and including `key`."""
        if item.what is What.GPUS:
            rows = self.gpus[team, : key + 1]
            # So few numbers are summed faster one by one.
            by_key = map(sum, rows.tolist()) if item.gpu_type is None else rows[:, item.gpu_type].tolist()
            return int(sum(by_key))
        side = self.cpus if item.what is What.CPUS else self.memory
        return int(sum(side[team, : key + 1].tolist()))

    def book(self, team: int, job: RoundJob, size: int, gpu_type: int, sign: int = 1) -> None:
        """Add `size` GPUs of a job to a team's use, or take them off (`sign` -1)."""
        key, part, above = job.priority, min(size, job.minimum), size - job.minimum
        while part > 0:
            self.gpus[team, key, gpu_type] += sign * part
            if job.cpus_per_gpu_u:
                self.cpus[team, key] += sign * part * job.cpus_per_gpu_u
            if job.memory_per_gpu_u:
                self.memory[team, key] += sign * part * job.memory_per_gpu_u
            key, part, above = key + self.gpus.shape[1] // 2, above, 0

    def book_all(self, columns: tuple[Ints, ...], sign: int = 1) -> None:
        """Do what `book` does for many jobs at once; arrays as in `Occupancy.columns`."""
        team, priority, minimum, size, gpu_type, cpus_u, memory_u = columns
        low = np.minimum(size, minimum)
        for key, part in ((priority, low), (self.gpus.shape[1] // 2 + priority, size - low)):
            if not part.any():
                continue
            # Along one axis whole numbers are added up much faster.
            where = team * self.gpus.shape[1] + key
            np.add.at(self.gpus.reshape(-1), where * self.gpus.shape[2] + gpu_type, sign * part)
            np.add.at(self.cpus.reshape(-1), where, sign * part * cpus_u)
            np.add.at(self.memory.reshape(-1), where, sign * part * memory_u)


def use_of(problem_shape: tuple[int, int, int], sizes: Iterable[tuple[int, RoundJob, int, int]]) -> Use:
    """Return the use by team and key of jobs given as (team, job, GPUs, GPU type); shape is (T, P, Y)."""
    use = no_use(problem_shape)
    for team, job, count, gpu_type in sizes:
        use.book(team, job, count, gpu_type)
    return use


def use_now(occupancy: Occupancy) -> Use:
    """Return the use by team and key of what runs now, a new one at every call: `use_of` the running jobs."""
    return Use(*(each.copy() for each in occupancy.used))


def no_use(problem_shape: tuple[int, int, int]) -> Use:
    """Return the use of no job at all; shape is (T, P, Y)."""
    teams, priorities, types = problem_shape
    by_key = (teams, 2 * priorities)
    return Use(*(np.zeros(shape, dtype=np.int64) for shape in ((*by_key, types), by_key, by_key)))


class Over:
    """By key, in which resources that a line names a team uses more than that; what it uses may not change after."""

    def __init__(self, use: Use, team: int, line: tuple[Item, ...]) -> None:
        self._over: list[tuple[Item, list[bool]]] = []
        if not line:
            return
        gpus = use.gpus[team].cumsum(axis=0)
        for item in line:
            if item.what is What.GPUS:
                used = gpus.sum(axis=1) if item.gpu_type is None else gpus[:, item.gpu_type]
            else:
                used = (use.cpus if item.what is What.CPUS else use.memory)[team].cumsum()
            self._over.append((item, (used > item.amount).tolist()))

    def above(self, key: int, gpu_type: int, cpus: bool, memory: bool) -> bool:
        """Return whether the use through `key` exceeds the line in what a job of a type uses, with CPUs and memory."""
        for item, over in self._over:
            if item.what is What.GPUS:
                uses = item.gpu_type is None or item.gpu_type == gpu_type
            else:
                uses = cpus if item.what is What.CPUS else memory
            if uses and over[key]:
                return True
        return False


def fits_line(use: Use, team: int, key: int, line: tuple[Item, ...]) -> bool:
    """Return whether the team's use through `key` is within everything that `line` names."""
    return all(use.through(team, key, item) <= item.amount for item in line)
