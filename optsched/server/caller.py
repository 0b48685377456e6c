"""Who asks, and what a request is given beside itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a name for the record, and the team whose jobs it submits where none is stated ("": none)."""

    name: str = ""
    team: str = ""
