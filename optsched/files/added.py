"""Jobs that are read against a snapshot that there is already."""

from __future__ import annotations

from optsched.files.jobs import read_jobs
from optsched.files.known import Clock, Known
from optsched.files.report import Scope, show
from optsched.values.job import Job, JobState
from optsched.values.snapshot import Snapshot


def read_added(data: object, scope: Scope, snapshot: Snapshot) -> list[Job]:
    """Return the queued jobs of a list in the schema of files, submitted now unless they say else; faults are noted."""
    about = Known(snapshot.now, Clock(), snapshot.profile)
    about.set_cluster(snapshot.cluster, {str(node.id) for node in snapshot.cluster.nodes})
    about.teams = {team.id: team for team in snapshot.teams}
    about.team_ids |= {str(team.id) for team in snapshot.teams}
    jobs = read_jobs(data, scope, about, {})
    taken = {job.id for job in snapshot.jobs}
    entries = data if isinstance(data, list) else []
    places = {entry.get("id"): index for index, entry in enumerate(entries) if isinstance(entry, dict)}
    for job in jobs:
        here = scope.at(places[job.id])
        if job.id in taken:
            here.fault(f"a job is called {show(job.id)} already", "an id that no job of the snapshot has", "id")
        if job.state is not JobState.QUEUED:
            here.fault("given running", "queued, or left out: it is about a job that is to come", "state")
    return jobs
