"""Put results of `optsched bench quality --format json` into Markdown: python -m benchmarks.quality.report FILE..."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(files: list[str]) -> None:
    """Print the tables of every file."""
    for file in files:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
        print("\n".join([*summary(data), "", *by_round(data), "", *best_known(data), ""]))


def summary(data: dict[str, Any]) -> list[str]:
    """Return a line for each policy."""
    lines = [
        "| policy | at best known | valid | mean gap | worst gap | GPUs short | lost work, GPU·h "
        "| placement loss, GPU·h | stops | moves, resizes | time, s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in data["summary"]:
        lines.append(
            f"| {row['who']} | {row['at_best_known']} of {row['rounds']} | {row['valid']} | {row['mean_gap']:.2%} "
            f"| {row['worst_gap']:.2%} | {row['short_gpus']} | {row['lost_work'] / 3600:,.1f} "
            f"| {row['placement_loss'] / 3600:,.1f} | {row['preempted']} | {row['moved']} | {row['wall_s']:.2f} |"
        )
    return lines


def by_round(data: dict[str, Any]) -> list[str]:
    """Return a line for each round, with every policy's gap; * marks the best known plan, "refused" a broken rule."""
    names = [row["who"] for row in data["summary"]]
    lines = [f"| round | nodes | best known | {' | '.join(names)} |", "|---|---|---" + "|---" * len(names) + "|"]
    for each in data["rounds"]:
        known = each["best_known"]
        proven = "not known" if known is None else f"{known['gpus']} GPUs{', proven' if known['proven'] else ''}"
        gaps = [_gap(entry) for entry in each["entries"]]
        lines.append(f"| {each['round']} | {each['nodes']} | {proven} | {' | '.join(gaps)} |")
    return lines


def best_known(data: dict[str, Any]) -> list[str]:
    """Return a line for each round: what is known of it, what is proven, and who found it."""
    lines = [
        "| round | GPUs | ranks | bill, GPU·h | no plan of these ranks below | found by |",
        "|---|---|---|---|---|---|",
    ]
    for each in data["rounds"]:
        known = each["best_known"]
        if known is None:
            continue
        bound = "–" if known["bill_bound"] is None else f"{known['bill_bound'] / 3600:,.1f}"
        cells = [each["round"], known["gpus"], _ranks(known), f"{known['bill'] / 3600:,.1f}", bound, known["how"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _ranks(known: dict[str, Any]) -> str:
    """Return up to where the ranks are proven, and what is open at the first that is not."""
    for name, bound in known["bounds"].items():
        gpus = known["ranks"].get(name, 0)
        if bound != gpus:
            return f"{name}: not known" if bound is None else f"{name}: {gpus} of at most {bound}"
    return "all proven"


def _gap(entry: dict[str, Any]) -> str:
    if not entry["valid"]:
        return f"refused ({entry['gap']:.1%})"
    return "*" if entry["at_best_known"] else f"{entry['gap']:.2%}"


if __name__ == "__main__":
    main(sys.argv[1:])
