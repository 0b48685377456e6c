"""What agents say about runs. Late, repeated or foreign, a report is noted and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optsched.engine import events
from optsched.engine.commands import Kind
from optsched.engine.draft import Draft
from optsched.engine.events import Outcome
from optsched.engine.health import blame
from optsched.engine.holders import tell_drain
from optsched.engine.launch import ready
from optsched.engine.runs import complete, drained, fail
from optsched.engine.state import JobRecord, Saved
from optsched.engine.tables import ENDS, HOLDS_RUN
from optsched.planner.instants import moment_text
from optsched.values.altered import altered
from optsched.values.ids import JobId, NodeId
from optsched.values.job import Job


def alike(draft: Draft, event: events.Reports) -> None:
    """Take in what became of the parts of a run on several nodes, as if one after the other had said so."""
    said = [events.Report(event.job, node, event.outcome, event.run, epoch=event.epoch) for node in event.nodes]
    if event.outcome is Outcome.RELEASED:
        released(draft, [each for each in said if not _outdated(draft, each)])
    elif event.outcome in (Outcome.RESERVED, Outcome.STARTED):
        _begun(draft, [each for each in said if not _outdated(draft, each)])
    else:
        for each in said:
            report(draft, each)


def report(draft: Draft, event: events.Report) -> None:
    """Take in what became of one node's part of a run."""
    if _outdated(draft, event):
        return
    if event.outcome is Outcome.RELEASED:
        released(draft, [event])
    elif event.outcome in (Outcome.RESERVED, Outcome.STARTED):
        _begun(draft, [event])
    elif (record := _on_its_node(draft, event)) is None:
        return
    elif event.outcome is Outcome.OK:
        _task_done(draft, record, event.node)
    else:
        _task_failed(draft, record, event)


def _outdated(draft: Draft, event: events.Report) -> bool:
    """Return whether a report answers a scheduler that is in force no more, and note it."""
    epoch = draft.get("epoch")
    if event.epoch is None or not isinstance(epoch, int) or event.epoch >= epoch:
        return False
    _stale(draft, event.job, event.node, f"epoch {event.epoch} is over, {epoch} is in force")
    return True


def _on_its_node(draft: Draft, event: events.Report) -> JobRecord | None:
    """Return the job of a report about a present run and one of its nodes, None and a note where it is of neither."""
    record = current(draft, event.job, event.run, event.node)
    if record is not None and event.node not in record.job.placement:
        _stale(draft, event.job, event.node, "a report for a node that the run is not on")
        return None
    return record


def _begun(draft: Draft, said: Sequence[events.Report]) -> None:
    """Agents have reserved, or started, their parts of one run: the last of its nodes ends the stage."""
    nodes, record = set[NodeId](), None
    for each in said:
        found = _on_its_node(draft, each)
        if found is not None:
            record = found
            nodes.add(each.node)
    if record is not None:
        ready(draft, record, nodes, reserved=said[0].outcome is Outcome.RESERVED)


def current(draft: Draft, job: JobId, run: int | None, node: NodeId | None = None) -> JobRecord | None:
    """Return a job whose present run a report is about, None and a note where it is about nothing present."""
    record = draft.record(job)
    if record is None:
        _stale(draft, job, node, "a report for a job that nobody knows")
    elif run is not None and run != record.run:
        _stale(draft, job, node, f"a report for run {run}, and run {record.run} is the present one")
    elif record.state in ENDS:
        _stale(draft, job, node, f"a report for a job that is {record.state.value} already")
    elif record.state not in HOLDS_RUN:
        _stale(draft, job, node, "a report for a job that does not run")
    else:
        return record
    return None


def _stale(draft: Draft, job: JobId, node: NodeId | None, why: str) -> None:
    draft.note(Kind.STALE, f"stale: {why}", job, node)


def _task_done(draft: Draft, record: JobRecord, node: NodeId) -> None:
    """One task ended well; the last one completes the job."""
    done = record.done_on | {node}
    if len(done) < len(record.job.placement):
        if node not in record.done_on:
            draft.put(replace(record, done_on=done), quietly=True)
        return
    complete(draft, replace(record, done_on=done))


def _task_failed(draft: Draft, record: JobRecord, event: events.Report) -> None:
    """One task failed, and the gang with it."""
    infra = event.outcome in (Outcome.INFRA, Outcome.REFUSED)
    what = "could not start it" if event.outcome is Outcome.REFUSED else "its task failed"
    why = f"{event.node}: {event.why or what}"
    fail(draft, record, infra=infra, why=why, bad=frozenset({event.node}) if infra else frozenset())
    if infra:
        blame(draft, event.node)


def released(draft: Draft, said: Sequence[events.Report]) -> None:
    """Agents confirm GPUs of one job free: those of runs that are over or told to stop, and of no other."""
    free: dict[int, list[NodeId]] = {}
    for each in said:
        for run in _free_runs(draft, each):
            free.setdefault(run, []).append(each.node)
    for run, nodes in free.items():
        draft.release(said[0].job, nodes, run)
        for node in nodes:
            tell_drain(draft, node)
    if free:
        drained(draft, said[0].job)


def _free_runs(draft: Draft, event: events.Report) -> list[int]:
    """Return the runs whose GPUs of a node a report confirms free; what it says of others is noted."""
    record = draft.record(event.job)
    node = draft.nodes.get(event.node)
    booked = [] if node is None else [each for each in node.bookings if each.job == event.job]
    if event.run is not None:
        booked = [each for each in booked if each.run == event.run]
    if record is None or not booked:
        _stale(draft, event.job, event.node, "GPUs are reported free that are not booked")
        return []
    found = []
    for each in booked:
        ongoing = each.run == record.run and record.state in HOLDS_RUN and record.stop is None
        swapped_out = event.node not in record.job.placement
        if ongoing and not swapped_out:
            _stale(draft, event.job, event.node, "GPUs are reported free that its run still has")
        else:
            found.append(each.run)
    return found


def finished(draft: Draft, event: events.Finished) -> None:
    """All tasks of a run ended well."""
    record = current(draft, event.job, event.run)
    if record is not None:
        complete(draft, record)


def checkpointed(draft: Draft, event: events.Checkpointed) -> None:
    """A run has a checkpoint. A claim from the future is cut to now; one before the run or older than known is refused.

    Claims only order victims of equal standing; they come in no faster than every `checkpoint_gap_s`.
    """
    record = current(draft, event.job, event.run)
    if record is None:
        return
    job, settings = record.job, draft.before.settings
    taken = draft.now if event.taken_at is None else event.taken_at
    if taken > draft.now:
        draft.note(Kind.STALE, f"a checkpoint of the future ({moment_text(taken)}) is taken as one of now", event.job)
        taken = draft.now
    newest = max((each.taken_at for each in record.checkpoints), default=None)
    started = job.started_at if job.started_at is not None else draft.now
    if taken < started:
        _stale(
            draft, event.job, None, f"a checkpoint of {moment_text(taken)}, and the run began at {moment_text(started)}"
        )
        return
    if newest is not None and taken < newest:
        text = f"a checkpoint of {moment_text(taken)}, and one of {moment_text(newest)} is known"
        _stale(draft, event.job, None, text)
        return
    saved = Saved(event.version or f"{taken:g}", taken, safe_at(job, event.tier, taken))
    if newest is not None and taken - newest < settings.checkpoint_gap_s and newest > started:
        _supersede(draft, record, saved)
        return
    kept = (*record.checkpoints, saved)[-settings.checkpoints_kept :]
    priced = taken if saved.safe_at is not None else job.last_checkpoint_at
    draft.put(altered(record, checkpoints=kept, job=altered(job, last_checkpoint_at=priced)), quietly=True)
    draft.due = True


def _supersede(draft: Draft, record: JobRecord, saved: Saved) -> None:
    """Let a checkpoint that comes soon after another take its place, not its instant: it counts as that one.

    So the job goes on from what it saved last, as on a signal to stop, and gains no standing by saving often. One that
    does not outlive its nodes takes the place of none that does.
    """
    last = max(record.checkpoints, key=lambda each: each.taken_at)
    if saved.safe_at is None and last.safe_at is not None:
        return
    fresh = replace(last, version=saved.version, safe_at=saved.safe_at, failures=0)
    kept = tuple(fresh if each is last else each for each in record.checkpoints)
    job = record.job
    if saved.safe_at is not None and last.safe_at is None:
        job = replace(job, last_checkpoint_at=last.taken_at)
    draft.put(replace(record, checkpoints=kept, job=job), quietly=True)


RAM_TIERS = frozenset({"ram", "host_ram", "memory"})
"""Names of tiers that are gone with the node, whatever a job says."""


def safe_at(job: Job, tier: str | None, taken: float) -> float | None:
    """Return from when on a checkpoint outlives its nodes; None: never. A tier that nobody describes counts as safe."""
    if tier is None:
        return taken
    if tier in RAM_TIERS:
        return None
    for each in job.checkpoint.tiers:
        if each.tier == tier:
            return taken + each.upload_s if not each.survives or "node" in each.survives else None
    return taken
