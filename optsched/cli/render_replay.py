"""A replay as JSON, one entry for each moment."""

from __future__ import annotations

import json

from optsched.engine.commands import Command
from optsched.engine.draft import room_on
from optsched.engine.state import JobRecord
from optsched.engine.tables import HOLDS_RUN
from optsched.files.plan_json import placement_to_dict, whole
from optsched.sim.replay import Moment
from optsched.values.ids import JobId

Plain = dict[str, object]


def moment_to_dict(moment: Moment, order: dict[JobId, int]) -> Plain:
    """Return one entry of the timeline; `order` gives the jobs their places, and takes in new ones."""
    records = {record.id: record for record in moment.jobs()}
    for job in records:
        order.setdefault(job, len(order))
    return {
        "at": whole(moment.at),
        "jobs": {job: job_to_dict(records[job]) for job in sorted(records, key=order.__getitem__)},
        "nodes": {
            name: {"state": record.node.state.value, "free_gpus": room_on(record)}
            for name, record in moment.state.nodes.items()
        },
        "commands": [command_to_dict(at, command) for at, command in moment.commands],
    }


def job_to_dict(record: JobRecord) -> Plain:
    """Return how one job stands. Who waits for victims to go is queued and has no placement."""
    placed = record.state in HOLDS_RUN
    return {
        "state": record.state.value,
        "placement": placement_to_dict(record.job.placement) if placed else {},
        "gpus": record.job.placed_gpus if placed else 0,
        "run": record.run,
        "preemptions": record.job.preemptions,
        "migrations": record.migrations,
        "reason": record.reason,
    }


def command_to_dict(at: float, command: Command) -> Plain:
    """Return one command."""
    gpus = command.gpus if isinstance(command.gpus, int) else list(command.gpus)
    found: Plain = {"at": whole(at), "verb": command.verb.value, "epoch": command.epoch, "node": command.node}
    if command.job:
        found |= {"job": command.job, "run": command.run, "gpus": gpus}
    if command.grace_s:
        found["grace_s"] = whole(command.grace_s)
    return found


def timeline_to_json(moments: list[Plain]) -> str:
    """Return the timeline as JSON, an entry to a line."""
    entries = ",\n".join("  " + json.dumps(entry, allow_nan=False) for entry in moments)
    return '{"timeline": [\n' + entries + "\n]}\n"
