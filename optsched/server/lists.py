"""Lists that come page by page, and which jobs meet a filter."""

from __future__ import annotations

import heapq
import json
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence

from optsched.engine.events import Submit
from optsched.engine.state import JobRecord, State
from optsched.files.report import Scope
from optsched.server import asked
from optsched.server.caller import Caller
from optsched.server.checks import Plain
from optsched.server.leader import Change, Leader
from optsched.server.views import job_view
from optsched.values.ids import JobId


def read_token(token: str, scope: Scope) -> tuple[float, str] | None:
    """Return where the page before ended; None for the first. Raises InputError."""
    if not token:
        return None
    try:
        at, name = json.loads(bytes.fromhex(token))
        return float(at), str(name)
    except (ValueError, TypeError):
        scope.fault("given a token that no answer held", "next_page_token of the answer before", "page_token")
        scope.report.raise_faults()
        raise


def write_token(at: float, name: str) -> str:
    """Return where a page ended, as a word."""
    return json.dumps([at, name], separators=(",", ":")).encode().hex()


def every(record: JobRecord) -> bool:
    """Every job matches."""
    return True


def matcher(wanted: asked.JobFilter, caller: Caller) -> Callable[[JobRecord], bool]:
    """Return what tells whether a job meets a filter, and is the caller's business."""
    tests: list[Callable[[JobRecord], bool]] = []
    teams = caller.teams
    if teams is not None:
        tests.append(lambda record: record.job.team in teams)

    def among(names: Iterable[str], value: Callable[[JobRecord], str]) -> None:
        chosen = frozenset(names)
        if chosen:
            tests.append(lambda record: value(record) in chosen)

    among(wanted.states, lambda record: record.state.value)
    among(wanted.teams, lambda record: record.job.team)
    among(wanted.users, lambda record: record.job.user)
    among(wanted.ids, lambda record: record.id)
    if wanted.node:
        tests.append(lambda record: _is_on(record, wanted.node))
    if wanted.min_priority is not None:
        least = wanted.min_priority
        tests.append(lambda record: record.job.priority >= least)
    if wanted.array:
        tests.append(lambda record: record.array is not None and record.array.id == wanted.array)
    return every if not tests else lambda record: all(test(record) for test in tests)


def _is_on(record: JobRecord, node: str) -> bool:
    return node in record.job.placement or (record.claim is not None and node in record.claim.placement)


def all_jobs(state: State) -> Iterator[JobRecord]:
    """Yield every job that is known, those that have ended last."""
    yield from state.jobs.values()
    yield from state.ended.values()


class Order:
    """All known jobs in the order of their submission: (instant, id), sorted; so that pages need not be looked for."""

    def __init__(self, leader: Leader) -> None:
        self._keys = sorted((record.job.submitted_at, record.id) for record in all_jobs(leader.state))
        leader.listeners.append(self)

    def __call__(self, changes: Sequence[Change]) -> None:
        """Take in jobs that are new, and let go of those that have left the state."""
        for change in changes:
            if isinstance(change.event, Submit):
                name = change.event.job.id
                record = change.after.record(name)
                if record is not None and change.before.record(name) is None:
                    insort(self._keys, (record.job.submitted_at, name))
            if change.forgotten:
                gone = {record.id for record in change.forgotten}
                self._keys = [key for key in self._keys if key[1] not in gone]

    def page(self, after: tuple[float, str] | None, size: int) -> list[tuple[float, JobId]]:
        """Return so many after a key, and one more where there is one."""
        first = 0 if after is None else bisect_right(self._keys, (after[0], JobId(after[1])))
        return self._keys[first : first + size + 1]


def page_of_jobs(
    state: State,
    asking: asked.ListJobsRequest,
    after: tuple[float, str] | None,
    caller: Caller,
    order: Sequence[tuple[float, JobId]],
) -> Plain:
    """Return a page of the jobs that match. `order`: the keys after `after`, a page and one more, of all jobs."""
    matches = matcher(asking.filter, caller)
    if matches is every:
        known = ((key, state.record(key[1])) for key in order)
        rows = [(key, record) for key, record in known if record is not None]
        total = len(state.jobs) + len(state.ended)
    else:
        found = [((record.job.submitted_at, record.id), record) for record in all_jobs(state) if matches(record)]
        later = found if after is None else [each for each in found if each[0] > after]
        rows = heapq.nsmallest(asking.size + 1, later, key=lambda each: each[0])
        total = len(found)
    page = rows[: asking.size]
    token = write_token(*page[-1][0]) if len(rows) > asking.size else ""
    return {
        "jobs": [job_view(record, state, full=asking.view == "full") for _, record in page],
        "next_page_token": token,
        "total": total,
    }
