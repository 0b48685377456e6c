"""What the service answers, as text: jobs, nodes, teams, rounds, reservations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, count, duration, from_now, gpu_hours, instant, joined, listed, number, percent
from optsched.client.words import word

if TYPE_CHECKING:
    from optsched.wire.v1 import scheduler_pb2 as api
    from optsched.wire.v1 import types_pb2 as t

MOST_NODES = 4
"""Nodes of a placement that are named in a line."""


def state_paint(state: str, style: Style) -> str:
    """Return a state of a job or a node in its colour."""
    if state in ("running", "completed", "up"):
        return style.good(state)
    if state in ("failed", "cancelled", "down"):
        return style.bad(state)
    return style.wait(state)


def places(placement: Sequence[t.NodePlacement]) -> str:
    """Return where GPUs are: "n1 × 8, n2 × 8"."""
    named = [f"{clean(each.node)} × {each.gpus}" for each in placement[:MOST_NODES]]
    more = len(placement) - len(named)
    return ", ".join(named) + (f" and {count(more, 'more node')}" if more else "")


def priority(job: t.Job) -> str:
    """Return a job's priority: its class, else its number."""
    return clean(job.priority_class) or str(job.priority)


def why(job: t.Job) -> str:
    """Return where a job is, or why it is nowhere."""
    if word(job) in ("starting", "running"):
        return places(job.placement)
    return clean(job.reason) or clean(job.blocked_by)


def jobs_to_text(jobs: Sequence[t.Job], now_s: float, width: int, style: Style) -> str:
    """Return a table of jobs."""
    columns = [
        Column("job", least=12, paint=style.name),
        Column("team", least=6),
        Column("user", least=6),
        Column("prio", right=True),
        Column("GPUs", right=True),
        Column("state"),
        Column("age", right=True),
        Column("where or why", least=16),
    ]
    rows = [
        Row(
            (
                clean(job.id),
                clean(job.team),
                clean(job.user),
                priority(job),
                number(job.gang_size),
                word(job),
                duration(max(0.0, round(now_s - job.submitted_at))),
                why(job),
            )
        )
        for job in jobs
    ]
    return "\n".join(table(columns, rows, width, style.faint, indent=0))


def job_to_text(job: t.Job, now_s: float, width: int, style: Style) -> str:
    """Return all that is known of one job."""
    spec = job.spec
    head = joined(
        (f"team {clean(job.team)}", f"user {clean(job.user)}" if job.user else "", f"priority {priority(job)}")
    )
    lines = [f"{style.name(clean(job.id))} · {state_paint(word(job), style)} · {count(job.gang_size, 'GPU')} · {head}"]
    facts: list[tuple[str, str]] = [
        ("why", clean(job.reason)),
        ("on", places(job.placement)),
        ("room kept", places(job.claim)),
        ("submitted", f"{instant(job.submitted_at)} ({from_now(job.submitted_at, now_s)})"),
        ("started", _moment(job, "started_at", now_s)),
        ("run", f"{job.run}" if job.run else ""),
        ("ended early", _early(job)),
        ("checkpoint", _checkpoint(job, now_s)),
        ("killed", _moment(job, "kill_at", now_s)),
        ("not before", _moment(job, "not_before", now_s)),
        ("expected", _moment(job, "start_estimate_at", now_s)),
        ("command", clean(" ".join(spec.command))),
        ("folder", clean(spec.working_directory)),
    ]
    for name, text in facts:
        if text:
            lines += _field(name, text, width, style)
    return "\n".join(lines)


def _field(name: str, text: str, width: int, style: Style) -> list[str]:
    first, *rest = wrapped(text, width, 14, hang=0)
    return [f"  {style.faint(f'{name:<11}')} {first.strip()}", *rest]


def _moment(job: t.Job, field: str, now_s: float) -> str:
    if not job.HasField(field):
        return ""
    at = float(getattr(job, field))
    return f"{instant(at)} ({from_now(at, now_s)})"


def _early(job: t.Job) -> str:
    parts = (
        (job.preemptions, "preemption"),
        (job.migrations, "move"),
        (job.infra_failures, "failure of machines"),
        (job.job_failures, "failure of its own"),
    )
    plural = {"failure of machines": "failures of machines", "failure of its own": "failures of its own"}
    return ", ".join(count(many, noun, plural.get(noun)) for many, noun in parts if many)


def _checkpoint(job: t.Job, now_s: float) -> str:
    if not job.HasField("last_checkpoint"):
        return ""
    newest = max(job.checkpoints, key=lambda each: each.taken_at, default=None)
    name = f"{clean(newest.version)}, " if newest is not None and newest.version else ""
    return f"{name}{from_now(job.last_checkpoint, now_s)}"


def nodes_to_text(nodes: Sequence[t.Node], now_s: float, width: int, style: Style) -> str:
    """Return a table of nodes."""
    columns = [
        Column("node", least=10, paint=style.name),
        Column("state"),
        Column("GPUs", right=True),
        Column("free", right=True),
        Column("type"),
        Column("agent"),
        Column("runs", least=10),
        Column("why", least=10),
    ]
    rows = [
        Row(
            (
                clean(node.spec.id),
                word(node),
                number(node.healthy_gpus),
                number(node.free_gpus),
                clean(node.spec.gpu_type),
                _agent(node, now_s),
                listed([clean(each.job) for each in node.bookings], 3),
                clean(node.reason),
            )
        )
        for node in nodes
    ]
    return "\n".join(table(columns, rows, width, style.faint, indent=0))


def _agent(node: t.Node, now_s: float) -> str:
    if node.connected:
        return "connected"
    return f"gone {duration(max(0.0, round(now_s - node.last_seen_at)))}" if node.HasField("last_seen_at") else "none"


def teams_to_text(teams: Iterable[t.TeamStatus], width: int, style: Style) -> str:
    """Return a table of teams."""
    columns = [
        Column("team", least=8, paint=style.name),
        Column("parent"),
        Column("weight", right=True),
        Column("quota", right=True),
        Column("limit", right=True),
        Column("running", right=True),
        Column("entitled", right=True),
        Column("waiting", right=True),
        Column("share", right=True),
    ]
    rows = []
    for status in teams:
        team = status.team
        rows.append(
            Row(
                (
                    clean(team.id),
                    clean(team.parent),
                    number(team.weight if team.HasField("weight") else 1.0),
                    _amount(team, "quota"),
                    _amount(team, "limit"),
                    number(status.running_gpus_below),
                    number(sum(status.entitlement_gpus.values())),
                    f"{number(status.queued_gpus)} in {count(status.queued_jobs, 'job')}"
                    if status.queued_jobs
                    else "0",
                    percent(status.dominant_share),
                )
            )
        )
    return "\n".join(table(columns, rows, width, style.faint, indent=0))


def _amount(team: t.Team, field: str) -> str:
    if not team.HasField(field):
        return "-"
    named: t.Amounts = getattr(team, field)
    if named.gpus_by_type:
        return ", ".join(f"{number(gpus)} {clean(kind)}" for kind, gpus in sorted(named.gpus_by_type.items()))
    return number(named.gpus) if named.HasField("gpus") else "-"


def rounds_to_text(rounds: Sequence[api.Round], now_s: float, width: int, style: Style) -> str:
    """Return a table of rounds."""
    columns = [
        Column("round", right=True, paint=style.name),
        Column("when", right=True),
        Column("plan of", least=6),
        Column("gap", right=True),
        Column("bill GPU-h", right=True),
    ]
    rows = [
        Row((str(each.id), from_now(each.at, now_s), solver(each.info), gap(each.info), bill(each.bill)))
        for each in rounds
    ]
    return "\n".join(table(columns, rows, width, style.faint, indent=0))


def solver(info: t.RoundInfo) -> str:
    """Return whose plan went out."""
    return {"cp_sat": "CP-SAT", "greedy": "greedy", "no_change": "no change"}.get(word(info, "source"), "")


def gap(info: t.RoundInfo) -> str:
    """Return how far from the best at most."""
    return percent(info.gap) if info.HasField("gap") else "not known"


def bill(entry: t.Bill) -> str:
    """Return what a plan costs, in GPU-hours."""
    parts = ("placement_loss", "preemption_cost", "migration_cost", "resize_cost", "hold_cost", "domain_cost")
    return gpu_hours(sum(getattr(entry, part) for part in parts))


def round_to_text(found: api.Round, now_s: float, width: int, style: Style) -> str:
    """Return one round with what it decided."""
    plan = found.plan
    lines = [
        f"round {style.name(str(found.id))} · {instant(found.at)} ({from_now(found.at, now_s)}) · "
        f"{solver(found.info)} · gap {gap(found.info)} · bill {bill(found.bill)} GPU-h"
    ]
    groups: tuple[tuple[str, Iterable[str], Callable[[str], str]], ...] = (
        ("starts", (f"{clean(each.job)}: {places(each.placement)}" for each in plan.starts), style.good),
        ("stops", (_stop(each) for each in plan.preemptions), style.bad),
        ("moves", (f"{clean(each.job)}: {places(each.placement)}" for each in plan.migrations), style.wait),
        ("resizes", (f"{clean(each.job)}: {places(each.placement)}" for each in plan.resizes), style.wait),
        ("reserves", (f"{clean(each.job)}: {clean(each.domain)}" for each in plan.reservations), style.wait),
        ("waits", (f"{clean(each.job)}: {clean(each.detail)}" for each in plan.queued), style.faint),
    )
    for name, entries, paint in groups:
        for entry in entries:
            first, *rest = wrapped(entry, width, 12)
            lines += [f"  {paint(f'{name:<9}')} {first.strip()}", *rest]
    return "\n".join(lines)


def _stop(each: t.PlannedPreemption) -> str:
    whom = ", ".join(map(clean, each.beneficiaries))
    cost = f"{duration(each.lost_work_s)} of work lost, {duration(each.grace_s)} of grace"
    return f"{clean(each.job)} for {whom}: {cost}"


def reservations_to_text(entries: Sequence[t.Reservation], now_s: float, width: int, style: Style) -> str:
    """Return a table of reservations."""
    columns = [
        Column("reservation", least=10, paint=style.name),
        Column("kind"),
        Column("from"),
        Column("until"),
        Column("what", least=12),
    ]
    rows = [
        Row(
            (
                clean(each.id),
                word(each, "kind") if each.kind else "maintenance",
                from_now(each.start_at, now_s),
                from_now(each.end_at, now_s),
                _reserved(each),
            )
        )
        for each in entries
    ]
    return "\n".join(table(columns, rows, width, style.faint, indent=0))


def _reserved(each: t.Reservation) -> str:
    if not each.gpus:
        return listed([clean(node) for node in each.nodes], 6)
    within = f" in {clean(each.within)}" if each.within else ""
    whom = listed([clean(name) for name in (*each.teams, *each.jobs)], 4)
    return f"{count(each.gpus, 'GPU')}{within} for {whom}"


def explanation_to_text(answer: api.ExplainJobResponse, now_s: float, width: int, style: Style) -> str:
    """Return what the next round does with a job, and why."""
    job, fate = answer.job, answer.WhichOneof("fate")
    state = word(job)
    since = f"queued for {duration(max(0.0, round(now_s - job.submitted_at)))}" if state == "queued" else state
    head = f"team {clean(job.team)} · priority {priority(job)} · {count(job.gang_size, 'GPU')} · {since}"
    lines = [f"{style.name(clean(job.id))} · {head}", ""]
    if fate == "waits":
        lines += [f"{style.wait('Waits:')} {clean(answer.waits.reason).replace('_', ' ')}"]
        lines += wrapped(clean(answer.waits.detail), width, 2) if answer.waits.detail else []
        if answer.waits.unblock.text:
            lines += wrapped(f"→ Would help: {clean(answer.waits.unblock.text)}", width, 2)
    elif fate == "starts":
        lines += [f"{style.good('Starts:')} {places(answer.starts.placement)}"]
        if answer.starts.waits_for:
            lines += wrapped(f"once {listed([clean(each) for each in answer.starts.waits_for], 6)} gave way", width, 2)
    elif fate == "stops":
        lines += [f"{style.bad('Is stopped:')} {_stop(answer.stops)}"]
    elif fate == "moves":
        lines += [f"{style.wait('Goes on elsewhere:')} {places(answer.moves.placement)}"]
    elif state == "running":
        lines += [f"{style.good('Runs on:')} {places(job.placement)}"]
    else:
        lines += wrapped(f"Nothing is planned for it: it is {state}. {clean(job.reason)}".rstrip(), width, 0)
    return "\n".join(lines)
