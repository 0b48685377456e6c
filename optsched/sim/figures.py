"""From what was noted to a result: sums, shares, quantiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from optsched.engine.state import State
from optsched.sim.accounts import AT_WORK, DOWN, DRAINING, HELD, IDLE, PLACES, Books
from optsched.sim.collect import JobNotes, Notes
from optsched.sim.results import (
    Gang,
    GangRun,
    GpuTime,
    Metrics,
    NodePlace,
    Preemptions,
    Promises,
    Rounds,
    Series,
    SpanUse,
    Waits,
)
from optsched.sim.runs import Run
from optsched.sim.settings import SimSettings
from optsched.sim.tally import SIZES, quantiles
from optsched.topology.tree import Tree
from optsched.values.cluster import Cluster
from optsched.values.ids import JobId
from optsched.values.plan import Tier

LEAST_WORK_S = 10.0
"""Shorter work counts as this long in slowdowns, so that they say nothing of jobs that did hardly anything."""


@dataclass(frozen=True, slots=True)
class Ended:
    """All that a simulation leaves behind, at `now` ms; `works` are the jobs' seconds of work."""

    notes: Notes
    books: Books
    state: State
    runs: Mapping[JobId, Run]
    works: Mapping[JobId, float]
    tree: Tree
    settings: SimSettings
    now: int


def gpu_time(end: Ended) -> GpuTime:
    """Return where every GPU·ms went; runs that go on count as if all that they trained were kept."""
    spent, parts = end.books.spent, list(end.notes.split)
    for run in end.runs.values():
        split = run.split(end.now, run.trained(end.now))
        for place, amount in enumerate(
            (split.useful, split.placement_loss, split.checkpoint, split.restart, split.lost)
        ):
            parts[place] += amount
    useful, loss, checkpoint, restart, lost = parts
    return GpuTime(
        sum(spent),
        useful,
        loss,
        checkpoint,
        restart,
        lost,
        draining=spent[DRAINING],
        held=spent[HELD],
        idle=spent[IDLE],
        down=spent[DOWN],
    )


def metrics(end: Ended) -> Metrics:
    """Return the figures of a simulation."""
    notes, used = end.notes, gpu_time(end)
    capacity = max(1, used.capacity)
    busy = GpuTime(*notes.by_last) if notes.by_last else used
    states = Counter(job.state if job.ended >= 0 else "not ended" for job in notes.jobs.values())
    errors, broken = notes.series.get("share_error", []), notes.series.get("fragmentation", [])
    return Metrics(
        utilisation=end.books.spent[AT_WORK] / capacity,
        goodput=used.useful / capacity,
        busy_utilisation=busy.at_work / max(1, busy.capacity),
        busy_goodput=busy.useful / max(1, busy.capacity),
        share_error=sum(errors) / max(1, len(errors)),
        fragmentation=sum(broken) / max(1, len(broken)),
        jobs=dict(sorted(states.items())),
        runs=dict(sorted(notes.runs.items())),
        failures=dict(sorted(notes.failures.items())),
        gpu_time=used,
        busy_gpu_time=busy,
        lost_gpu_ms=dict(sorted(notes.lost.items())),
        waits=tuple(_waits_by_size(end)),
        waits_by_team=tuple(_waits_by_team(end)),
        preemptions=_preemptions(notes),
        spans=_spans(end),
        promises=_promises(end),
        rounds=Rounds(
            sum(notes.sources.values()),
            dict(sorted(notes.sources.items())),
            quantiles(notes.gaps),
            sum(notes.sources.values()) - len(notes.gaps),
        ),
    )


def _waits_by_size(end: Ended) -> Iterable[Waits]:
    jobs = end.notes.jobs
    yield _waits("all", jobs, end)
    for name, least, most in SIZES:
        group = {job: each for job, each in jobs.items() if least <= each.gpus <= most}
        if group:
            yield _waits(name, group, end)


def _waits_by_team(end: Ended) -> Iterable[Waits]:
    groups: dict[str, dict[JobId, JobNotes]] = {}
    for job, each in end.notes.jobs.items():
        groups.setdefault(str(each.team), {})[job] = each
    for team in sorted(groups):
        yield _waits(team, groups[team], end)


def _waits(name: str, jobs: Mapping[JobId, JobNotes], end: Ended) -> Waits:
    waits, slowdowns, never = [], [], 0
    for job, each in jobs.items():
        until = each.started
        if until < 0:
            never += 1
            until = each.ended if each.ended >= 0 else end.now
        waits.append((until - each.submitted) / 1000.0)
        if each.state == "completed":
            slowdowns.append((each.ended - each.submitted) / 1000.0 / max(LEAST_WORK_S, end.works[job]))
    return Waits(name, len(jobs), never, quantiles(waits), quantiles(slowdowns))


def _preemptions(notes: Notes) -> Preemptions:
    counts = [each.preemptions for each in notes.jobs.values() if each.started >= 0]
    return Preemptions(
        total=sum(counts),
        jobs=sum(1 for each in counts if each),
        most=max(counts, default=0),
        per_job=sum(counts) / max(1, len(counts)),
        gpu_ms_lost=notes.lost.get("plan", 0),
    )


def _spans(end: Ended) -> tuple[SpanUse, ...]:
    totals = {span: list(use) for span, use in end.notes.spans.items()}
    for run in end.runs.values():
        use = totals.setdefault(run.span, [0, 0, 0])
        spent = (end.now - run.booked_at) * run.gpus
        use[0], use[1] = use[0] + 1, use[1] + spent
        use[2] += spent if len(run.nodes) > 1 else 0
    # Narrowest first; -1, the whole cluster, last.
    return tuple(SpanUse(end.tree.span_name(span), *totals[span]) for span in sorted(totals, reverse=True))


def _promises(end: Ended) -> Promises:
    kept, opened, late = 0, 0, []
    slack = round(end.settings.round_every_s * 1000)
    for each in end.notes.jobs.values():
        if each.promised < 0:
            continue
        if each.started < 0:
            opened += 1
        elif each.started <= each.promised + slack:
            kept += 1
        else:
            late.append((each.started - each.promised) / 1000.0)
    return Promises(kept + len(late) + opened, kept, len(late), opened, quantiles(late))


def series(end: Ended) -> Series:
    """Return the samples, list by list."""
    found = end.notes.series

    def whole(name: str) -> tuple[int, ...]:
        return tuple(int(value) for value in found.get(name, ()))

    def named(prefix: str) -> dict[str, tuple[int, ...]]:
        names = (name for name in found if name.startswith(prefix))
        return {name.removeprefix(prefix): whole(name) for name in names}

    return Series(
        at_s=tuple(found.get("at", ())),
        places={name: whole(f"place {name}") for name in PLACES},
        tiers={tier.value: whole(f"tier {tier.value}") for tier in Tier},
        queued_jobs=whole("queued_jobs"),
        queued_gpus=whole("queued_gpus"),
        fragmentation=tuple(found.get("fragmentation", ())),
        share_error=tuple(found.get("share_error", ())),
        team_held=named("held "),
        team_entitled=named("entitled "),
        largest_free=named("largest "),
    )


def gangs(end: Ended) -> tuple[Gang, ...]:
    """Return the large gangs, by submission; a run that goes on ends now."""
    found = []
    for job, notes in end.notes.gangs.items():
        known = end.notes.jobs[job]
        runs = [
            each if each.why else GangRun(each.start_s, end.now / 1000.0, each.gpus, each.span, "", each.where)
            for each in notes.runs
        ]
        found.append(
            Gang(
                str(job),
                str(known.team),
                known.gpus,
                known.submitted / 1000.0,
                known.ended / 1000.0 if known.ended >= 0 else None,
                known.state if known.ended >= 0 else "running" if job in end.runs else "queued",
                tuple(runs),
                tuple(notes.promises),
            )
        )
    return tuple(found)


def node_places(cluster: Cluster) -> tuple[NodePlace, ...]:
    """Return where every node lies."""
    return tuple(
        NodePlace(
            str(node.id),
            node.gpus,
            {str(level): node.domains[level] for level in cluster.levels if level in node.domains},
        )
        for node in cluster.nodes
    )
