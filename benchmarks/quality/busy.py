"""Rounds of the middle size: busy clusters out of the generator, of up to 144 nodes."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.quality.parts import PROFILE, Plain
from benchmarks.rounds import KINDS, generate
from benchmarks.rounds.kinds import Kind, Pool


def _named(made: Plain, name: str, hard: str, good: str) -> Plain:
    profile = made.get("profile")
    about: Plain = {"name": name, "hard": hard, "good": good}
    kept = {**PROFILE, **(profile if isinstance(profile, dict) else {})}
    return {**made, "about": about, "now": 0, "profile": kept}


def every_feature() -> Plain:
    """A busy cluster of two GPU types."""
    return _named(
        generate("rich-40", 3),
        "every-feature",
        "42 nodes of two GPU types with every feature of the file format at once: elastic jobs, slices, selectors, bad "
        "GPUs, spares, a grant, a window, a deadline, hidden checkpoints, limits of users.",
        "Nothing that can be told in a sentence: it is here so that no feature goes unmeasured.",
    )


def nvl72_busy() -> Plain:
    """Eight NVL72 racks that have been in use for hours."""
    kind: Kind = KINDS["nvl72-10k"]
    pool: Pool = replace(kind.pools[0], counts=(1, 8, 18))
    small = replace(kind, pools=(pool,), queued=45, teams=12, rounds=80)
    return _named(
        generate(small, 5),
        "nvl72-busy",
        "Eight NVL72 racks after hours of use: gangs of 36 to 288 GPUs whose slices need whole NVLink domains, where "
        "everything that is free lies in pieces, and quotas that allow some to take from others.",
        "It frees whole NVLink domains by few and cheap stops, rank by rank.",
    )


def boxes_busy() -> Plain:
    """64 boxes that have been in use for hours."""
    kind = replace(
        KINDS["h100-1k"], pools=(replace(KINDS["h100-1k"].pools[0], counts=(1, 4, 4, 4)),), queued=45, teams=12
    )
    return _named(
        generate(kind, 11),
        "boxes-busy",
        "64 boxes of 8 GPUs in racks of four, 95 % in use, with as many GPUs queued as there are: hardly a node is "
        "empty, and the gangs at the head need whole ones.",
        "It clears nodes by stopping or moving what is cheapest there, not what is cheapest anywhere.",
    )


BUSY = (every_feature, nvl72_busy, boxes_busy)
"""Generated rounds that are shipped."""
