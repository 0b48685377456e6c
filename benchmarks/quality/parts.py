"""The parts that hand-made rounds are put together from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Plain = dict[str, Any]

PROFILE: Plain = {"base": "default", "name": "quality", "max_reservations": 0}
"""A round of the library is judged as it stands: nothing is kept for a gang that cannot start in it."""

LAB: Plain = {"id": "lab"}


def document(
    name: str,
    hard: str,
    good: str,
    cluster: Mapping[str, object],
    jobs: Sequence[Plain],
    teams: Sequence[Plain] = (LAB,),
    reservations: Sequence[Plain] = (),
    **profile: object,
) -> Plain:
    """Return a round: its name, what makes it hard, what a good plan does, and the snapshot."""
    made: Plain = {
        "about": {"name": name, "hard": hard, "good": good},
        "now": 0,
        "profile": {**PROFILE, **profile},
        "cluster": dict(cluster),
        "teams": list(teams),
        "jobs": list(jobs),
    }
    if reservations:
        made["reservations"] = list(reservations)
    return made


def racks(
    *nodes: int, level: str = "rack", gpus: int = 8, gpu_type: str = "h100", prefix: str = "", **keys: Any
) -> Plain:
    """Return a cluster of domains with so many nodes each, named r0n0, r0n1, ..."""
    return {
        "levels": [level],
        "groups": [group(*nodes, level=level, gpus=gpus, gpu_type=gpu_type, prefix=prefix, **keys)],
    }


def group(
    *nodes: int, level: str = "rack", gpus: int = 8, gpu_type: str = "h100", prefix: str = "", **keys: Any
) -> Plain:
    """Return a group of equal nodes in domains of different sizes."""
    entry: Plain = {"counts": {level: len(nodes), "node": list(nodes)}, "gpus": gpus, "gpu_type": gpu_type}
    if prefix:
        entry["prefix"] = prefix
    return entry | keys


def runs(name: str, placement: Mapping[str, int], since_s: float = 7200, **keys: Any) -> Plain:
    """Return a job that runs."""
    entry: Plain = {"id": name, "team": "lab", "priority": "P3", "gpus": sum(placement.values()), "state": "running"}
    return entry | {"started_at": -since_s, "submitted_at": -since_s - 60, "placement": dict(placement)} | keys


def fixed(name: str, placement: Mapping[str, int], **keys: Any) -> Plain:
    """Return a job that runs and can be neither stopped nor moved."""
    return runs(name, placement, **{"preemptible": False, **keys})


def saved(ago_s: float) -> Plain:
    """Return the key of a job whose last checkpoint is so old."""
    return {"last_checkpoint_at": -ago_s}


def waits(name: str, gpus: int, age_s: float, **keys: Any) -> Plain:
    """Return a job that is queued."""
    return {"id": name, "team": "lab", "priority": "P2", "gpus": gpus, "submitted_at": -age_s} | keys


def inside(level: str) -> Plain:
    """Return the key of a gang that must lie in one domain of a level."""
    return {"topology": {"required": level}}


def rather(level: str) -> Plain:
    """Return the key of a gang that would rather lie in one domain of a level."""
    return {"topology": {"preferred": level}}


def whole_nodes(*racks_and_nodes: tuple[str, int], gpus: int = 8) -> dict[str, int]:
    """Return a placement on whole nodes: ("r0", 3) is the first three nodes of rack r0."""
    return {f"{rack}n{n}": gpus for rack, count in racks_and_nodes for n in range(count)}
