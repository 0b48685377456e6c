"""The life of the cluster before the round: jobs arrive, are placed with the tightest fit, end, are displaced.

What is fragmented in a round is so because jobs of all sizes have come and gone, not because they were scattered.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.rounds.demand import Demand, Want
from benchmarks.rounds.layout import Layout
from benchmarks.rounds.room import Room
from benchmarks.rounds.teams import Teams, Usage

PATIENCE_S = 3600.0
"""A gang that has waited for so long may have single-node jobs stopped for it."""

FILL = 0.985
"""Of the open GPUs, what the jobs that are there at the beginning take."""

BACKLOG = 0.6
"""Of the jobs that are to be queued in the round, how many wait all the time; the rest arrives shortly before it."""

MOST_OF_A_SIZE = 0.08
"""Gangs of one size wait for at most so much of the cluster (but one may always): further ones go elsewhere."""


@dataclass(frozen=True, slots=True)
class Run:
    """A job that runs: since when, until when, and on which GPU indices of which nodes."""

    want: Want
    started_s: float
    ends_s: float
    held: dict[int, list[int]]

    @property
    def gpus(self) -> int:
        """GPUs that it holds."""
        return sum(len(indices) for indices in self.held.values())


class Life:
    """The cluster at a moment; `fill`, then `step` again and again, then `pause`."""

    def __init__(self, demand: Demand, layout: Layout, teams: Teams, rng: np.random.Generator) -> None:
        self.demand, self.layout, self.teams, self.rng, self.kind = demand, layout, teams, rng, demand.kind
        self.room = Room(layout)
        self.usage = Usage(teams)
        self.running: dict[str, Run] = {}
        self.waiting: list[Want] = []
        self.now_s = 0.0
        self._ends: list[tuple[float, str]] = []
        self._on_node: dict[int, set[str]] = {}
        self._used = self._in_gangs = 0
        self._gang_share = demand.gang_share()

    @property
    def used(self) -> int:
        """GPUs that run something."""
        return self._used

    def fill(self, first: list[Want]) -> None:
        """Start `first`, which outlive the round, and draw jobs until the cluster is full; large gangs go first."""
        span_s = self.kind.rounds * self.kind.step_s
        for want in first:
            age_s = self.rng.uniform(0.0, 86_400.0)
            if not self._start(replace(want, submitted_s=-age_s - 600.0), -age_s, span_s + 5 * 86_400.0):
                raise AssertionError(f"an empty cluster has no room for a job of {want.gpus} GPUs")
        drawn = []
        left = FILL * self.layout.open_gpus - self._used
        total = sum(self.demand.pool_gpus.values())
        for pool, gpus in self.demand.pool_gpus.items():
            taken = 0
            while taken < left * gpus / total:
                want = self.demand.draw(pool, self.demand.size(pool, running=True), 0.0, long=True)
                drawn.append(want)
                taken += want.gpus
        for want in sorted(drawn, key=lambda want: -want.gpus):
            age_s = self.rng.random() * want.duration_s
            waited_s = self.rng.exponential(1800.0)
            self._start(replace(want, submitted_s=-age_s - waited_s), -age_s, want.duration_s - age_s)

    def step(self) -> None:
        """Let one scheduling round pass: jobs end, new ones come, what waits is tried, the oldest first."""
        self.now_s += self.kind.step_s
        ended = self._end_until(self.now_s)
        stuck: set[object] = set()
        self._make_room()
        still = []
        for want in sorted(self.waiting, key=lambda want: (want.submitted_s, want.id)):
            if not self._try(want, stuck):
                still.append(want)
        self.waiting = still
        sizes = Counter(want.gpus for want in still)
        for _ in range(20 + 2 * ended):
            if len(self.waiting) >= BACKLOG * self.kind.queued and self._used >= FILL * self.layout.open_gpus:
                break
            pool = self.demand.pool()
            want = self.demand.draw(pool, self.demand.size(pool, running=False), self._lately())
            if not self._try(want, stuck) and self._may_wait(want, sizes):
                self.waiting.append(want)
                sizes[want.gpus] += 1

    def _lately(self) -> float:
        """Draw an instant since the last scheduling round."""
        return self.now_s - float(self.rng.random()) * self.kind.step_s

    def _may_wait(self, want: Want, sizes: Mapping[int, int]) -> bool:
        if want.gpus > 8:
            return sizes[want.gpus] * want.gpus <= MOST_OF_A_SIZE * self.layout.gpus - want.gpus or not sizes[want.gpus]
        return len(self.waiting) < BACKLOG * self.kind.queued

    def pause(self, used: int) -> None:
        """Let jobs end, without a start, until at most `used` GPUs are; one whose end would overshoot runs on."""
        later = []
        while self._used > used:
            ends_s, name = heapq.heappop(self._ends)
            run = self.running.get(name)
            if run is None or run.ends_s != ends_s:
                continue
            if self._used - run.gpus < used - max(8, self.layout.gpus // 80):
                later.append(run)
                continue
            self.now_s = max(self.now_s, ends_s)
            self._stop(run)
        for run in later:
            self.running[run.want.id] = replace(run, ends_s=self.now_s + 60.0)

    def _end_until(self, until_s: float) -> int:
        ended = 0
        while self._ends and self._ends[0][0] <= until_s:
            ends_s, name = heapq.heappop(self._ends)
            run = self.running.get(name)
            if run is not None and run.ends_s == ends_s:
                self._stop(run)
                ended += 1
        return ended

    def _try(self, want: Want, stuck: set[object]) -> bool:
        """Start a waiting job where it fits; `stuck` are the shapes that are known to fit nowhere in this round."""
        shape = want.shape
        if shape in stuck:
            return False
        if not self._allowed(want, want.gpus):
            return False
        if self._start(want, max(want.submitted_s, self._lately()), want.duration_s):
            return True
        stuck.add(shape)
        return False

    def _allowed(self, want: Want, gpus: int) -> bool:
        kind = want.types[0][0] if want.types else self.layout.gpu_type[0]
        return self.usage.admits(want.team, want.user, want.held(gpus, kind), want.preemptible)

    def _start(self, want: Want, started_s: float, lasts_s: float) -> bool:
        for gpus in (want.gpus, want.minimum) if want.minimum < want.gpus else (want.gpus,):
            if not self._allowed(want, gpus):
                continue
            spread = self.room.find(want, gpus)
            if spread is not None:
                held = self.room.take(want, spread)
                self._count(Run(want, started_s, self.now_s + lasts_s, held), 1)
                return True
        return False

    def _stop(self, run: Run) -> None:
        self.room.give(run.want, run.held)
        self._count(run, -1)

    def _count(self, run: Run, sign: int) -> None:
        want = run.want
        gpu_type = self.layout.gpu_type[next(iter(run.held))]
        self.usage.add(want.team, want.user, want.held(run.gpus, gpu_type), want.preemptible, sign)
        self._used += sign * run.gpus
        if len(run.held) > 1:
            self._in_gangs += sign * run.gpus
        if sign > 0:
            self.running[want.id] = run
            heapq.heappush(self._ends, (run.ends_s, want.id))
            for n in run.held:
                self._on_node.setdefault(n, set()).add(want.id)
        else:
            del self.running[want.id]
            for n in run.held:
                self._on_node[n].discard(want.id)

    def _make_room(self) -> None:
        """Stop single-node jobs for the gang that has waited longest, while gangs have less than their share."""
        if self._in_gangs >= self._gang_share * self._used:
            return
        due = [
            want
            for want in self.waiting
            if want.per_node == self._node_gpus(want) and self.now_s - want.submitted_s > PATIENCE_S
        ]
        tried: set[object] = set()
        for want in sorted(due, key=lambda want: (want.submitted_s, want.id)):
            key = (want.gpus, want.types, want.required)
            if key not in tried and self._allowed(want, want.gpus) and self._clear(want):
                self.waiting.remove(want)
                return
            tried.add(key)

    def _node_gpus(self, want: Want) -> int:
        kinds = {pool.gpus for pool in self.kind.pools if not want.types or pool.gpu_type == want.types[0][0]}
        return max(kinds)

    def _clear(self, want: Want) -> bool:
        """Stop what is in the way of a gang of whole nodes in the narrowest domain that then holds it, and start it."""
        wanted = want.types[0][0] if want.types else None
        room, layout = self.room, self.layout
        clear = [
            n
            for n in np.flatnonzero(room.capacity == want.per_node).tolist()
            if wanted in (None, layout.gpu_type[n])
            and all(self._may_stop(self.running[name]) for name in self._on_node.get(n, ()))
        ]
        need = want.gpus // (want.per_node or 1)
        clear = self._whole_slices(want, clear)
        if len(clear) < need:
            return False
        for level in reversed(
            range(0 if want.required is None else layout.levels.index(want.required), len(layout.levels))
        ):
            nodes = np.array(clear)[layout.inside[level][clear]]
            groups = layout.domain[level][nodes]
            counts = np.bincount(groups, minlength=len(layout.parent[level]))
            if len(nodes) and counts.max() >= need:
                free = np.bincount(groups, weights=room.free[nodes], minlength=len(counts))
                best = int(np.where(counts >= need, free, -1.0).argmax())
                return self._displace(want, nodes[groups == best].tolist(), need)
        return want.required is None and self._displace(want, clear, need)

    def _whole_slices(self, want: Want, clear: list[int]) -> list[int]:
        """Return of each domain as many nodes as whole slices need; nodes of a domain have numbers in a row."""
        for gpus, level in reversed(want.slices):
            if level == "node":
                continue
            step = gpus // (want.per_node or 1)
            domain = self.layout.domain[self.layout.levels.index(level)]
            groups: dict[int, list[int]] = {}
            for n in clear:
                groups.setdefault(int(domain[n]), []).append(n)
            clear = [n for nodes in groups.values() for n in nodes[: len(nodes) // step * step]]
        return clear

    def _displace(self, want: Want, nodes: list[int], need: int) -> bool:
        if not want.slices:
            nodes = sorted(nodes, key=lambda n: (-int(self.room.free[n]), n))
        for n in nodes[:need]:
            for name in sorted(self._on_node.get(n, ())):
                run = self.running[name]
                self._stop(run)
                left_s = run.ends_s - self.now_s + 300.0
                again = replace(run.want, duration_s=left_s, preemptions=run.want.preemptions + 1)
                self.waiting.append(again)
        return self._start(want, self.now_s, want.duration_s)

    def _may_stop(self, run: Run) -> bool:
        return len(run.held) == 1 and run.want.preemptible and self.now_s - run.started_s > 600.0
