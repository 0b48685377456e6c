"""The rules that tie the fields of one job together, and to the cluster and the teams. One function a rule."""

from __future__ import annotations

from collections.abc import Set

from optsched.files.known import Known
from optsched.files.report import Scope, known, show
from optsched.values.ids import TeamId
from optsched.values.job import Job, JobState


def check_job(job: Job, given: Set[str], scope: Scope, about: Known) -> None:
    """Note all that does not hold for a job; `given` are the keys that its entry has."""
    about.check_team(job.team, scope, "team")
    _check_cut(job, scope, about)
    if "min_gpus" in given or "max_gpus" in given:
        _check_elastic(job, scope)
    if job.required is not None or job.preferred is not None:
        _check_topology(job, scope, about)
    if job.slices:
        _check_slices(job, scope, about)
    _check_times(job, scope, about)
    if job.start_deadline_at is not None:
        _check_deadline(job, scope, about)
    _check_placement(job, scope, about)
    _check_ceiling(job, scope, about)
    _warn_of_names(job, scope, about)


def _check_cut(job: Job, scope: Scope, about: Known) -> None:
    """A gang is cut by node or by task, not by both, into whole parts, of which a node can hold one."""
    for key, step in (("gpus_per_node", job.gpus_per_node), ("gpus_per_task", job.gpus_per_task)):
        if step is not None and job.gpus % step:
            scope.fault(f"{job.gpus} is not a multiple of {key} {step}", f"a multiple of {step}", "gpus")
    if job.gpus_per_node is None:
        return
    if job.gpus_per_task is not None:
        scope.fault("given together with gpus_per_task", "gpus_per_node or gpus_per_task, not both", "gpus_per_node")
    largest = about.largest_node
    if job.gpus_per_node > largest > 0 and job.state is JobState.QUEUED:
        scope.fault(f"given {job.gpus_per_node}", f"at most the {largest} GPUs of the largest node", "gpus_per_node")


def _check_elastic(job: Job, scope: Scope) -> None:
    """1 <= min_gpus <= gpus <= max_gpus, each a step of the cut."""
    if job.min_gpus > job.max_gpus:
        scope.fault(f"min_gpus {job.min_gpus} is above max_gpus {job.max_gpus}", f"at most {job.max_gpus}", "min_gpus")
    elif not job.min_gpus <= job.gpus <= job.max_gpus:
        wrong = f"{job.gpus} is outside min_gpus..max_gpus"
        scope.fault(wrong, f"from {job.min_gpus} to {job.max_gpus}", "gpus")
    step = job.gpus_per_node or job.gpus_per_task
    if step is None:
        return
    name = "gpus_per_node" if job.gpus_per_node else "gpus_per_task"
    for key, count in (("min_gpus", job.min_gpus), ("max_gpus", job.max_gpus)):
        if count % step and count != job.gpus:
            scope.fault(f"{count} is not a multiple of {name} {step}", f"a multiple of {step}", key)


def _check_topology(job: Job, scope: Scope, about: Known) -> None:
    """Levels are known by their exact names; a preference no narrower than the requirement has no effect."""
    right = True
    for key, level in (("required", job.required), ("preferred", job.preferred)):
        if level is not None and about.level(level, scope, "topology", key) is None:
            right = False
    if not right or not about.cluster_known or job.required is None or job.preferred is None:
        return
    if about.rank_of[job.preferred] <= about.rank_of[job.required]:
        text = f"job {job.id}: preferred {job.preferred} has no effect, as required {job.required} is no wider"
        scope.report.warn("jobs whose preferred level has no effect", text)


def _check_slices(job: Job, scope: Scope, about: Known) -> None:
    """Each slice divides what it is a part of and lies in a level no wider than that of the slice around it."""
    outer_gpus, outer_level = job.gpus, None
    for number, part in enumerate(job.slices):
        here = scope.at("slices", number)
        level = about.level(part.within, here, "within")
        if outer_gpus % part.gpus:
            whole = "the gang's" if number == 0 else "the outer slice's"
            here.fault(f"{part.gpus} does not divide {whole} {outer_gpus} GPUs", f"a divisor of {outer_gpus}", "gpus")
        elif number == 0:
            for key, size in (("min_gpus", job.min_gpus), ("max_gpus", job.max_gpus)):
                if size % part.gpus:
                    here.fault(f"{part.gpus} does not divide {key} {size}", f"a divisor of {size}", "gpus")
        if level is not None and outer_level is not None:
            narrower = list(about.rank_of)[about.rank_of.get(outer_level, 0) :]
            if about.cluster_known and level not in narrower:
                wrong = f"{show(level)} is wider than the outer slice's {outer_level}"
                here.fault(wrong, known(narrower, None, "one of"), "within")
        outer_gpus, outer_level = part.gpus, level


def _check_times(job: Job, scope: Scope, about: Known) -> None:
    """Nothing has happened after now; a checkpoint lies between start and now."""
    now = about.now
    if job.submitted_at > now:
        if job.state is JobState.QUEUED:
            scope.fault(f"{_at(job.submitted_at)} is after now, {_at(now)}", f"at most {_at(now)}", "submitted_at")
        else:
            scope.report.warn("running jobs submitted after now", f"job {job.id} runs, but was submitted after now")
    if job.started_at is not None and job.started_at > now and job.submitted_at <= now:
        scope.fault(f"{_at(job.started_at)} is after now, {_at(now)}", f"at most {_at(now)}", "started_at")
        return
    saved = job.last_checkpoint_at
    earliest = job.started_at if job.started_at is not None and job.state is JobState.RUNNING else None
    if saved is not None and (saved > now or (earliest is not None and saved < earliest)):
        allowed = (
            f"at most now, {_at(now)}" if earliest is None else f"from started_at, {_at(earliest)}, to now, {_at(now)}"
        )
        scope.fault(f"given {_at(saved)}", allowed, "last_checkpoint_at")


def _check_deadline(job: Job, scope: Scope, about: Known) -> None:
    """A start deadline lies after submission; one that has passed is kept, and told."""
    deadline = job.start_deadline_at
    if deadline is None:
        return
    if deadline <= job.submitted_at:
        wrong = f"the start deadline has passed at submission: {_at(deadline)}, submitted at {_at(job.submitted_at)}"
        scope.fault(wrong, f"an instant after {_at(job.submitted_at)}", "start_deadline_at")
    elif deadline < about.now and job.state is JobState.QUEUED:
        text = f"job {job.id}: the start deadline {_at(deadline)} has passed, now is {_at(about.now)}"
        scope.report.warn("queued jobs whose start deadline has passed", text)


def _check_placement(job: Job, scope: Scope, about: Known) -> None:
    """A running job stands on known nodes; a queued one stands nowhere."""
    if job.state is JobState.QUEUED:
        if job.placement:
            scope.fault("a queued job has a placement", "no placement, or state: running", "placement")
        return
    if not job.placement:
        scope.fault(
            "a running job has no placement", "a mapping of nodes to a number of GPUs, or to GPU indices", "placement"
        )
    known_nodes = not about.cluster_known or job.placement.keys() <= about.nodes.keys()
    for node, booked in job.placement.items():
        if not known_nodes:
            about.check_node(node, scope, "placement", node)
        if not isinstance(booked, int) and len(set(booked)) < len(booked):
            scope.fault("a GPU index is listed twice", "each index once", "placement", node)


def _check_ceiling(job: Job, scope: Scope, about: Known) -> None:
    """A job's priority is at most the ceiling of its team and of every team above."""
    team = about.teams.get(job.team)
    seen: set[TeamId] = set()
    while team is not None and team.id not in seen:
        if team.max_priority is not None and job.priority > team.max_priority:
            if job.state is JobState.QUEUED:
                wrong = f"given {job.priority_class or job.priority}, above the ceiling of team {team.id}"
                scope.fault(wrong, f"at most {team.max_priority}", "priority")
            else:
                text = f"job {job.id} has priority {job.priority}, the ceiling of team {team.id} is {team.max_priority}"
                scope.report.warn("running jobs above their team's priority ceiling", text)
            return
        seen.add(team.id)
        team = None if team.parent is None else about.teams.get(team.parent)


def _warn_of_names(job: Job, scope: Scope, about: Known) -> None:
    """Names that no node has shut a job out, or do nothing: that is worth a word."""
    if not about.cluster_known:
        return
    if job.gpu_types and not job.gpu_types.keys() <= about.gpu_types:
        for name in job.gpu_types.keys() - about.gpu_types:
            about.missing_types.setdefault(name, []).append(job.id)
    if job.exclude_nodes:
        for node in sorted(job.exclude_nodes - about.node_ids):
            scope.report.warn(
                "unknown nodes in exclude_nodes", f"job {job.id}: exclude_nodes names {node}, which is unknown"
            )
    if job.speed:
        for level in sorted(job.speed.keys() - about.rank_of.keys()):
            scope.report.warn(
                "unknown levels in speed", f"job {job.id}: speed names the level {show(level)}, which is unknown"
            )


def _at(instant: float) -> str:
    return f"{instant:.15g}"
