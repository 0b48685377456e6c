"""The page: what was simulated, figures side by side, and the plots of every policy."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.cli.html.draw import cards, text_of
from optsched.cli.html.gantt import gangs_of, gantt, gantt_legend, spans_of
from optsched.cli.html.heatmap import heatmap, heatmap_legend, instants
from optsched.cli.html.occupancy import occupancy, occupancy_legend
from optsched.cli.html.style import STYLE
from optsched.cli.html.waits import waits, waits_legend
from optsched.cli.render_simulate import ROWS, named
from optsched.cli.words import count, duration, joined, number
from optsched.sim.results import Comparison, Result


def comparison_to_html(found: Comparison) -> str:
    """Return the page of a comparison, complete in itself."""
    results = found.results
    first = results[0]
    names = [named(result) for result in results]
    end_s = max(result.end_s for result in results)
    title = f"{first.workload} on {first.cluster}"
    jobs = sum(first.metrics.jobs.values())
    about = joined(
        [
            count(jobs, "job"),
            f"{number(first.gpus)} GPUs",
            count(len(results), "policy", "policies"),
            f"failures: {first.failures}",
            f"seed {first.seed}",
        ]
    )
    body = [
        f"<header><h1>{text_of(title)}</h1><p>{text_of(about)}</p></header>",
        _section("Side by side", "", _figures(results, names)),
        _section(
            "GPUs over time, by tier",
            "Stacked: what runs, by how well it is protected. The line is what waits.",
            occupancy_legend()
            + cards([(name, occupancy(result, end_s)) for name, result in zip(names, results, strict=True)]),
        ),
        _section(
            "Waits by size",
            "From submission to the first GPUs: the bar from the median to the 99th percentile, the dot at the 90th.",
            waits_legend(names) + f'<div class="one">{waits(results, names)}</div>',
        ),
        _gangs(results, names),
        _maps(results, names),
        "<footer>Made by optsched simulate. The page is complete in itself: it loads nothing.</footer>",
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{text_of(title)}</title><style>{STYLE}</style></head>'
    )
    return f"{head}<body>{''.join(body)}</body></html>\n"


def _section(title: str, about: str, inside: str) -> str:
    told = f"<p>{text_of(about)}</p>" if about else ""
    return f"<section><h2>{text_of(title)}</h2>{told}{inside}</section>"


def _figures(results: Sequence[Result], names: Sequence[str]) -> str:
    """Return the table of figures: the same rows as in the terminal."""
    head = "".join(f'<th scope="col">{text_of(name)}</th>' for name in names)
    rows = []
    for label, tell in ROWS:
        told = [tell(result) for result in results]
        if set(told) == {"-"}:
            continue
        cells = "".join(f"<td>{text_of(text)}</td>" for text in told)
        kind = ' class="sub"' if label.startswith(" ") else ""
        rows.append(f'<tr><th scope="row"{kind}>{text_of(label.strip())}</th>{cells}</tr>')
    return (
        f'<div class="wide"><table><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _gangs(results: Sequence[Result], names: Sequence[str]) -> str:
    jobs = gangs_of(results)
    if not jobs:
        return _section("Large gangs", "No gang was large enough to be followed (optsched simulate --gantt).", "")
    spans = spans_of(results)
    end_s = max(result.end_s for result in results)
    figures = [(name, gantt(result, jobs, spans, end_s)) for name, result in zip(names, results, strict=True)]
    every = {gang.job for result in results for gang in result.gangs}
    about = "Each line is a gang, from submission to end, with its size in GPUs."
    if len(every) > len(jobs):
        about += f" The {len(jobs)} largest of {len(every):,}."
    return _section("Large gangs and their reservations", about, gantt_legend(spans) + cards(figures))


def _maps(results: Sequence[Result], names: Sequence[str]) -> str:
    """Return the maps of all instants; which one shows is the reader's choice, by radio buttons and style alone."""
    times = instants(results)
    if not times:
        return _section("Topology", "No map was kept (optsched simulate --map-at).", "")
    buttons, panels, rules = [], [], []
    for index, at_s in enumerate(times):
        checked = " checked" if index == (len(times) - 1) // 2 else ""
        buttons.append(
            f'<input type="radio" name="map" id="m{index}"{checked}><label for="m{index}">{duration(at_s)}</label>'
        )
        figures = [
            (name, heatmap(result, found))
            for name, result in zip(names, results, strict=True)
            for found in result.maps
            if found.at_s == at_s
        ]
        panels.append(f'<div class="map map{index}">{cards(figures)}</div>')
        rules.append(f"#m{index}:checked~.map{index}{{display:block}}")
    inside = f"<style>{''.join(rules)}</style>{''.join(buttons)}{heatmap_legend()}{''.join(panels)}"
    about = (
        "A cell is a node, as full as it is booked; nodes of one rack stand together, a new line is a new wide domain."
    )
    return _section("Topology at a chosen time", about, f'<div class="maps">{inside}</div>')
