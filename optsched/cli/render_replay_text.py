"""A replay told in text: what happened when, to whom, and why."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from optsched.cli.tables import wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, count, duration, instant, joined
from optsched.engine.commands import Kind, Note
from optsched.sim.replay import Moment
from optsched.values.job import JobState
from optsched.values.snapshot import Scenario

_GOOD = frozenset({Kind.PLACED, Kind.PROMISED, Kind.STARTED, Kind.COMPLETED, Kind.REPAIRED})
_BAD = frozenset({Kind.PREEMPTED, Kind.FAILED, Kind.ALARM, Kind.DEADLINE, Kind.REFUSED})
_WAIT = frozenset({Kind.RESERVED, Kind.WAITS, Kind.REQUEUED, Kind.DROPPED})


class Story:
    """Collects the moments of a replay, and tells them. `only`: what concerns one job."""

    def __init__(self, scenario: Scenario, title: str, width: int, style: Style, only: str | None = None) -> None:
        self._width, self._style, self._only = width, style, only
        self._start = scenario.start.now
        events = count(len(scenario.events), "event")
        head = joined((title, instant(self._start), f"profile {clean(scenario.start.profile.name)}", events))
        self._lines = [style.title(head)]
        self._waited: dict[str, str] = {}

    def add(self, moment: Moment) -> None:
        """Tell what led to a moment, then how things stand."""
        notes = [*moment.notes, *self._reasons(moment)]
        shown = [note for note in notes if self._only is None or note.job == self._only]
        for at, together in groupby(shown, key=lambda note: note.at):
            self._lines += ["", self._style.title(self._when(at))]
            for note in _merged(together):
                self._lines += self._line(note)
        if not shown or shown[-1].at != moment.at:
            self._lines += ["", self._style.title(self._when(moment.at))]
        self._lines.append(self._style.faint("  " + _standing(moment)))

    def text(self) -> str:
        """Return the whole story."""
        return "\n".join(self._lines) + "\n"

    def _when(self, at: float) -> str:
        after = at - self._start
        return joined((instant(at), f"after {duration(after)}" if after else ""))

    def _reasons(self, moment: Moment) -> Iterable[Note]:
        """Yield why jobs wait, where it is for something else than when it was told last."""
        for record in moment.state.jobs.values():
            if record.state is JobState.QUEUED and record.reason and record.claim is None:
                why = record.blocked_by or record.reason
                if self._waited.get(record.id) != why:
                    self._waited[record.id] = why
                    yield Note(moment.at, Kind.WAITS, f"waits: {record.reason}", record.id)
            else:
                self._waited.pop(record.id, None)

    def _line(self, note: Note) -> list[str]:
        who = clean(str(note.job or note.node or ""))
        style = self._style
        paint = style.good if note.kind in _GOOD else style.bad if note.kind in _BAD else style.wait
        if note.kind not in _GOOD | _BAD | _WAIT:
            paint = _plain
        lines = wrapped(f"{who}  {clean(note.text)}" if who else clean(note.text), self._width, 2, hang=4)
        if lines and who and lines[0].lstrip().startswith(who):
            indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
            rest = lines[0].lstrip()[len(who) :]
            lines[0] = f"{indent}{style.name(who)}{paint(rest)}"
        return [lines[0], *(paint(line) for line in lines[1:])] if lines else []


def _plain(text: str) -> str:
    return text


def _merged(notes: Iterable[Note]) -> list[Note]:
    """Return notes less what goes without saying: that a job which was placed runs at once."""
    found: list[Note] = []
    placed: set[object] = set()
    for note in notes:
        if note.kind in (Kind.PLACED, Kind.REPAIRED, Kind.MOVED, Kind.RESIZED):
            placed.add(note.job)
        if note.kind is Kind.STARTED and note.job in placed:
            continue
        found.append(note)
    return found


def _standing(moment: Moment) -> str:
    """Return how many jobs run and wait, how many GPUs are in use, and what is held."""
    states = [record.state for record in moment.state.jobs.values()]
    booked = sum(record.booked_gpus for record in moment.state.nodes.values())
    total = sum(record.node.healthy_gpus for record in moment.state.nodes.values())
    return joined(
        (
            f"{states.count(JobState.RUNNING):,} run",
            f"{states.count(JobState.QUEUED):,} wait",
            f"{booked:,} of {total:,} GPUs in use",
            _held(moment),
        )
    )


def _held(moment: Moment) -> str:
    """Return how many nodes are held for whom, "" where none is."""
    rooms = [room for room in moment.state.reserved if room.nodes]
    if not rooms:
        return ""
    first, nodes = rooms[0], len({node for room in rooms for node in room.nodes})
    others = f" and {len(rooms) - 1} more" if len(rooms) > 1 else ""
    return f"{count(nodes, 'node')} held for {clean(str(first.job))}{others}"
