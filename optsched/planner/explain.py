"""Why a job waits, as data: what excludes it where, the nearest miss, and advice that planning again proves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from optsched.planner.advice import Proof, first_proven, room_advice
from optsched.planner.aftermath import After, after_plan, alike, fits_in, most_in_one_place, room_for
from optsched.planner.forecast import Reserved
from optsched.planner.instants import instant_text, span_text
from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Ceiling, Cut, Ints, Problem, RoundJob, What
from optsched.rounds.room import gpus_by_side_resources, slice_down, usable, whole_slices
from optsched.values.ids import JobId
from optsched.values.plan import Unblock, UnblockKind, Waiting

UNTOLD = "untold"
"""The reason of a job that waits, where nobody asks for more."""

ABOUT_TIME = frozenset({"held", "maintenance"})
"""Reasons that are told with how long a job itself would run."""


def explain_waiting(
    problem: Problem,
    reserved: Sequence[Reserved],
    assignment: Assignment,
    proof: Proof | None,
    prove: int,
    only: JobId | None = None,
) -> tuple[Waiting, ...]:
    """Explain every job that stays queued (or `only` one), in queue order.

    The advice for the first `prove` of them is proven by planning again; advice that is not proven is left out.
    """
    waiting = [job for job in problem.queued if job.index not in assignment.changed and only in (None, job.job.id)]
    if not waiting:
        return ()
    after = after_plan(problem, reserved, assignment)
    known: dict[tuple[object, ...], tuple[str, str]] = {}
    told: dict[tuple[object, ...], Waiting] = {}
    reserved_for = {each.job.index for each in reserved}
    result: list[Waiting] = []
    for job in waiting:
        proving = proof if len(result) < prove else None
        if proving is None and job.can_ever_run and job.index not in reserved_for:
            key = _same_reason(after, job)
            why = told.get(key)
            if why is None:
                why = _explain(after, job, known, advise=False)[0]
                if why.reason not in ABOUT_TIME:
                    told[key] = why
            result.append(Waiting(job.job.id, why.reason, why.detail))
            continue
        told_of, advice = _explain(after, job, known, advise=proving is not None)
        unblock = None
        if told_of.reason == "impossible":
            text = "change the request: no node or domain can hold it as written"
            unblock = Unblock(UnblockKind.NEVER, str(job.job.id), None, text)
        elif proving is not None:
            unblock = first_proven(problem, job, advice, proving)
        result.append(Waiting(told_of.job, told_of.reason, told_of.detail, unblock))
    return tuple(result)


def untold_waiting(problem: Problem, assignment: Assignment) -> tuple[Waiting, ...]:
    """Name every job that stays queued, in queue order, and say why only of those that can never run.

    A job with a deadline that can never run is refused for that: all else that is said of who waits decides nothing.
    """
    return tuple(
        Waiting(job.job.id, UNTOLD, "")
        if job.can_ever_run
        else Waiting(job.job.id, "impossible", _why_impossible(problem, job))
        for job in problem.queued
        if job.index not in assignment.changed
    )


def _same_reason(after: After, job: RoundJob) -> tuple[object, ...]:
    """Return what decides why a job waits that has no reservation: what it asks for, and who or what binds it."""
    problem = after.problem
    holds = [tuple(hold.name for hold in ledger.holds_on(job)) for ledger in (after.before, after.ledger)]
    grants = tuple(grant.name for grant in problem.domain_holds if job.index in grant.binds)
    return (*alike(job), *problem.ceilings_of[job.index], *holds, grants)


def _explain(
    after: After, job: RoundJob, known: dict[tuple[object, ...], tuple[str, str]], *, advise: bool
) -> tuple[Waiting, list[Unblock]]:
    """Return why one job waits, and advice to be proven, the mildest first (about room only if asked to `advise`)."""
    problem, name = after.problem, job.job.id
    if not job.can_ever_run:
        return Waiting(name, "impossible", _why_impossible(problem, job)), []
    for explain in (_windows, _held, _ceilings, _kept_off):
        found = explain(after, job)
        if found is not None:
            return found
    return _no_room(after, job, known, advise=advise)


def _type(job: RoundJob) -> int:
    return next((y for y, speed in enumerate(job.type_speed) if speed > 0), 0)


def _why_impossible(problem: Problem, job: RoundJob) -> str:
    """Return why no state of the cluster would let the job run as written."""
    spec, nodes, tree = job.job, problem.nodes, problem.tree
    types = {y for y, speed in enumerate(job.type_speed) if speed > 0}
    suits = np.isin(nodes.gpu_type, list(types))
    cluster = int(nodes.capacity.sum())
    if not suits.any():
        wanted = ", ".join(sorted(str(name) for name in spec.gpu_types))
        return f"no node has a GPU of type {wanted}"
    largest = int(nodes.capacity[suits].max(initial=0))
    if job.cut is Cut.ONE_NODE and job.minimum > largest:
        return f"needs {job.minimum} GPUs on one node and the largest node has {largest}; it can never start as written"
    if job.unit > largest:
        return f"needs {job.unit} GPUs on one node and the largest node has {largest}; it can never start as written"
    if job.required is not None and job.required != tree.node_level:
        empty = slice_down(job, tree, usable(job, nodes, nodes.capacity, nodes.cpus_u, nodes.memory_u, suits))
        most = int(whole_slices(job, tree, empty, job.required).max(initial=0))
        level = tree.levels[job.required]
        how = f" in nodes of {job.unit}" if job.cut is Cut.PER_NODE else ""
        return (
            f"no single {level} can hold {job.minimum} GPUs{how}: the best of "
            f"{tree.domain_count(job.required)} holds {most} when empty, so the job can never start as written"
        )
    if job.minimum > cluster:
        return f"needs {job.minimum} GPUs and the cluster has {cluster}; it can never start as written"
    return f"no nodes suit its cut, slices, types, labels, CPUs and memory, even when empty ({job.minimum} GPUs wanted)"


Found = tuple[Waiting, list[Unblock]]


def _ceilings(after: After, job: RoundJob) -> Found | None:
    """Explain a limit or quota that keeps the job waiting."""
    index = after.ledger.blocked_by(job, job.minimum, _type(job))
    if index is None:
        return None
    reason, detail, advice = _ceiling(after, job, after.problem.ceilings[index], index)
    reserved = _reserved(after, job)
    if reserved is not None and reserved.start_at is not None:
        when = instant_text(reserved.start_at, after.problem.snapshot.now)
        detail += f"; by the estimates of what runs it can start {when}"
    return Waiting(job.job.id, reason, detail), advice


def _reserved(after: After, job: RoundJob) -> Reserved | None:
    return next((each for each in after.reserved if each.job.index == job.index), None)


def _ceiling(after: After, job: RoundJob, ceiling: Ceiling, index: int) -> tuple[str, str, list[Unblock]]:
    held, item = after.ledger.held[index], ceiling.item
    if item.what is What.GPUS:
        need, unit, scale = job.minimum, "GPUs", 1
    else:
        each = job.cpus_per_gpu_u if item.what is What.CPUS else job.memory_per_gpu_u
        need, unit, scale = each * job.minimum, "CPUs" if item.what is What.CPUS else "GB", 1_000_000
    words = {
        "limit": f"limit of team {ceiling.target}",
        "user_limit": f"user limit of {ceiling.target}",
        "quota": f"quota of team {ceiling.target}, which bounds non-preemptible work",
    }
    detail = (
        f"would exceed the {words[ceiling.kind]}: {held / scale:g} {unit} are held, it needs {need / scale:g} more, "
        f"{item.amount / scale:g} are allowed"
    )
    value = (held + need) / scale
    kind = UnblockKind.RAISE_QUOTA if ceiling.kind == "quota" else UnblockKind.RAISE_LIMIT
    text = f"raise the {words[ceiling.kind].split(',')[0]} to {value:g} {unit}"
    advice = [Unblock(kind, ceiling.target, value, text)] if item.what is What.GPUS else []
    if ceiling.kind == "quota":
        advice.append(Unblock(UnblockKind.SET_FIELD, f"jobs.{job.job.id}.preemptible", "true", "make it preemptible"))
    return ceiling.kind, detail, advice


def _held(after: After, job: RoundJob) -> Found | None:
    """Explain a job that would fit in what was free, or in what is left of it, were that not kept for others."""
    problem, name = after.problem, job.job.id
    if not (problem.holds or problem.domain_holds):
        return None
    if not any(
        fits_in(after, job, ledger) and not fits_in(after, job, ledger, held=True)
        for ledger in (after.before, after.ledger)
    ):
        return None
    advice: list[Unblock] = []
    holds = after.ledger.holds_on(job)
    if not holds:
        grants = [grant.name for grant in problem.domain_holds if job.index in grant.binds]
        return Waiting(
            name, "held", f"the free room is kept for {', '.join(grants) or 'a gang that starts now'}"
        ), advice
    who = ", ".join(hold.name for hold in holds[:3])
    starts = [each.start_at for each in after.reserved if any(hold.unless == each.job.index for hold in holds)]
    known = [start for start in starts if start is not None]
    when = (
        f", which starts {instant_text(min(known), problem.snapshot.now)} by the estimates of what runs"
        if known
        else ""
    )
    if job.job.estimated_runtime_s is None:
        detail = f"room is kept for {who}{when}; it has no estimated run time, so it cannot be shown to end before that"
    else:
        estimate = span_text(job.job.estimated_runtime_s)
        detail = f"room is kept for {who}{when}; it would still run then (its estimate is {estimate})"
    if known and min(known) > problem.snapshot.now + 1:
        seconds = float(int(min(known) - problem.snapshot.now))
        field = f"jobs.{name}.estimated_runtime_s"
        text = f"state an estimated run time of at most {span_text(seconds)}, if that is true"
        advice.append(Unblock(UnblockKind.SET_FIELD, field, seconds, text))
    if not job.job.preemptible and problem.profile.backfill_preemptible:
        advice.append(Unblock(UnblockKind.SET_FIELD, f"jobs.{name}.preemptible", "true", "make it preemptible"))
    return Waiting(name, "held", detail), advice


def _kept_off(after: After, job: RoundJob) -> Found | None:
    """Explain a job that fits in what the plan leaves free."""
    name = job.job.id
    if not fits_in(after, job, after.ledger, held=True):
        return None
    if after.assignment.stopped:
        detail = "it fits in what stopped jobs leave over, which comes free in the next round"
        return Waiting(name, "next_round", detail), []
    detail = "the free room suits it, but a plan with it is worth less (its team's claims, or what it would cost)"
    return Waiting(name, "not_worth_it", detail), []


def _windows(after: After, job: RoundJob) -> Found | None:
    """Explain a job that a maintenance window keeps off room that is free."""
    now = after.problem.snapshot.now
    if not after.windows:
        return None
    if fits_in(after, job, after.before) or not fits_in(after, job, after.before, opened=True):
        return None
    for window in after.windows:
        nodes = ", ".join(window.nodes[:3]) + (" …" if len(window.nodes) > 3 else "")
        if window.start_at <= now:
            detail = f"{window.id} keeps {nodes}, and ends {instant_text(window.end_at, now)}"
            advice = [Unblock(UnblockKind.WAIT_UNTIL, str(window.id), window.end_at, f"wait until {window.id} ends")]
            return Waiting(job.job.id, "maintenance", detail), advice
        if job.job.estimated_runtime_s is None:
            why = "it has no estimated run time, so it cannot be shown to end"
        else:
            why = f"it would still run (its estimate is {span_text(job.job.estimated_runtime_s)})"
        detail = f"{why} when reservation {window.id} begins on {nodes}, {instant_text(window.start_at, now)}"
        seconds = float(int(window.start_at - now))
        field = f"jobs.{job.job.id}.estimated_runtime_s"
        text = f"state an estimated run time of at most {span_text(seconds)}, if that is true"
        return Waiting(job.job.id, "maintenance", detail), [Unblock(UnblockKind.SET_FIELD, field, seconds, text)]
    return None


def _no_room(after: After, job: RoundJob, known: dict[tuple[object, ...], tuple[str, str]], *, advise: bool) -> Found:
    """Explain a job that nothing free suits: how many domains miss by what, and the nearest miss."""
    problem = after.problem
    shape = alike(job)
    if shape not in known:
        known[shape] = _count_misses(after, job, room_for(after, job, after.ledger))
    counts, nearest = known[shape]
    reserved = _reserved(after, job)
    detail = f"{counts}; {nearest}"
    if reserved is not None and reserved.start_at is not None:
        detail += (
            f"; it can start {instant_text(reserved.start_at, problem.snapshot.now)} by the estimates of what runs"
        )
    advice = room_advice(after.problem, after.ledger, job) if advise else []
    if reserved is not None and reserved.start_at is not None and reserved.start_at > problem.snapshot.now:
        text = (
            f"wait: by the estimates of what runs it can start {instant_text(reserved.start_at, problem.snapshot.now)}"
        )
        advice.append(Unblock(UnblockKind.WAIT_UNTIL, str(job.job.id), reserved.start_at, text))
    reason = "no_domain_fits" if job.required is not None else "no_room"
    return Waiting(job.job.id, reason, detail), advice


def _count_misses(after: After, job: RoundJob, room: Ints) -> tuple[str, str]:
    """Return "k of n ..." with the reasons counted, and the nearest miss, as sentences."""
    problem, tree = after.problem, after.problem.tree
    level = job.required if job.required is not None else tree.node_level
    reasons = _reasons(after, job)
    if job.cut is Cut.ONE_NODE or (job.required is None and job.minimum == job.unit):
        level = tree.node_level
    if level == tree.node_level or job.required is None:
        fits = int((room >= min(job.unit if job.cut is not Cut.ONE_NODE else job.minimum, job.minimum)).sum())
        what = "node" if fits == 1 else "nodes"
        total = len(room)
        counts = (
            f"{fits} of {total} {what} could take part of it"
            if job.cut is not Cut.ONE_NODE
            else f"0 of {total} nodes fit"
        )
    else:
        counts = f"0 of {tree.domain_count(level)} {tree.levels[level]} domains fit"
    listed = ", ".join(f"{count} {why}" for why, count in reasons.most_common() if count)
    if listed:
        counts += f" (nodes: {listed})"
    most = most_in_one_place(problem, job, room)
    if job.cut is Cut.ONE_NODE:
        # Too little for the cut is still the nearest miss.
        ledger = after.ledger
        side = gpus_by_side_resources(job, ledger.cpus_u, ledger.memory_u)
        most = int(np.where(job.nodes, np.minimum(ledger.gpus, side), 0).max(initial=0))
    return counts, f"the best place has {most} of the {job.minimum} GPUs it needs"


def _reasons(after: After, job: RoundJob) -> Counter[str]:
    """Return, over all nodes, the first reason why each cannot take part of the job."""
    problem, nodes, ledger = after.problem, after.problem.nodes, after.ledger
    need: Ints | int = job.minimum if job.cut is Cut.ONE_NODE else job.unit
    if job.cut is Cut.WHOLE_NODES:
        need = nodes.capacity
    lawful = job.lawful
    free = ledger.gpus
    left = np.ones(len(free), dtype=bool)
    counts: Counter[str] = Counter()
    type_ok = np.array([job.type_speed[y] > 0 for y in range(len(problem.gpu_types))], dtype=bool)[nodes.gpu_type]
    for why, bad in (
        ("of another GPU type", ~type_ok),
        ("excluded by its selector or position", ~lawful),
        ("cordoned, draining or down", after.closed),
        ("kept for a window or spare", ~job.nodes),
        ("too small", nodes.capacity < need),
        ("full", free == 0),
        ("with too few free GPUs", free < need),
        ("short of CPUs", ledger.cpus_u < need * job.cpus_per_gpu_u),
        ("short of memory", ledger.memory_u < need * job.memory_per_gpu_u),
    ):
        hit = left & bad
        counts[why] = int(hit.sum())
        left &= ~hit
        if not left.any():
            break
    return counts
