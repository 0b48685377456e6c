"""A plan as JSON, in the shape that scripts may rely on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from optsched.values.job import Placement
from optsched.values.plan import (
    Bill,
    Move,
    Plan,
    Preemption,
    RankResult,
    ReservedRoom,
    RoundInfo,
    Start,
    TaskPlacement,
    Unblock,
    Waiting,
)

Plain = dict[str, object]


def plan_to_json(plan: Plan, tasks: bool = False) -> str:
    """Return a plan as one JSON object: a key or a list entry to a line. `tasks`: with the tasks of every start."""
    return write(plan_to_dict(plan, tasks))


def plan_to_dict(plan: Plan, tasks: bool = False) -> Plain:
    """Return a plan as plain data, keys in the documented order."""
    return {
        "round": _round(plan.round),
        "starts": [start_to_dict(entry, tasks) for entry in plan.starts],
        "preemptions": [preemption_to_dict(entry) for entry in plan.preemptions],
        "migrations": [move_to_dict(entry) for entry in plan.migrations],
        "resizes": [move_to_dict(entry) for entry in plan.resizes],
        "reservations": [_reservation(entry) for entry in plan.reservations],
        "queued": [waiting_to_dict(entry) for entry in plan.queued],
        "bill": _bill(plan.bill),
    }


def start_to_dict(entry: Start, tasks: bool = False) -> Plain:
    """Return a job that starts."""
    result: Plain = {
        "job": entry.job,
        "placement": placement_to_dict(entry.placement),
        "span": entry.span,
        "waits_for": list(entry.waits_for),
    }
    if tasks:
        result["tasks"] = [_task(task) for task in entry.tasks]
    return result


def preemption_to_dict(entry: Preemption) -> Plain:
    """Return a job that is stopped."""
    return {
        "job": entry.job,
        "for": list(entry.beneficiaries),
        "cost_gpu_s": whole(entry.cost_gpu_s),
        "lost_work_s": whole(entry.lost_work_s),
        "grace_s": whole(entry.grace_s),
    }


def move_to_dict(entry: Move) -> Plain:
    """Return a job that goes on elsewhere or at another size."""
    return {
        "job": entry.job,
        "placement": placement_to_dict(entry.placement),
        "for": list(entry.beneficiaries),
        "cost_gpu_s": whole(entry.cost_gpu_s),
    }


def waiting_to_dict(entry: Waiting) -> Plain:
    """Return a job that stays queued."""
    return {
        "job": entry.job,
        "reason": entry.reason,
        "detail": entry.detail,
        "unblock": None if entry.unblock is None else _unblock(entry.unblock),
    }


def placement_to_dict(placement: Placement) -> Plain:
    """Return GPUs per node: a list of indices, or a count where they are not known."""
    return {node: booked if isinstance(booked, int) else list(booked) for node, booked in placement.items()}


def whole(value: float | None) -> float | int | None:
    """Return a whole number without a point: 3600, not 3600.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def write(data: Mapping[str, object]) -> str:
    """Return data as JSON that people can page through: a key to a line, long lists an entry to a line."""
    lines = []
    for key, value in data.items():
        name = json.dumps(key)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            entries = ",\n".join("  " + _dumps(entry) for entry in value)
            lines.append(f"{name}: [\n{entries}\n ]")
        else:
            lines.append(f"{name}: {_dumps(value)}")
    return "{" + ",\n ".join(lines) + "}\n"


def _dumps(value: object) -> str:
    return json.dumps(value, allow_nan=False)


def _round(info: RoundInfo) -> Plain:
    return {
        "source": info.source.value,
        "status": info.status.value,
        "gap": whole(info.gap),
        "gap_gpus": info.gap_gpus,
        "wall_s": whole(round(info.wall_s, 6)),
        "deterministic_s": whole(round(info.deterministic_s, 6)),
        "window": {"considered": info.considered, "queued": info.queued},
        "ranks": ranks_to_list(info.ranks),
    }


def ranks_to_list(ranks: Sequence[RankResult]) -> list[Plain]:
    """Return the ranks at which something runs or could run."""
    rows = []
    for rank in ranks:
        if rank.gpus == 0 and rank.gpus_bound == 0:
            continue
        row: Plain = {"tier": rank.tier.value, "priority": rank.priority}
        if rank.above_minimum:
            row["above_minimum"] = True
        rows.append(row | {"gpus": rank.gpus, "gpus_bound": rank.gpus_bound})
    return rows


def _task(task: TaskPlacement) -> Plain:
    gpus = task.gpus if isinstance(task.gpus, int) else list(task.gpus)
    return {"rank": task.rank, "node": task.node, "gpus": gpus, "slice": list(task.slice)}


def _reservation(entry: ReservedRoom) -> Plain:
    return {
        "job": entry.job,
        "domain": entry.domain,
        "nodes": list(entry.nodes),
        "start_estimate_at": whole(entry.start_estimate_at),
    }


def _unblock(advice: Unblock) -> Plain:
    value = whole(advice.value) if isinstance(advice.value, float) else advice.value
    return {"kind": advice.kind.value, "target": advice.target, "value": value, "text": advice.text}


def _bill(bill: Bill) -> Plain:
    return {
        "run_value": whole(bill.run_value),
        "placement_loss": whole(bill.placement_loss),
        "preemption_cost": whole(bill.preemption_cost),
        "migration_cost": whole(bill.migration_cost),
        "resize_cost": whole(bill.resize_cost),
        "hold_cost": whole(bill.hold_cost),
        "domain_cost": whole(bill.domain_cost),
        "bound": whole(bill.bound),
    }
