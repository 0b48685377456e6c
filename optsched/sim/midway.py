"""A simulation that begins with a snapshot: what runs there runs on, what waits there waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from optsched.clock import Clock
from optsched.engine.state import initial
from optsched.sim.kernel import Simulation
from optsched.sim.physics import Physics
from optsched.sim.runs import Run
from optsched.sim.simulate import Task, begin
from optsched.sim.workload import Arrival, Workload
from optsched.topology.tree import build_tree
from optsched.values.cluster import Reservation
from optsched.values.job import Job, JobState
from optsched.values.snapshot import Carried, Snapshot


def moved(snapshot: Snapshot, to: float) -> Snapshot:
    """Return the same moment on a clock that shows `to` seconds now. What earlier rounds left behind is not kept."""
    by = snapshot.now - to
    return replace(
        snapshot,
        now=to,
        jobs=tuple(_job_moved(job, by) for job in snapshot.jobs),
        reservations=tuple(_reservation_moved(entry, by) for entry in snapshot.reservations),
        carried=Carried(),
    )


def _job_moved(job: Job, by: float) -> Job:
    return replace(
        job,
        submitted_at=job.submitted_at - by,
        started_at=_less(job.started_at, by),
        last_checkpoint_at=_less(job.last_checkpoint_at, by),
        start_deadline_at=_less(job.start_deadline_at, by),
    )


def _reservation_moved(entry: Reservation, by: float) -> Reservation:
    return replace(entry, start_at=entry.start_at - by, end_at=entry.end_at - by)


def _less(at: float | None, by: float) -> float | None:
    return None if at is None else at - by


def begin_midway(
    snapshot: Snapshot, present: Iterable[Arrival], later: Iterable[Arrival], task: Task, clock: Clock
) -> Simulation:
    """Return a simulation that is about to go on from a snapshot whose `now` is at least 0 (see `moved`).

    `present` has every job of the snapshot, with the work that its run, or a run to come, takes in all; `later` those
    that are submitted afterwards. Of `task.setup` the cluster and the workload are put in from here.
    """
    jobs = tuple(present)
    workload = Workload(snapshot.cluster.name, (*jobs, *later), snapshot.teams)
    setup = replace(task.setup, cluster=snapshot.cluster, workload=workload)
    simulation = begin(replace(task, setup=setup), clock)
    # The profile is the policy's own, made of the one that was asked for.
    state = initial(replace(snapshot, profile=simulation.setup.profile), simulation.setup.settings.engine)
    physics = Physics(snapshot.cluster, build_tree(snapshot.cluster), setup.truth, setup.settings.failures)
    works = {arrival.job.id: arrival.work_s for arrival in jobs}
    runs = [
        _run(record.job, works[record.id], physics)
        for record in state.jobs.values()
        if record.state is JobState.RUNNING
    ]
    simulation.begin_midway(state, runs, len(jobs))
    return simulation


def _run(job: Job, work_s: float, physics: Physics) -> Run:
    """Return the run of a job that runs: it trains, and saves, since its start, and lasts `work_s` in all."""
    nodes = tuple(job.placement)
    span, rate = physics.place(job, nodes, job.placed_gpus)
    every, cost, durable = physics.saving(job)
    since = round((job.started_at or 0.0) * 1000)
    run = Run(job.id, job.run, job.placed_gpus, nodes, span, rate, since, 0, every, cost, durable)
    run.working, run.trains_from = len(nodes), since
    run.owed = max(1, run.trained(since + round(work_s * 1000))) * rate
    return run
