"""The nodes of a cluster at an instant: a cell for each, domain by domain, as full as it is booked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from optsched.cli.html.draw import WIDTH, legend, place, svg, words
from optsched.sim.results import NodeMap, NodePlace, Result

STEPS = 5
"""Shades from empty to full."""

_SIZES = ((64, 20), (200, 14), (640, 9), (1600, 6.5), (10**9, 4.5))
_EDGE = 2


@dataclass(slots=True)
class _Pen:
    """Where the next cell goes, and what each class of cells has got."""

    cell: float
    x: float = _EDGE
    y: float = _EDGE
    paths: dict[str, list[str]] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)

    def new_line(self, gap: float) -> None:
        if self.x > _EDGE:
            self.x = _EDGE
            self.y += self.cell + gap

    def take(self, kind: str) -> None:
        side = place(self.cell - 1)
        shape = f"M{place(self.x)} {place(self.y)}h{side}v{side}h-{side}z"
        self.paths.setdefault(kind, []).append(shape)
        self.x += self.cell


def heatmap(result: Result, found: NodeMap) -> str:
    """Return the picture of one instant: a line or more for each widest domain, racks with gaps between."""
    nodes = result.nodes
    cell = next(size for most, size in _SIZES if len(nodes) <= most)
    order = sorted(range(len(nodes)), key=lambda index: (_path(nodes[index]), index))
    pen = _Pen(cell)
    outer, inner = None, None
    for position, index in enumerate(order):
        path = _path(nodes[index])
        if path[:1] != outer and len(path):
            pen.new_line(3)
            outer, inner = path[:1], path
            if len({_path(node)[:1] for node in nodes}) <= 24:
                pen.y += 3
                pen.labels.append(words(_EDGE, pen.y + 7, path[0], "faint"))
                pen.y += 11
        elif path != inner:
            inner = path
            pen.x += cell * 0.5
            run = sum(_path(nodes[other]) == path for other in order[position : position + 64])
            if pen.x + min(run, 8) * cell > WIDTH - _EDGE:
                pen.new_line(2)
        if pen.x + cell > WIDTH - _EDGE:
            pen.new_line(0)
        pen.take(_kind(nodes[index], found.booked[index], found.state[index]))
    shapes = [f'<path d="{"".join(parts)}" class="{kind}"/>' for kind, parts in sorted(pen.paths.items())]
    return svg(pen.y + cell + _EDGE, f"nodes at {found.at_s:g} s under {result.policy}", [*pen.labels, *shapes])


def heatmap_legend() -> str:
    """Return what the shades mean."""
    names = ["empty", "", "half", "", "full"]
    shades = [(f"h{step}", names[step]) for step in range(STEPS)]
    return legend([*shades, ("off", "not taking work"), ("down", "down")])


def _path(node: NodePlace) -> tuple[str, ...]:
    return tuple(node.domains.values())


def _kind(node: NodePlace, booked: int, state: str) -> str:
    if state == "down":
        return "down"
    if state != "up" and not booked:
        return "off"
    if not booked:
        return "h0"
    return f"h{max(1, min(STEPS - 1, round((STEPS - 1) * booked / max(node.gpus, 1))))}"


def instants(results: Sequence[Result]) -> list[float]:
    """Return the instants of which there are maps, in order."""
    return sorted({found.at_s for result in results for found in result.maps})
