"""The snapshot of a position in a simulation, as a user would have written it down."""

from __future__ import annotations

from dataclasses import replace

from optsched.engine.state import State
from optsched.engine.view import snapshot_of
from optsched.values.snapshot import Carried, Snapshot


def position_of(state: State, now: float) -> Snapshot:
    """Return how things stand at `now`, up to which nothing more happens; earlier rounds leave nothing behind.

    Of run times it has what was stated and is left of it.
    The engine corrects estimates by what was seen of their owners; models of run times do that themselves.
    """
    seen = snapshot_of(replace(state, now=now))
    jobs = tuple(
        replace(job, estimated_runtime_s=state.jobs[job.id].job.estimated_runtime_s) if job.id in state.jobs else job
        for job in seen.jobs
    )
    return replace(seen, jobs=jobs, carried=Carried())
