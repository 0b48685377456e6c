"""Preemptions followed through a log: for whom each was, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from optsched.engine.commands import Kind
from optsched.engine.draft import Step
from optsched.engine.state import State, StopCause
from optsched.engine.tables import ENDS, HOLDS_RUN
from optsched.values.ids import JobId


@dataclass
class Followed:
    """Victims for whose beneficiaries is still waited: (victim, run of each beneficiary when that was decided)."""

    waiting: list[tuple[JobId, dict[JobId, int]]] = field(default_factory=list)

    def note_stops(self, before: State, after: State) -> None:
        """Take in whom a decision stopped for somebody that does not run at once."""
        for name, record in after.jobs.items():
            old = before.jobs.get(name)
            if record.stop is None or record.stop.cause is not StopCause.PLAN or (old is not None and old.stop):
                continue
            runs = {job: after.jobs[job].run for job in record.stop.beneficiaries}
            if not any(after.jobs[job].state in HOLDS_RUN for job in runs):
                self.waiting.append((name, runs))

    def note_ends(self, step: Step) -> None:
        """Strike off the victims of whose beneficiaries one has started, or all gave the room back and said so."""
        dropped = {note.job for note in step.notes if note.kind in (Kind.DROPPED, Kind.CANCELLED)}
        left = []
        for name, runs in self.waiting:
            now = {job: step.state.record(job) for job in runs}
            started = any(record is not None and record.run > runs[job] for job, record in now.items())
            rest = {
                job: runs[job]
                for job, record in now.items()
                if job not in dropped and record is not None and record.state not in ENDS
            }
            if not started and rest:
                left.append((name, rest))
        self.waiting = left
