"""Values back to the schema: what a round saw becomes a file that loads again, equal to the last field.

Keys at their defaults are left out. `plain` data only: mappings, lists, texts, numbers, booleans, None.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from optsched.values.cluster import Cluster, Fabric, Node, Reservation
from optsched.values.job import Checkpoint, CheckpointTier, Job, JobState, Retries
from optsched.values.profile import Profile
from optsched.values.resources import Amounts
from optsched.values.snapshot import Event, Scenario, Snapshot
from optsched.values.team import Team

Plain = dict[str, object]


def scenario_to_dict(scenario: Scenario) -> Plain:
    """Return a scenario in the schema of its file."""
    return snapshot_to_dict(scenario.start) | {
        "events": [event_to_dict(event, scenario.start.profile) for event in scenario.events]
    }


def snapshot_to_dict(snapshot: Snapshot) -> Plain:
    """Return a snapshot in the schema of its file; parse_snapshot gives an equal one back."""
    result: Plain = {
        "now": _number(snapshot.now),
        "profile": profile_to_dict(snapshot.profile),
        "cluster": cluster_to_dict(snapshot.cluster),
        "teams": [team_to_dict(team) for team in snapshot.teams],
        "jobs": [job_to_dict(job, snapshot.profile) for job in snapshot.jobs],
    }
    if snapshot.reservations:
        result["reservations"] = [reservation_to_dict(entry) for entry in snapshot.reservations]
    return result


def profile_to_dict(profile: Profile) -> Plain:
    """Return a profile with every key, so that it no longer depends on its base."""
    return {"base": "default"} | {
        field.name: _plain(getattr(profile, field.name)) for field in dataclasses.fields(profile)
    }


def cluster_to_dict(cluster: Cluster) -> Plain:
    """Return a cluster, its nodes one by one."""
    result: Plain = {} if not cluster.name else {"name": cluster.name}
    result["levels"] = list(cluster.levels)
    if cluster.fabrics:
        result["fabrics"] = {name: _fabric(fabric) for name, fabric in cluster.fabrics.items()}
    result["nodes"] = [node_to_dict(node) for node in cluster.nodes]
    return result


def _fabric(fabric: Fabric) -> Plain:
    links = [
        [link.first, link.second, link.kind]
        + ([] if link.bandwidth_gb_per_s is None else [_number(link.bandwidth_gb_per_s)])
        for link in fabric.links
    ]
    return {
        "links": links,
        "islands": _plain(fabric.islands),
        "nics": {str(index): rail for index, rail in fabric.nics.items()},
    }


def node_to_dict(node: Node) -> Plain:
    """Return one node."""
    return {"id": node.id, "gpus": node.gpus} | _changed(node, _NODE, ("id", "gpus"))


def team_to_dict(team: Team) -> Plain:
    """Return one team."""
    result = _changed(team, _TEAM, ("quota", "limit", "user_limit")) | {"id": team.id}
    for key, named in (("quota", team.quota), ("limit", team.limit), ("user_limit", team.user_limit)):
        if named is not None:
            result[key] = _amounts(named)
    return result


def _amounts(named: Amounts) -> Plain:
    result = _changed(named, Amounts(), ("gpus_by_type",))
    if named.gpus_by_type:
        result["gpus"] = dict(named.gpus_by_type)
    return result


def job_to_dict(job: Job, profile: Profile) -> Plain:
    """Return one job; its priority is the name of its class where `profile` gives that class the same number."""
    special = (
        "priority",
        "priority_class",
        "required",
        "preferred",
        "slices",
        "min_gpus",
        "max_gpus",
        "checkpoint",
        "retries",
        "gpu_types",
    )
    by_class = job.priority_class and profile.classes.get(job.priority_class) == job.priority
    result: Plain = {
        "id": job.id,
        "team": job.team,
        "priority": job.priority_class if by_class else job.priority,
        "gpus": job.gpus,
        "state": job.state.value,
        "submitted_at": _number(job.submitted_at),
    }
    result |= _changed(job, _JOB, (*special, *result))
    if job.gpu_types:
        ones = all(speed == 1.0 for speed in job.gpu_types.values())
        result["gpu_types"] = list(job.gpu_types) if ones else _plain(job.gpu_types)
    topology = {
        key: level for key, level in (("required", job.required), ("preferred", job.preferred)) if level is not None
    }
    if topology:
        result["topology"] = topology
    if job.slices:
        result["slices"] = [{"gpus": part.gpus, "within": part.within} for part in job.slices]
    for key, size in (("min_gpus", job.min_gpus), ("max_gpus", job.max_gpus)):
        if size != job.gpus:
            result[key] = size
    if job.checkpoint != Checkpoint():
        result["checkpoint"] = _checkpoint(job.checkpoint)
    if job.retries != Retries():
        result["retries"] = _changed(job.retries, Retries())
    return result


def _checkpoint(checkpoint: Checkpoint) -> Plain:
    result = _changed(checkpoint, Checkpoint(), ("tiers",))
    if checkpoint.tiers:
        result["tiers"] = [
            {"tier": tier.tier} | _changed(tier, CheckpointTier(""), ("tier",)) for tier in checkpoint.tiers
        ]
    return result


def reservation_to_dict(entry: Reservation) -> Plain:
    """Return one reservation."""
    plain = Reservation(entry.id, entry.start_at, entry.end_at)
    times: Plain = {"id": entry.id, "start_at": _number(entry.start_at), "end_at": _number(entry.end_at)}
    return times | _changed(entry, plain, ("id", "start_at", "end_at"))


def event_to_dict(event: Event, profile: Profile) -> Plain:
    """Return one event; `profile` names the priority classes."""
    result: Plain = {"at": _number(event.at), "type": event.type}
    for key, value in event.fields.items():
        if isinstance(value, Job):
            result[key] = job_to_dict(value, profile)
        elif isinstance(value, Node):
            result[key] = node_to_dict(value)
        elif isinstance(value, Team):
            result[key] = team_to_dict(value)
        elif isinstance(value, Profile):
            result[key] = profile_to_dict(value)
        elif isinstance(value, Reservation):
            result[key] = reservation_to_dict(value)
        elif key == "set" and isinstance(value, Mapping):
            result[key] = _update(value, profile)
        elif value is not None:
            result[key] = _plain(value)
    return result


def _update(changed: Mapping[str, object], profile: Profile) -> Plain:
    """Return what an update sets, as the keys of a job; all that a key covers is in it."""
    whole = dataclasses.replace(_JOB, **{"min_gpus": 0, "max_gpus": 0, **changed})  # type: ignore[arg-type]
    written = job_to_dict(whole, profile)
    result: Plain = {}
    for name in changed:
        key = {"required": "topology", "preferred": "topology", "priority_class": "priority"}.get(name, name)
        if key in written:
            result[key] = written[key]
        elif key not in ("min_gpus", "max_gpus"):
            result[key] = {} if key in ("topology", "checkpoint", "retries") else _plain(changed[name])
    return result


def _changed(value: object, default: object, without: tuple[str, ...] = ()) -> Plain:
    """Return the fields of a dataclass that differ from those of `default`."""
    assert dataclasses.is_dataclass(value)
    return {
        field.name: _plain(given)
        for field in dataclasses.fields(value)
        if field.name not in without and (given := getattr(value, field.name)) != getattr(default, field.name)
    }


def _plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def _number(value: float) -> float | int:
    """Return a whole float as an integer: 3600, not 3600.0."""
    return int(value) if value == int(value) else value


_NODE = Node(id="", gpus=0)  # type: ignore[arg-type]
_TEAM = Team(id="")  # type: ignore[arg-type]
_JOB = Job(id="", team="", gpus=1, state=JobState.QUEUED)  # type: ignore[arg-type]
