"""What importers have in common: tables of text, cells with bounds, and a fault for each cell that is wrong."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from optsched.errors import Fault, InputError
from optsched.files.document import Document
from optsched.files.report import MAX_FAULTS, cut, field_name, show

MAX_SECONDS = 1e10
MAX_GPUS = 1e6
MAX_AMOUNT = 1e12
MAX_TASKS = 1_000_000


@dataclass(slots=True)
class Faults:
    """The faults of one file, in the order in which they were found."""

    file: str
    kept: list[Fault] = field(default_factory=list)
    count: int = 0

    def add(self, line: int | None, where: str, wrong: str, allowed: str) -> None:
        """Note a fault; those beyond 200 are only counted."""
        self.count += 1
        if len(self.kept) < MAX_FAULTS:
            self.kept.append(Fault(self.file, line, cut(where), wrong, allowed))


def raise_faults(all_faults: Sequence[Faults]) -> None:
    """Raise InputError with the faults of all files, where there are any."""
    kept = [fault for faults in all_faults for fault in faults.kept]
    count = sum(faults.count for faults in all_faults)
    if not count:
        return
    told = kept[:MAX_FAULTS]
    if count > len(told):
        told.append(
            Fault(
                told[0].file,
                None,
                "(more)",
                f"{count - len(told)} more faults are not listed",
                "mend those above first, or leave such rows out with --skip-faulty",
            )
        )
    raise InputError(told)


class Row:
    """One record: cells by column, and what was wrong with it. A cell that the table lacks is empty."""

    __slots__ = ("cells", "faults", "line", "sound")

    def __init__(self, cells: Mapping[str, str], line: int, faults: Faults) -> None:
        self.cells = cells
        self.line = line
        self.faults = faults
        self.sound = True

    def fault(self, column: str, wrong: str, allowed: str) -> None:
        """Note that a cell is wrong: the record is not used."""
        self.sound = False
        self.faults.add(self.line, column, wrong, allowed)

    def text(self, column: str) -> str:
        """Return a cell, without blanks around it."""
        return self.cells.get(column, "").strip()

    def needed(self, column: str) -> str:
        """Return a cell that may not be empty."""
        text = self.text(column)
        if not text:
            self.fault(column, "empty", "some text")
        return text

    def maybe(self, column: str, low: float = 0.0, high: float = MAX_AMOUNT) -> float | None:
        """Return a number from `low` to `high`, None for an empty cell (or a wrong one, which is a fault)."""
        text = self.text(column)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            self.fault(column, f"given {show(text)}", f"a number from {low:,.10g} to {high:,.10g}")
            return None
        return value

    def number(self, column: str, low: float = 0.0, high: float = MAX_AMOUNT) -> float:
        """Return a number from `low` to `high`; an empty cell is a fault, and 0."""
        if not self.text(column):
            self.fault(column, "empty", f"a number from {low:,.10g} to {high:,.10g}")
            return 0.0
        return self.maybe(column, low, high) or 0.0

    def whole(self, column: str, low: int = 0, high: int = MAX_TASKS) -> int | None:
        """Return a whole number, None for an empty cell."""
        value = self.maybe(column, low, high)
        if value is not None and value != int(value):
            self.fault(column, f"given {show(self.text(column))}", f"a whole number from {low:,} to {high:,}")
            return None
        return None if value is None else int(value)

    def instant(self, column: str, unknown: Sequence[str] = ("",)) -> float | None:
        """Return a date and time in seconds since 1970, taken as UTC where it names no zone; None where `unknown`."""
        text = self.text(column)
        if text in unknown:
            return None
        seconds = seconds_of(text)
        if seconds is None:
            self.fault(column, f"given {show(text)}", "a date and time such as 2017-10-07 01:12:09")
        return seconds


def seconds_of(text: str) -> float | None:
    """Return a date and time in seconds since 1970 (UTC where it names no zone), None where it is none."""
    try:
        moment = datetime.fromisoformat(text)
        # A zone may lead out of the years that have a number.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def moment_of(seconds: float, zoned: bool = False) -> str:
    """Return seconds since 1970 as a date and time, with "Z" where the zone is known."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + ("Z" if zoned else "")


def doubled(names: Sequence[str], line: int, faults: Faults) -> bool:
    """Note a fault for every name that a table's first line gives to several columns; return whether there is any."""
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    for name in twice:
        faults.add(line, name, f"{names.count(name)} columns are called so", "one column of each name")
    return bool(twice)


def doubled_keys(document: Document, faults: Faults) -> bool:
    """Note a fault for every key that a mapping of a document has twice; return whether there is any."""
    for twice in document.duplicates:
        name = field_name(document.data, twice.path)
        line = document.line_of(twice.path) if twice.line is None else twice.line
        faults.add(line, name, "the key is given twice in one mapping", "each key once")
    return bool(document.duplicates)


def csv_rows(text: str, faults: Faults, header: Sequence[str] | None = None) -> Iterator[Row]:
    """Yield the records of a CSV text; `header` names its columns where the text does not.

    A record with more or fewer cells than columns is a fault, and is not yielded; blank lines are passed over. Where
    two columns have one name, that is a fault, and nothing is yielded: which of them is meant cannot be told.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    names = [name.strip() for name in header] if header is not None else None
    line = 0
    while True:
        start = line + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            faults.add(start, "(row)", f"no CSV: {error}", "cells with commas between, quoted where they hold commas")
            line = reader.line_num
            continue
        line = reader.line_num
        if not cells or (len(cells) == 1 and not cells[0].strip()):
            continue
        if names is None:
            names = [name.strip() for name in cells]
            if doubled(names, start, faults):
                return
        elif len(cells) != len(names):
            faults.add(start, "(row)", f"{len(cells)} cells", f"{len(names)} cells, one for each column")
        else:
            yield Row(dict(zip(names, cells, strict=True)), start, faults)
