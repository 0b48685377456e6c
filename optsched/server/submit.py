"""Submitting jobs: one, many or an array, all of them or none; the same again is told from something else."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from optsched.engine import events
from optsched.engine.state import JobRecord, State
from optsched.errors import Busy, Taken
from optsched.files.known import Known
from optsched.files.report import Scope, show
from optsched.server import asked
from optsched.server.answers import Answers
from optsched.server.archive import Archive, key_of
from optsched.server.caller import Caller
from optsched.server.checks import Rules, read_job, warn_of_size
from optsched.server.leader import Leader, Prepared
from optsched.values.altered import altered
from optsched.values.ids import JobId
from optsched.values.job import Job


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a submission; `repeated`: all of it was known already."""

    ids: list[str]
    repeated: bool
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Given:
    """One job as a request gives it, and where its faults are noted. `array`: as a member of it."""

    data: object
    place: Scope
    array: events.Member | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """A job that has left the state, and the digest of what it was submitted with; as far as they are kept."""

    record: JobRecord | None
    body: str | None

    def check(self, found: events.Submit, body: str) -> None:
        """Raise Taken where the job is not submitted again as it was."""
        if self.record is not None:
            _same(self.record, found, self.body, body)
        elif self.body != body:
            raise Taken(f"job {found.job.id} has ended, and its id is not free yet: take another one")


@dataclass(frozen=True, slots=True)
class Quotas:
    """How many jobs that have not ended are known at most, in all and of one team."""

    jobs: int = 500_000
    of_team: int = 200_000


@dataclass(slots=True)
class Submitting:
    """Takes submissions in. `default_team` is that of a job which names none, from a caller that has none."""

    leader: Leader
    answers: Answers
    archive: Archive
    rules: Rules
    default_team: str = ""
    most: Quotas = field(default_factory=Quotas)
    _answering: dict[str, asyncio.Lock] = field(default_factory=dict)

    async def submit(self, given: Sequence[Given], body: object, key: str, caller: Caller) -> Submitted:
        """Put jobs into the queue. `body` is what the same idempotency key has to come with again."""
        name = f"request/{caller.key}/{key}" if key else ""
        digest = digest_of(body) if name else ""
        async with self._one_at_a_time(name):
            known = await self.answers.known(name) if name else None
            if known is not None:
                before = json.loads(known)
                if before["digest"] != digest:
                    raise Taken(f"the idempotency key {key} was used for another request")
                return Submitted(before["ids"], True, [])
            named = [each.data.get("id") if isinstance(each.data, dict) else None for each in given]
            ids = [each for each in named if isinstance(each, str)]
            here = frozenset(each for each in ids if self.leader.state.record(JobId(each)) is not None)
            bodies = await self._bodies(here)
            gone = await self._gone(ids)
            work = _Batch(self, given, caller, digest, name, bodies, gone, here)
            if len(given) > READ_AT_ONCE:
                work = replace(work, ahead=await work.read_ahead())
            return await self.leader.ask(work.prepare)

    async def _bodies(self, here: Collection[str]) -> dict[str, str]:
        """Return, for ids that are known already, the digest of the body that they were submitted with."""
        found = await self.answers.all_known([f"job/{name}" for name in here])
        return {name: found[f"job/{name}"].decode() for name in here if f"job/{name}" in found}

    async def _gone(self, names: Sequence[str]) -> dict[str, Gone]:
        """Return, by id, the jobs among those named that have ended and left the state."""
        away = [
            name
            for name in names
            if self.leader.state.record(JobId(name)) is None and self.archive.may_have(JobId(name))
        ]
        known = await self.answers.all_known([key for name in away for key in (f"job/{name}", key_of(JobId(name)))])
        found: dict[str, Gone] = {}
        for name in away:
            if key_of(JobId(name)) in known:
                body = known.get(f"job/{name}")
                record = await self.archive.find(JobId(name))
                found[name] = Gone(record, None if body is None else body.decode())
        return found

    @asynccontextmanager
    async def _one_at_a_time(self, name: str) -> AsyncIterator[None]:
        """Let requests with one idempotency key follow each other."""
        if not name:
            yield
            return
        lock = self._answering.setdefault(name, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._answering.pop(name, None)


READ_AT_ONCE = 50
"""Of a longer list so many jobs are read before others are let in."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Jobs that were read before their turn came, by the rules of a version."""

    rules: int
    jobs: list[events.Submit]

    def holds(self, state: State) -> bool:
        """Return whether they would be read the same on a state: by its rules, and all that they wait for is there."""
        if self.rules != state.rules_changed:
            return False
        own = {each.job.id for each in self.jobs}
        return all(after.job in own or state.record(after.job) for each in self.jobs for after in each.after)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Jobs on their way into the queue. `bodies` are the digests of what known ids were submitted with.

    `here` are the ids that were in the state when it was looked, `gone` those that had left it.
    """

    into: Submitting
    given: Sequence[Given]
    caller: Caller
    digest: str
    key: str
    bodies: dict[str, str]
    gone: dict[str, Gone]
    here: frozenset[str]
    ahead: _Ahead | None = None

    async def read_ahead(self) -> _Ahead:
        """Read the jobs before their turn comes, some at a time. Raises InputError with all faults of all of them."""
        state = self.into.leader.state
        found: list[events.Submit] = []
        for number, _ in enumerate(self._reading(state, self.into.rules.known(state, self.into.leader.now()), found)):
            if number % READ_AT_ONCE == READ_AT_ONCE - 1:
                await asyncio.sleep(0)
        self.given[0].place.report.raise_faults()
        return _Ahead(state.rules_changed, found)

    def prepare(self, state: State, now: float) -> Prepared[Submitted]:
        """Check the jobs against the state, all of them before any is taken in."""
        about = self.into.rules.known(state, now)
        read = self.ahead.jobs if self.ahead is not None and self.ahead.holds(state) else self._read(state, about)
        fresh: list[events.Submit] = []
        keys: dict[str, bytes] = {}
        for each, found in zip(self.given, read, strict=True):
            job = found.job
            record = state.record(job.id)
            named = isinstance(each.data, dict) and bool(each.data.get("id"))
            # Only what was given an id can be submitted again under it.
            body = digest_of(each.data) if named else ""
            if record is None and job.id in self.here:
                raise Busy(f"job {job.id} is just leaving what is known: try again", 0.1)
            if record is None and job.id in self.gone:
                self.gone[job.id].check(found, body)
            elif record is None:
                fresh.append(found)
                warn_of_size(job, state, self.into.rules, each.place)
                if named:
                    keys[f"job/{job.id}"] = body.encode()
            elif record is not None:
                _same(record, found, self.bodies.get(job.id), body)
        self._check_room(state, fresh)
        ids = [str(found.job.id) for found in read]
        if self.key:
            keys[self.key] = json.dumps({"digest": self.digest, "ids": ids}).encode()
        warnings = list(self.given[0].place.report.warnings())
        repeated = not fresh
        return Prepared(
            lambda after: Submitted(ids, repeated, warnings), tuple(fresh), keys if fresh or self.key else {}
        )

    def _read(self, state: State, about: Known) -> list[events.Submit]:
        """Return the submissions. Raises InputError with all faults of all of them."""
        found: list[events.Submit] = []
        for _ in self._reading(state, about, found):
            pass
        self.given[0].place.report.raise_faults()
        return found

    def _reading(self, state: State, about: Known, found: list[events.Submit]) -> Iterator[None]:
        """Read one job after the other into `found`; faults are noted."""
        team = self.caller.team or self.into.default_team
        team = team if team in state.teams else ""
        seen: set[JobId] = set()
        first: events.Submit | None = None
        for each in self.given:
            yield
            if each.array is not None and first is not None:
                # Members differ in nothing but their ids: the first was checked for all of them.
                job_id = JobId(f"{each.array.id}.{each.array.index}")
                found.append(altered(first, job=altered(first.job, id=job_id), array=each.array))
                continue
            read = read_job(each.data, each.place, self.into.rules, about, team, own_id(each.data))
            if read is None and each.array is not None:
                break
            if read is None:
                continue
            first = read
            self.caller.check_team(read.job.team, f"job {read.job.id}")
            for number, after in enumerate(read.after):
                if state.record(after.job) is None and after.job not in seen:
                    each.place.fault(f"no job is called {after.job}", "the id of a known job", "after", number, "job")
            if read.job.id in seen:
                each.place.fault("the job id is given twice", "each job id once", "id")
            seen.add(read.job.id)
            found.append(read if each.array is None else replace(read, array=each.array))

    def _check_room(self, state: State, fresh: Sequence[events.Submit]) -> None:
        """Raise Busy where too many jobs would be known."""
        most = self.into.most
        if len(state.jobs) + len(fresh) > most.jobs:
            raise Busy(f"{len(state.jobs):,} jobs are known, {most.jobs:,} are the most: try again later", 30.0)
        # Counting is worth it only where a team may have come near.
        if len(state.jobs) + len(fresh) <= most.of_team:
            return
        for team in sorted({each.job.team for each in fresh}):
            known = sum(record.job.team == team for record in state.jobs.values())
            more = sum(each.job.team == team for each in fresh)
            if known + more > most.of_team:
                text = f"{known:,} jobs of team {team} are known, {most.of_team:,} are the most: try again later"
                raise Busy(text, 30.0)


def _same(record: JobRecord, found: events.Submit, before: str | None, body: str) -> None:
    """Raise Taken where a job that is known was submitted with another body, and say what differs."""
    if before is not None and before == body:
        return
    job = found.job
    old = replace(record.job, estimated_runtime_s=record.estimate_s)
    names = [
        name
        for name in _ASKED_FIELDS
        if getattr(old, name) != getattr(job, name) and not (name == "priority_class" and old.priority != job.priority)
    ]
    differs = [f"{name} {getattr(old, name)!r} is {getattr(job, name)!r} here" for name in names[:5]]
    if record.after != found.after:
        differs.append("after is another one here")
    if differs or before is not None:
        raise Taken(f"job {job.id} is known with another body: {', '.join(differs) or 'some key differs'}")


_ASKED_FIELDS = tuple(name for name in Job.__slots__ if name != "id" and name not in asked.NOT_ASKED)


def members_of(array: asked.ArrayAsked, place: Scope) -> list[Given]:
    """Return the jobs of an array. Raises InputError where its template has no id; its other faults come later."""
    template = array.template
    name = template.get("id") if isinstance(template, dict) else None
    last = f".{array.first_index + array.count - 1}"
    if not isinstance(name, str) or not name or len(name + last) > 253:
        allowed = f"the id of the array, such that with {last} it has at most 253 characters"
        place.fault(
            "is missing or too long" if name is None or isinstance(name, str) else f"given {show(name)}", allowed, "id"
        )
        place.report.raise_faults()
    assert isinstance(template, dict), "it has an id"
    found = []
    for number in range(array.count):
        index = array.first_index + number
        member = events.Member(JobId(str(name)), index, array.max_running)
        found.append(Given(template | {"id": f"{name}.{index}"}, place, member))
    return found


def new_id() -> str:
    """Return an id that no job has."""
    return f"job-{next(_drawn)}"


def own_id(data: object) -> str:
    """Return an id for a job that is given without one; "" for others, which need none."""
    return "" if isinstance(data, dict) and data.get("id") else new_id()


def _draw() -> Iterator[str]:
    """Yield words of 64 random bits; to ask the system for each apart would cost as much as to read a job."""
    while True:
        drawn = secrets.token_hex(8 * 512)
        yield from (drawn[first : first + 16] for first in range(0, len(drawn), 16))


_drawn = _draw()


def digest_of(given: object) -> str:
    """Return a digest of plain data, the same whatever the order of its keys."""
    return hashlib.sha256(_sorted(given).encode()).hexdigest()


_sorted = json.JSONEncoder(sort_keys=True, default=str, check_circular=False).encode
