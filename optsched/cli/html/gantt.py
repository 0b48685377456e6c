"""Large gangs through time: when each waited and ran, at which span, and the starts that it was promised."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.cli.html.draw import RIGHT, WIDTH, Scale, box, legend, place, rule, svg, text_of, time_axis, words
from optsched.cli.words import duration
from optsched.sim.results import Gang, GangRun, Result

MOST = 24
"""Gangs that are drawn: the largest."""

ROW, HEAD, FOOT, LABEL = 15, 6, 20, 92
MOST_PROMISES = 12


def gangs_of(results: Sequence[Result]) -> list[str]:
    """Return the names of the gangs to draw, the same for all results, in the order of their submission."""
    found: dict[str, Gang] = {}
    for result in results:
        for gang in result.gangs:
            found.setdefault(gang.job, gang)
    largest = sorted(found.values(), key=lambda gang: (-gang.gpus, gang.submitted_s, gang.job))[:MOST]
    return [gang.job for gang in sorted(largest, key=lambda gang: (gang.submitted_s, gang.job))]


def spans_of(results: Sequence[Result]) -> list[str]:
    """Return the spans, narrowest first as far as the levels of the nodes tell."""
    levels = list(results[0].nodes[0].domains) if results and results[0].nodes else []
    order = ["node", *reversed(levels), "cluster"]
    used = {run.span for result in results for gang in result.gangs for run in gang.runs}
    return sorted(used, key=lambda span: (order.index(span) if span in order else len(order), span))


def gantt(result: Result, jobs: Sequence[str], spans: Sequence[str], end_s: float) -> str:
    """Return the picture of one result; `end_s` is the end of the time axis, the same for all."""
    x = Scale(0.0, max(end_s, 1.0), LABEL, WIDTH - RIGHT)
    height = HEAD + len(jobs) * ROW + FOOT
    parts = time_axis(x, HEAD, height - FOOT)
    by_job = {gang.job: gang for gang in result.gangs}
    for index, job in enumerate(jobs):
        y = HEAD + index * ROW
        gang = by_job.get(job)
        size = "" if gang is None else f" · {gang.gpus:,}"
        name = job if len(job) <= 11 else job[:10] + "…"
        parts.append(words(LABEL - 4, y + 10, name + size, "end"))
        if gang is not None:
            parts += _row(x, y, gang, spans, result.end_s)
    return svg(height, f"large gangs under {result.policy}", parts)


def gantt_legend(spans: Sequence[str]) -> str:
    """Return what the colours and marks mean."""
    runs = [(f"s{min(index, 5)}", f"ran inside one {span}" if span != "cluster" else "ran across the cluster")
            for index, span in enumerate(spans)]  # fmt: skip
    marks = [
        ("waited", "waits"),
        ("stopped", "stopped for others, moved or failed"),
        ("promise", "start that was promised"),
    ]
    return legend([*runs, *marks])


def _row(x: Scale, y: float, gang: Gang, spans: Sequence[str], end_s: float) -> list[str]:
    last = gang.end_s if gang.end_s is not None else end_s
    parts = [rule(x(gang.submitted_s), y + 7, x(last), y + 7, "waited")]
    for run in gang.runs:
        kind = f"s{min(spans.index(run.span), 5)}" if run.span in spans else "s5"
        start, end = x(run.start_s), x(run.end_s)
        parts.append(box(start, y + 2.5, end - start, 9, kind, _tip(gang, run)))
        if run.why not in ("", "completed", "cancelled"):
            parts.append(rule(end, y + 0.5, end, y + 13.5, "stopped"))
    told = [promise for promise in gang.promises if promise.start_s is not None]
    for promise in told[:: max(1, -(-len(told) // MOST_PROMISES))]:
        assert promise.start_s is not None, "chosen so"
        at, tip = x(promise.start_s), f"{gang.job}: told after {duration(promise.at_s)} to start after " \
                                      f"{duration(promise.start_s)} in {promise.domain}"  # fmt: skip
        mark = f"M{place(at)} {place(y + 3)}l3.5 4-3.5 4-3.5-4z"
        parts.append(f'<path d="{mark}" class="promise"><title>{text_of(tip)}</title></path>')
    return parts


def _tip(gang: Gang, run: GangRun) -> str:
    where = ", ".join(f"{domain} {gpus:,}" for domain, gpus in list(run.where.items())[:6])
    ended = run.why or "still running"
    long = duration(max(run.end_s - run.start_s, 0))
    return f"{gang.job} ({gang.team}): {run.gpus:,} GPUs for {long}, span {run.span}: {where}; {ended}"
