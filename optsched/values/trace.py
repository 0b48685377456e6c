"""Traces: what jobs of a real or generated cluster asked for, when they came and how long they ran."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Outcome(enum.Enum):
    """How a job of a trace ended, where its trace tells."""

    COMPLETED = "completed"
    """All its work was done."""
    FAILED = "failed"
    """It ended by an error, of its own or of the cluster, or at its time limit."""
    CANCELLED = "cancelled"
    """Somebody withdrew it."""


OUTCOMES = {outcome.value: outcome for outcome in Outcome}


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job as its trace has it; what the trace lacks is None or empty.

    `submit_s` and `duration_s` are seconds >= 0, the first since the trace's zero, the second the time that the job
    ran (None: it never ran, still ran at the end, or the trace does not say). `gpus` counts all GPUs of the job; it may
    be a fraction where GPUs were shared, and 0 for work that needs none. `cpus` and `memory_gib` are totals.
    `status` names an Outcome, or is the trace's own word. `requested_s` is the time limit that the user asked for.
    """

    id: str
    submit_s: float
    gpus: float
    duration_s: float | None = None
    cpus: float | None = None
    memory_gib: float | None = None
    gpu_types: tuple[str, ...] = ()
    team: str = ""
    user: str = ""
    priority: str = ""
    status: str = ""
    tasks: int | None = None
    gpus_per_task: float | None = None
    requested_s: float | None = None

    @property
    def outcome(self) -> Outcome | None:
        """How it ended, None where the trace does not say."""
        return OUTCOMES.get(self.status)


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs by submit time, then in the order of their file.

    `format` names where they came from, `starts_at` is what the wall clock showed at 0 s (RFC 3339 without a zone where
    the trace has none; empty where it has no wall clock). `left_out` counts what was read and is no job of this trace,
    by reason; `notes` are sentences about what the jobs mean.
    """

    name: str
    format: str
    jobs: tuple[TraceJob, ...]
    starts_at: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
