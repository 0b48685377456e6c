"""The recommendation of a checkpoint interval, with its reasoning, as text or JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optsched.cli.checkpoint_asked import Asked
from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, count, duration, listed, number, percent
from optsched.files.plan_json import Plain, whole, write
from optsched.policy.checkpoint import SMALL_COST, Formula, daly_s, exact_s, young_s
from optsched.policy.checkpoint_tiers import FAILURE_KINDS, TierPlan, plan_tiers, waste_of

DAY_H = 24
_FIRST_ORDER = 0.3
"""Where so much is wasted, sums of first order are visibly too low: by a twentieth for a single tier."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The recommended interval, or another, at the assumed MTBF, or another."""

    what: str
    interval_s: float
    mtbf_s: float
    waste: float | None
    """Share of the time, 0 to 1; None where uploads do not allow the interval."""
    best_interval_s: float
    """What would be recommended at that MTBF."""
    best_waste: float


@dataclass(frozen=True, slots=True)
class Advice:
    """What was asked, what is recommended, and how sensitive that is."""

    asked: Asked
    plan: TierPlan
    what_if: tuple[WhatIf, ...]

    @property
    def waste(self) -> float:
        """The share of the time that is wasted."""
        return self.plan.interval.waste.total

    @property
    def gpu_h_per_day(self) -> float:
        """What is wasted, in GPU-hours a day."""
        return self.waste * self.asked.gpus * DAY_H


def advise(asked: Asked) -> Advice:
    """Return the recommendation for what was asked."""
    plan = plan_tiers(asked.tiers, asked.mtbf_s, asked.restart_s, asked.kinds)
    cases = (
        ("interval_half", 0.5, 1.0),
        ("interval_twice", 2.0, 1.0),
        ("mtbf_half", 1.0, 0.5),
        ("mtbf_twice", 1.0, 2.0),
    )
    return Advice(asked, plan, tuple(_what_if(asked, plan, *case) for case in cases))


def warnings(advice: Advice) -> list[str]:
    """Return what a reader should know before trusting the numbers."""
    said = []
    if advice.plan.interval.formula is Formula.TIERED and advice.waste > _FIRST_ORDER:
        said.append("tiers are reckoned to first order, which is too low where as much is wasted as here")
    if advice.waste > 0.5:
        said.append("more than half of the time is wasted: checkpoints or restarts cost too much for so many failures")
    return said


def to_json(advice: Advice) -> str:
    """Return the recommendation as one object; times in the units of the keys, shares from 0 to 1."""
    asked, plan = advice.asked, advice.plan
    interval, wasted = plan.interval, plan.interval.waste
    low_s, high_s = asked.mtbf_range_s
    wall_h = wasted.wall_s(DAY_H)
    return write(
        {
            "job": {"gpus": asked.gpus, "nodes": asked.nodes, "restart_s": _plain(asked.restart_s)},
            "interval_s": _plain(interval.interval_s),
            "formula": interval.formula.value,
            "mtbf": {
                "job_s": _plain(asked.mtbf_s),
                "job_low_s": _plain(low_s) if asked.observed else None,
                "job_high_s": _plain(high_s) if asked.observed else None,
                "node_h": _plain(asked.node.mtbf_h),
                "origin": asked.origin,
            },
            "waste": {
                "share": _plain(advice.waste),
                "writing": _plain(wasted.writing),
                "lost_work": _plain(wasted.lost_work),
                "restarting": _plain(wasted.restarting),
                "lost_work_s_per_failure": _plain(wasted.lost_work * asked.mtbf_s),
                "gpu_h_per_day": _plain(advice.gpu_h_per_day),
                "wall_h_per_day_of_training": _plain(wall_h) if math.isfinite(wall_h) else None,
            },
            "formulas": _formulas(advice),
            "kinds": {kind: _plain(share) for kind, share in asked.kinds.items()},
            "tiers": [
                {
                    "tier": use.tier.tier,
                    "every": use.every,
                    "interval_s": _plain(use.interval_s),
                    "cost_s": _plain(use.tier.cost_s),
                    "upload_s": _plain(use.tier.upload_s),
                    "serves": list(use.serves),
                    "share": _plain(use.share),
                }
                for use in plan.uses
            ],
            "unused_tiers": _unused(advice),
            "what_if": [
                {
                    "what": case.what,
                    "interval_s": _plain(case.interval_s),
                    "mtbf_s": _plain(case.mtbf_s),
                    "waste": None if case.waste is None else _plain(case.waste),
                    "best_interval_s": _plain(case.best_interval_s),
                    "best_waste": _plain(case.best_waste),
                }
                for case in advice.what_if
            ],
        }
    )


def to_text(advice: Advice, *, width: int, style: Style) -> str:
    """Return the recommendation, what it comes from, and what if."""
    lines = [style.title(_headline(advice))]
    facts = [("failures", _failures(advice)), ("formula", _why(advice)), ("waste", _wasted(advice))]
    for name, text in facts:
        lines += wrapped(f"  {name:<10}{text}", width, 0, hang=12)
    if len(advice.asked.tiers) > 1:
        lines += ["", *_tiers(advice, width, style)]
    return "\n".join([*lines, "", *_sensitivity(advice, width, style)]) + "\n"


def _what_if(asked: Asked, plan: TierPlan, what: str, factor: float, mtbf_factor: float) -> WhatIf:
    mtbf_s = asked.mtbf_s * mtbf_factor
    allowed = all(use.interval_s * factor >= use.tier.upload_s * (1 - 1e-9) for use in plan.uses)
    wasted = waste_of(plan, factor, mtbf_s, asked.restart_s).total if allowed else None
    best = plan_tiers(asked.tiers, mtbf_s, asked.restart_s, asked.kinds).interval
    return WhatIf(what, plan.interval.interval_s * factor, mtbf_s, wasted, best.interval_s, best.waste.total)


def _plain(value: float) -> float | int | None:
    """Return a number with six digits that matter: more would claim too much."""
    return whole(float(f"{value:.6g}"))


def _formulas(advice: Advice) -> Plain | None:
    """Return what each formula says, where one of them decides."""
    if len(advice.plan.uses) > 1:
        return None
    cost_s, mtbf_s = advice.plan.uses[0].tier.cost_s, advice.asked.mtbf_s
    return {
        "young_s": _plain(young_s(cost_s, mtbf_s)),
        "daly_s": _plain(daly_s(cost_s, mtbf_s)),
        "exact_s": _plain(exact_s(cost_s, mtbf_s)),
    }


def _unused(advice: Advice) -> list[str]:
    used = {use.tier.tier for use in advice.plan.uses}
    return [tier.tier for tier in advice.asked.tiers if tier.tier not in used]


def _time(seconds: float) -> str:
    """Return an interval in seconds, "692 s", and in larger units from two minutes on: "692 s (12 min)"."""
    return f"{_brief(seconds)} ({duration(seconds)})" if seconds >= 120 else _brief(seconds)


def _brief(seconds: float) -> str:
    """Return seconds with what digits matter: "1,383 s", "3.5 s"."""
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def _headline(advice: Advice) -> str:
    first, interval_s = advice.plan.uses[0].tier.tier, advice.plan.interval.interval_s
    where = f" to {clean(first)}" if len(advice.asked.tiers) > 1 else ""
    return f"Checkpoint{where} after every {_time(interval_s)} of training"


def _failures(advice: Advice) -> str:
    asked = advice.asked
    between = ""
    if asked.observed:
        low, high = (duration(bound_s) for bound_s in asked.mtbf_range_s)
        between = f" (with 90 % probability {low} to {high})"
    node = f"{number(round(asked.node.mtbf_h))} h, from " if asked.observed else ""
    nodes = f"{count(asked.nodes, 'node')} of {count(asked.gpus_per_node, 'GPU')}"
    m = f"M = {duration(asked.mtbf_s)} between failures of the job{between}"
    return f"{m}: of a node {node}{asked.origin}, divided by {nodes}"


def _why(advice: Advice) -> str:
    plan, mtbf_s = advice.plan, advice.asked.mtbf_s
    if plan.interval.formula is Formula.TIERED:
        return "√(2·δ·M/q) for each tier, q the share of failures it is there for, in whole multiples; to first order"
    tier = plan.uses[0].tier
    young, daly, exact = (formula(tier.cost_s, mtbf_s) for formula in (young_s, daly_s, exact_s))
    blocks = f"δ = {_time(tier.cost_s)} of standing still is {percent(tier.cost_s / mtbf_s)} of M"
    if plan.interval.formula is Formula.UPLOAD:
        best = young if tier.cost_s <= SMALL_COST * mtbf_s else daly
        upload = f"it takes {_time(tier.upload_s)}, longer than the best interval, {_time(best)}"
        return f"one upload in flight: {upload}; {blocks}"
    others = f"exact optimum {_brief(exact)})"
    if plan.interval.formula is Formula.YOUNG:
        return f"Young, √(2·δ·M): {blocks}, which is small (Daly {_brief(daly)}, {others}"
    return f"Daly, higher order: {blocks}, more than {percent(SMALL_COST)} (Young {_brief(young)}, {others}"


def _wasted(advice: Advice) -> str:
    asked, wasted = advice.asked, advice.plan.interval.waste
    wall_h = wasted.wall_s(DAY_H)
    day = f"{DAY_H} h of training take {wall_h:,.1f} h" if math.isfinite(wall_h) else "training gets nowhere"
    # A failure comes once in every M of wall time.
    lost = f"{percent(wasted.lost_work)} lost work, {_brief(wasted.lost_work * asked.mtbf_s)} a failure"
    parts = f"{percent(wasted.writing)} checkpoints, {lost}, {percent(wasted.restarting)} restarts"
    gpu_h = f"{advice.gpu_h_per_day:,.0f} of {asked.gpus * DAY_H:,} GPU-hours a day"
    return f"{percent(advice.waste)} of the time: {parts} of {_brief(asked.restart_s)}; that is {gpu_h}, and {day}"


def _tiers(advice: Advice, width: int, style: Style) -> list[str]:
    asked = advice.asked
    assumed = ", as assumed unless given" if asked.kinds == FAILURE_KINDS else ""
    kinds = ", ".join(f"{percent(share)} {clean(kind)}" for kind, share in asked.kinds.items())
    rows = []
    before = ""
    for use in advice.plan.uses:
        every = f"1 in {use.every} of {before}" if before else ""
        before = clean(use.tier.tier)
        rows.append(
            Row(
                [
                    before,
                    _brief(use.interval_s),
                    f"{use.tier.cost_s:g} s",
                    f"{use.tier.upload_s:g} s",
                    percent(use.share),
                    " ".join(use.serves),
                    every,
                ]
            )
        )
    columns = [
        Column("tier", least=8, paint=style.name),
        Column("interval", right=True),
        Column("blocks", right=True),
        Column("upload", right=True),
        Column("share", right=True),
        Column("failures", least=8),
        Column("", least=8),
    ]
    lines = [style.title("Tiers") + style.faint(f"  failures: {kinds}{assumed}")]
    lines += table(columns, rows, width, style.faint)
    unused = _unused(advice)
    if unused:
        names = listed([clean(name) for name in unused], 4)
        lines += wrapped(f"not used: {names}; another tier in use does as well for less", width, 2)
    return lines


def _sensitivity(advice: Advice, width: int, style: Style) -> list[str]:
    words = {
        "interval_half": "half the interval",
        "interval_twice": "twice the interval",
        "mtbf_half": "M half of that",
        "mtbf_twice": "M twice that",
    }
    rows = [_row("as recommended", advice.plan.interval.interval_s, advice.waste, "", "")]
    for case in advice.what_if:
        best, best_waste = "", ""
        if case.what.startswith("mtbf"):
            best, best_waste = _brief(case.best_interval_s), percent(case.best_waste)
        rows.append(_row(words[case.what], case.interval_s, case.waste, best, best_waste))
    columns = [Column(""), *(Column(head, right=True) for head in ("interval", "waste", "best then", "its waste"))]
    return [style.title("What if"), *table(columns, rows, width, style.faint)]


def _row(what: str, interval_s: float, wasted: float | None, best: str, best_waste: str) -> Row:
    shown: Sequence[str] = [_brief(interval_s), "uploads overlap" if wasted is None else percent(wasted)]
    return Row([what, *shown, best, best_waste])
