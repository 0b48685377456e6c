"""How long jobs waited, by size: for every policy a line from the median to p99, a dot at p90."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.cli.html.draw import RIGHT, WIDTH, Scale, box, legend, rule, svg, text_of, words
from optsched.cli.words import duration
from optsched.sim.results import Result, Waits

LABEL = 74
ROW, GAP, HEAD, FOOT = 11, 9, 6, 20
TWO_LINES = 28
LOW_S = 10.0
TICKS = (
    (60.0, "1 min"),
    (600.0, "10 min"),
    (3600.0, "1 h"),
    (6 * 3600.0, "6 h"),
    (86_400.0, "1 d"),
    (7 * 86_400.0, "7 d"),
)


def waits(results: Sequence[Result], names: Sequence[str]) -> str:
    """Return one picture for all results."""
    groups = list(dict.fromkeys(entry.name for result in results for entry in result.metrics.waits))
    found = [{entry.name: entry for entry in result.metrics.waits} for result in results]
    longest = max((entry.wait_s.max for table in found for entry in table.values()), default=0.0)
    x = Scale(LOW_S, max(longest, 3600.0) * 1.1, LABEL, WIDTH - RIGHT, log=True)
    # A name and the number of jobs under it need their room where there are few rows.
    step = max(TWO_LINES, len(results) * ROW + GAP)
    height = HEAD + len(groups) * step + FOOT
    parts = []
    shown = -1000.0
    for at_s, name in TICKS:
        if x.low < at_s < x.high and x(at_s) - shown > 34:
            shown = x(at_s)
            parts += [rule(shown, HEAD, shown, height - FOOT, "grid"), words(shown, height - 7, name, "mid faint")]
    y = float(HEAD)
    for group in groups:
        jobs = next(table[group].jobs for table in found if group in table)
        middle = y + len(results) * ROW / 2
        parts += [words(LABEL - 6, middle, _name(group), "end")]
        parts += [words(LABEL - 6, middle + 11, f"{jobs:,}", "end faint")]
        for index, table in enumerate(found):
            if group in table:
                parts += _row(x, y + index * ROW + ROW / 2, table[group], f"p{index % 8}", names[index])
        y += step
    return svg(height, "waits by size of job, for every policy", parts)


def _name(group: str) -> str:
    return "all jobs" if group == "all" else "1 GPU" if group == "1" else f"{group} GPUs"


def waits_legend(names: Sequence[str]) -> str:
    """Return which colour is which policy."""
    return legend([(f"p{index % 8}", name) for index, name in enumerate(names)])


def _row(x: Scale, y: float, entry: Waits, kind: str, name: str) -> list[str]:
    wait = entry.wait_s
    tip = f"{name}: median {duration(wait.p50)}, p90 {duration(wait.p90)}, p99 {duration(wait.p99)}"
    tip += f", longest {duration(wait.max)}" + (
        f"; {entry.never_started:,} never started" if entry.never_started else ""
    )
    start, middle, end = x(wait.p50), x(wait.p90), x(wait.p99)
    return [
        box(start, y - 2, end - start, 4, f"{kind} soft", tip),
        box(start - 1, y - 4, 2, 8, kind, tip),
        f'<circle cx="{middle:.1f}" cy="{y:.1f}" r="3.4" class="{kind}"><title>{text_of(tip)}</title></circle>',
        box(end - 1, y - 4, 2, 8, kind, tip),
    ]
