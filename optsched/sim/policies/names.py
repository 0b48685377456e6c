"""What every policy does, in a sentence, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "optsched": "the whole of it: greedy first, then CP-SAT within a budget of counted work",
        "greedy": "optsched without search: its greedy plan in every round",
        "no-lost-work-price": "optsched, but a victim's lost work and restart cost nothing",
        "no-reservations": "optsched, but nothing is kept for a blocked gang",
        "no-topology": "optsched, but only levels that a job requires count, no others",
        "unbounded-backfill": "optsched, but whoever fits may use what is planned for a blocked gang",
        "fifo-best-fit": "first come, first served, on the fullest nodes; the first that waits holds up all others",
        "bin-packing-tree-best-fit": "whoever fits, by priority and age, on the fullest node or, as a gang, domain",
        "easy-backfill": "first come, first served; others start where that does not delay the first that waits",
        "conservative-backfill": "the same, where that delays none of the first 100 that wait",
        "one-at-a-time-reclaim": "one job at a time by fair share, in the tightest domain; takes from teams beyond "
        "their share, the newest runs first",
    }
)
"""Policies by name, in the order in which they are told."""
