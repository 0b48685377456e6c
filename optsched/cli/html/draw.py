"""What plots are made of: escaped text, shapes, scales with round ticks, axes."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from optsched.cli.words import clean

WIDTH = 360
"""Width of a plot in its own units: a narrow phone shows it one to one, a wide screen side by side and larger."""

LEFT, RIGHT, TOP, BOTTOM = 38, 8, 8, 22
"""Room for the axes."""


def text_of(text: object) -> str:
    """Return text that is safe inside HTML and attributes."""
    return html.escape(clean(str(text)), quote=True)


def place(value: float) -> str:
    """Return a coordinate with one digit after the point at most."""
    return f"{value:.1f}".removesuffix(".0")


def svg(height: float, label: str, parts: Iterable[str]) -> str:
    """Return a picture of WIDTH by `height` units; `label` says what it shows to those who cannot see it."""
    inside = "".join(parts)
    box = f"0 0 {WIDTH} {place(height)}"
    return f'<svg viewBox="{box}" role="img" aria-label="{text_of(label)}">{inside}</svg>'


def words(x: float, y: float, text: str, kind: str = "") -> str:
    """Return a text; `kind` is its class: "end" and "mid" anchor it, "faint" and others colour it."""
    given = f' class="{kind}"' if kind else ""
    return f'<text x="{place(x)}" y="{place(y)}"{given}>{text_of(text)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:
    """Return a rectangle, with a tip for the pointer."""
    shape = (
        f'<rect x="{place(x)}" y="{place(y)}" width="{place(max(width, 0.6))}" height="{place(height)}" class="{kind}"'
    )
    return f"{shape}><title>{text_of(title)}</title></rect>" if title else f"{shape}/>"


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a straight line."""
    return f'<path d="M{place(x1)} {place(y1)}L{place(x2)} {place(y2)}" class="{kind}"/>'


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high` over the units `start` to `end`; `log` for scales of powers."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return where a value stands; what is outside stands at the edge."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low or 1)
        return self.start + share * (self.end - self.start)


def round_ticks(high: float, most: int = 5) -> list[float]:
    """Return round values from 0 to about `high`, at most `most` and 0; 0 alone where there is no such scale."""
    step = _round_step(high, most)
    return [index * step for index in range(int(high / step + 1e-9) + 1)] if step else [0.0]


def _round_step(high: float, most: int) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that goes into `high` at most `most` times, 0 for none."""
    if not 1e-300 < high < 1e300:
        return 0.0
    step = 10.0 ** math.floor(math.log10(high / most))
    return step * next((factor for factor in (1, 2, 5) if high / (step * factor) <= most), 10)


DAY_S = 86_400.0
TIMES = (
    *((60.0 * minutes, "min", 60.0) for minutes in (1, 5, 10, 30)),
    *((3600.0 * hours, "h", 3600.0) for hours in (1, 2, 3, 6, 12)),
    *((DAY_S * days, "d", DAY_S) for days in (1, 2, 5, 7, 14, 28, 60, 120)),
)
"""Steps of time axes in seconds, and the unit that they are told in; longer ones are round numbers of days."""


def time_ticks(high_s: float, most: int = 5) -> list[tuple[float, str]]:
    """Return round times from 0 to `high_s`, at most `most` and 0, with how they are called."""
    longer = (DAY_S * _round_step(high_s / DAY_S, most), "d", DAY_S)
    step, name, unit = next((entry for entry in TIMES if high_s / entry[0] <= most), longer)
    last = int(high_s / step + 1e-9) if step and high_s > 0 else 0
    return [(index * step, f"{index * step / unit:g} {name}") for index in range(last + 1)]


def time_axis(scale: Scale, top: float, bottom: float) -> list[str]:
    """Return the ticks of a time axis with lines up to `top`."""
    parts = []
    for at_s, name in time_ticks(scale.high):
        x = scale(at_s)
        parts.append(rule(x, top, x, bottom, "grid"))
        parts.append(words(x, bottom + 12, name, "mid faint" if x < WIDTH - 24 else "end faint"))
    return parts


def value_axis(scale: Scale, name: Callable[[float], str]) -> list[str]:
    """Return the ticks of an axis at the left, with lines across."""
    parts = []
    for value in round_ticks(scale.high):
        y = scale(value)
        parts += [rule(LEFT, y, WIDTH - RIGHT, y, "grid"), words(LEFT - 4, y + 3, name(value), "end faint")]
    return parts


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Return a legend: pairs of a class that colours and a name."""
    items = "".join(f'<li><i class="{kind}"></i>{text_of(name)}</li>' for kind, name in entries)
    return f'<ul class="legend">{items}</ul>'


def cards(figures: Sequence[tuple[str, str]]) -> str:
    """Return pictures side by side where there is room, each below what it is called."""
    inside = "".join(f"<figure><figcaption>{text_of(name)}</figcaption>{picture}</figure>" for name, picture in figures)
    kind = "cards two" if len(figures) in (2, 4) else "cards"
    return f'<div class="{kind}">{inside}</div>'
