"""Who shares the cluster: departments, teams, quotas and limits, and what of them is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.rounds.kinds import Kind
from benchmarks.rounds.layout import Layout

DEPARTMENTS = 5
QUOTA_SHARE = 0.79
"""Of the cluster's GPUs, what the quotas of all teams together promise."""

Amounts = Mapping[str, int]
"""Counts by what is counted: gpus, cpus, memory_gb, or a GPU type."""


@dataclass(frozen=True, slots=True)
class Team:
    """A team that jobs belong to: how much of all work it has, and who is above it."""

    id: str
    share: float
    above: tuple[str, ...]
    users: int
    best_class: str | None = None
    firm: bool = True


@dataclass(frozen=True, slots=True)
class Teams:
    """The team tree as a snapshot has it, the leaves, and quotas and limits by team ("user_limit" by team as well)."""

    entries: list[dict[str, object]]
    leaves: list[Team]
    quota: dict[str, Amounts]
    limit: dict[str, Amounts]
    user_limit: dict[str, Amounts]


class _Builder:
    def __init__(self, kind: Kind, layout: Layout, rng: np.random.Generator) -> None:
        self.kind, self.rng, self.gpus = kind, rng, layout.gpus
        self.types = Counter[str]()
        for node in layout.nodes:
            self.types[node.pool.gpu_type] += node.pool.gpus
        steep = rng.uniform(0.8, 1.4)
        shares = np.arange(1, kind.teams + 1) ** -steep
        self.shares = (shares / shares.sum()).tolist()
        drawn = shares * rng.lognormal(0.0, 0.8, kind.teams)
        self.quotas = np.maximum(1, QUOTA_SHARE * self.gpus * drawn / drawn.sum()).astype(int).tolist()
        self.names = [f"t{number:02d}" for number in rng.permutation(kind.teams).tolist()]
        self.made = Teams([{"id": f"d{i}"} for i in range(DEPARTMENTS)], [], {}, {}, {})

    def build(self) -> Teams:
        for rank, name in enumerate(self.names):
            department = f"d{int(name[1:]) % DEPARTMENTS}"
            entry: dict[str, object] = {"id": name, "parent": department}
            entry |= {"weight": int(self.rng.choice((1, 1, 1, 2, 4))), "quota": {"gpus": self.quotas[rank]}}
            self.made.entries.append(entry)
            users = 2 + round(60 * self.shares[rank])
            leaf = Team(name, self.shares[rank], (name, department), users)
            self.made.leaves.extend(self._special(rank, entry, leaf) if self.kind.rich else [leaf])
        if self.kind.rich:
            self._departments()
        self._collect()
        return self.made

    def _special(self, rank: int, entry: dict[str, object], leaf: Team) -> list[Team]:
        """Give a team of a rich round what it has of its own, by its rank; return it, or the teams below it."""
        expected = self.gpus * leaf.share
        share = leaf.share
        match rank % 16:
            case 0 if rank == 0:
                return self._split(entry, leaf)
            case 1:
                entry["max_deadline_gpus"] = max(16, self.gpus // 20)
                entry["user_limit"] = {"gpus": max(16, round(0.5 * expected))}
            case 2:
                entry["limit"] = {"gpus": max(16, self.quotas[rank], round(1.3 * expected))}
            case 3:
                entry["limit"] = {"cpus": max(128, round(10 * expected))}
            case 4:
                entry["max_priority"] = "P2"
                return [Team(leaf.id, share, leaf.above, leaf.users, best_class="P2")]
            case 5:
                entry["weight"] = 0
            case 6:
                del entry["quota"]
                return [Team(leaf.id, share, leaf.above, leaf.users, firm=False)]
            case 7:
                entry["quota"] = {"gpus": 0}
            case 8:
                quota = self.quotas[rank]
                entry["quota"] = {"gpus": quota, "cpus": 16 * quota, "memory_gb": 128 * quota}
            case 9:
                total = sum(self.types.values())
                entry["quota"] = {
                    "gpus": {name: max(1, self.quotas[rank] * count // total) for name, count in self.types.items()}
                }
                entry["limit"] = {"memory_gb": max(1024, round(80 * expected))}
        return [leaf]

    def _split(self, entry: dict[str, object], leaf: Team) -> list[Team]:
        quota = self.quotas[0]
        below = []
        for suffix, part, weight in (("a", 0.6, 3), ("b", 0.4, 1)):
            name = f"{leaf.id}-{suffix}"
            gpus = int(quota * part)
            self.made.entries.append({"id": name, "parent": leaf.id, "weight": weight, "quota": {"gpus": gpus}})
            below.append(Team(name, leaf.share * part, (name, *leaf.above), leaf.users))
        entry["quota"] = {"gpus": quota}
        return below

    def _departments(self) -> None:
        expected = Counter[str]()
        promised = Counter[str]()
        for leaf in self.made.leaves:
            expected[leaf.above[-1]] += round(self.gpus * leaf.share)
        for entry in self.made.entries:
            quota = entry.get("quota")
            if isinstance(quota, dict) and str(entry["parent"]).startswith("d"):
                gpus = quota["gpus"]
                promised[str(entry["parent"])] += sum(gpus.values()) if isinstance(gpus, dict) else gpus
        for number, entry in enumerate(self.made.entries[:DEPARTMENTS]):
            name = str(entry["id"])
            entry["weight"] = 2 if number % 2 else 1
            if number == 0:
                entry["quota"] = {"gpus": promised[name]}
            if number == 1:
                entry["limit"] = {"gpus": max(promised[name], round(1.2 * expected[name]), 64)}

    def _collect(self) -> None:
        tables = (("quota", self.made.quota), ("limit", self.made.limit), ("user_limit", self.made.user_limit))
        for entry in self.made.entries:
            for key, table in tables:
                named = entry.get(key)
                if isinstance(named, dict):
                    gpus = named.get("gpus")
                    by_type = gpus if isinstance(gpus, dict) else {}
                    table[str(entry["id"])] = by_type | {k: v for k, v in named.items() if not isinstance(v, dict)}


def build_teams(kind: Kind, layout: Layout, rng: np.random.Generator) -> Teams:
    """Return the teams of a round: a few have most of the work, quotas follow roughly."""
    return _Builder(kind, layout, rng).build()


class Usage:
    """What teams and users hold, so that what starts before the round stays within quotas and limits."""

    def __init__(self, teams: Teams) -> None:
        self._teams = teams
        self._all: dict[str, Counter[str]] = {}
        self._firm: dict[str, Counter[str]] = {}
        self._users: dict[tuple[str, str], Counter[str]] = {}

    def admits(self, team: Team, user: str, held: Amounts, preemptible: bool) -> bool:
        """Return whether a job that would hold so much may start."""
        tables = [(self._teams.limit, self._all)] + ([] if preemptible else [(self._teams.quota, self._firm)])
        for most, used in tables:
            for name in team.above:
                if name in most and not _within(used.get(name, {}), held, most[name]):
                    return False
        return all(
            _within(self._users.get((name, user), {}), held, self._teams.user_limit[name])
            for name in team.above
            if name in self._teams.user_limit
        )

    def add(self, team: Team, user: str, held: Amounts, preemptible: bool, sign: int) -> None:
        """Count in what a job holds, or with sign -1 count it out."""
        change = {what: sign * count for what, count in held.items()}
        for name in team.above:
            self._all.setdefault(name, Counter()).update(change)
            if not preemptible:
                self._firm.setdefault(name, Counter()).update(change)
            if name in self._teams.user_limit:
                self._users.setdefault((name, user), Counter()).update(change)


def _within(used: Amounts, more: Amounts, most: Amounts) -> bool:
    return all(used.get(what, 0) + more.get(what, 0) <= count for what, count in most.items())
