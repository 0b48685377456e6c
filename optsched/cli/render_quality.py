"""Scores of placements as text and as JSON: a line for each maker of plans, then round by round."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, count, duration, gpu_hours, joined, number, percent
from optsched.files.plan_json import write
from optsched.sim.quality.best import Best, best_of
from optsched.sim.quality.collection import Round
from optsched.sim.quality.judge import rank_names
from optsched.sim.quality.measure import Entry, Scored, Summary, summaries

Plain = dict[str, object]
SHOWN_FAULTS = 20
MOST_BY_RANK = 4
"""Rank by rank so many entries are shown beside one another; of more only what is known of the round."""


def rounds_to_text(rounds: Sequence[Round], width: int, style: Style) -> str:
    """Return what rounds there are, what makes each hard and what a good plan does."""
    lines = []
    for given in rounds:
        lines += [style.title(clean(given.name)) + style.faint(f"  {_size(given)} · {_known(best_of(given))}")]
        lines += [line for text in (given.hard, given.good) if text for line in wrapped(clean(text), width, 2)]
    return "\n".join(lines) + "\n"


def rounds_to_json(rounds: Sequence[Round]) -> str:
    """Return the same as JSON."""
    return write({"rounds": [_round(given, best_of(given)) for given in rounds]})


def scored_to_text(scored: Sequence[Scored], width: int, style: Style, everything: bool = False) -> str:
    """Return all scores as text: of several rounds a summary and a line for each, or with `everything` every entry."""
    several = len(scored) > 1
    lines = _summary(summaries(scored), width, style) if several else []
    if several and not everything:
        lines += ["", *_overview(scored, width, style)]
    else:
        for each in scored:
            lines += ["", *_one(each, width, style, alone=not several)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _overview(scored: Sequence[Scored], width: int, style: Style) -> list[str]:
    """Return a line for every round: what is known of it, how many reach that, and how far off the others are."""
    heads = ("nodes", "GPUs", "best runs", "reached by", "gap", "worst")
    columns = [
        Column("round", least=12, paint=style.name),
        *(Column(head, right=True) for head in heads),
        Column("", least=6),
    ]
    rows = []
    for each in scored:
        reached, gaps = [e.who for e in each.entries if e.at_best], [e.gap for e in each.entries]
        known = max(e.verdict.worth.gpus for e in each.entries) if each.best is None else each.best.worth.gpus
        cells = [
            clean(each.round.name),
            number(len(each.round.snapshot.cluster.nodes)),
            number(each.round.problem.healthy_gpus),
            number(known),
            f"{len(reached)} of {len(gaps)}",
            percent(sum(gaps) / len(gaps)),
            percent(max(gaps)),
            _known(each.best).split(":")[0],
        ]
        rows.append(Row(cells))
    about = "--round NAME tells more of one, --all of all"
    return [style.title("Rounds") + style.faint(f"  {about}"), *table(columns, rows, width, style.faint)]


def _summary(rows: Sequence[Summary], width: int, style: Style) -> list[str]:
    heads = ("best", "valid", "gap", "worst", "short", "lost", "spans", "stops", "moves", "time")
    columns = [Column("who", least=12, paint=style.name), *(Column(head, right=True) for head in heads)]
    cells = [
        Row(
            [
                clean(row.who),
                f"{row.at_best}/{row.rounds}",
                f"{row.valid}/{row.rounds}",
                percent(row.mean_gap),
                percent(row.worst_gap),
                number(row.short_gpus),
                gpu_hours(row.lost_work),
                gpu_hours(row.placement_loss),
                number(row.preempted),
                number(row.moved),
                "–" if row.wall_s is None else duration(row.wall_s),
            ]
        )
        for row in rows
    ]
    about = (
        "best: rounds in which no better plan is known; gap: to the best known plan, mean and worst; short: GPUs that "
        "do not run at some rank; lost: work of stopped jobs, spans: what placements cost, both in GPU-h"
    )
    head = [style.title("All rounds"), *(style.faint(line) for line in wrapped(about, width, 2, 0))]
    return [*head, *table(columns, cells, width, style.faint)]


def _one(each: Scored, width: int, style: Style, *, alone: bool) -> list[str]:
    """Return one round: what is known of it, and every entry; `alone`: with what makes it hard, and rank by rank."""
    given, best = each.round, each.best
    lines = [style.title(clean(given.name)) + style.faint(f"  {_size(given)} · {_known(best)}")]
    if alone:
        lines += [line for text in (given.hard, given.good) if text for line in wrapped(clean(text), width, 2)]
    heads = ("GPUs", "short", "bill", "gap", "lost", "spans", "stops", "moves", "time")
    columns = [Column("who", least=12, paint=style.name), *(Column(head, right=True) for head in heads), Column("")]
    rows = [_best_row(best)] if best is not None else []
    rows += [_entry_row(entry) for entry in each.entries]
    lines += table(columns, rows, width, style.faint)
    for entry in each.entries:
        faults = entry.verdict.faults
        shown = faults if alone else faults[:1]
        told = [f"{clean(entry.who)}: {clean(fault)}" for fault in shown[:SHOWN_FAULTS]]
        if len(faults) > len(told):
            told.append(f"{clean(entry.who)}: and {count(len(faults) - len(told), 'more fault')}")
        lines += [style.bad(line) for text in told for line in wrapped(text, width, 2)]
    return [*lines, "", *_ranks(each, width, style)] if alone else lines


def _best_row(best: Best) -> Row:
    worth = best.worth
    return Row(["best known", number(worth.gpus), "0", gpu_hours(worth.bill), *["–"] * 6, ""])


def _entry_row(entry: Entry) -> Row:
    worth, verdict = entry.verdict.worth, entry.verdict
    says = "refused" if not verdict.valid else "better than known" if entry.above else "best" if entry.at_best else ""
    return Row(
        [
            clean(entry.who),
            number(worth.gpus),
            number(entry.short_gpus),
            gpu_hours(worth.bill),
            percent(entry.gap),
            gpu_hours(worth.lost_work),
            gpu_hours(worth.placement_loss),
            number(worth.preempted),
            number(worth.moved + worth.resized),
            "–" if entry.wall_s is None else duration(entry.wall_s),
            says,
        ]
    )


def _ranks(each: Scored, width: int, style: Style) -> list[str]:
    """Return the GPUs by rank: what each entry runs, the best known plan, and the bound."""
    names = rank_names(each.round.problem)
    entries = each.entries if len(each.entries) <= MOST_BY_RANK else ()
    columns = [Column("rank"), *(Column(clean(entry.who), right=True, least=8) for entry in entries)]
    columns += [Column("best known", right=True), Column("bound", right=True)] if each.best is not None else []
    rows = []
    for row, name in enumerate(names):
        known = [] if each.best is None else [each.best.worth.ranks[row]]
        gpus = [*(entry.verdict.worth.ranks[row] for entry in entries), *known]
        if any(gpus):
            bound = [] if each.best is None else [each.best.bounds[row]]
            rows.append(Row([clean(name), *map(number, gpus), *("–" if b is None else number(b) for b in bound)]))
    head = style.title("Ranks") + style.faint("  GPUs that run, the most protected first")
    return [head, *table(columns, rows, width, style.faint)]


def _size(given: Round) -> str:
    queued = sum(1 for _ in given.problem.queued)
    nodes = len(given.snapshot.cluster.nodes)
    return joined([count(nodes, "node"), f"{number(given.problem.healthy_gpus)} GPUs", f"{number(queued)} queued"])


def _known(best: Best | None) -> str:
    if best is None:
        return "no plan is known: the best of these stands in"
    if best.proven:
        return "proven: no better plan exists"
    open_gpus = next(
        (b - g for g, b in zip(best.worth.ranks, best.bounds, strict=True) if b is not None and b > g), None
    )
    if open_gpus:
        return f"at most {count(open_gpus, 'GPU')} more at the first rank that is open"
    if any(bound is None for bound in best.bounds):
        return "not all ranks are bounded"
    bill = best.bill_bound
    left = "is not bounded" if bill is None else f"may be {gpu_hours(best.worth.bill - bill)} GPU-h lower"
    return f"all ranks proven; the bill {left}"


def scored_to_json(scored: Sequence[Scored]) -> str:
    """Return all scores as JSON; gaps are fractions, costs GPU-seconds, times seconds."""
    return write(
        {
            "summary": [_summary_json(row) for row in summaries(scored)],
            "rounds": [
                {**_round(each.round, each.best), "entries": [_entry(entry, each.round) for entry in each.entries]}
                for each in scored
            ],
        }
    )


def _round(given: Round, best: Best | None) -> Plain:
    known: Plain | None = None
    if best is not None:
        known = {
            "gpus": best.worth.gpus,
            "ranks": _by_rank(given, best.worth.ranks),
            "bounds": {n: b for n, b in zip(rank_names(given.problem), best.bounds, strict=True) if b != 0},
            "bill": best.worth.bill,
            "bill_bound": best.bill_bound,
            "proven": best.proven,
            "how": best.how,
        }
    sizes: Plain = {"nodes": len(given.snapshot.cluster.nodes), "gpus": given.problem.healthy_gpus}
    return {"round": given.name, "hard": given.hard, "good": given.good, **sizes, "best_known": known}


def _by_rank(given: Round, ranks: Sequence[int]) -> Plain:
    return {name: gpus for name, gpus in zip(rank_names(given.problem), ranks, strict=True) if gpus}


def _entry(entry: Entry, given: Round) -> Plain:
    worth = entry.verdict.worth
    return {
        "who": entry.who,
        "valid": entry.verdict.valid,
        "faults": list(entry.verdict.faults),
        "at_best_known": entry.at_best,
        "better_than_known": entry.above,
        "gap": entry.gap,
        "short_gpus": entry.short_gpus,
        "bill_gap": entry.bill_gap,
        "gpus": worth.gpus,
        "ranks": _by_rank(given, worth.ranks),
        "bill": worth.bill,
        "placement_loss": worth.placement_loss,
        "preemption_cost": worth.preemption,
        "lost_work": worth.lost_work,
        "started": worth.started,
        "preempted": worth.preempted,
        "moved": worth.moved,
        "resized": worth.resized,
        "wall_s": entry.wall_s,
    }


def _summary_json(row: Summary) -> Plain:
    return {
        "who": row.who,
        "rounds": row.rounds,
        "valid": row.valid,
        "at_best_known": row.at_best,
        "mean_gap": row.mean_gap,
        "worst_gap": row.worst_gap,
        "short_gpus": row.short_gpus,
        "lost_work": row.lost_work,
        "placement_loss": row.placement_loss,
        "preempted": row.preempted,
        "moved": row.moved,
        "wall_s": row.wall_s,
    }
