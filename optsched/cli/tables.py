"""Columns that fit a width: numbers to the right, names to the left, long names cut in the middle."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Paint = Callable[[str], str]

GAP = 2
INDENT = 2


def plain(text: str) -> str:
    """No colour."""
    return text


@dataclass(frozen=True, slots=True)
class Column:
    """A column: heading, whether it holds numbers, the least width it may be cut to (None: never cut), colour."""

    head: str
    right: bool = False
    least: int | None = None
    paint: Paint = plain


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a line, and further text that stands below it, indented, wrapped and faint."""

    cells: Sequence[str]
    below: Sequence[str] = field(default=())


def table(columns: Sequence[Column], rows: Sequence[Row], width: int, faint: Paint, indent: int = INDENT) -> list[str]:
    """Return the lines of a table, none wider than `width` where its columns can be cut that far."""
    if not rows:
        return []
    widths = _widths(columns, rows, width - indent)
    pad = " " * indent
    lines = [faint((pad + _line([column.head for column in columns], columns, widths, painted=False)).rstrip())]
    for row in rows:
        lines.append((pad + _line(row.cells, columns, widths, painted=True)).rstrip())
        for text in row.below:
            lines += [faint(line) for line in wrapped(text, width, indent + 2)]
    return lines


def wrapped(text: str, width: int, indent: int, hang: int = 2) -> list[str]:
    """Return text as indented lines; what wraps hangs `hang` columns further in."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hang),
        break_long_words=True,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def cut(text: str, room: int) -> str:
    """Return text in at most `room` columns; a long one keeps its start and its end."""
    if len(text) <= room:
        return text
    if room <= 3:
        return text[: max(room - 1, 0)] + "…"
    tail = (room - 1) // 3
    return text[: room - 1 - tail] + "…" + text[len(text) - tail :]


def _widths(columns: Sequence[Column], rows: Sequence[Row], room: int) -> list[int]:
    """Return the width of each column: what it needs; where that is too much, the widest that may be cut shrink."""
    widths = [max(len(column.head), *(len(row.cells[index]) for row in rows)) for index, column in enumerate(columns)]
    floor = [column.least if column.least is not None else widths[index] for index, column in enumerate(columns)]
    excess = sum(widths) + GAP * (len(columns) - 1) - room
    while excess > 0:
        widest = max(range(len(columns)), key=lambda index: (widths[index] > floor[index], widths[index]))
        if widths[widest] <= floor[widest]:
            break
        widths[widest] -= 1
        excess -= 1
    return widths


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], painted: bool) -> str:
    parts = []
    last = len(columns) - 1
    for index, (cell, column, size) in enumerate(zip(cells, columns, widths, strict=True)):
        text = cut(cell, size)
        blank = "" if index == last and not column.right else " " * (size - len(text))
        shown = column.paint(text) if painted else text
        parts.append(blank + shown if column.right else shown + blank)
    return (" " * GAP).join(parts)
