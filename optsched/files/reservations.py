"""Operators' reservations: maintenance windows and grants."""

from __future__ import annotations

from optsched.files.known import Known
from optsched.files.report import Scope, known, show
from optsched.files.schema import ReservationIn
from optsched.files.validate import validate_list
from optsched.values.cluster import Reservation, ReservationKind
from optsched.values.ids import JobId, NodeId, ReservationId, TeamId


def read_reservations(data: object, scope: Scope, about: Known) -> tuple[Reservation, ...]:
    """Return the reservations that are right, in order; faults of the others are noted."""
    found: dict[str, Reservation] = {}
    for index, entry in validate_list(scope, ReservationIn, data):
        here = scope.at(index)
        if entry.id in found:
            here.fault(f"the reservation id {show(entry.id)} is given twice", "each reservation id once", "id")
            continue
        found[entry.id] = build_reservation(entry, here, about)
    return tuple(found.values())


def build_reservation(entry: ReservationIn, scope: Scope, about: Known) -> Reservation:
    """Return the value of a reservation; what does not hold is noted."""
    start = about.clock.seconds(entry.start_at, scope, "start_at")
    end = about.clock.seconds(entry.end_at, scope, "end_at")
    if end <= start:
        scope.fault(f"end_at {end:.15g} is not after start_at {start:.15g}", f"an instant after {start:.15g}", "end_at")
    if end <= about.now:
        scope.report.warn(
            "reservations that are over", f"reservation {entry.id} ended at {end:.15g}, now is {about.now:.15g}"
        )
    for number, node in enumerate(entry.nodes):
        about.check_node(node, scope, "nodes", number)
    for number, team in enumerate(entry.teams):
        about.check_team(team, scope, "teams", number)
    for number, job in enumerate(entry.jobs):
        if job not in about.job_ids:
            names = known(sorted(about.job_ids), job, "known jobs")
            scope.fault(f"unknown job {show(job)}", names, "jobs", number)
    if entry.kind == "grant":
        _check_grant(entry, scope, about)
    else:
        _check_maintenance(entry, scope)
    return Reservation(
        id=ReservationId(entry.id),
        start_at=start,
        end_at=end,
        kind=ReservationKind(entry.kind),
        nodes=tuple(NodeId(node) for node in entry.nodes),
        gpus=entry.gpus or 0,
        within=entry.within,
        teams=tuple(TeamId(team) for team in entry.teams),
        jobs=tuple(JobId(job) for job in entry.jobs),
    )


def _check_grant(entry: ReservationIn, scope: Scope, about: Known) -> None:
    if entry.gpus is None:
        scope.fault("is missing", "the GPUs of the grant, a whole number from 1 to 1,000,000", "gpus")
    if not entry.teams and not entry.jobs:
        scope.fault("names neither teams nor jobs", "teams, or jobs, or both, that the grant is for", "teams")
    if entry.within is None or not about.cluster_known:
        return
    names: dict[str, None] = {node.id: None for node in about.nodes.values()}
    for node in about.nodes.values():
        path = [node.domains[level] for level in about.levels if level in node.domains]
        names.update((name, None) for name in path)
        names.update(("/".join(path[:depth]), None) for depth in range(2, len(path) + 1))
    if entry.within not in names:
        scope.fault(f"{show(entry.within)} is no domain or node", known(list(names), entry.within), "within")


def _check_maintenance(entry: ReservationIn, scope: Scope) -> None:
    if not entry.nodes:
        scope.fault("a maintenance window names no nodes", "at least one node", "nodes")
    for key in ("gpus", "within", "teams", "jobs"):
        if key in entry.model_fields_set:
            scope.fault(
                "belongs to a grant, this is a maintenance window", "nodes, start_at, end_at; or kind: grant", key
            )
