"""What is measured, in the text format of Prometheus. What the state tells is read from it when somebody scrapes."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from optsched.engine.commands import Kind
from optsched.engine.events import Decided
from optsched.engine.ports import RoundRecord
from optsched.server.agents import Agents
from optsched.server.gauges import OfState
from optsched.server.leader import Change, Leader
from optsched.values.job import JobState

WAITS_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
WALLS_S = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SIZES = ((1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"), (1 << 60, "513-"))


def size_of(gpus: int) -> str:
    """Return the class of a gang's size."""
    return next(name for most, name in SIZES if gpus <= most)


@dataclass(slots=True)
class Metrics:
    """Counters and histograms of the service."""

    leader: Leader
    agents: Agents
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    rounds: Counter = field(init=False)
    walls: Histogram = field(init=False)
    gap: Gauge = field(init=False)
    preempted: Counter = field(init=False)
    lost: Counter = field(init=False)
    waits: Histogram = field(init=False)
    told: Counter = field(init=False)
    batches: Histogram = field(init=False)

    def __post_init__(self) -> None:
        made: dict[str, Any] = {"registry": self.registry}
        self.rounds = Counter("optsched_rounds", "Rounds by whose plan went out", ["source"], **made)
        self.walls = Histogram("optsched_round_seconds", "Time for a round", buckets=WALLS_S, **made)
        self.gap = Gauge("optsched_round_gap", "Gap of the last round with a bound, as a fraction", **made)
        self.preempted = Counter("optsched_preemptions", "Jobs stopped for others", **made)
        self.lost = Counter("optsched_preemption_cost_gpu_seconds", "What they lost, in GPU-seconds", **made)
        self.waits = Histogram("optsched_wait_seconds", "From submission to start", ["size"], buckets=WAITS_S, **made)
        self.told = Counter("optsched_notes", "What happened, by kind", ["kind"], **made)
        self.batches = Histogram("optsched_batch_events", "Events that became durable at once", buckets=BATCHES, **made)
        self.registry.register(OfState(self.leader, self.agents))
        self.leader.listeners.append(self)

    def __call__(self, changes: Sequence[Change]) -> None:
        """Count what has become durable."""
        if changes:
            self.batches.observe(len(changes))
        told = Counts(note.kind for change in changes for note in change.notes)
        for kind, times in told.items():
            self.told.labels(kind.value).inc(times)
        for change in changes:
            for note in change.notes:
                if note.kind is Kind.STARTED and note.job is not None:
                    record = change.after.record(note.job)
                    if record is not None and record.run == 1 and record.state is JobState.RUNNING:
                        wait = max(0.0, change.at - record.job.submitted_at)
                        self.waits.labels(size_of(record.job.gpus)).observe(wait)

    def round(self, record: RoundRecord, decided: Decided) -> None:
        """Count a round."""
        self.rounds.labels(record.source.value).inc()
        self.walls.observe(decided.plan.round.wall_s)
        if record.gap is not None:
            self.gap.set(record.gap)
        self.preempted.inc(len(decided.plan.preemptions))
        self.lost.inc(max(0.0, record.bill.preemption_cost))

    def text(self) -> tuple[str, str]:
        """Return all of it as text, and what kind of text that is."""
        return generate_latest(self.registry).decode(), CONTENT_TYPE_LATEST
