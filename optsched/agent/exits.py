"""Whose fault an end is: the job's or the machine's.

The machine is blamed on evidence only: a GPU of the run reported a fault, or somebody other than the agent ended the
task. A crash without such evidence is the job's, so that a broken program does not take nodes out of service.
"""

from __future__ import annotations

import signal as signals

from optsched.agent.values import Outcome, RunEnd, TaskEnd

FROM_OUTSIDE = frozenset({signals.SIGKILL, signals.SIGTERM, signals.SIGINT, signals.SIGHUP, signals.SIGPWR})
"""Signals that no program gets for what it does itself; the agent has sent none where this is asked."""

_WORDS = {
    signals.SIGSEGV: "touched memory that it does not have",
    signals.SIGBUS: "touched memory that could not be had (a file cut short, or shared memory that is full)",
    signals.SIGABRT: "gave up by itself",
    signals.SIGFPE: "impossible arithmetic",
    signals.SIGILL: "an instruction that this CPU does not have",
}


def name_of(number: int) -> str:
    """Return a signal's name: SIGKILL for 9."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def classify(end: RunEnd) -> tuple[Outcome, str]:
    """Return what an end is that nobody asked for, and why in a sentence."""
    if end.lost:
        return Outcome.INFRA, end.lost
    bad = end.first_bad
    if bad is None:
        return Outcome.OK, ""
    what = _what(bad)
    if end.faults:
        return Outcome.INFRA, f"{what}; {'; '.join(end.faults)}"
    if bad.signal == signals.SIGKILL and end.out_of_memory:
        return Outcome.FAILED, f"{what}: out of memory"
    if bad.signal is not None and bad.signal in FROM_OUTSIDE:
        return Outcome.INFRA, f"{what}, sent by neither the job nor the scheduler"
    return Outcome.FAILED, what


def told(end: RunEnd) -> str:
    """Return how a run ended that was told to, in a sentence."""
    if end.lost:
        return end.lost
    return "all its tasks exited with 0" if end.first_bad is None else _what(end.first_bad)


def _what(end: TaskEnd) -> str:
    if end.signal is None:
        return f"rank {end.rank} exited with {end.code}"
    word = _WORDS.get(signals.Signals(end.signal)) if end.signal in set(signals.Signals) else None
    return f"rank {end.rank} was ended by {name_of(end.signal)}{f': it {word}' if word else ''}"
