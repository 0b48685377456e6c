"""Jobs that have ended and left the state: what became of them is kept with the answers under idempotency keys.

It is stored together with the event that let go of them, so a job is known in one place or the other at any moment.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from optsched.engine.events import Submit
from optsched.engine.ports import Store, print_of
from optsched.engine.state import JobRecord
from optsched.server.answers import Answers
from optsched.server.leader import Change, Leader
from optsched.values.ids import JobId
from optsched.values.job import JobState

LONGEST_REASON = 80
"""Characters of a reason that are kept: there may be a million of them."""


def key_of(job: JobId) -> str:
    """Return the key under which it is kept what became of a job."""
    return f"ended/{job}"


def kept_of(records: Sequence[JobRecord]) -> Mapping[str, bytes]:
    """Return what is kept of jobs that leave the state, by key."""
    return {key_of(record.id): _short(record) for record in records}


def _short(record: JobRecord) -> bytes:
    reason = record.reason
    if len(reason) > LONGEST_REASON:
        reason = reason[: LONGEST_REASON - 1] + "…"
    plain: dict[str, object] = {"state": record.state.value, "at": record.ended_at, "run": record.run, "why": reason}
    counts = {
        "preemptions": record.job.preemptions,
        "migrations": record.migrations,
        "infra": record.infra_failures,
        "own": record.job_failures,
    }
    return json.dumps(plain | {name: count for name, count in counts.items() if count}, separators=(",", ":")).encode()


@dataclass(slots=True)
class Archive:
    """Finds jobs that have left the state, for as long as the store keeps them."""

    leader: Leader
    answers: Answers
    store: Store

    def __post_init__(self) -> None:
        self.leader.listeners.append(self)

    def __call__(self, changes: Sequence[Change]) -> None:
        """Take in who has left: from now on it is worth to look for them."""
        for change in changes:
            self.answers.prints.update(print_of(key_of(record.id)) for record in change.forgotten)

    def may_have(self, job: JobId) -> bool:
        """Return whether it is worth to look for a job."""
        return self.answers.overfull or print_of(key_of(job)) in self.answers.prints

    async def find(self, job: JobId) -> JobRecord | None:
        """Return a job that has left the state; None where nobody knows of one any more. Raises StoreError."""
        if not self.may_have(job):
            return None
        kept = (await self.answers.all_known([key_of(job)])).get(key_of(job))
        if kept is None:
            return None
        entries = await asyncio.to_thread(self.store.history, job, 0, 1)
        event = entries[0].event if entries else None
        return _record(event, json.loads(kept)) if isinstance(event, Submit) else None


def _record(event: Submit, kept: Mapping[str, object]) -> JobRecord:
    """Return a job as it ended, as far as it is kept."""

    def count(name: str) -> int:
        found = kept.get(name, 0)
        assert isinstance(found, int)
        return found

    at = kept["at"]
    assert at is None or isinstance(at, int | float)
    job = replace(event.job, run=count("run"), preemptions=count("preemptions"), placement={}, started_at=None)
    return JobRecord(
        job,
        JobState(kept["state"]),
        reason=str(kept["why"]),
        estimate_s=job.estimated_runtime_s,
        migrations=count("migrations"),
        infra_failures=count("infra"),
        job_failures=count("own"),
        after=event.after,
        array=event.array,
        ended_at=at,
    )
