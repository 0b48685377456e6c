"""Answers to what-if questions as text: the jobs that were asked about, then what a round of now does to each team."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, count, duration, gpu_hours, joined, number, percent
from optsched.whatif.answers import Answer, Band, ScenarioAnswer, StartAnswer
from optsched.whatif.rounds import TeamNow

MOST_STOPPED = 8
"""So many lines of stopped jobs are shown."""

MOST_TEAMS = 12


def answer_to_text(found: Answer, width: int, style: Style, everything: bool = False) -> str:
    """Return all answers as text; `everything`: no list is shortened."""
    first = found.scenarios[0]
    futures = first.futures
    about = joined(
        [
            f"profile {clean(found.profile)}",
            f"{count(futures.count, 'future')} up to {duration(found.horizon_s)}" if futures else "",
            f"run times {clean(found.run_times)}, arrivals {found.arrivals}, failures {clean(found.failures)}"
            if futures
            else "",
            f"seed {found.seed}" if futures else "",
        ]
    )
    lines = [style.title("What if") + style.faint(f"  {clean(found.cluster)}" if found.cluster else "")]
    lines += [style.faint(line) for line in wrapped(about, width, 0)]
    jobs = list(dict.fromkeys(job for each in found.scenarios for job in each.now.jobs))
    for job in jobs:
        lines += ["", *_job(job, found, width, style)]
    lines += ["", *_side_by_side(found, width, style)]
    for each in found.scenarios:
        lines += ["", *_scenario(each, first, width, style, everything, alone=len(found.scenarios) == 1)]
    return "\n".join(lines) + "\n"


def _job(job: str, found: Answer, width: int, style: Style) -> list[str]:
    """Return when and where a job starts, a line for each scenario."""
    head = [
        Column("scenario", least=12),
        Column("next round"),
        Column("8 of 10 start"),
        Column("half by", right=True),
        Column("where", least=8),
    ]
    rows = []
    for each in found.scenarios:
        if job not in each.now.jobs:
            continue
        now = each.now.jobs[job]
        start = each.futures.jobs[job] if each.futures else None
        where = _where(start) if start else clean(now.domain)
        below = [clean(now.why)] if now.why and len(found.scenarios) == 1 else []
        if now.estimate_at_s is not None:
            after = duration(max(0.0, now.estimate_at_s))
            below.append(f"room is planned for it in {clean(now.domain)}, in {after} by the estimates")
        rows.append(Row([clean(each.name), now.fate, *_when(start, found.horizon_s), where], below))
    return [style.title(f"When {clean(job)} starts"), *table(head, rows, width, style.faint)]


def _when(start: StartAnswer | None, horizon_s: float) -> tuple[str, str]:
    if start is None:
        return "-", "-"
    return _band(start.start_s, horizon_s), _at(start.start_s.median, horizon_s)


def _band(band: Band, horizon_s: float) -> str:
    low, high = _at(band.low, horizon_s), _at(band.high, horizon_s)
    if band.high == 0:
        return "at once"
    return f"in {low}" if low == high else f"in {low} – {high}"


def _at(value: float | None, horizon_s: float) -> str:
    if value is None:
        return f"> {duration(horizon_s)}"
    return duration(round(value)) if value < 60 else duration(60 * round(value / 60))


def _where(start: StartAnswer) -> str:
    if not start.domains:
        return "-"
    first, more = start.domains[0], len(start.domains) - 1
    return f"{clean(first.name)} {percent(round(first.share, 2))}" + (f" +{more}" if more else "")


def _side_by_side(found: Answer, width: int, style: Style) -> list[str]:
    """Return what the next round comes to, a line for each scenario."""
    head = ["GPUs", "in use", "starts", "stopped", "moved", "cost GPU-h", "of it spans"]
    rows = [
        Row(
            [
                clean(each.name),
                number(each.now.gpus),
                number(each.now.gpus_in_use),
                number(each.now.starts),
                number(len(each.now.stopped)),
                number(each.now.moves),
                gpu_hours(each.now.total_cost_gpu_s),
                gpu_hours(each.now.placement_loss_gpu_s),
            ]
        )
        for each in found.scenarios
    ]
    columns = [Column("scenario", least=12), *(Column(name, right=True) for name in head)]
    return [style.title("The next round") + style.faint("  a dry run"), *table(columns, rows, width, style.faint)]


def _scenario(
    each: ScenarioAnswer, first: ScenarioAnswer, width: int, style: Style, everything: bool, alone: bool
) -> list[str]:
    """Return what a scenario means for every team, and who is stopped."""
    lines = [
        style.title(clean(each.name)) + style.faint("" if alone or each is first else f"  against {clean(first.name)}")
    ]
    lines += _teams(each, first, width, style, everything)
    stopped = each.now.stopped
    if stopped:
        head = [Column("stopped in the next round", least=10), Column("team", least=6), Column("GPUs", right=True)]
        head += [Column("GPU-h", right=True), Column("for", least=8)]
        rows = [
            Row(
                [
                    clean(s.job),
                    clean(s.team),
                    number(s.gpus),
                    gpu_hours(s.cost_gpu_s),
                    clean(", ".join(s.beneficiaries)),
                ]
            )
            for s in stopped
        ]
        lines += _shortened(head, rows, width, style, everything)
    futures = each.futures
    if futures and futures.stopped:
        head = [Column("stopped in futures", least=10), Column("team", least=6), Column("how often", right=True)]
        head += [Column("GPU-h each", right=True)]
        rows = [
            Row([clean(s.job), clean(s.team), percent(round(s.share, 2)), gpu_hours(s.cost_gpu_s)])
            for s in futures.stopped
        ]
        lines += _shortened(head, rows, width, style, everything)
    return lines


def _shortened(head: Sequence[Column], rows: Sequence[Row], width: int, style: Style, everything: bool) -> list[str]:
    shown = rows if everything else rows[:MOST_STOPPED]
    lines = table(head, shown, width, style.faint)
    if len(shown) < len(rows):
        lines.append(style.faint(f"  and {len(rows) - len(shown):,} more (--all shows them)"))
    return lines


def _teams(each: ScenarioAnswer, first: ScenarioAnswer, width: int, style: Style, everything: bool) -> list[str]:
    futures = each.futures
    asked = bool(each.now.jobs)
    head = ["GPUs", "waiting", "stopped", "lost GPU-h", "spans GPU-h"]
    if futures:
        head.append("futures: cost GPU-h" if asked else "futures: GPUs held")
    columns = [Column("team", least=6), *(Column(name, right=True) for name in head)]
    names = [team for team in each.now.teams if everything or _matters(each.now.teams[team], first.now.teams.get(team))]
    rows = []
    for team in names if everything else names[:MOST_TEAMS]:
        now, was = each.now.teams[team], first.now.teams.get(team, TeamNow())
        cells = [
            clean(team),
            number(now.gpus) + _change(now.gpus - was.gpus),
            number(now.waiting) + _change(now.waiting - was.waiting),
            number(now.stopped),
            gpu_hours(now.lost_gpu_s),
            gpu_hours(now.placement_loss_gpu_s),
        ]
        if futures:
            cells.append(gpu_hours(futures.cost_gpu_s[team]) if asked else _held(futures.held_gpus[team]))
        rows.append(Row(cells))
    lines = table(columns, rows, width, style.faint)
    if len(rows) < len(names):
        lines.append(style.faint(f"  and {len(names) - len(rows):,} more (--all shows them)"))
    return lines


def _matters(now: TeamNow, was: TeamNow | None) -> bool:
    return now != TeamNow() or (was is not None and was != TeamNow())


def _change(by: int) -> str:
    return f" ({by:+,})" if by else ""


def _held(band: Band) -> str:
    low, high = round(band.low or 0.0), round(band.high or 0.0)
    return number(low) if low == high else f"{number(low)} – {number(high)}"
