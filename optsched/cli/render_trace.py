"""What is in a trace, as text or JSON."""

from __future__ import annotations

import dataclasses

from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, count, duration, gpu_hours, joined, number, percent
from optsched.files.plan_json import write
from optsched.sim.traces.facts import NOT_TOLD, Facts, Quantiles
from optsched.values.trace import Trace

MOST_TEAMS = 10


def facts_to_json(trace: Trace, facts: Facts) -> str:
    """Return all that is known of a trace as one object."""
    about: dict[str, object] = {"name": trace.name, "format": trace.format}
    if trace.starts_at:
        about["starts_at"] = trace.starts_at
    plain = dataclasses.asdict(facts)
    for key in ("outcomes", "gpu_types"):
        plain[key] = dict(plain[key])
    plain["sizes"] = [{"gpus": entry.pop("label")} | entry for entry in plain["sizes"]]
    return write(about | plain | {"left_out": dict(trace.left_out), "notes": list(trace.notes)})


def facts_to_text(trace: Trace, facts: Facts, *, width: int, style: Style) -> str:
    """Return a trace as text of at most `width` columns."""
    from_when = f"from {trace.starts_at.replace('T', ' ')}" if trace.starts_at else ""
    head = joined(
        [count(facts.jobs, "job"), f"{gpu_hours(facts.gpu_s)} GPU-h", f"over {duration(facts.span_s)}", from_when]
    )
    lines = [style.title(clean(trace.name)) + style.faint(f"  {head}")]
    for label, text in (
        ("Format", trace.format),
        ("GPUs", _gpus(facts)),
        ("Durations", _durations(facts.durations, facts.durations_known, facts.jobs)),
        ("Time limits", f"known for {facts.requests_known:,}" if facts.requests_known else "none told"),
        ("Endings", _endings(facts)),
        ("Teams", f"{len(facts.teams):,}" if facts.teams else "none told"),
        ("Users", f"{facts.users:,}" if facts.users else "none told"),
        ("Types", ", ".join(f"{clean(name)} {n:,}" for name, n in facts.gpu_types[:8]) or "none told"),
        ("Left out", "; ".join(f"{n:,} {reason}" for reason, n in trace.left_out.items())),
        *(("Note", note) for note in trace.notes),
    ):
        if text:
            lines += wrapped(f"{label:<13}{text}", width, 2, hang=13)
    if facts.offered is not None:
        lines += ["", *_offered(facts, width, style)]
    lines += ["", style.title("Sizes")]
    lines += _sizes(facts, width, style)
    if facts.teams:
        lines += [
            "",
            style.title("Teams")
            + style.faint(f"  the {MOST_TEAMS} with most GPU time" * (len(facts.teams) > MOST_TEAMS)),
        ]
        lines += _teams(facts, width, style)
    return "\n".join(lines) + "\n"


def _gpus(facts: Facts) -> str:
    without = facts.jobs - facts.gpu_jobs
    return joined(
        [
            f"{number(round(facts.gpus_asked, 2))} asked for in all",
            f"{count(without, 'job')} without any" if without else "",
            f"{count(facts.shared_jobs, 'job')} with shares of GPUs" if facts.shared_jobs else "",
        ]
    )


def _endings(facts: Facts) -> str:
    if facts.outcomes == ((NOT_TOLD, facts.jobs),):
        return "none told"
    return ", ".join(f"{clean(word)} {percent(n / facts.jobs)}" for word, n in facts.outcomes[:6])


def _durations(found: Quantiles, known: int, jobs: int) -> str:
    if found.p50_s is None or found.p90_s is None or found.p99_s is None or found.max_s is None:
        return "none told"
    missing = f"not told for {jobs - known:,}" if known < jobs else ""
    shown = f"median {duration(found.p50_s)}, 90 % below {duration(found.p90_s)}, 99 % below {duration(found.p99_s)}"
    return joined([f"{shown}, at most {duration(found.max_s)}", missing])


def _offered(facts: Facts, width: int, style: Style) -> list[str]:
    found = facts.offered
    assert found is not None, "the caller has looked"
    if found.peak_gpus is None:
        return [style.title("Load"), *wrapped("not known: no job tells how long it ran", width, 2)]
    if found.load is None:
        load = "all jobs are submitted in one instant, so that there is no load to tell"
    else:
        window = f"in the {duration(facts.span_s)} from the first submission to the last"
        load = f"{found.load:.2f} of {found.gpus:,} GPUs {window}, the work of all jobs counted"
    lines = [style.title("Load"), *wrapped(load, width, 2)]
    if found.mean_gpus is not None and found.over_share is not None:
        run = (
            f"if every job started at once, {number(round(found.mean_gpus, 1))} GPUs on average, at most "
            f"{number(round(found.peak_gpus, 1))} at a time, and more than {found.gpus:,} for "
            f"{percent(found.over_share)} of the {duration(found.run_s)} from the first submission to the last end"
        )
        lines += wrapped(run, width, 2)
    return lines


def _sizes(facts: Facts, width: int, style: Style) -> list[str]:
    columns = [
        Column("GPUs", right=True),
        *(Column(name, right=True) for name in ("jobs", "share", "GPU-h", "share", "median", "p90", "p99", "longest")),
    ]
    rows = []
    for size in facts.sizes:
        times = [size.durations.p50_s, size.durations.p90_s, size.durations.p99_s, size.durations.max_s]
        rows.append(
            Row(
                [
                    size.label,
                    f"{size.jobs:,}",
                    percent(size.jobs / facts.jobs),
                    gpu_hours(size.gpu_s),
                    percent(size.gpu_s / facts.gpu_s) if facts.gpu_s else "-",
                    *("-" if seconds is None else duration(seconds) for seconds in times),
                ]
            )
        )
    return table(columns, rows, width, style.faint)


def _teams(facts: Facts, width: int, style: Style) -> list[str]:
    columns = [
        Column("team", least=12, paint=style.name),
        *(Column(name, right=True) for name in ("jobs", "share", "GPU-h", "share")),
    ]
    rows = [
        Row(
            [
                clean(entry.team),
                f"{entry.jobs:,}",
                percent(entry.jobs / facts.jobs),
                gpu_hours(entry.gpu_s),
                percent(entry.gpu_s / facts.gpu_s) if facts.gpu_s else "-",
            ]
        )
        for entry in facts.teams[:MOST_TEAMS]
    ]
    return table(columns, rows, width, style.faint)
