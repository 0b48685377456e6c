"""What a simulation has to say, as plain frozen values, and how they are written and read as JSON.

The JSON of a result has these fields under these names. Instants and durations are seconds of simulated time, but for
`timing`, which is of the real one and differs from run to run. GPU·ms are whole numbers: GPUs times milliseconds.
What one value alone may be is in its type; what values must be to one another is in `results_check`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, ClassVar

from pydantic import ConfigDict, FailFast, Field, TypeAdapter, ValidationError

from optsched.sim.results_check import SOME, faults_between
from optsched.sim.results_faults import faults_of, refused

FORMAT = 1
"""Grows when what is written can no longer be read by what was there before."""

Share = Annotated[float, Field(ge=0, le=1, description="a number from 0 to 1")]
Amount = Annotated[float, Field(ge=0, le=1e15, description="a number from 0 to 1e15")]
Seconds = Annotated[float, Field(ge=0, le=1e13, description="a number of seconds from 0 to 1e13")]
"""More than any simulation comes to: in traces instants go up to 1e12 and durations up to 1e10, and only `--until` ends
what queues up behind them."""
Count = Annotated[int, Field(ge=0, le=10**15, description="a whole number from 0 to 1e15")]
Gpus = Annotated[int, Field(ge=1, le=10**12, description="a whole number of GPUs from 1 to 1e12")]
GpuMs = Annotated[int, Field(ge=0, le=10**28, description="a whole number of GPU·ms from 0 to 1e28")]
Counts = Annotated[tuple[Count, ...], FailFast(), Field(description="a list of whole numbers")]
Shares = Annotated[tuple[Share, ...], FailFast(), Field(description="a list of numbers from 0 to 1")]
Amounts = Annotated[tuple[Amount, ...], FailFast(), Field(description="a list of numbers")]
Instants = Annotated[tuple[Seconds, ...], FailFast(), Field(description="a list of numbers of seconds")]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A distribution: how many values, their mean, nearest-rank quantiles, the largest; zeros where there are none."""

    count: Count = 0
    mean: Amount = 0.0
    p50: Amount = 0.0
    p90: Amount = 0.0
    p99: Amount = 0.0
    max: Amount = 0.0


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the jobs of a group waited, in seconds from submission to the booking of the first GPUs.

    A job that never started counts with the time until its end or the end of the simulation: `never_started` are those,
    so the true quantiles may be larger. `slowdown` is of jobs that completed: (end - submission) / max(work, 10 s),
    where work is how long the job runs undisturbed in its best placement.
    """

    name: str
    jobs: Count
    never_started: Count
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

    capacity: GpuMs = 0
    useful: GpuMs = 0
    placement_loss: GpuMs = 0
    checkpoint: GpuMs = 0
    restart: GpuMs = 0
    lost: GpuMs = 0
    draining: GpuMs = 0
    held: GpuMs = 0
    idle: GpuMs = 0
    down: GpuMs = 0

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

    total: Count = 0
    jobs: Count = 0
    most: Count = 0
    per_job: Amount = 0.0
    gpu_ms_lost: GpuMs = 0


@dataclass(frozen=True, slots=True)
class SpanUse:
    """How much ran at one span: the narrowest level that held the gang ("cluster": only the whole did).

    `gpu_ms` counts all runs, `gpu_ms_wide` only those on more than one node.
    """

    span: str
    runs: Count
    gpu_ms: GpuMs
    gpu_ms_wide: GpuMs


@dataclass(frozen=True, slots=True)
class Promises:
    """Reservations with a start estimate, by the first that each job was given.

    Kept: the job started by then, give or take one round. Missed: it started later, by `late_s`. Open: it had not
    started when it was cancelled or the simulation ended.
    """

    made: Count = 0
    kept: Count = 0
    missed: Count = 0
    open: Count = 0
    late_s: Quantiles = Quantiles()


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds: how many, by whose plan went out; `gap` of those that have a bound, `unbounded` are the others."""

    count: Count
    sources: Mapping[str, Count]
    gap: Quantiles
    unbounded: Count


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

    utilisation: Share
    goodput: Share
    busy_utilisation: Share
    busy_goodput: Share
    share_error: Amount
    fragmentation: Share
    jobs: Mapping[str, Count]
    runs: Mapping[str, Count]
    failures: Mapping[str, Count]
    gpu_time: GpuTime
    busy_gpu_time: GpuTime
    lost_gpu_ms: Mapping[str, GpuMs]
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

    at_s: Instants = ()
    places: Mapping[str, Counts] = field(default_factory=dict)
    tiers: Mapping[str, Counts] = field(default_factory=dict)
    queued_jobs: Counts = ()
    queued_gpus: Counts = ()
    fragmentation: Shares = ()
    share_error: Amounts = ()
    team_held: Mapping[str, Counts] = field(default_factory=dict)
    team_entitled: Mapping[str, Counts] = field(default_factory=dict)
    largest_free: Mapping[str, Counts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GangRun:
    """One run of a large gang: from the booking of its GPUs to its end, why it ended, and where it lay.

    `why` is completed, failed, cancelled, plan (stopped for others), elsewhere (moved or resized), gpu, node, process
    or own (what failed), or "" while it goes on. `where` are the GPUs by domain of the widest level (by node where
    there is none).
    """

    start_s: Seconds
    end_s: Seconds
    gpus: Gpus
    span: str
    why: str
    where: Mapping[str, Count]


@dataclass(frozen=True, slots=True)
class GangPromise:
    """What a large gang was told at an instant: where it is to start, and when (None: not known)."""

    at_s: Seconds
    domain: str
    start_s: Seconds | None


@dataclass(frozen=True, slots=True)
class Gang:
    """A large gang through time; `end_s` None: it had not ended."""

    job: str
    team: str
    gpus: Gpus
    submitted_s: Seconds
    end_s: Seconds | None
    state: str
    runs: tuple[GangRun, ...]
    promises: tuple[GangPromise, ...]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node: its GPUs, and the domain that holds it at every level but its own, by level, widest first."""

    id: str
    gpus: Count
    domains: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodeMap:
    """All nodes at an instant, in the order of `Result.nodes`: GPUs that are booked, and the node's state as a word."""

    at_s: Seconds
    booked: Counts
    state: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """The machine's time: of the whole simulation, of each decision, and simulated jobs that ended per second."""

    wall_s: Seconds = 0.0
    decide_s: Quantiles = Quantiles()
    jobs_per_s: Amount = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """One policy on one workload."""

    policy: str
    about: str
    workload: str
    cluster: str
    profile: str
    seed: Count
    failures: str
    end_s: Seconds
    gpus: Gpus
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


@dataclass(frozen=True, slots=True)
class _File:
    """A comparison as it is read: it says its format, knows every key, and has no number that is written as a text."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT, description=f"{FORMAT}")]
    results: Annotated[tuple[Result, ...], Field(description=SOME)]


@cache
def _writer() -> TypeAdapter[Comparison]:
    return TypeAdapter(Comparison)


@cache
def _reader() -> TypeAdapter[_File]:
    return TypeAdapter(_File)


def to_json(comparison: Comparison) -> str:
    """Return a comparison as JSON on one line."""
    return json.dumps(_writer().dump_python(comparison, mode="json"), separators=(",", ":"))


def from_json(text: str, name: str) -> Comparison:
    """Return the comparison that a file holds; `name` is what its faults call it.

    What is returned can be shown: every number is in its range, and lists that belong together are as long as one
    another. Raises InputError.
    """
    try:
        file = _reader().validate_json(text)
    except ValidationError as error:
        raise refused(name, faults_of(error, _File)) from None
    found = Comparison(file.results, file.format)
    if wrong := list(faults_between(found)):
        raise refused(name, wrong)
    return found
