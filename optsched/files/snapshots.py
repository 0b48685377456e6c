"""Snapshots and scenarios: files and data to values, all faults at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from optsched.files.clusters import resolve_cluster
from optsched.files.document import Document, read_document
from optsched.files.events import read_events
from optsched.files.fields import Absent, Instant, Strict
from optsched.files.jobs import read_jobs
from optsched.files.known import Clock, Known
from optsched.files.profiles import DEFAULT, note_duplicates, resolve_profile
from optsched.files.report import Report, Scope, listed, show
from optsched.files.reservations import read_reservations
from optsched.files.running import warn_of_running
from optsched.files.schema import JobIn
from optsched.files.teams import read_teams, warn_of_quotas
from optsched.files.validate import ids_of, validate
from optsched.values.cluster import Cluster
from optsched.values.ids import JobId
from optsched.values.profile import Profile
from optsched.values.snapshot import Scenario, Snapshot


class _FileIn(Strict):
    """The top of a file; each section is checked on its own."""

    now: Absent[Instant] = None
    profile: object = DEFAULT
    cluster: object = None
    teams: object = None
    jobs: object = None
    reservations: object = None
    events: object = None
    about: object = None
    rules: object = None
    expect: object = None


def load_snapshot(path: str | os.PathLike[str]) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the snapshot of a file ("-": standard input) and its warnings, a line each.

    `events:` are checked and then left out. Raises InputError with all faults of the file.
    """
    scenario, warnings = load_scenario(path)
    return scenario.start, warnings


def load_scenario(path: str | os.PathLike[str]) -> tuple[Scenario, tuple[str, ...]]:
    """Return the scenario of a file ("-": standard input) and its warnings, a line each.

    A file without `events:` is a scenario in which nothing more happens. Raises InputError with all faults of the file.
    """
    return _parse(read_document(path))


def parse_snapshot(
    data: Mapping[str, object], file: str = "(data)", folder: Path | None = None
) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the snapshot that plain data describes, and its warnings; `file` is what faults call the data.

    A path to a profile or a cluster is followed only where `folder`, its start, is given. Raises InputError.
    """
    scenario, warnings = parse_scenario(data, file, folder)
    return scenario.start, warnings


def parse_scenario(
    data: Mapping[str, object], file: str = "(data)", folder: Path | None = None
) -> tuple[Scenario, tuple[str, ...]]:
    """Return the scenario that plain data describes, and its warnings; see parse_snapshot."""
    return _parse(Document(data, file, folder=folder))


def _parse(document: Document) -> tuple[Scenario, tuple[str, ...]]:
    report = Report()
    top = Scope(report, document)
    note_duplicates(top)
    scenario = _read(document.data, top)
    report.raise_faults()
    assert scenario is not None, "no scenario without a fault"
    return scenario, report.warnings()


def _read(data: object, top: Scope) -> Scenario | None:
    """Read all sections, each against those before it; None or a part of the whole where faults were noted."""
    if not isinstance(data, dict):
        top.fault(f"given {show(data)}", "a mapping with now, profile, cluster, teams, jobs, reservations, events")
        return None
    read = validate(top, _FileIn, data)
    if read is None:
        read = _FileIn(**{key: value for key, value in data.items() if key in _FileIn.model_fields and key != "now"})
    clock = Clock()
    profile = resolve_profile(read.profile, top.at("profile")) or Profile()
    about = Known(0.0 if read.now is None else clock.seconds(read.now, top, "now"), clock, profile)
    cluster = Cluster(nodes=())
    if read.cluster is None:
        top.fault("is missing", "a mapping with levels, nodes or groups, or the name or path of a cluster", "cluster")
    elif (found := resolve_cluster(read.cluster, top.at("cluster"))) is not None:
        cluster = found[0]
        about.set_cluster(*found)
    about.team_ids |= ids_of(read.teams)
    about.job_ids |= ids_of(read.jobs)
    read_teams(read.teams, top.at("teams"), about)
    entries: dict[JobId, JobIn] = {}
    jobs = read_jobs(read.jobs, top.at("jobs"), about, entries)
    snapshot = Snapshot(
        now=about.now,
        cluster=cluster,
        teams=tuple(about.teams.values()),
        jobs=tuple(jobs),
        reservations=read_reservations(read.reservations, top.at("reservations"), about),
        profile=about.profile,
    )
    _warn(snapshot, about, top)
    events = read_events(read.events, top.at("events"), about, entries)
    _warn_of_types(about, report=top.report)
    if read.now is None and clock.text_at is not None:
        top.fault("is missing", "now, as RFC 3339 like the other instants of the file", "now")
    clock.check(top)
    return Scenario(snapshot, events)


def _warn(snapshot: Snapshot, about: Known, top: Scope) -> None:
    """Warn of what stands and should not; with faults, references may lead nowhere, and the faults come first."""
    if top.report.count == 0:
        warn_of_quotas(about, snapshot.cluster, top)
        warn_of_running(snapshot.jobs, about, top.report)


def _warn_of_types(about: Known, report: Report) -> None:
    for name, jobs in about.missing_types.items():
        report.warn(
            "GPU types that no node has",
            f"no node has GPUs of type {name}, which {len(jobs)} jobs name: {listed(jobs, 3)}",
        )
