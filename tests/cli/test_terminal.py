"""Colour, width and the progress line: only where there is a terminal for them."""

from __future__ import annotations

import io
import time

import pytest

from optsched.cli import terminal
from optsched.cli.terminal import Progress, Style, fit, shows_colour, width
from optsched.clock import StoppedClock


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_colour_needs_a_terminal_that_can() -> None:
    assert shows_colour(Screen())
    assert not shows_colour(io.StringIO())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert not shows_colour(Screen())


def test_no_style_leaves_text_alone() -> None:
    assert Style().bad("x") == "x"
    assert Style(True).bad("x") == "\x1b[31mx\x1b[0m"
    assert Style(True).bad("") == ""


@pytest.mark.parametrize(("columns", "used"), [("20", 80), ("80", 80), ("100", 100), ("300", 120)])
def test_the_width_is_the_terminals_within_bounds(monkeypatch: pytest.MonkeyPatch, columns: str, used: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert width() == used


def test_signs_beyond_ascii_have_plain_twins() -> None:
    assert fit("a → b", "utf-8") == "a → b"
    assert fit("2 × 8 → n0–n3 · ≤ …", "ascii") == "2 x 8 -> n0-n3 | <= ..."
    assert fit("日本", "ascii") == "??"


def test_progress_is_silent_without_a_terminal() -> None:
    stream = io.StringIO()
    with Progress(StoppedClock(), stream) as progress:
        progress.report("solving", 0.5)
    assert stream.getvalue() == ""


def test_progress_shows_stage_and_elapsed_time_and_is_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_TICK_S", 0.001)
    stream, clock = Screen(), StoppedClock(0.0)
    with Progress(clock, stream) as progress:
        clock.at_s = 65.0
        progress.report("bill\x1b[31m", 0.5)
        assert progress.line() == "█" * 12 + "░" * 12 + " 1 min 5 s  bill\\x1b[31m"
        while "bill" not in stream.getvalue():
            time.sleep(0.001)
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_progress_is_erased_when_the_work_fails() -> None:
    stream = Screen()
    with pytest.raises(KeyboardInterrupt), Progress(StoppedClock(), stream):
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_a_fraction_out_of_range_does_no_harm() -> None:
    progress = Progress(StoppedClock(), Screen())
    progress.report("x", 7.0)
    assert progress.line().startswith("█" * 24)
