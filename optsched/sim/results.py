"""What a simulation has to say, as plain frozen values, and how they are written and read as JSON.

The JSON of a result has these fields under these names. Instants and durations are seconds of simulated time, but for
`timing`, which is of the real one and differs from run to run. GPU·ms are whole numbers: GPUs times milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from pydantic import TypeAdapter, ValidationError

from optsched.errors import Fault, InputError

FORMAT = 1
"""Grows when what is written can no longer be read by what was there before."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A distribution: how many values, their mean, nearest-rank quantiles, the largest; zeros where there are none."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    max: float = 0.0


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the jobs of a group waited, in seconds from submission to the booking of the first GPUs.

    A job that never started counts with the time until its end or the end of the simulation: `never_started` are those,
    so the true quantiles may be larger. `slowdown` is of jobs that completed: (end - submission) / max(work, 10 s),
    where work is how long the job runs undisturbed in its best placement.
    """

    name: str
    jobs: int
    never_started: int
    wait_s: Quantiles
    slowdown: Quantiles


@dataclass(frozen=True, slots=True)
class GpuTime:
    """Where every GPU·ms went; all but `capacity` add up to `capacity` exactly.

    `useful` is training that was kept, as far as a best placement would have needed it; `placement_loss` the rest of
    that training; `checkpoint` training held up by checkpoints; `restart` from booking until training goes on; `lost`
    training thrown away, and gangs that hung; `draining` booked to runs that are over or told to stop; `held` free and
    kept for somebody; `idle` free; `down` out of service.
    """

    capacity: int = 0
    useful: int = 0
    placement_loss: int = 0
    checkpoint: int = 0
    restart: int = 0
    lost: int = 0
    draining: int = 0
    held: int = 0
    idle: int = 0
    down: int = 0

    @property
    def at_work(self) -> int:
        """What was booked to runs that went on."""
        return self.useful + self.placement_loss + self.checkpoint + self.restart + self.lost

    @property
    def accounted(self) -> int:
        """The sum of all but the capacity."""
        return self.at_work + self.draining + self.held + self.idle + self.down


@dataclass(frozen=True, slots=True)
class Preemptions:
    """How often runs were stopped for others.

    `jobs` are those that were at all, `most` how often the one that was most often; `per_job` over all jobs that
    started. `gpu_ms_lost` is the training that they lost by it, without the restarts.
    """

    total: int = 0
    jobs: int = 0
    most: int = 0
    per_job: float = 0.0
    gpu_ms_lost: int = 0


@dataclass(frozen=True, slots=True)
class SpanUse:
    """How much ran at one span: the narrowest level that held the gang ("cluster": only the whole did).

    `gpu_ms` counts all runs, `gpu_ms_wide` only those on more than one node.
    """

    span: str
    runs: int
    gpu_ms: int
    gpu_ms_wide: int


@dataclass(frozen=True, slots=True)
class Promises:
    """Reservations with a start estimate, by the first that each job was given.

    Kept: the job started by then, give or take one round. Missed: it started later, by `late_s`. Open: it had not
    started when it was cancelled or the simulation ended.
    """

    made: int = 0
    kept: int = 0
    missed: int = 0
    open: int = 0
    late_s: Quantiles = Quantiles()


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds: how many, by whose plan went out; `gap` of those that have a bound, `unbounded` are the others."""

    count: int
    sources: Mapping[str, int]
    gap: Quantiles
    unbounded: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of a simulation, as fractions where no unit is named.

    `utilisation` is the share of the capacity that was booked to runs that went on; `goodput` the share that was
    useful; `busy_...` the same up to the last submission, training by then counted as if it were kept, so that the long
    end of a workload does not hide what went before. `share_error` is the mean over the samples of Σ over teams of
    max(0, entitlement − held) / healthy GPUs:
    what teams were entitled to, wanted, and did not have. `fragmentation` is the mean share of the free GPUs that lie
    on nodes which are partly used, so that no gang of whole nodes can have them. `jobs` counts jobs by how they ended.
    """

    utilisation: float
    goodput: float
    busy_utilisation: float
    busy_goodput: float
    share_error: float
    fragmentation: float
    jobs: Mapping[str, int]
    runs: Mapping[str, int]
    failures: Mapping[str, int]
    gpu_time: GpuTime
    busy_gpu_time: GpuTime
    lost_gpu_ms: Mapping[str, int]
    waits: tuple[Waits, ...]
    waits_by_team: tuple[Waits, ...]
    preemptions: Preemptions
    spans: tuple[SpanUse, ...]
    promises: Promises
    rounds: Rounds


@dataclass(frozen=True, slots=True)
class Series:
    """What stood at the sampled instants `at_s`; all lists are as long.

    `places` are GPUs by where they are (at work, draining, held, idle, down), `tiers` GPUs that run by tier after the
    last round, `teams` GPUs that a team holds and is entitled to. `largest_free` is, by level, the GPUs of the
    largest stretch of wholly free nodes in one domain.
    """

    at_s: tuple[float, ...] = ()
    places: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    tiers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    queued_jobs: tuple[int, ...] = ()
    queued_gpus: tuple[int, ...] = ()
    fragmentation: tuple[float, ...] = ()
    share_error: tuple[float, ...] = ()
    team_held: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    team_entitled: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    largest_free: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GangRun:
    """One run of a large gang: from the booking of its GPUs to its end, why it ended, and where it lay.

    `why` is completed, failed, cancelled, plan (stopped for others), elsewhere (moved or resized), gpu, node, process
    or own (what failed), or "" while it goes on. `where` are the GPUs by domain of the widest level (by node where
    there is none).
    """

    start_s: float
    end_s: float
    gpus: int
    span: str
    why: str
    where: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GangPromise:
    """What a large gang was told at an instant: where it is to start, and when (None: not known)."""

    at_s: float
    domain: str
    start_s: float | None


@dataclass(frozen=True, slots=True)
class Gang:
    """A large gang through time; `end_s` None: it had not ended."""

    job: str
    team: str
    gpus: int
    submitted_s: float
    end_s: float | None
    state: str
    runs: tuple[GangRun, ...]
    promises: tuple[GangPromise, ...]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node: its GPUs, and the domain that holds it at every level but its own, by level, widest first."""

    id: str
    gpus: int
    domains: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodeMap:
    """All nodes at an instant, in the order of `Result.nodes`: GPUs that are booked, and the node's state as a word."""

    at_s: float
    booked: tuple[int, ...]
    state: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """The machine's time: of the whole simulation, of each decision, and simulated jobs that ended per second."""

    wall_s: float = 0.0
    decide_s: Quantiles = Quantiles()
    jobs_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """One policy on one workload."""

    policy: str
    about: str
    workload: str
    cluster: str
    profile: str
    seed: int
    failures: str
    end_s: float
    gpus: int
    metrics: Metrics
    series: Series
    gangs: tuple[Gang, ...]
    nodes: tuple[NodePlace, ...]
    maps: tuple[NodeMap, ...]
    timing: Timing = Timing()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `optsched simulate --format json` writes: the same workload under one or more policies."""

    results: tuple[Result, ...]
    format: int = FORMAT


@cache
def _adapter() -> TypeAdapter[Comparison]:
    return TypeAdapter(Comparison)


def to_json(comparison: Comparison) -> str:
    """Return a comparison as JSON on one line."""
    return json.dumps(_adapter().dump_python(comparison, mode="json"), separators=(",", ":"))


def from_json(text: str, name: str) -> Comparison:
    """Return the comparison that a file holds; `name` is what its faults call it. Raises InputError."""
    try:
        found = _adapter().validate_json(text)
    except ValidationError as error:
        faults = []
        for each in error.errors(include_url=False):
            where = ".".join(str(part) for part in each["loc"]) or "the file"
            faults.append(Fault(name, None, where, each["msg"], "what optsched simulate --format json writes"))
        raise InputError(faults) from error
    if found.format != FORMAT:
        raise InputError([Fault(name, None, "format", f"is {found.format}", f"{FORMAT}")])
    return found
