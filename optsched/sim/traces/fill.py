"""A trace to a workload: what the trace lacks is drawn from stated models, the same for the same seed.

Every model is a function of its own draws, so that turning one off changes nothing in the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.sim.traces.shapes import Shaper
from optsched.sim.traces.tables import Floats, bands_of
from optsched.sim.traces.teams import share_out, with_quotas
from optsched.sim.traces.walltimes import requested
from optsched.sim.workload import Arrival, Ending, Workload
from optsched.values.cluster import Cluster
from optsched.values.ids import JobId, TeamId, UserId
from optsched.values.job import Checkpoint, Job
from optsched.values.profile import Profile
from optsched.values.trace import Outcome, Trace, TraceJob

NO_GPUS = "jobs that ask for no GPU"
NEVER_RAN = "jobs that never ran, with no duration to draw from their like"
TOO_LARGE = "jobs that no part of this cluster could hold"

_PRIORITY_OF = {"hp": 1, "ls": 1, "ls/hn": 1, "ls/cn": 2, "spot": 3, "be": 3, "burstable": 2}
"""Which class, from the most urgent, the words of Alibaba's traces stand for."""


@dataclass(frozen=True, slots=True)
class Filling:
    """What is drawn where the trace is silent; shares are 0 to 1.

    `outcomes` are the rates of completed, cancelled and failed jobs among Philly's 112,956 GPU jobs (AcmeTrace,
    cluster_summary.csv). `teams` are as many as are made up, the n-th with 1/n of the jobs of the first; `quota_share`
    of the cluster's GPUs is promised to teams, in proportion to their work. `classes` are the shares of the second to
    fourth priority class, `required_share` of gangs insist on the level that they would prefer,
    `checkpoint_share` of jobs checkpoint every `checkpoint_s`, half of those on signal too: all of these are assumed.
    `longest_s` bounds time limits, in seconds.
    """

    seed: int = 0
    outcomes: tuple[float, float, float] = (0.604, 0.090, 0.305)
    teams: int = 12
    quota_share: float = 0.8
    classes: tuple[float, float, float] = (0.2, 0.5, 0.3)
    required_share: float = 0.1
    checkpoint_share: float = 0.7
    checkpoint_s: tuple[float, ...] = (600.0, 1800.0, 3600.0)
    longest_s: float = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Filled:
    """A workload, how many jobs were left out for which reason, and how many had what drawn."""

    workload: Workload
    left_out: Mapping[str, int]
    drawn: Mapping[str, int]


def fill(trace: Trace, cluster: Cluster, filling: Filling | None = None, profile: Profile | None = None) -> Filled:
    """Return the workload of a trace on a cluster.

    Durations that are missing are drawn from Philly's, by size; outcomes, teams, priorities, time limits, how a gang
    is cut and where it wants to lie, and checkpoints where the trace does not say. A share of a GPU counts as one; a
    job without a GPU, or larger than the part of the cluster that it may use, is left out.
    """
    model = filling or Filling()
    left_out: Counter[str] = Counter()
    drawn: Counter[str] = Counter()
    shaper = Shaper(cluster)
    jobs = []
    for job in trace.jobs:
        if job.gpus <= 0:
            left_out[NO_GPUS] += 1
        elif not shaper.fits(job):
            left_out[TOO_LARGE] += 1
        else:
            jobs.append(job)
    dice = _Dice(model.seed, len(jobs))
    durations = _durations(jobs, dice, drawn)
    outcomes = _outcomes(jobs, model, dice, drawn)
    work = np.array([max(1, np.ceil(job.gpus)) for job in jobs]) * durations
    teams = share_out([job.team for job in jobs], work, model.teams, dice("teams"))
    drawn["GPU type, none of the trace's being there"] = sum(
        bool(job.gpu_types) and not shaper.types(job) for job in jobs
    )
    if jobs and not any(job.team for job in jobs):
        drawn["team"] = len(jobs)
    limits = requested(durations, dice("walltime"), model.longest_s)
    drawn["time limit"] = sum(job.requested_s is None for job in jobs)
    classes = tuple(sorted((profile or Profile()).classes.items(), key=lambda entry: -entry[1]))
    priorities = _priorities(jobs, model, classes, dice, drawn)
    checkpoints = _checkpoints(jobs, model, dice)
    insists = dice("topology") < model.required_share
    first_s = jobs[0].submit_s if jobs else 0.0
    arrivals = []
    ids = _ids([job.id for job in jobs])
    for index, job in enumerate(jobs):
        limit_s = job.requested_s if job.requested_s is not None else float(limits[index])
        shape = shaper.shape(job, insists=bool(insists[index]))
        name, rank = classes[priorities[index]]
        whole = Job(
            id=JobId(ids[index]),
            team=TeamId(teams[index]),
            user=UserId(_id(job.user) if job.user else ""),
            priority=rank,
            priority_class=name,
            estimated_runtime_s=limit_s,
            checkpoint=checkpoints[index],
            submitted_at=job.submit_s - first_s,
            gpus=shape.gpus,
            gpus_per_node=shape.gpus_per_node,
            gpus_per_task=shape.gpus_per_task,
            cpus=shape.cpus,
            memory_gb=shape.memory_gb,
            gpu_types=shape.gpu_types,
            required=shape.required,
            preferred=shape.preferred,
        )
        arrivals.append(Arrival(job.submit_s - first_s, whole, float(durations[index]), outcomes[index]))
    gpus = sum(node.healthy_gpus for node in cluster.nodes)
    workload = Workload(trace.name, tuple(arrivals), with_quotas(teams, work, gpus, model.quota_share))
    return Filled(workload, dict(left_out), {what: count for what, count in drawn.items() if count})


class _Dice:
    """Uniform numbers, a row for each job and model: a model's draws do not depend on what else is drawn."""

    def __init__(self, seed: int, count: int) -> None:
        self._seed = seed
        self._count = count

    def __call__(self, model: str) -> Floats:
        key = [self._seed, *model.encode()]
        return np.random.default_rng(key).random(self._count)


def _durations(jobs: Sequence[TraceJob], dice: _Dice, drawn: Counter[str]) -> Floats:
    """Return seconds for each job, at least 1; those that are missing from Philly's jobs of the same size."""
    sizes = np.array([job.gpus for job in jobs], dtype=float)
    table = bands_of("philly_durations", "gpus_up_to", upper_inside=True)
    made_up = table.draw(sizes, dice("duration"), log=True)
    given = np.array([np.nan if job.duration_s is None else job.duration_s for job in jobs], dtype=float)
    drawn["duration"] = int(np.isnan(given).sum())
    return np.maximum(np.where(np.isnan(given), made_up, given), 1.0)


def _outcomes(jobs: Sequence[TraceJob], model: Filling, dice: _Dice, drawn: Counter[str]) -> list[Ending]:
    completed, cancelled, failed = model.outcomes
    lines = np.cumsum([completed, cancelled, failed]) / (completed + cancelled + failed)
    made_up = np.searchsorted(lines, dice("outcome"), side="right")
    kinds = (Ending.COMPLETED, Ending.CANCELLED, Ending.FAILED)
    known = {
        Outcome.COMPLETED: Ending.COMPLETED,
        Outcome.CANCELLED: Ending.CANCELLED,
        Outcome.FAILED: Ending.FAILED,
    }
    drawn["outcome"] = sum(job.outcome is None for job in jobs)
    return [known[job.outcome] if job.outcome is not None else kinds[made_up[i]] for i, job in enumerate(jobs)]


def _priorities(
    jobs: Sequence[TraceJob], model: Filling, classes: Sequence[tuple[str, int]], dice: _Dice, drawn: Counter[str]
) -> list[int]:
    """Return the index in `classes`, the most urgent first: what a trace's word stands for, else drawn."""
    lines = np.cumsum(model.classes) / sum(model.classes)
    made_up = 1 + np.searchsorted(lines, dice("priority"), side="right")
    named = {name.lower(): index for index, (name, _) in enumerate(classes)}
    found = []
    for index, job in enumerate(jobs):
        word = job.priority.lower()
        place = named.get(word, _PRIORITY_OF.get(word))
        drawn["priority"] += place is None
        found.append(min(int(made_up[index]) if place is None else place, len(classes) - 1))
    return found


def _checkpoints(jobs: Sequence[TraceJob], model: Filling, dice: _Dice) -> list[Checkpoint]:
    """Return how each job checkpoints. Larger gangs block and restart longer.

    Restarts: up to 2 minutes for small jobs (SIA gives 25 to 250 s), 5 minutes up to 64 GPUs and 10 above (a quarter
    to a half of the 5 to 20 minutes that Meta's "Revisiting Reliability" gives for large gangs).
    """
    has, on_signal = dice("checkpoint") < model.checkpoint_share, dice("signal") < 0.5
    which = (dice("interval") * len(model.checkpoint_s)).astype(int)
    found = []
    for index, job in enumerate(jobs):
        cost_s, restart_s = (5.0, 60.0) if job.gpus <= 1 else (10.0, 120.0) if job.gpus <= 8 else (20.0, 300.0)
        if job.gpus > 64:
            cost_s, restart_s = 30.0, 600.0
        if has[index]:
            interval_s = model.checkpoint_s[which[index]]
            found.append(Checkpoint(interval_s, cost_s, restart_s, on_signal=bool(on_signal[index])))
        else:
            found.append(Checkpoint(restart_s=restart_s))
    return found


def _id(text: str) -> str:
    """Return a name that files take: letters, digits and a few signs."""
    plain = re.sub(r"[^A-Za-z0-9._:@+-]", "_", text)[:200]
    return plain if re.match(r"[A-Za-z0-9]", plain) else f"j{plain}"


def _ids(names: Sequence[str]) -> list[str]:
    """Return such names, with a number behind those that would not be told apart."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        plain = _id(name)
        seen[plain] += 1
        found.append(plain if seen[plain] == 1 else f"{plain}:{seen[plain]}")
    return found
