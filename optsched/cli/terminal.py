"""What the terminal can do: colour, width, a progress line; and how text gets out."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import TextIO

from optsched.cli.words import clean, duration
from optsched.clock import Clock

MIN_WIDTH, MAX_WIDTH = 80, 120
_PIPE_WIDTH = 100
_TICK_S = 0.2
_ERASE = "\r\x1b[2K"
_PLAIN = str.maketrans(
    {"→": "->", "–": "-", "·": "|", "×": "x", "…": "...", "≤": "<=", "≥": ">=", "█": "#", "░": "-", "─": "-", "’": "'"}
    | {"├": "|", "└": "`", "│": "|"}
)
"""For terminals and pipes that are not UTF-8."""


@dataclass(frozen=True, slots=True)
class Style:
    """Colour and weight; every method returns the text as it is where `on` is false."""

    on: bool = False

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and text else text

    def title(self, text: str) -> str:
        """What a reader looks for first."""
        return self._paint(text, "1")

    def faint(self, text: str) -> str:
        """What explains the rest."""
        return self._paint(text, "2")

    def good(self, text: str) -> str:
        """What starts, what is proven."""
        return self._paint(text, "32")

    def bad(self, text: str) -> str:
        """What is stopped or lost."""
        return self._paint(text, "31")

    def wait(self, text: str) -> str:
        """What waits, what to look at."""
        return self._paint(text, "33")

    def name(self, text: str) -> str:
        """Names of jobs."""
        return self._paint(text, "36")


def width() -> int:
    """Return the columns to fill: those of the terminal (or COLUMNS), 80 to 120; 100 where there is no terminal."""
    return max(MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns))


def shows_colour(stream: TextIO) -> bool:
    """Whether colour is wanted there: a terminal that can, and no NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def fit(text: str, encoding: str | None) -> str:
    """Return `text` so that it can be written in this encoding: the few signs beyond ASCII have plain twins."""
    try:
        text.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return text.translate(_PLAIN).encode("ascii", "replace").decode()
    return text


def say(text: str) -> None:
    """Write a whole output, and a line break if it has none, to standard output."""
    sys.stdout.write(fit(text if text.endswith("\n") else text + "\n", sys.stdout.encoding))
    sys.stdout.flush()


def tell(line: str) -> None:
    """Write one line to standard error, with nothing in it that a terminal would act on."""
    sys.stderr.write(fit(clean(line), sys.stderr.encoding) + "\n")
    sys.stderr.flush()


def warn(text: str) -> None:
    """Write a warning to standard error."""
    label = Style(shows_colour(sys.stderr)).wait("warning:")
    sys.stderr.write(fit(f"{label} {clean(text)}", sys.stderr.encoding) + "\n")
    sys.stderr.flush()


class Progress:
    """One line on standard error while a round is solved, only on a terminal, erased at the end.

    The solver reports now and then; a thread of its own keeps the elapsed time moving in between.
    """

    def __init__(self, clock: Clock, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._shown = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._stage, self._fraction = "", 0.0
        self._since_s = 0.0
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        self._since_s = self._clock.monotonic_s()
        if self._shown:
            self._thread = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._done.set()
            self._thread.join()
            self._stream.write(_ERASE)
            self._stream.flush()

    def report(self, stage: str, fraction: float) -> None:
        """Take in where the round stands; `fraction` of all work, 0 to 1."""
        self._stage, self._fraction = stage, min(1.0, max(0.0, fraction))

    def line(self) -> str:
        """Return the line as it would be drawn now."""
        elapsed_s = self._clock.monotonic_s() - self._since_s
        filled = round(self._fraction * 24)
        bar = "█" * filled + "░" * (24 - filled)
        room = min(width(), shutil.get_terminal_size().columns) - 24 - 14
        stage = clean(self._stage or "planning")
        stage = stage if len(stage) <= room else stage[: max(room - 1, 0)] + "…"
        elapsed = duration(elapsed_s) if elapsed_s >= 60 else f"{elapsed_s:.1f} s"
        return f"{bar} {elapsed:>9}  {stage}"

    def _tick(self) -> None:
        while not self._done.wait(_TICK_S):
            self._stream.write(_ERASE + fit(self.line(), self._stream.encoding))
            self._stream.flush()
