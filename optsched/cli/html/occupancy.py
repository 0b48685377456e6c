"""GPUs over time: those that run by tier, on top of one another, and what is held, draining or down above them."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.cli.html.draw import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    legend,
    place,
    svg,
    time_axis,
    value_axis,
    words,
)
from optsched.cli.words import number
from optsched.sim.results import Result

HEIGHT = 190
LAYERS = (
    ("guaranteed", "tier-g", "guaranteed"),
    ("fair", "tier-f", "fair"),
    ("opportunistic", "tier-o", "opportunistic"),
    ("draining", "draining", "draining"),
    ("held", "held", "held for somebody"),
    ("down", "down", "out of service"),
)
MOST_POINTS = 700
"""More samples than a picture has columns are thinned."""


def occupancy(result: Result, end_s: float) -> str:
    """Return the picture of one result; `end_s` is the end of the time axis, the same for all."""
    series = result.series
    found = dict(series.tiers) | {name: series.places.get(name, ()) for name in ("draining", "held", "down")}
    steps = range(0, len(series.at_s), max(1, -(-len(series.at_s) // MOST_POINTS)))
    times = [series.at_s[index] for index in steps]
    if not times:
        return svg(40, "no samples", [words(WIDTH / 2, 24, "no samples", "mid faint")])
    x = Scale(0.0, max(end_s, times[-1], 1.0), LEFT, WIDTH - RIGHT)
    y = Scale(0.0, float(result.gpus), HEIGHT - BOTTOM, TOP)
    below = [0.0] * len(times)
    parts = [*value_axis(y, number), *time_axis(x, TOP, HEIGHT - BOTTOM)]
    for key, kind, _ in LAYERS:
        values = found.get(key) or ()
        if not any(values):
            continue
        above = [low + values[index] for low, index in zip(below, steps, strict=True)]
        parts.append(_area(x, y, times, below, above, kind))
        below = above
    parts.append(_line(x, y, times, [float(min(series.queued_gpus[index], result.gpus)) for index in steps]))
    return svg(HEIGHT, f"GPUs in use over time under {result.policy}", parts)


def occupancy_legend() -> str:
    """Return what the colours mean."""
    return legend([*((kind, name) for _, kind, name in LAYERS), ("queued-line", "GPUs waited for, at most all")])


def _area(x: Scale, y: Scale, times: Sequence[float], below: Sequence[float], above: Sequence[float], kind: str) -> str:
    forth = [f"{place(x(at))} {place(y(value))}" for at, value in zip(times, above, strict=True)]
    back = [f"{place(x(at))} {place(y(value))}" for at, value in zip(times, below, strict=True)]
    return f'<path d="M{"L".join(forth)}L{"L".join(reversed(back))}Z" class="{kind}"/>'


def _line(x: Scale, y: Scale, times: Sequence[float], values: Sequence[float]) -> str:
    points = [f"{place(x(at))} {place(y(value))}" for at, value in zip(times, values, strict=True)]
    return f'<path d="M{"L".join(points)}" class="queued"/>'
