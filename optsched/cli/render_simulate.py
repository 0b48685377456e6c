"""Results of simulations as text: a line for each policy, side by side, then each one's waits and losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, count, duration, gpu_hours, joined, number, percent
from optsched.sim.results import Comparison, Result, Waits

GANGS = "256+"
"""The group of jobs whose waits stand in the first table."""


def comparison_to_text(found: Comparison, width: int, style: Style) -> str:
    """Return all results as text."""
    first = found.results[0]
    jobs = sum(first.metrics.jobs.values())
    about = joined(
        [
            count(jobs, "job"),
            f"{number(first.gpus)} GPUs",
            f"failures: {clean(first.failures)}",
            f"seed {first.seed}",
        ]
    )
    lines = [style.title(f"{clean(first.workload)} on {clean(first.cluster)}") + style.faint(f"  {about}"), ""]
    lines += _side_by_side(found.results, width, style)
    for result in found.results:
        lines += ["", *_one(result, width, style)]
    return "\n".join(lines) + "\n"


def named(result: Result) -> str:
    """Return what a result is called: its policy, and its profile where that is not the default."""
    name = clean(result.policy)
    return name if result.profile == "default" else f"{name}, {clean(result.profile)}"


ROWS: Sequence[tuple[str, Callable[[Result], str]]] = (
    ("simulated", lambda r: duration(r.end_s)),
    ("jobs that ended", lambda r: number(sum(n for name, n in r.metrics.jobs.items() if name != "not ended"))),
    ("utilisation", lambda r: percent(r.metrics.utilisation)),
    ("  up to the last submission", lambda r: percent(r.metrics.busy_utilisation)),
    ("goodput", lambda r: percent(r.metrics.goodput)),
    ("  up to the last submission", lambda r: percent(r.metrics.busy_goodput)),
    ("placement loss, GPU·h", lambda r: _hours(r.metrics.gpu_time.placement_loss)),
    ("lost work, GPU·h", lambda r: _hours(r.metrics.gpu_time.lost)),
    ("  of it by preemption", lambda r: _hours(r.metrics.preemptions.gpu_ms_lost)),
    ("restarts, GPU·h", lambda r: _hours(r.metrics.gpu_time.restart)),
    ("held, GPU·h", lambda r: _hours(r.metrics.gpu_time.held)),
    ("preemptions", lambda r: number(r.metrics.preemptions.total)),
    ("wait, median", lambda r: duration(_group(r, "all").wait_s.p50)),
    ("wait, p99", lambda r: duration(_group(r, "all").wait_s.p99)),
    ("wait of 256+ GPUs, median", lambda r: _of_gangs(r, lambda each: each.wait_s.p50)),
    ("wait of 256+ GPUs, p99", lambda r: _of_gangs(r, lambda each: each.wait_s.p99)),
    ("slowdown, p90", lambda r: _slowdowns(_group(r, "all"))[1]),
    ("share error", lambda r: percent(r.metrics.share_error)),
    ("fragmentation", lambda r: percent(r.metrics.fragmentation)),
    ("reservations kept", lambda r: f"{r.metrics.promises.kept} of {r.metrics.promises.made}"),
    ("rounds", lambda r: number(r.metrics.rounds.count)),
    ("decision, median", lambda r: duration(r.timing.decide_s.p50)),
    ("decision, p99", lambda r: duration(r.timing.decide_s.p99)),
    ("jobs simulated a second", lambda r: number(round(r.timing.jobs_per_s, 1))),
)


def _side_by_side(results: Sequence[Result], width: int, style: Style) -> list[str]:
    columns = [Column(""), *(Column(named(result), right=True, least=8, paint=style.name) for result in results)]
    rows = [Row([name, *(tell(result) for result in results)]) for name, tell in ROWS]
    return table(columns, rows, width, style.faint)


def _one(result: Result, width: int, style: Style) -> list[str]:
    """Return what there is to tell of one result beyond the first table."""
    found = result.metrics
    lines = [style.title(named(result)) + style.faint(f"  {clean(result.about)}")]
    head = [Column("GPUs"), *(Column(name, right=True) for name in ("jobs", "never", *_WAITS))]
    lines += table(head, [Row(_cells(each)) for each in found.waits], width, style.faint)
    head = [Column("team", least=8), *head[1:]]
    lines += table(head, [Row(_cells(each)) for each in found.waits_by_team], width, style.faint)
    wide = sum(each.gpu_ms_wide for each in found.spans)
    spans = [f"{each.span} {percent(each.gpu_ms_wide / wide)}" for each in found.spans if each.gpu_ms_wide]
    told = [
        f"gangs on several nodes, by span: {', '.join(spans)}" if spans else "",
        f"runs ended: {_counts(found.runs)}",
        f"failed: {_counts(found.failures)}" if found.failures else "",
        f"lost work by what cut it off, GPU·h: {_lost(result)}" if found.lost_gpu_ms else "",
        f"rounds: {_counts(found.rounds.sources)}",
    ]
    for text in told:
        if text:
            lines += [style.faint(line) for line in wrapped(text, width, 2)]
    return lines


_WAITS = ("wait p50", "p90", "p99", "max", "slowdown p50", "p90")


def _cells(each: Waits) -> list[str]:
    wait = each.wait_s
    return [
        clean(each.name),
        number(each.jobs),
        number(each.never_started),
        *(_short(value) for value in (wait.p50, wait.p90, wait.p99, wait.max)),
        *_slowdowns(each),
    ]


def _slowdowns(each: Waits) -> tuple[str, str]:
    """Return the median and the p90; where no job completed there are none."""
    slow = each.slowdown
    return (f"{slow.p50:,.2f}", f"{slow.p90:,.2f}") if slow.count else ("-", "-")


def _short(seconds: float) -> str:
    """Return a duration in one unit: "30 s", "3.5 min", "4.1 h", "12 d"."""
    for size, unit in ((86_400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            amount = seconds / size
            return f"{amount:.1f} {unit}" if amount < 100 else f"{amount:,.0f} {unit}"
    return f"{seconds:.0f} s"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{clean(str(name))} {value:,}" for name, value in counts.items())


def _lost(result: Result) -> str:
    return ", ".join(f"{clean(name)} {_hours(amount)}" for name, amount in result.metrics.lost_gpu_ms.items())


def _hours(gpu_ms: int) -> str:
    return gpu_hours(gpu_ms / 1000)


def _group(result: Result, name: str) -> Waits:
    return next(each for each in result.metrics.waits if each.name == name)


def _of_gangs(result: Result, tell: Callable[[Waits], float]) -> str:
    found = [each for each in result.metrics.waits if each.name == GANGS]
    return duration(tell(found[0])) if found else "-"
