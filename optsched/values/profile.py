"""A scheduling profile: every knob of a round, with the default that it has where a file does not name it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from optsched.values.ids import LevelName


class PriorityMode(enum.Enum):
    """How priorities and costs are traded off."""

    STRICT = "strict"
    """Rank by rank; the bill decides only between plans that run the same GPUs at every rank."""
    WEIGHTED = "weighted"
    """One sum: run value, weighted by class, minus the bill."""


class Reclaim(enum.Enum):
    """What a team may take back from another."""

    FAIR_SHARE = "fair_share"
    """What is inside its quota or inside its entitlement."""
    QUOTA = "quota"
    """Only what is inside its quota."""


@dataclass(frozen=True, slots=True)
class PreemptTokens:
    """Token bucket per job: it may be preempted `burst` times at once and `per_h` times an hour."""

    per_h: float
    burst: float


@dataclass(frozen=True, slots=True)
class Profile:
    """All knobs of a round; see models/default.yaml for what each one does."""

    name: str = "default"
    priority_mode: PriorityMode = PriorityMode.STRICT
    reclaim: Reclaim = Reclaim.FAIR_SHARE
    migration: bool = True
    horizon_s: float = 3600.0
    window_jobs: int = 1000
    budget_s: float = 3.0
    grace_period_s: float = 120.0
    max_grace_period_s: float = 3600.0
    min_runtime_s: float = 600.0
    max_loss_ratio: float | None = 1.0
    patience_s: float = 900.0
    hold_horizon_s: float = 14400.0
    backfill_preemptible: bool = True
    max_reservations: int = 8
    starve_after_s: float = 21600.0
    starved_move_s: float | None = None
    preempt_tokens: PreemptTokens | None = PreemptTokens(per_h=1.0, burst=2.0)
    max_stopped_gpus_per_h: int | None = None
    classes: Mapping[str, int] = field(
        default_factory=lambda: {"P0": 4000, "P1": 3000, "P2": 2000, "P3": 1000, "P4": 0}
    )
    weights: Mapping[str, float] = field(
        default_factory=lambda: {"P0": 16.0, "P1": 8.0, "P2": 4.0, "P3": 2.0, "P4": 1.0}
    )
    tier_weights: Mapping[str, float] = field(
        default_factory=lambda: {"deadline": 8.0, "guaranteed": 4.0, "fair": 2.0, "opportunistic": 1.0}
    )
    aging_per_h: float = 0.05
    max_aging: float = 1.0
    emergency_classes: tuple[str, ...] = ()
    deadline_classes: tuple[str, ...] = ()
    speed: Mapping[LevelName, float] = field(default_factory=dict)
    speed_widest: float = 0.85
    preferred_price: float = 0.01
    domain_price: Mapping[LevelName, float] = field(default_factory=dict)
    start_latency_s: float = 60.0
    deadline_margin_s: float = 60.0
    requeue_delay_s: float = 300.0
    repair_wait_s: float = 300.0
