"""Plans of any engine, as files: the JSON that `optsched plan --format json` writes, or as much of it as decides.

Only `starts`, `preemptions`, `migrations` and `resizes` decide; what else a plan says of itself is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from optsched.files.document import Document, read_document
from optsched.files.fields import Id, Strict
from optsched.files.report import Report, Scope, known, show
from optsched.files.schema import Booked
from optsched.files.validate import validate, validate_list
from optsched.values.ids import JobId, NodeId
from optsched.values.job import Job, JobState, Placement
from optsched.values.snapshot import Snapshot

Placed = Annotated[
    dict[Id, Booked],
    Field(
        min_length=1, description="a mapping of nodes to a number of GPUs from 1 to 1,024, or to a list of GPU indices"
    ),
]


@dataclass(frozen=True, slots=True)
class GivenPlan:
    """What a plan does: placements of jobs that start, and of those that move or change size, and who is stopped."""

    starts: Mapping[JobId, Placement] = field(default_factory=dict)
    changes: Mapping[JobId, Placement] = field(default_factory=dict)
    stopped: frozenset[JobId] = frozenset()


class _PlanIn(Strict):
    starts: object = None
    preemptions: object = None
    migrations: object = None
    resizes: object = None
    round: object = None
    reservations: object = None
    queued: object = None
    bill: object = None


class _PlacedIn(Strict):
    job: Id
    placement: Placed
    span: object = None
    waits_for: object = None
    tasks: object = None
    beneficiaries: object = Field(default=None, alias="for")
    cost_gpu_s: object = None


class _StoppedIn(Strict):
    job: Id
    beneficiaries: object = Field(default=None, alias="for")
    cost_gpu_s: object = None
    lost_work_s: object = None
    grace_s: object = None


def load_plan(path: str | os.PathLike[str], snapshot: Snapshot) -> GivenPlan:
    """Return the plan of a file ("-": standard input) for a snapshot.

    Raises InputError with all faults: jobs and nodes that the snapshot does not have, a job named twice, a start of a
    job that runs, a stop or a change of one that does not.
    """
    return _parse(read_document(path), snapshot)


def parse_plan(data: Mapping[str, object], snapshot: Snapshot, file: str = "(data)") -> GivenPlan:
    """Return the plan that plain data describes; `file` is what faults call it. Raises InputError."""
    return _parse(Document(data, file), snapshot)


def _parse(document: Document, snapshot: Snapshot) -> GivenPlan:
    report = Report()
    top = Scope(report, document)
    read = validate(top, _PlanIn, document.data)
    if read is None:
        data = document.data if isinstance(document.data, dict) else {}
        read = _PlanIn(**{key: value for key, value in data.items() if key in _PlanIn.model_fields})
    found = _Reader(snapshot)
    starts = found.placed(read.starts, top.at("starts"), running=False)
    changes = found.placed(read.migrations, top.at("migrations"), running=True)
    changes |= found.placed(read.resizes, top.at("resizes"), running=True)
    stopped = found.stopped(read.preemptions, top.at("preemptions"))
    report.raise_faults()
    return GivenPlan(starts, changes, stopped)


class _Reader:
    """Reads the entries of a plan against the jobs and nodes of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.jobs: dict[str, Job] = {str(job.id): job for job in snapshot.jobs}
        self.nodes: dict[str, int] = {str(node.id): node.gpus for node in snapshot.cluster.nodes}
        self.seen: set[str] = set()

    def placed(self, data: object, scope: Scope, *, running: bool) -> dict[JobId, Placement]:
        """Return the placements of one list."""
        found: dict[JobId, Placement] = {}
        for index, entry in validate_list(scope, _PlacedIn, data):
            here = scope.at(index)
            if not self._job(entry.job, here, running=running):
                continue
            placement: dict[NodeId, int | tuple[int, ...]] = {}
            for node, booked in entry.placement.items():
                if node not in self.nodes:
                    here.fault(
                        f"unknown node {show(node)}", known(list(self.nodes), node, "known nodes"), "placement", node
                    )
                elif not isinstance(booked, int) and len(set(booked)) != len(booked):
                    here.fault("a GPU index is given twice", "each GPU index once", "placement", node)
                else:
                    placement[NodeId(node)] = booked if isinstance(booked, int) else tuple(sorted(booked))
            found[JobId(entry.job)] = placement
        return found

    def stopped(self, data: object, scope: Scope) -> frozenset[JobId]:
        """Return who is stopped."""
        entries = validate_list(scope, _StoppedIn, data)
        return frozenset(JobId(each.job) for i, each in entries if self._job(each.job, scope.at(i), running=True))

    def _job(self, name: str, here: Scope, *, running: bool) -> bool:
        """Return whether an entry is of a job that it may be of; note a fault if not."""
        job = self.jobs.get(name)
        if job is None:
            here.fault(f"unknown job {show(name)}", known(list(self.jobs), name, "known jobs"), "job")
        elif name in self.seen:
            here.fault(f"the job {show(name)} is named twice in the plan", "each job once in all lists", "job")
        elif (job.state is JobState.RUNNING) != running:
            state = "runs" if job.state is JobState.RUNNING else "is queued"
            here.fault(f"the job {show(name)} {state}", "a job that runs" if running else "a job that is queued", "job")
        else:
            self.seen.add(name)
            return True
        return False
