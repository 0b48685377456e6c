"""Durations, amounts and counts as people write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_EPOCH_FROM_S = 1e8
"""From here on (spring of 1973) instants count from 1970; smaller ones are of a clock of the file's own."""


def clean(text: str) -> str:
    """Return `text` with everything escaped that a terminal would act on; line breaks and tabs become spaces."""
    if text.isprintable():
        return text
    spaced = " ".join(text.split()) if any(c in text for c in "\n\t\r") else text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in spaced)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return "1 job", "1,024 jobs"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: "1 d 3 h", "3 h 12 min", "2 min", "40 s", "2.5 s", "40 ms"."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if 0 < seconds < 1:
        return f"{max(round(seconds * 1000), 1)} ms"
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f} s"
    if seconds > 365.25 * 86_400 * 100:
        return "more than 100 years"
    left = round(seconds)
    if left >= 60 * 86_400:
        return f"{left // 86_400:,} d"
    for (size, unit), (small_size, small_unit) in pairwise(_UNITS):
        if left >= size:
            if left >= 10 * size and size == 60:
                return f"{round(left / size)} {unit}"
            big, rest = divmod(round(left / small_size), size // small_size)
            return f"{big} {unit} {rest} {small_unit}" if rest else f"{big} {unit}"
    return f"{left} s"


def instant(at_s: float) -> str:
    """Return a moment: a date where the clock counts from 1970, else the seconds of the file's own clock."""
    if at_s < _EPOCH_FROM_S or at_s > 2.5e11:
        return f"t = {number(at_s)} s"
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def from_now(at_s: float, now_s: float) -> str:
    """Return when something is: "now", "in 3 h 12 min", "5 min ago"."""
    ahead = at_s - now_s
    if abs(ahead) < 0.5:
        return "now"
    return f"in {duration(ahead)}" if ahead > 0 else f"{duration(-ahead)} ago"


def number(value: float) -> str:
    """Return a number with separators, whole ones without a point: "1,024", "0.5"."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.2f}".rstrip("0").rstrip(".")


def gpu_hours(gpu_s: float) -> str:
    """Return GPU-seconds as GPU-hours with what digits matter: "12.4", "0.03", "10,112.0"."""
    hours = gpu_s / 3600
    if hours == 0:
        return "0.0"
    if abs(hours) < 0.005:
        return "<0.01" if hours > 0 else ">-0.01"
    return f"{hours:,.1f}" if abs(hours) >= 1 else f"{hours:.2f}"


def percent(fraction: float) -> str:
    """Return a share: "97 %", "0.3 %", "0.04 %"; never 100 % or 0 % unless it is."""
    value = fraction * 100
    if value == int(value):
        return f"{int(value)} %"
    if value < 0.01:
        return "less than 0.01 %"
    digits = 2 if value < 0.1 else 1
    if value > 99 and round(value, digits) == 100:
        return "99.9 %"
    return f"{value:.{digits}f} %"


def sentence(text: str) -> str:
    """Return cleaned text with a capital first letter, unless it starts with what looks like a name or a number."""
    text = clean(text).strip()
    first = text.split(" ", 1)[0]
    return text[0].upper() + text[1:] if first.isalpha() and first.islower() else text


def listed(names: Sequence[str], most: int) -> str:
    """Return "a, b and c", or "a, b and 7 more" where there are more than `most`."""
    if len(names) > most:
        return f"{', '.join(names[: max(most - 1, 1)])} and {len(names) - max(most - 1, 1):,} more"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def joined(parts: Iterable[str]) -> str:
    """Return the parts that are not empty, with dots between."""
    return " · ".join(part for part in parts if part)
