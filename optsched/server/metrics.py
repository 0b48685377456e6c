"""What is measured, in the text format of Prometheus. What the state tells is read from it when somebody scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from optsched.engine.commands import Kind
from optsched.engine.events import Decided
from optsched.engine.ports import RoundRecord
from optsched.engine.state import State
from optsched.server.agents import Agents
from optsched.server.leader import Change, Leader
from optsched.server.views import gpus_by_team
from optsched.values.cluster import NodeState
from optsched.values.job import JobState

WAITS_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
WALLS_S = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30)
SIZES = ((1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"), (1 << 60, "513-"))


def size_of(gpus: int) -> str:
    """Return the class of a gang's size."""
    return next(name for most, name in SIZES if gpus <= most)


class _OfState(Collector):
    """Reads the state when it is asked."""

    def __init__(self, leader: Leader, agents: Agents) -> None:
        self._leader = leader
        self._agents = agents

    def collect(self) -> Iterable[Metric]:
        """Yield what the state tells."""
        state = self._leader.state
        teams = GaugeMetricFamily(
            "optsched_team_gpus", "GPUs of a team, running and asked for", labels=["team", "what"]
        )
        jobs = GaugeMetricFamily("optsched_team_jobs", "Jobs of a team, running and queued", labels=["team", "what"])
        for team, (running, runs, queued, waits) in gpus_by_team(state).items():
            teams.add_metric([team, "running"], running)
            teams.add_metric([team, "queued"], queued)
            jobs.add_metric([team, "running"], runs)
            jobs.add_metric([team, "queued"], waits)
        yield teams
        yield jobs
        yield from _gpus(state)
        yield GaugeMetricFamily("optsched_agents_connected", "Agents that are connected", value=self._agents.count)
        yield GaugeMetricFamily("optsched_waiting", "Requests and reports that wait", value=self._leader.waiting)
        yield GaugeMetricFamily("optsched_epoch", "The epoch in force", value=state.epoch)
        yield GaugeMetricFamily("optsched_log_sequence", "Entries in the log", value=self._leader.sequence)


def _gpus(state: State) -> Iterable[Metric]:
    """Yield what GPUs there are and how many of them are used, by the state of their nodes."""
    nodes = GaugeMetricFamily("optsched_nodes", "Nodes by state", labels=["state"])
    gpus = GaugeMetricFamily("optsched_gpus", "Healthy GPUs by state of their node", labels=["state"])
    booked = GaugeMetricFamily("optsched_gpus_booked", "GPUs that runs have, by state of their node", labels=["state"])
    counts = {each: [0, 0, 0] for each in NodeState}
    whole = 0
    for record in state.nodes.values():
        row = counts[record.node.state]
        row[0] += 1
        row[1] += record.node.healthy_gpus
        row[2] += record.booked_gpus
        whole += record.node.healthy_gpus if record.node.state is NodeState.UP and not record.bookings else 0
    for each, row in counts.items():
        for family, value in zip((nodes, gpus, booked), row, strict=True):
            family.add_metric([each.value], value)
    yield from (nodes, gpus, booked)
    yield GaugeMetricFamily("optsched_gpus_in_empty_nodes", "Free GPUs in nodes that are wholly free", value=whole)


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

    def __post_init__(self) -> None:
        made: dict[str, Any] = {"registry": self.registry}
        self.rounds = Counter("optsched_rounds", "Rounds by whose plan went out", ["source"], **made)
        self.walls = Histogram("optsched_round_seconds", "Time for a round", buckets=WALLS_S, **made)
        self.gap = Gauge("optsched_round_gap", "Gap of the last round with a bound, as a fraction", **made)
        self.preempted = Counter("optsched_preemptions", "Jobs stopped for others", **made)
        self.lost = Counter("optsched_preemption_cost_gpu_seconds", "What they lost, in GPU-seconds", **made)
        self.waits = Histogram("optsched_wait_seconds", "From submission to start", ["size"], buckets=WAITS_S, **made)
        self.told = Counter("optsched_notes", "What happened, by kind", ["kind"], **made)
        self.registry.register(_OfState(self.leader, self.agents))
        self.leader.listeners.append(self)

    def __call__(self, changes: Sequence[Change]) -> None:
        """Count what has become durable."""
        for change in changes:
            for note in change.notes:
                self.told.labels(note.kind.value).inc()
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
