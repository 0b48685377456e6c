"""Instants and durations in words, for sentences that a person reads."""

from __future__ import annotations

from datetime import UTC, datetime

_CALENDAR = 1e8
"""Instants from here on are seconds since 1970 and are shown as dates; smaller ones are a clock of the file's own."""


def span_text(seconds: float) -> str:
    """Return a duration in its two largest units, such as "14 h 48 min"."""
    left = round(abs(seconds))
    parts = []
    for name, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2]) or "0 s"


def moment_text(at: float) -> str:
    """Return an instant by itself: a date where the clock counts from 1970, else seconds."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z") if at >= _CALENDAR else f"{at:.15g}"


def instant_text(at: float, now: float) -> str:
    """Return an instant as seen from now: "in 16 min 30 s (at 1000)", or "now"."""
    if at <= now:
        return "now"
    return f"in {span_text(at - now)} (at {moment_text(at)})"
