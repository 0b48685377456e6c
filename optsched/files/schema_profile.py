"""The keys of a scheduling profile; each may be left out, and then has the value of its base."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from optsched.files.fields import (
    MAX_PRIORITY,
    Absent,
    Count,
    Flag,
    Id,
    Price,
    Seconds,
    SecondsAboveZero,
    Speed,
    Strict,
    Text,
)

_Horizon = Annotated[
    float,
    Field(gt=0, le=604_800, allow_inf_nan=False, description="a number of seconds above 0, at most a week (604,800)"),
]
_PRICES = "a mapping of levels to numbers from 0 to 1e9"


class TokensIn(Strict):
    """Token bucket of preemptions of one job."""

    per_h: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False, description="a number above 0, at most 1,000,000")]
    burst: Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False, description="a number from 1 to 1,000,000")]


class ProfileIn(Strict):
    """A profile, or what differs from the one named by `base`."""

    base: Absent[Text] = None
    name: Absent[Id] = None
    about: object = None
    source: object = None
    priority_mode: Absent[Annotated[Literal["strict", "weighted"], Field(description="strict or weighted")]] = None
    reclaim: Absent[Annotated[Literal["fair_share", "quota"], Field(description="fair_share or quota")]] = None
    migration: Absent[Flag] = None
    horizon_s: Absent[_Horizon] = None
    window_jobs: Absent[Annotated[int, Field(ge=1, le=1_000_000, description="a whole number from 1 to 1,000,000")]] = (
        None
    )
    budget_s: Absent[
        Annotated[
            float,
            Field(gt=0, le=86_400, allow_inf_nan=False, description="a number of seconds above 0, at most 86,400"),
        ]
    ] = None
    grace_period_s: Absent[Seconds] = None
    max_grace_period_s: Absent[Seconds] = None
    min_runtime_s: Absent[Seconds] = None
    max_loss_ratio: Annotated[
        Annotated[float, Field(ge=0, le=1000000.0, allow_inf_nan=False)] | None,
        Field(description="a number from 0 to 1,000,000, or null (no limit)"),
    ] = None
    patience_s: Absent[SecondsAboveZero] = None
    hold_horizon_s: Absent[Seconds] = None
    backfill_preemptible: Absent[Flag] = None
    max_reservations: Absent[Annotated[int, Field(ge=0, le=1000, description="a whole number from 0 to 1,000")]] = None
    starve_after_s: Absent[Seconds] = None
    starved_move_s: Annotated[Seconds | None, Field(description="a number of seconds, or null (nobody is)")] = None
    preempt_tokens: Annotated[TokensIn | None, Field(description="a mapping {per_h, burst}, or null (no bucket)")] = (
        None
    )
    max_stopped_gpus_per_h: Annotated[
        Count | None, Field(description="a whole number from 0 to 1,000,000, or null (no limit)")
    ] = None
    classes: Absent[
        Annotated[
            dict[Id, Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]],
            Field(max_length=1000, description="a mapping of class names to whole numbers within 1,000,000,000 of 0"),
        ]
    ] = None
    weights: Absent[
        Annotated[
            dict[Id, Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]],
            Field(description="a mapping of class names to numbers above 0, at most 100"),
        ]
    ] = None
    tier_weights: Absent[
        Annotated[
            dict[
                Literal["deadline", "guaranteed", "fair", "opportunistic"],
                Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)],
            ],
            Field(
                description="a mapping of deadline, guaranteed, fair and opportunistic to numbers above 0, up to 100"
            ),
        ]
    ] = None
    aging_per_h: Absent[Price] = None
    max_aging: Absent[Price] = None
    emergency_classes: Absent[Annotated[list[Id], Field(description="a list of class names")]] = None
    deadline_classes: Absent[Annotated[list[Id], Field(description="a list of class names")]] = None
    speed: Absent[
        Annotated[
            dict[Id, Speed], Field(description="a mapping of levels to speeds above 0, at most 100 (1 is full speed)")
        ]
    ] = None
    speed_widest: Absent[Speed] = None
    preferred_price: Absent[Price] = None
    domain_price: Absent[Annotated[dict[Id, Price], Field(description=_PRICES)]] = None
    start_latency_s: Absent[Seconds] = None
    deadline_margin_s: Absent[Seconds] = None
    requeue_delay_s: Absent[Seconds] = None
    repair_wait_s: Absent[Seconds] = None
