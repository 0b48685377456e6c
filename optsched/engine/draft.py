"""A state in the making: what one event changes. Thrown away where the event is refused, so that nothing changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from optsched.engine.commands import Command, Kind, Note, Verb
from optsched.engine.records import Records
from optsched.engine.state import Booking, Claim, JobRecord, NodeRecord, State, booking_of
from optsched.engine.tables import ENDS, GOES_ON, JobTrigger, NodeTrigger, job_after, node_after
from optsched.errors import InternalError
from optsched.values.altered import altered
from optsched.values.ids import JobId, NodeId
from optsched.values.job import Job, Placement, gpus_on


@dataclass(frozen=True, slots=True)
class Step:
    """What an event led to: the state after it, what agents are asked to do, and what people may want to know."""

    state: State
    commands: tuple[Command, ...] = ()
    notes: tuple[Note, ...] = ()


class Draft:
    """A working copy of a state. Its mappings are versions of those of the state, with what changed."""

    def __init__(self, state: State, now: float) -> None:
        self.before = state
        self.now = max(now, state.now)
        self.version = state.version + 1
        self.commands: list[Command] = []
        self.notes: list[Note] = []
        self.jobs: Mapping[JobId, JobRecord] = state.jobs
        self.ended: Mapping[JobId, JobRecord] = state.ended
        self.nodes: Mapping[NodeId, NodeRecord] = state.nodes
        self.claims: tuple[JobId, ...] = state.claims
        self._due = state.due
        self._raised = False
        self.fields: dict[str, object] = {}
        self._nodes_touched: set[NodeId] = set()
        self._jobs_touched: set[JobId] = set()
        self.ended_start = False
        """Whether nodes have ended starting, so that others may begin."""

    def freeze(self) -> Step:
        """Return the step. An event that changed nothing leaves the state as it was, but for the time."""
        state = self.before
        kept = self.jobs is state.jobs and self.ended is state.ended and self.nodes is state.nodes
        kept = kept and self.claims is state.claims and self.due == state.due
        if kept and not self.fields and not self._raised:
            after = state if self.now == state.now else altered(state, now=self.now)
            return Step(after, tuple(self.commands), tuple(self.notes))
        after = altered(
            state,
            now=self.now,
            version=self.version,
            jobs=self.jobs,
            ended=self.ended,
            nodes=self.nodes,
            claims=self.claims,
            due=self.due,
            raised=self.version if self._raised else state.raised,
            **self.fields,
        )
        return Step(after, tuple(self.commands), tuple(self.notes))

    @property
    def due(self) -> bool:
        """Whether a decision may find something to do. Set, it is noted for the round that is being planned."""
        return self._due

    @due.setter
    def due(self, due: bool) -> None:
        self._due = due
        self._raised = due

    # Reading

    def record(self, job: JobId) -> JobRecord | None:
        """Return what is known of a job, ended or not."""
        return self.jobs.get(job) or self.ended.get(job)

    def job(self, job: JobId) -> JobRecord:
        """Return a job that is known."""
        found = self.record(job)
        if found is None:
            raise InternalError(f"no job {job} is known")
        return found

    def node(self, node: NodeId) -> NodeRecord:
        """Return a node that is known."""
        return self.nodes[node]

    def touches(self, record: JobRecord, claim: Claim) -> bool:
        """Return whether the event has changed the job or a node of a claim, or whether starts pause."""
        if "paused" in self.fields or record.id in self._jobs_touched:
            return True
        return not claim.placement.keys().isdisjoint(self._nodes_touched)

    # Writing

    def put(self, record: JobRecord, *, quietly: bool = False) -> JobRecord:
        """Store a job; `quietly`: plans made before this are still good."""
        if not quietly and record.changed != self.version:
            record = altered(record, changed=self.version)
        return self._store(record)

    def _store(self, record: JobRecord) -> JobRecord:
        self._tell_waiting(record)
        if self.claims:
            self._jobs_touched.add(record.id)
            old = self.jobs.get(record.id) if record.launch is None else None
            self.ended_start |= old is not None and old.launch is not None
        if record.state in ENDS and not record.booked_on:
            if record.id in self.jobs:
                self.jobs = Records.of(self.jobs).drop(record.id)
            if record.ended_at is None:
                record = replace(record, ended_at=self.now)
            self.ended = Records.of(self.ended).put(record.id, record)
        else:
            self.jobs = Records.of(self.jobs).put(record.id, record)
        return record

    def note_all(self, records: Mapping[JobId, JobRecord]) -> None:
        """Store jobs that stand as they did, with something noted of them; plans made before this are still good."""
        if records:
            self.jobs = Records.of(self.jobs).put_all(records)

    def _tell_waiting(self, record: JobRecord) -> None:
        """Look again where a job has come further for which others wait."""
        awaited = self.get("awaited")
        assert isinstance(awaited, frozenset)
        if record.id not in awaited:
            return
        old = self.record(record.id)
        if old is None or old.state is not record.state:
            self.due = True
        if record.state in ENDS:
            self.set(awaited=awaited - {record.id})

    def put_node(self, record: NodeRecord, *, quietly: bool = False) -> None:
        """Store a node; `quietly`: plans made before this are still good."""
        changed = record if quietly else altered(record, changed=self.version)
        self._nodes_touched.add(record.node.id)
        self.nodes = Records.of(self.nodes).put(record.node.id, changed)

    def _book_anew(self, bookings: Mapping[NodeId, tuple[Booking, ...]]) -> None:
        """Store nodes that are known with other bookings."""
        self._nodes_touched.update(bookings)
        version, nodes = self.version, self.nodes
        changed = {name: altered(nodes[name], changed=version, bookings=each) for name, each in bookings.items()}
        self.nodes = Records.of(nodes).put_all(changed)

    def drop_node(self, node: NodeId) -> None:
        """Forget a node."""
        self._nodes_touched.add(node)
        if node in self.nodes:
            self.nodes = Records.of(self.nodes).drop(node)

    def move(self, record: JobRecord, trigger: JobTrigger, **changes: object) -> JobRecord:
        """Take a job through its table, with further fields of its record."""
        then = job_after(record.state, trigger)
        if record.state in GOES_ON and then not in GOES_ON:
            left = self.get("left")
            assert isinstance(left, dict)
            self.set(left={**left, record.job.team: self.version})
        return self._store(altered(record, state=then, **(changes | {"changed": self.version})))

    def move_node(self, record: NodeRecord, trigger: NodeTrigger, reason: str = "", **changes: object) -> NodeRecord:
        """Take a node through its table."""
        then = node_after(record.node.state, trigger)
        node = replace(record.node, state=then, reason=reason)
        found = replace(record, node=node, **changes)  # type: ignore[arg-type]
        if trigger is NodeTrigger.DRAIN:
            found = replace(found, drains_since=self.now)
        self.put_node(found)
        return self.nodes[node.id]

    def book(self, job: Job, placement: Placement) -> None:
        """Give GPUs to a run."""
        bookings: dict[NodeId, tuple[Booking, ...]] = {}
        for name, gpus in placement.items():
            record = self.node(name)
            if gpus_on(gpus) > room_on(record, gpus):
                raise InternalError(f"{gpus_on(gpus)} GPUs of {name} are booked for {job.id}, which are not free")
            bookings[name] = (*record.bookings, booking_of(job, job.run, gpus))
        self._book_anew(bookings)

    def release(self, job: JobId, nodes: Iterable[NodeId], run: int) -> None:
        """Take the bookings of a run off some nodes."""
        bookings: dict[NodeId, tuple[Booking, ...]] = {}
        for name in nodes:
            record = self.nodes.get(name)
            booked = () if record is None else record.bookings
            left = tuple([each for each in booked if each.job != job or each.run != run])
            if len(left) < len(booked):
                bookings[name] = left
        if not bookings:
            return
        self._book_anew(bookings)
        known = self.record(job)
        gone = {name for name, left in bookings.items() if not any(each.job == job for each in left)}
        if known is not None and gone:
            self._store(altered(known, changed=self.version, booked_on=known.booked_on - gone))
        self.due = True

    def claim(self, record: JobRecord, claim: Claim | None) -> JobRecord:
        """Give a job a claim, or take it away; the nodes concerned count as changed."""
        for node in (claim or record.claim).placement if (claim or record.claim) else ():  # type: ignore[union-attr]
            if node in self.nodes:
                self.put_node(self.nodes[node])
        claims = self.claims
        if record.id in claims:
            at = claims.index(record.id)
            claims = (*claims[:at], *claims[at + 1 :])
        self.claims = (*claims, record.id) if claim is not None else claims
        return self._store(altered(record, changed=self.version, claim=claim))

    def set(self, **fields: object) -> None:
        """Set fields of the state."""
        self.fields |= fields

    def get(self, name: str) -> object:
        """Return a field of the state as it is by now."""
        return self.fields.get(name, getattr(self.before, name))

    def rules(self) -> None:
        """Note that plans made before this no longer hold."""
        self.set(rules_changed=self.version)
        self.due = True

    def command(self, verb: Verb, node: NodeId, job: JobId = JobId(""), run: int = 0, **more: object) -> None:
        """Ask an agent for something."""
        epoch = self.get("epoch")
        assert isinstance(epoch, int)
        self.commands.append(Command(verb, epoch, node, job, run, **more))  # type: ignore[arg-type]

    def note(self, kind: Kind, text: str, job: JobId | None = None, node: NodeId | None = None) -> None:
        """Tell people something."""
        self.notes.append(Note(self.now, kind, text, job, node))


def room_on(record: NodeRecord, like: int | tuple[int, ...] = 0) -> int:
    """Return the GPUs of a node that nobody has booked; of the indices `like` only those, where all are known."""
    free = max(0, record.node.healthy_gpus - record.booked_gpus)
    if isinstance(like, int) or any(isinstance(each.gpus, int) for each in record.bookings):
        return free
    taken = {index for each in record.bookings if not isinstance(each.gpus, int) for index in each.gpus}
    return min(free, len([index for index in like if index not in taken]))


SIDE_SLACK = 1e-4
"""CPUs and GB that rounding may leave over: a round counts in millionths for each GPU."""


def side_fits(record: NodeRecord, cpus: float, memory_gb: float) -> bool:
    """Return whether a node has so many CPUs and GB that nobody has booked; what a node does not state is no bound."""
    node = record.node
    if node.cpus is not None and cpus > 0:
        booked = sum(each.cpus for each in record.bookings)
        if cpus > node.cpus - node.cpus_reserved - booked + SIDE_SLACK:
            return False
    if node.memory_gb is not None and memory_gb > 0:
        booked = sum(each.memory_gb for each in record.bookings)
        return memory_gb <= node.memory_gb - booked + SIDE_SLACK
    return True


def of_run(bookings: Iterable[Booking], job: JobId, run: int) -> list[Booking]:
    """Return the bookings of one run."""
    return [each for each in bookings if each.job == job and each.run == run]
