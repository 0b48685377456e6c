"""A plan as text for operators: what happens, to whom, why, what it costs and how good it is."""

from __future__ import annotations

from optsched.cli.facts import Facts
from optsched.cli.render_jobs import Lines, moves, reservations, resizes, starts, stops, waiting
from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, count, duration, gpu_hours, instant, joined, number, percent, sentence
from optsched.values.plan import Plan, RoundInfo, Source, Status
from optsched.values.snapshot import Snapshot

SOLVERS = {Source.CP_SAT: "CP-SAT", Source.GREEDY: "Greedy plan", Source.NO_CHANGE: "No change"}
_BAR = 20


def plan_to_text(
    snapshot: Snapshot, plan: Plan, *, title: str, width: int, style: Style, everything: bool = False
) -> str:
    """Return a plan as text of at most `width` columns; `everything`: no list is shortened."""
    facts = Facts(snapshot, plan)
    lines = _header(snapshot, plan, facts, title, width, style)
    most = None if everything else 10
    for section in (
        starts(plan, facts, width, style, most),
        stops(plan, facts, width, style, most),
        moves(plan, facts, width, style, most),
        resizes(plan, facts, width, style, most),
        reservations(plan, facts, width, style, most),
        waiting(plan, facts, width, style, None if everything else 5),
        _ranks(plan, width, style),
        _bill(snapshot, plan, width, style),
    ):
        if section:
            lines += ["", *section]
    return "\n".join(lines) + "\n"


def quality(info: RoundInfo) -> str:
    """Return in words how good a plan is."""
    if info.status is Status.OPTIMAL:
        return "Optimal: no better plan exists"
    if info.gap is None:
        return _valid(info)
    if info.gap == 0:
        return "As good as the bound: nothing better is possible"
    return f"Within {percent(info.gap)} of the best possible"


def _valid(info: RoundInfo) -> str:
    """Return what is known of a plan without a gap: how many of its highest ranks are proven."""
    closed = 0
    for rank in info.ranks:
        if rank.gpus_bound != rank.gpus:
            break
        closed += rank.gpus > 0
    if not closed:
        return "Valid; how far from the best possible is not known"
    ranks = "highest rank is" if closed == 1 else f"{closed} highest ranks are"
    return f"Valid; its {ranks} proven the best possible, what is below is not known"


def _header(snapshot: Snapshot, plan: Plan, facts: Facts, title: str, width: int, style: Style) -> Lines:
    info, profile = plan.round, snapshot.profile
    head = joined(
        [title, instant(snapshot.now), f"profile {clean(profile.name)} ({profile.priority_mode.value} priorities)"]
    )
    lines = [style.title(line) for line in wrapped(head, width, 0)]
    looked = f"{info.considered:,} of " if info.considered < info.queued else "all " if info.queued > 1 else ""
    window = f"{looked}{count(info.queued, 'queued job')} considered" if info.queued else "no queued jobs"
    paint = style.good if info.status is Status.OPTIMAL or info.gap == 0 else style.wait
    first = quality(info)
    if info.gap_gpus and info.gap is not None:
        first += f" (at most {count(info.gap_gpus, 'GPU')} short, over all ranks)"
    lines += [paint(line) for line in wrapped(first, width, 0)]
    lines += wrapped(joined([f"{SOLVERS[info.source]}, {duration(info.wall_s)}", window]), width, 0)
    said = joined([first, SOLVERS[info.source]]).casefold()
    if clean(info.why).strip().casefold() not in said:
        lines += [style.wait(line) for line in wrapped(sentence(info.why), width, 0)]
    lines += ["", _usage(facts, style), *_jobs(plan, facts, width, style)]
    return lines


def _usage(facts: Facts, style: Style) -> str:
    before, after, whole = facts.before.gpus, facts.after.gpus, facts.healthy_gpus
    if not whole:
        return "GPUs in use  none of none: the cluster has no healthy GPU"
    filled = min(_BAR, int(_BAR * after / whole))
    bar = style.good("█" * filled) + style.faint("░" * (_BAR - filled))
    shares = f"{percent(before / whole)} → {percent(after / whole)}"
    return f"GPUs in use  {before:,} → {after:,} of {whole:,} healthy  {shares}  {bar}"


def _jobs(plan: Plan, facts: Facts, width: int, style: Style) -> Lines:
    before, after = facts.before, facts.after
    counts = f"Jobs         running {before.running:,} → {after.running:,}, queued {before.queued:,} → {after.queued:,}"
    parts = [
        f"{len(entries):,} {word}"
        for entries, word in (
            (plan.starts, "start"),
            (plan.preemptions, "stopped"),
            (plan.migrations, "moved"),
            (plan.resizes, "resized"),
            (plan.reservations, "reserved"),
        )
        if entries
    ]
    changes = ", ".join(parts) or "nothing changes"
    return [counts, *wrapped(f"Changes      {changes}", width, 0)]


def _ranks(plan: Plan, width: int, style: Style) -> Lines:
    rows, opened = [], False
    for rank in plan.round.ranks:
        if rank.gpus == 0 and rank.gpus_bound == 0:
            continue
        if rank.gpus_bound is None:
            bound, verdict = "–", "a higher rank is open" if opened else "not known"
        elif rank.gpus_bound <= rank.gpus:
            bound, verdict = f"{rank.gpus_bound:,}", "proven"
        else:
            bound, verdict = f"{rank.gpus_bound:,}", f"at most {rank.gpus_bound - rank.gpus:,} more"
            opened = True
        above = "above minimum" if rank.above_minimum else ""
        rows.append(Row([rank.tier.value, clean(rank.priority), above, f"{rank.gpus:,}", bound, verdict]))
    if not rows:
        return []
    extra = any(row.cells[2] for row in rows)
    keep = [0, 1, *([2] if extra else []), 3, 4, 5]
    columns = [
        Column("tier"),
        Column("priority"),
        Column("part"),
        Column("GPUs", right=True),
        Column("bound", right=True),
        Column(""),
    ]
    shown = [Row([row.cells[index] for index in keep]) for row in rows]
    head = style.title("Ranks") + style.faint("  GPUs that run, the most protected first, and what no plan can exceed")
    return [head, *table([columns[index] for index in keep], shown, width, style.faint)]


def _bill(snapshot: Snapshot, plan: Plan, width: int, style: Style) -> Lines:
    bill = plan.bill
    lines = [
        ("run value", bill.run_value),
        ("placement loss", bill.placement_loss),
        ("preemptions", bill.preemption_cost),
        ("moves", bill.migration_cost),
        ("resizes", bill.resize_cost),
        ("holds", bill.hold_cost),
        ("broken domains", bill.domain_cost),
        ("total cost", bill.total),
    ]
    rows = [Row([name, gpu_hours(value), number(round(value)), _share(value, bill.run_value)]) for name, value in lines]
    if bill.bound is not None:
        rows.append(Row(["no plan below", gpu_hours(bill.bound), number(round(bill.bound)), ""]))
    columns = [Column(""), Column("GPU-h", right=True), Column("GPU-s", right=True), Column("share", right=True)]
    after = f"  over {duration(snapshot.profile.horizon_s)}"
    made = [style.title("Bill") + style.faint(after), *table(columns, rows, width, style.faint)]
    total = 2 + len(lines) - 1
    made[total] = style.title(made[total])
    gap = plan.round.gap
    text = "Gap: " + ("not known" if gap is None else "none" if gap == 0 else percent(gap))
    if bill.bound is not None and bill.total > bill.bound and bill.run_value:
        text += f"; {gpu_hours(bill.total - bill.bound)} GPU-h of the bill are open"
    return made + [style.faint(line) for line in wrapped(text, width, 2)]


def _share(value: float, whole: float) -> str:
    return percent(value / whole) if whole > 0 and 0 < value < whole else ""
