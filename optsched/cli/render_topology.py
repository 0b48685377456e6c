"""A cluster as text or JSON: totals, levels, tree, what looks odd."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from optsched.cli.places import level_word
from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.topology_tree import branches
from optsched.cli.words import clean, count, joined, number
from optsched.files.plan_json import Plain, whole, write
from optsched.topology.tree import Tree
from optsched.topology.validate import Description, NvlinkPosition, NvlinkSummary, Spread
from optsched.values.cluster import Cluster, NodeState


def topology_to_json(description: Description) -> str:
    """Return all that is known of a cluster as one object."""
    return write(_description(description))


def topology_to_text(cluster: Cluster, tree: Tree, description: Description, *, width: int, style: Style) -> str:
    """Return a cluster as text of at most `width` columns."""
    lines = [style.title(f"{clean(description.name) or 'cluster'}") + style.faint(f"  {_totals(description)}")]
    for head, texts in (
        ("GPU types", [_gpu_type(entry.gpu_type, entry.gpus, entry.nodes) for entry in description.gpu_types]),
        ("NVLink", [_nvlink(entry) for entry in description.nvlink]),
        ("CPUs", [_resource(number(description.cpus), description.cpus_unknown, description.nodes)]),
        ("Memory", [_memory(description)]),
        ("Nodes", [_states(description)]),
    ):
        for index, text in enumerate(texts):
            lines += wrapped(f"{head if index == 0 else '':<11}{text}", width, 2, hang=11)
    lines += ["", style.title("Levels") + style.faint("  widest first; a–b–c: smallest, median, largest")]
    lines += _levels(description, width, style)
    lines += ["", style.title("Tree")]
    for branch in branches(cluster, tree):
        lines += wrapped(f"{branch.label}: {branch.inside}", width, 2 + 2 * branch.depth, hang=4)
    if description.findings:
        lines += ["", style.title("Odd") + style.faint("  nothing here keeps a round from being planned")]
        for finding in description.findings:
            lines += [style.wait(line) for line in wrapped(clean(finding.text), width, 2)]
    return "\n".join(lines) + "\n"


def verdict(source: str, description: Description) -> str:
    """Return the line that says that a cluster can be used."""
    odd = f"; {count(len(description.findings), 'warning')}" if description.findings else ""
    return f"{clean(source)}: valid: {_totals(description)}{odd}"


def clusters_to_json(found: Mapping[str, Description]) -> str:
    """Return {"topologies": [one object each]}, without the findings."""
    rows = []
    for name, description in found.items():
        plain = _description(description) | {"name": name}
        plain.pop("findings")
        rows.append(plain)
    return write({"topologies": rows})


def clusters_to_text(found: Mapping[str, Description], *, width: int, style: Style) -> str:
    """Return a line for each cluster."""
    rows = []
    for name, description in found.items():
        types = [clean(entry.gpu_type) or "any type" for entry in description.gpu_types]
        shown = ", ".join(types[:3]) + (f", {len(types) - 3} more" if len(types) > 3 else "")
        levels = [f"{entry.domains:,} {level_word(entry.level, entry.domains)}" for entry in description.levels]
        rows.append(Row([clean(name), f"{description.gpus:,}", shown], [" → ".join(levels)]))
    columns = [Column("name", paint=style.name), Column("GPUs", right=True), Column("types", least=12)]
    return "\n".join([style.title("Topologies"), *table(columns, rows, width, style.faint)]) + "\n"


def _totals(description: Description) -> str:
    bad = description.gpus - description.healthy_gpus
    levels = [entry for entry in description.levels[:-1] if entry.domains]
    return ", ".join(
        [
            count(description.nodes, "node"),
            count(description.gpus, "GPU") + (f" ({bad:,} not healthy)" if bad else ""),
            *(f"{entry.domains:,} {level_word(entry.level, entry.domains)}" for entry in levels),
        ]
    )


def _gpu_type(gpu_type: str, gpus: int, nodes: int) -> str:
    return f"{clean(gpu_type) or 'no type named'}: {count(gpus, 'GPU')} in {count(nodes, 'node')}"


def _nvlink(entry: NvlinkSummary) -> str:
    islands = _islands(entry.island_sizes)
    text = {
        NvlinkPosition.NONE: "no NVLink known",
        NvlinkPosition.INSIDE: f"inside the node: {islands}",
        NvlinkPosition.AT: f"the whole node: {islands}",
        NvlinkPosition.ABOVE: f"above the node: each {level_word(entry.level or '', 1)}"
        + (f"; in a node {islands}" if islands else ""),
    }[entry.position]
    return f"{text} ({count(entry.gpus, 'GPU')} in {count(entry.nodes, 'node')})"


def _islands(sizes: tuple[int, ...]) -> str:
    """Return "2 islands of 4 GPUs", "1 island of 8 GPUs"."""
    if not sizes:
        return ""
    parts = [
        f"{count(sizes.count(size), 'island')} of {count(size, 'GPU')}" for size in sorted(set(sizes), reverse=True)
    ]
    return " and ".join(parts)


def _memory(description: Description) -> str:
    amount = description.memory_gb
    text = f"{amount / 1000:,.0f} TB" if amount >= 10_000 else f"{number(amount)} GB"
    return _resource(text, description.memory_unknown, description.nodes)


def _resource(amount: str, unknown: int, nodes: int) -> str:
    """Return an amount, and for how many nodes it is not known."""
    text = amount if unknown < nodes else ""
    missing = f"not stated for {count(unknown, 'node')}" if unknown else ""
    return ", ".join(part for part in (text, missing) if part)


def _states(description: Description) -> str:
    states = [f"{number:,} {state.value}" for state, number in description.states] or ["none"]
    if description.states == ((NodeState.UP, description.nodes),):
        states = ["all up"]
    return joined([", ".join(states), count(description.spare_nodes, "spare") if description.spare_nodes else ""])


def _levels(description: Description, width: int, style: Style) -> list[str]:
    rows = [
        Row(
            [
                clean(entry.level),
                f"{entry.domains:,}",
                _spread(entry.nodes),
                _spread(entry.gpus),
                f"{count(entry.nodes_outside, 'node')} in none" if entry.nodes_outside else "",
            ]
        )
        for entry in description.levels
    ]
    columns = [
        Column("level"),
        Column("domains", right=True),
        Column("nodes each", right=True),
        Column("GPUs each", right=True),
        Column(""),
    ]
    return table(columns, rows, width, style.faint)


def _spread(sizes: Spread) -> str:
    if sizes.minimum == sizes.maximum:
        return f"{sizes.minimum:,}"
    return f"{sizes.minimum:,}–{number(sizes.median)}–{sizes.maximum:,}"


def _description(description: Description) -> Plain:
    plain = {field.name: _plain(getattr(description, field.name)) for field in dataclasses.fields(description)}
    return plain | {"states": {state.value: nodes for state, nodes in description.states}}


def _plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float):
        return whole(value)
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value
