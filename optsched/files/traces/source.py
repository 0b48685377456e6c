"""A trace's file before it is understood, and what an importer makes of it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field

from optsched.files.reading import read_bytes, refuse
from optsched.files.traces.rows import Faults
from optsched.values.trace import TraceJob

_HEAD = 65_536


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file. Bytes that are no UTF-8 stand in it as their numbers: names hold what users paste."""

    file: str
    text: str

    @property
    def first(self) -> str:
        """The first line that is not blank."""
        for line in self.text[:_HEAD].split("\n"):
            if line.strip():
                return line.rstrip("\r")
        return ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The cells of the first line, taken as comma-separated."""
        return tuple(cell.strip() for cell in self.first.split(","))

    def has(self, *columns: str) -> bool:
        """Whether the first line names these columns, among others."""
        return set(columns) <= set(self.columns)


def read_source(path: str | os.PathLike[str]) -> Source:
    """Return a file, gzipped or not ("-": standard input). Raises InputError where it cannot be read or is empty."""
    raw, file = read_bytes(path)
    text = raw.decode("utf-8-sig", errors="backslashreplace")
    if not text.strip():
        raise refuse(file, "the file is empty", "a trace of jobs")
    return Source(file, text)


@dataclass(frozen=True, slots=True)
class Options:
    """What the user says about a trace: `procs_per_gpu` >= 1 turns processors of CPU traces into GPUs."""

    procs_per_gpu: int = 1


@dataclass(slots=True)
class Parsed:
    """What an importer found: jobs with the line that each began in, and what it left out.

    Where `wall_clock` is true, submit times are seconds since 1970 and `zoned` says whether their zone is known.
    """

    faults: list[Faults] = field(default_factory=list)
    jobs: list[tuple[Faults, int, TraceJob]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    wall_clock: bool = False
    zoned: bool = False

    def open(self, source: Source) -> Faults:
        """Return where the faults of a file are gathered."""
        faults = Faults(source.file)
        self.faults.append(faults)
        return faults

    def note(self, text: str) -> None:
        """Say something about the jobs, once."""
        if text not in self.notes:
            self.notes.append(text)
