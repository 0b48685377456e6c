"""On which node a task of a run is, or was: from the state for the present run, from the log for those before."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from optsched.engine import events
from optsched.engine.log import LogEntry
from optsched.engine.ports import Store
from optsched.engine.state import JobRecord, State
from optsched.errors import Conflict, Fault, InputError, NotKnown
from optsched.server.commands import Gangs
from optsched.values.ids import JobId, NodeId

MOST_ENTRIES = 20_000
"""Entries of a job's history that are looked through."""

PAGE = 1000


@dataclass(slots=True)
class Whereabouts:
    """Finds tasks."""

    store: Store
    _gangs: Gangs = field(default_factory=Gangs)

    def now(self, record: JobRecord, rank: int, state: State) -> NodeId:
        """Return where a task of the present run is. Raises Conflict where there is none, InputError for its rank."""
        if not record.job.placement:
            raise Conflict(f"job {record.id} is {record.state.value}: it has no task that works")
        tasks = self._gangs.tasks(record, state)
        if not 0 <= rank < len(tasks):
            allowed = f"a rank of this gang: 0 to {len(tasks) - 1}" if len(tasks) > 1 else "0: it has one task"
            raise InputError([Fault("request", None, "rank", f"given {rank}", allowed)])
        return tasks[rank].node

    async def of_run(self, record: JobRecord, run: int, rank: int, state: State) -> list[NodeId]:
        """Return the nodes where a task of a run may be found, the likeliest first; one where that is certain.

        Raises NotKnown for a run that there was not, or of which nothing is kept.
        """
        if run == record.run and record.job.placement:
            return [self.now(record, rank, state)]
        if run > record.run:
            raise NotKnown(f"job {record.id} has no run {run}: the last is {record.run}")
        nodes = await asyncio.to_thread(self._nodes_of, record.id, run)
        if not nodes:
            raise NotKnown(f"where run {run} of job {record.id} was is kept no longer")
        # Ranks follow the topology, mostly in the order of the nodes' names.
        first = min(rank * len(nodes) // max(1, _tasks(record, len(nodes))), len(nodes) - 1)
        return [*nodes[first:], *reversed(nodes[:first])]

    def _nodes_of(self, job: JobId, run: int) -> list[NodeId]:
        """Return the nodes from which something was heard of a run, in order."""
        found: set[NodeId] = set()
        after = seen = 0
        while seen < MOST_ENTRIES:
            entries = self.store.history(job, after, PAGE)
            found.update(_spoken(entries, run))
            seen += len(entries)
            if len(entries) < PAGE:
                break
            after = entries[-1].sequence
        return sorted(found)


def _spoken(entries: list[LogEntry], run: int) -> set[NodeId]:
    reports = (entry.event for entry in entries if isinstance(entry.event, events.Report))
    begun = (events.Outcome.STARTED, events.Outcome.OK, events.Outcome.FAILED, events.Outcome.INFRA)
    return {report.node for report in reports if report.run == run and report.outcome in begun}


def _tasks(record: JobRecord, nodes: int) -> int:
    """Return about how many tasks a run on so many nodes had."""
    each = record.job.gpus_per_task
    return nodes if each is None else max(nodes, record.job.gpus // each)
