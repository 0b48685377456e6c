"""Advice to a waiting job as data, and its proof: apply it to the snapshot, plan again, see whether the job starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np

from optsched.rounds.problem import Flags, Ints, Problem, RoundJob
from optsched.solve.ledger import Ledger
from optsched.solve.packing import pack
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId
from optsched.values.job import Job, JobState
from optsched.values.plan import Unblock, UnblockKind
from optsched.values.resources import Amounts
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team

Proof = Callable[[Snapshot, JobId], bool]
"""Plans a snapshot and says whether the job runs afterwards."""


def first_proven(problem: Problem, job: RoundJob, advice: Iterable[Unblock], proof: Proof) -> Unblock | None:
    """Return the first advice that, applied and planned again, starts the job; None where none does."""
    for each in advice:
        if proof(apply_advice(problem.snapshot, job.job.id, each), job.job.id):
            return each
    return None


def apply_advice(snapshot: Snapshot, job_id: JobId, advice: Unblock) -> Snapshot:
    """Return the snapshot after the advice was followed."""
    kind, target, value = advice.kind, advice.target, advice.value
    if kind is UnblockKind.FREE:
        return _without_jobs_on(snapshot, frozenset(NodeId(name) for name in target.split(",")))
    if kind is UnblockKind.UNCORDON:
        return _uncordoned(snapshot, frozenset(NodeId(name) for name in target.split(",")))
    if kind is UnblockKind.RAISE_QUOTA and value is not None:
        return _raised(snapshot, target, "quota", int(float(value)))
    if kind is UnblockKind.RAISE_LIMIT and value is not None:
        team, _, user = target.partition("/")
        return _raised(snapshot, team, "user_limit" if user else "limit", int(float(value)))
    if kind is UnblockKind.SET_FIELD:
        return _with_field(snapshot, job_id, target.rsplit(".", 1)[-1], value)
    if kind is UnblockKind.WAIT_UNTIL and value is not None:
        return _later(snapshot, float(value))
    return snapshot


def _without_jobs_on(snapshot: Snapshot, nodes: frozenset[NodeId]) -> Snapshot:
    jobs = tuple(job for job in snapshot.jobs if not nodes & job.placement.keys())
    return dataclasses.replace(snapshot, jobs=jobs)


def _uncordoned(snapshot: Snapshot, names: frozenset[NodeId]) -> Snapshot:
    nodes = tuple(
        dataclasses.replace(node, state=NodeState.UP) if node.id in names else node for node in snapshot.cluster.nodes
    )
    return dataclasses.replace(snapshot, cluster=dataclasses.replace(snapshot.cluster, nodes=nodes))


def _raised(snapshot: Snapshot, team: str, which: str, gpus: int) -> Snapshot:
    def raised(amounts: Amounts | None) -> Amounts:
        if amounts is None:
            return Amounts(gpus=gpus)
        if not amounts.gpus_by_type:
            return dataclasses.replace(amounts, gpus=gpus)
        return dataclasses.replace(amounts, gpus_by_type=dict.fromkeys(amounts.gpus_by_type, gpus))

    def changed(each: Team) -> Team:
        if which == "quota":
            return dataclasses.replace(each, quota=raised(each.quota))
        if which == "limit":
            return dataclasses.replace(each, limit=raised(each.limit))
        return dataclasses.replace(each, user_limit=raised(each.user_limit))

    teams = tuple(changed(each) if each.id == team else each for each in snapshot.teams)
    return dataclasses.replace(snapshot, teams=teams)


def _with_field(snapshot: Snapshot, job_id: JobId, field: str, value: float | str | None) -> Snapshot:
    def changed(job: Job) -> Job:
        if field == "preemptible":
            return dataclasses.replace(job, preemptible=value == "true")
        if field == "estimated_runtime_s" and value is not None:
            return dataclasses.replace(job, estimated_runtime_s=float(value))
        return job

    jobs = tuple(changed(job) if job.id == job_id else job for job in snapshot.jobs)
    return dataclasses.replace(snapshot, jobs=jobs)


def _later(snapshot: Snapshot, now: float) -> Snapshot:
    """Return the snapshot at a later instant: what is estimated to have ended by then has."""
    jobs = tuple(
        job
        for job in snapshot.jobs
        if not (
            job.state is JobState.RUNNING
            and job.estimated_runtime_s is not None
            and job.started_at is not None
            and snapshot.now < job.started_at + job.estimated_runtime_s <= now
        )
    )
    return dataclasses.replace(snapshot, now=now, jobs=jobs)


def room_advice(problem: Problem, ledger: Ledger, job: RoundJob) -> list[Unblock]:
    """Return what would make room: uncordoning nodes, then freeing the nodes that need the least freeing."""
    advice = []
    closed = _closed_nodes(problem, ledger, job)
    if closed:
        text = f"uncordon {', '.join(closed[:4])}" + (f" and {len(closed) - 4} more" if len(closed) > 4 else "")
        advice.append(Unblock(UnblockKind.UNCORDON, ",".join(closed), float(len(closed)), text))
    to_free = _nodes_to_free(problem, ledger, job)
    if to_free is not None:
        nodes, gpus = to_free
        names = [problem.tree.node_ids[n] for n in nodes]
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        text = f"free {gpus} more GPUs on {shown}{_holders(problem, nodes)}"
        advice.append(Unblock(UnblockKind.FREE, ",".join(names), float(gpus), text))
    return advice


def _holders(problem: Problem, nodes: list[int]) -> str:
    wanted = set(nodes)
    holders = [str(job.job.id) for job in problem.running if any(n in wanted for n, _ in job.spread_now)]
    if not holders:
        return ""
    more = f" and {len(holders) - 3} more" if len(holders) > 3 else ""
    return f" (held by {', '.join(holders[:3])}{more})"


def _closed_nodes(problem: Problem, ledger: Ledger, job: RoundJob) -> list[str]:
    """Return the cordoned nodes that would complete a placement, none where they would not help."""
    states = problem.snapshot.cluster.nodes
    cordoned = np.array([node.state in (NodeState.CORDONED, NodeState.SUSPECT) for node in states], dtype=bool)
    mask = job.lawful & (problem.nodes.taking | cordoned)
    if not (mask & cordoned).any():
        return []
    opened = dataclasses.replace(job, nodes=mask)
    found = pack(problem, opened, ledger.free_for(job), ledger.cpus_u, ledger.memory_u, job.minimum)
    return [] if found is None else [str(problem.tree.node_ids[n]) for n, _ in found if cordoned[n]]


def _nodes_to_free(problem: Problem, ledger: Ledger, job: RoundJob) -> tuple[list[int], int] | None:
    """Return the nodes that have to be freed and how many GPUs that is, choosing nodes on which least is in the way."""
    nodes = problem.nodes
    order = np.flatnonzero(job.nodes)
    in_the_way = nodes.capacity[order] - ledger.gpus[order]
    order = order[np.lexsort((order, in_the_way))]

    def placed(count: int) -> tuple[tuple[int, int], ...] | None:
        allowed: Flags = np.zeros(len(nodes.capacity), dtype=bool)
        allowed[order[:count]] = True
        full: Ints = np.where(allowed, nodes.capacity, ledger.gpus)
        cpus = np.where(allowed, nodes.cpus_u, ledger.cpus_u)
        memory = np.where(allowed, nodes.memory_u, ledger.memory_u)
        return pack(problem, job, full, cpus, memory, job.minimum)

    low, high = 1, len(order)
    if not high or placed(high) is None:
        return None
    while low < high:
        middle = (low + high) // 2
        if placed(middle) is None:
            low = middle + 1
        else:
            high = middle
    spread = placed(low)
    if spread is None:
        return None
    short = [(n, count - int(ledger.gpus[n])) for n, count in spread if count > ledger.gpus[n]]
    if not short:
        short = [(n, 0) for n, _ in spread]
    return [n for n, _ in short], sum(missing for _, missing in short)
