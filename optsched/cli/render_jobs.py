"""The lists of a plan, one function a section: who starts, is stopped, moves, is resized, has room reserved, waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from optsched.cli.facts import Facts
from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, count, duration, from_now, gpu_hours, joined, listed, sentence
from optsched.values.ids import JobId
from optsched.values.job import Placement, gpus_on
from optsched.values.plan import Move, Plan, Start, UnblockKind, Waiting

Lines = list[str]


def starts(plan: Plan, facts: Facts, width: int, style: Style, most: int | None) -> Lines:
    """Jobs that start: where, after whom, why there."""
    if not plan.starts:
        return []
    rows = []
    for entry in plan.starts[:most]:
        where, *notes = start_notes(facts, plan, entry)
        cells = [*_job(facts, entry.job, size(entry.placement)), where]
        rows.append(Row(cells, [joined(notes)] if notes else []))
    total = sum(size(entry.placement) for entry in plan.starts)
    columns = [*_job_columns(style.good), Column("where and why", least=30)]
    return _section("Starts", len(plan.starts), total, columns, rows, width, style)


def start_notes(facts: Facts, plan: Plan | None, entry: Start) -> list[str]:
    """Return where a job starts, then what else there is to say: whom it waits for, the nodes, why there."""
    places, placement = facts.places, entry.placement
    reasons = facts.why_there(entry.job, placement)
    notes: list[str] = []
    if len(placement) == 1:
        where = joined([places.where(placement), reasons.pop(0) if reasons else ""])
    else:
        where = f"{places.span(placement)}: {places.shape(placement)}"
        notes.append(places.where(placement))
    if entry.waits_for:
        grace = [stop.grace_s for stop in plan.preemptions if stop.job in entry.waits_for] if plan else []
        limit = f" (at most {duration(max(grace))})" if grace else ""
        notes.insert(0, f"waits for {listed([clean(job) for job in entry.waits_for], 3)} to go{limit}")
    return [where, *notes, *reasons]


def stops(plan: Plan, facts: Facts, width: int, style: Style, most: int | None) -> Lines:
    """Jobs that are stopped: for whom, what it costs."""
    if not plan.preemptions:
        return []
    rows = [
        Row(
            [
                *_job(facts, entry.job),
                duration(entry.lost_work_s) if entry.lost_work_s else "none",
                gpu_hours(entry.cost_gpu_s),
                duration(entry.grace_s),
                _for(entry.beneficiaries),
            ]
        )
        for entry in plan.preemptions[:most]
    ]
    columns = [
        *_job_columns(style.bad),
        Column("lost work", right=True),
        Column("GPU-h", right=True),
        Column("grace", right=True),
        Column("for", least=12),
    ]
    total = sum(facts.gpus(entry.job) for entry in plan.preemptions)
    cost = f"{gpu_hours(sum(entry.cost_gpu_s for entry in plan.preemptions))} GPU-h"
    return _section("Stopped", len(plan.preemptions), total, columns, rows, width, style, cost)


def moves(plan: Plan, facts: Facts, width: int, style: Style, most: int | None) -> Lines:
    """Jobs that go on elsewhere."""
    if not plan.migrations:
        return []
    rows = [
        Row(
            [*_job(facts, entry.job), gpu_hours(entry.cost_gpu_s), _for(entry.beneficiaries) or "a better span"],
            [f"{facts.places.where(_old(facts, entry), 3)} → {facts.places.where(entry.placement, 3)}"],
        )
        for entry in plan.migrations[:most]
    ]
    columns = [*_job_columns(style.name), Column("GPU-h", right=True), Column("for", least=12)]
    total = sum(size(entry.placement) for entry in plan.migrations)
    cost = f"{gpu_hours(sum(entry.cost_gpu_s for entry in plan.migrations))} GPU-h"
    return _section("Moved", len(plan.migrations), total, columns, rows, width, style, cost)


def resizes(plan: Plan, facts: Facts, width: int, style: Style, most: int | None) -> Lines:
    """Jobs that go on at another size."""
    if not plan.resizes:
        return []
    rows = []
    for entry in plan.resizes[:most]:
        old, new = size(_old(facts, entry)), size(entry.placement)
        cells = _job(facts, entry.job)
        cells[-1] = f"{old:,} → {new:,}"
        cells += [gpu_hours(entry.cost_gpu_s), _for(entry.beneficiaries) or ("grows" if new > old else "shrinks")]
        rows.append(Row(cells, [facts.places.where(entry.placement)]))
    columns = [*_job_columns(style.name), Column("GPU-h", right=True), Column("for", least=12)]
    change = sum(size(entry.placement) - size(_old(facts, entry)) for entry in plan.resizes)
    return _section("Resized", len(plan.resizes), None, columns, rows, width, style, f"{change:+,} GPUs")


def reservations(plan: Plan, facts: Facts, width: int, style: Style, most: int | None) -> Lines:
    """Room that is kept for blocked gangs."""
    if not plan.reservations:
        return []
    rows = []
    for entry in plan.reservations[:most]:
        at = entry.start_estimate_at
        when = "not known" if at is None else from_now(at, facts.snapshot.now)
        domain = facts.places.path(entry.domain) or "cluster"
        nodes = facts.places.node_list(entry.nodes)
        holds = count(len(entry.nodes), "node") if len(entry.nodes) > 1 else nodes or "nothing yet"
        row = [*_job(facts, entry.job), when, domain, holds]
        rows.append(Row(row, [nodes] if len(entry.nodes) > 1 else []))
    columns = [
        *_job_columns(style.wait),
        Column("starts"),
        Column("inside", least=8),
        Column("holds", least=16),
    ]
    total = sum(facts.gpus(entry.job) for entry in plan.reservations)
    return _section("Reserved", len(plan.reservations), total, columns, rows, width, style)


def waiting(plan: Plan, facts: Facts, width: int, style: Style, most: int | None) -> Lines:
    """Jobs that stay queued: first by reason, then the first ones in detail."""
    if not plan.queued:
        return []
    jobs, gpus = Counter[str](), Counter[str]()
    for entry in plan.queued:
        jobs[entry.reason] += 1
        gpus[entry.reason] += facts.gpus(entry.job)
    reasons = [
        Row([reason_words(reason), f"{number:,}", f"{gpus[reason]:,}"])
        for reason, number in sorted(jobs.items(), key=lambda item: (-item[1], item[0]))
    ]
    columns = [Column("reason", least=20), Column("jobs", right=True), Column("GPUs", right=True)]
    rows, told = [], 0
    for alike in _alike(plan.queued, apart=most is None)[:most]:
        notes = waiting_notes(alike[0])
        if len(alike) > 1:
            notes.append(f"The same for {listed([clean(entry.job) for entry in alike[1:]], 6)}")
        rows.append(Row([*_job(facts, alike[0].job), _waited(facts, alike[0].job)], notes))
        told += len(alike)
    detail = [*_job_columns(style.wait), Column("waited", right=True)]
    by_reason = [*table(columns, reasons, width, style.faint), ""]
    lines = _section("Waiting", len(plan.queued), sum(gpus.values()), detail, rows, width, style, told=told)
    return [lines[0], *by_reason, *lines[1:]]


def _alike(queued: Sequence[Waiting], apart: bool) -> list[list[Waiting]]:
    """Return the jobs in groups of one reason, sentence and advice, in order of the first; `apart`: each on its own."""
    groups: dict[object, list[Waiting]] = {}
    for number, entry in enumerate(queued):
        key = number if apart else (entry.reason, entry.detail, entry.unblock)
        groups.setdefault(key, []).append(entry)
    return list(groups.values())


def waiting_notes(entry: Waiting) -> list[str]:
    """Return the reason as a sentence, and what would help."""
    notes = [sentence(entry.detail) or sentence(reason_words(entry.reason))]
    if entry.unblock is not None:
        text = clean(entry.unblock.text).strip() or joined(
            [f"{reason_words(entry.unblock.kind.value)} {clean(entry.unblock.target)}"]
        )
        lead = "Nothing would help" if entry.unblock.kind is UnblockKind.NEVER else "Would help"
        notes.append(f"→ {lead}: {text}")
    return notes


def reason_words(reason: str) -> str:
    """Return a reason's word for people: "no_domain_fits" is "no domain fits"."""
    return clean(reason).replace("_", " ")


def size(placement: Placement) -> int:
    """Return the GPUs of a placement."""
    return sum(gpus_on(booked) for booked in placement.values())


def _job_columns(paint: object) -> list[Column]:
    colour = paint if callable(paint) else str
    return [
        Column("job", least=16, paint=colour),
        Column("team", least=8),
        Column("prio"),
        Column("GPUs", right=True),
    ]


def _job(facts: Facts, job: JobId, gpus: int | None = None) -> list[str]:
    number = facts.gpus(job) if gpus is None else gpus
    return [clean(job), facts.team(job), facts.priority(job), f"{number:,}"]


def _old(facts: Facts, entry: Move) -> Placement:
    return facts.jobs[entry.job].placement if entry.job in facts.jobs else {}


def _for(jobs: Sequence[JobId]) -> str:
    return listed([clean(job) for job in jobs], 3)


def _waited(facts: Facts, job: JobId) -> str:
    known = facts.jobs.get(job)
    return "" if known is None else duration(max(facts.snapshot.now - known.submitted_at, 0))


def _section(
    title: str,
    jobs: int,
    gpus: int | None,
    columns: Sequence[Column],
    rows: Sequence[Row],
    width: int,
    style: Style,
    more: str = "",
    told: int | None = None,
) -> Lines:
    """Return a heading with totals, the table, and how many are not shown."""
    totals = ", ".join(text for text in (count(jobs, "job"), "" if gpus is None else count(gpus, "GPU"), more) if text)
    lines = [style.title(title) + style.faint(f"  {totals}"), *table(columns, rows, width, style.faint)]
    left = jobs - (len(rows) if told is None else told)
    if left > 0:
        lines += [style.faint(line) for line in wrapped(f"… and {left:,} more; --all shows them", width, 2)]
    return lines
