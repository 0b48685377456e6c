"""What is noted while a simulation runs; the figures are made of it at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from optsched.engine.events import Cause, Decided
from optsched.engine.state import State
from optsched.engine.tables import ENDS
from optsched.sim.accounts import PLACES, Account
from optsched.sim.results import GangPromise, GangRun, NodeMap
from optsched.sim.runs import Run, Split
from optsched.sim.sample import holes_of, map_of, shares_of
from optsched.sim.settings import SimSettings
from optsched.sim.workload import Workload
from optsched.topology.tree import Tree
from optsched.values.cluster import Cluster
from optsched.values.ids import JobId, TeamId
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.plan import Tier

MOST_PROMISES = 40
"""So many changes of a gang's reservation are kept."""


@dataclass(slots=True)
class JobNotes:
    """What became of a job; instants in ms, -1 where it has not come to that."""

    team: TeamId
    gpus: int
    submitted: int
    started: int = -1
    ended: int = -1
    state: str = "queued"
    preemptions: int = 0
    promised: int = -1


@dataclass(slots=True)
class GangNotes:
    """The runs and reservations of a large gang so far."""

    runs: list[GangRun] = field(default_factory=list)
    promises: list[GangPromise] = field(default_factory=list)


@dataclass(slots=True)
class Notes:
    """All that is noted, and all of it that is saved.

    GPU·ms: `split` what all runs that are over came to, `lost` of it by cause, `spans` by span: (runs, all, on more
    than one node). `next_sample` and `next_map` are when and which map comes next. `gaps` are those of rounds that
    have one, `decide_s` real seconds. `by_last` is where every GPU·ms had gone when the last job was submitted.
    """

    jobs: dict[JobId, JobNotes] = field(default_factory=dict)
    gangs: dict[JobId, GangNotes] = field(default_factory=dict)
    split: list[int] = field(default_factory=lambda: [0] * 5)
    lost: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    spans: dict[int, list[int]] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    gaps: list[float] = field(default_factory=list)
    decide_s: list[float] = field(default_factory=list)
    tiers: dict[str, int] = field(default_factory=lambda: dict.fromkeys((tier.value for tier in Tier), 0))
    series: dict[str, list[float]] = field(default_factory=dict)
    maps: list[NodeMap] = field(default_factory=list)
    next_sample: int = 0
    next_map: int = 0
    by_last: tuple[int, ...] = ()


class Collector:
    """Hears of everything that the figures need."""

    def __init__(self, workload: Workload, cluster: Cluster, tree: Tree, settings: SimSettings) -> None:
        self.notes = Notes()
        self._tree = tree
        self._settings = settings
        self._every = max(1, round(settings.sample_every_s * 1000))
        self._maps = sorted(round(at * 1000) for at in settings.maps_at)
        self._level = 0

    def skip_maps(self, now: int) -> None:
        """Go on from an instant up to which all maps were taken that ever will be."""
        self.notes.next_map = sum(at <= now for at in self._maps)

    # Jobs and runs

    def submitted(self, job: Job, now: int) -> None:
        """A job is submitted."""
        self.notes.jobs[job.id] = JobNotes(job.team, job.gpus, now)
        if job.gpus >= self._settings.gantt_gpus:
            self.notes.gangs[job.id] = GangNotes()

    def began(self, run: Run, job: Job) -> None:
        """A run has its GPUs."""
        known = self.notes.jobs[job.id]
        if known.started < 0:
            known.started = run.booked_at
        gang = self.notes.gangs.get(job.id)
        if gang is not None:
            where: Counter[str] = Counter()
            for node, gpus in job.placement.items():
                n = self._tree.node_index[node]
                domain = int(self._tree.domain_of[self._level, n])
                where[self._tree.domain_names[self._level][domain] if domain >= 0 else str(node)] += gpus_on(gpus)
            at = run.booked_at / 1000.0
            gang.runs.append(GangRun(at, at, run.gpus, self._tree.span_name(run.span), "", dict(where)))

    def over(self, run: Run, now: int, split: Split, why: str) -> None:
        """A run is over."""
        notes = self.notes
        for place, amount in enumerate(_parts(split)):
            notes.split[place] += amount
        notes.runs[why] = notes.runs.get(why, 0) + 1
        if split.lost:
            notes.lost[why] = notes.lost.get(why, 0) + split.lost
        use = notes.spans.setdefault(run.span, [0, 0, 0])
        use[0] += 1
        use[1] += split.total
        use[2] += split.total if len(run.nodes) > 1 else 0
        if why == "plan":
            notes.jobs[run.job].preemptions += 1
        gang = notes.gangs.get(run.job)
        if gang is not None:
            last = gang.runs[-1]
            gang.runs[-1] = GangRun(last.start_s, now / 1000.0, last.gpus, last.span, why, last.where)

    def failed(self, part: str) -> None:
        """Something failed by itself."""
        self.notes.failures[part] = self.notes.failures.get(part, 0) + 1

    def look(self, job: JobId, state: State, now: int) -> None:
        """A job's record has changed."""
        record = state.record(job)
        known = self.notes.jobs.get(job)
        if record is not None and known is not None and record.state in ENDS and known.ended < 0:
            known.ended, known.state = now, record.state.value

    # Rounds

    def decided(self, decided: Decided, state: State, wall_s: float) -> None:
        """A decision was made, which took so long in real time."""
        notes, info = self.notes, decided.plan.round
        notes.decide_s.append(wall_s)
        if decided.cause is not Cause.ROUND:
            return
        notes.sources[info.source.value] = notes.sources.get(info.source.value, 0) + 1
        if info.gap is not None:
            notes.gaps.append(info.gap)
        tiers = dict.fromkeys(notes.tiers, 0)
        for rank in info.ranks:
            tiers[rank.tier.value] += rank.gpus
        notes.tiers = tiers
        for room in decided.plan.reservations:
            known = notes.jobs.get(room.job)
            start = room.start_estimate_at
            if known is not None and known.promised < 0 and start is not None:
                known.promised = round(start * 1000)
            gang = notes.gangs.get(room.job)
            if gang is not None and len(gang.promises) < MOST_PROMISES:
                last = gang.promises[-1] if gang.promises else None
                if last is None or _differs(last, room.domain, start, self._settings.round_every_s):
                    gang.promises.append(GangPromise(state.now, room.domain, start))

    # Samples

    def pass_time(self, until: int, state: State, account: Account) -> None:
        """Time passes up to an instant, and nothing changes before it."""
        notes = self.notes
        while notes.next_sample <= until:
            self._sample(notes.next_sample, state, account)
            notes.next_sample += self._every
        while notes.next_map < len(self._maps) and self._maps[notes.next_map] <= until:
            notes.maps.append(map_of(state, self._maps[notes.next_map] / 1000.0))
            notes.next_map += 1

    def _sample(self, at: int, state: State, account: Account) -> None:
        waiting = [each.job.gpus for each in state.jobs.values() if each.state is JobState.QUEUED]
        shares, holes = shares_of(state), holes_of(state, self._tree)
        values: dict[str, float] = {
            "at": at / 1000.0,
            "queued_jobs": len(waiting),
            "queued_gpus": sum(waiting),
            "fragmentation": holes.fragmentation,
            "share_error": shares.error,
        }
        values |= {f"place {name}": account.books.now[place] for place, name in enumerate(PLACES)}
        values |= {f"tier {name}": gpus for name, gpus in self.notes.tiers.items()}
        values |= {f"held {team}": gpus for team, gpus in shares.held.items()}
        values |= {f"entitled {team}": gpus for team, gpus in shares.entitled.items()}
        values |= {f"largest {level}": gpus for level, gpus in holes.largest.items()}
        for name, value in values.items():
            self.notes.series.setdefault(name, []).append(value)


def _parts(split: Split) -> tuple[int, int, int, int, int]:
    return split.useful, split.placement_loss, split.checkpoint, split.restart, split.lost


def _differs(last: GangPromise, domain: str, start: float | None, within_s: float) -> bool:
    """Return whether a reservation is not what it was when it was last noted."""
    if last.domain != domain or (last.start_s is None) is not (start is None):
        return True
    return start is not None and last.start_s is not None and abs(start - last.start_s) > max(60.0, within_s)
