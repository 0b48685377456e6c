"""What a round does with one job, as text or JSON."""

from __future__ import annotations

from optsched.cli.facts import Facts
from optsched.cli.render_jobs import reason_words, size, start_notes, waiting_notes
from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, count, duration, gpu_hours, joined, listed
from optsched.files.plan_json import Plain, move_to_dict, preemption_to_dict, start_to_dict, waiting_to_dict, write
from optsched.values.job import Job, JobState
from optsched.values.plan import Move, Preemption, Start, Waiting
from optsched.values.snapshot import Snapshot

Answer = Waiting | Start | Preemption | Move | None
"""What happens to a job; None: it runs on unchanged."""


def outcome(job: Job, answer: Answer) -> str:
    """Return in a word what happens to a job."""
    if isinstance(answer, Waiting):
        return "queued"
    if isinstance(answer, Start):
        return "starts"
    if isinstance(answer, Preemption):
        return "stopped"
    if isinstance(answer, Move):
        return "moved" if size(answer.placement) == job.placed_gpus else "resized"
    return "runs_on" if job.state is JobState.RUNNING else "queued"


def explain_to_json(job: Job, answer: Answer) -> str:
    """Return {"job", "outcome", "entry"}: the entry is the one that a plan has for this job, null where it runs on."""
    entry: Plain | None = None
    if isinstance(answer, Waiting):
        entry = waiting_to_dict(answer)
    elif isinstance(answer, Start):
        entry = start_to_dict(answer)
    elif isinstance(answer, Preemption):
        entry = preemption_to_dict(answer)
    elif isinstance(answer, Move):
        entry = move_to_dict(answer)
    return write({"job": job.id, "outcome": outcome(job, answer), "entry": entry})


def explain_to_text(snapshot: Snapshot, job: Job, answer: Answer, *, width: int, style: Style) -> str:
    """Return the answer as text of at most `width` columns."""
    facts = Facts(snapshot)
    lines = [*_who(snapshot, facts, job, width, style), ""]
    if isinstance(answer, Waiting):
        lines += _paragraphs("Waits", reason_words(answer.reason), waiting_notes(answer), width, style.wait)
    elif isinstance(answer, Start):
        lines += _start(facts, answer, width, style)
    elif isinstance(answer, Preemption):
        cost = f"costs {gpu_hours(answer.cost_gpu_s)} GPU-h, {duration(answer.lost_work_s)} of work of each GPU is lost"
        notes = [f"has {duration(answer.grace_s)} to write a checkpoint and exit", cost]
        lines += _paragraphs("Is stopped", f"for {_names(answer.beneficiaries)}", notes, width, style.bad)
        lines += _others(facts, answer.beneficiaries, width, style)
    elif isinstance(answer, Move):
        lines += _move(facts, job, answer, width, style)
    elif job.state is JobState.RUNNING:
        lines += _paragraphs("Runs on unchanged", "", [facts.places.where(job.placement)], width, style.good)
    else:
        lines += _paragraphs("Stays queued", "", [], width, style.wait)
    return "\n".join(lines) + "\n"


def _who(snapshot: Snapshot, facts: Facts, job: Job, width: int, style: Style) -> list[str]:
    since = job.started_at if job.state is JobState.RUNNING and job.started_at is not None else job.submitted_at
    word = "runs" if job.state is JobState.RUNNING else "queued"
    flexible = f"{job.min_gpus:,} to {job.max_gpus:,} GPUs" if job.elastic else count(job.gpus, "GPU")
    asks = [
        f"inside one {clean(job.required)}" if job.required else "",
        f"{clean(job.preferred)} preferred" if job.preferred else "",
        "" if job.preemptible else "not preemptible",
    ]
    head = joined(
        [
            f"{clean(job.id)}",
            f"team {facts.team(job.id)}",
            f"priority {facts.priority(job.id)}",
            flexible,
            *asks,
            f"{word} for {duration(max(snapshot.now - since, 0))}",
        ]
    )
    return [style.title(line) for line in wrapped(head, width, 0)]


def _start(facts: Facts, answer: Start, width: int, style: Style) -> list[str]:
    where, *notes = start_notes(facts, None, answer)
    lines = _paragraphs("Starts", where, notes, width, style.good)
    return lines + _others(facts, answer.waits_for, width, style)


def _move(facts: Facts, job: Job, answer: Move, width: int, style: Style) -> list[str]:
    new, old = size(answer.placement), job.placed_gpus
    reason = f"for {_names(answer.beneficiaries)}" if answer.beneficiaries else ""
    change = f"{old:,} → {new:,} GPUs" if new != old else ""
    notes = [
        f"{facts.places.where(job.placement)} → {facts.places.where(answer.placement)}",
        f"costs {gpu_hours(answer.cost_gpu_s)} GPU-h",
    ]
    title = "Is moved" if new == old else "Is resized"
    return _paragraphs(title, joined([change, reason]), notes, width, style.name) + _others(
        facts, answer.beneficiaries, width, style
    )


def _others(facts: Facts, jobs: tuple[str, ...], width: int, style: Style) -> list[str]:
    """Return who the other jobs are."""
    known = [facts.jobs[job] for job in facts.jobs if job in jobs]
    columns = [Column("job", least=16), Column("team", least=8), Column("prio"), Column("GPUs", right=True), Column("")]
    rows = [
        Row(
            [
                clean(job.id),
                facts.team(job.id),
                facts.priority(job.id),
                f"{facts.gpus(job.id):,}",
                f"{job.state.value} for {duration(max(_since(facts, job), 0))}",
            ]
        )
        for job in known
    ]
    return ["", *table(columns, rows, width, style.faint)] if rows else []


def _since(facts: Facts, job: Job) -> float:
    began = job.started_at if job.state is JobState.RUNNING and job.started_at is not None else job.submitted_at
    return facts.snapshot.now - began


def _paragraphs(title: str, rest: str, notes: list[str], width: int, paint: object) -> list[str]:
    colour = paint if callable(paint) else str
    head = f"{title}: {rest}" if rest else title
    first, *more = wrapped(head, width, 0)
    lines = [colour(first), *more]
    for note in notes:
        lines += wrapped(note, width, 2)
    return lines


def _names(jobs: tuple[str, ...]) -> str:
    return listed([clean(job) for job in jobs], 5)
