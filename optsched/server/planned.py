"""A decision as it goes back to the leader: in parts that are quickly taken in, and with its plan as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from optsched.engine.decide import Planner, decide, in_parts
from optsched.engine.events import Decided, Waits
from optsched.engine.state import State
from optsched.files.plan_json import plan_to_dict

MOST_PARTS = 20
"""Of what a round has to say of those who wait, so many parts at most are told; the next round tells the rest."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A decision, the rest of what it says of those who wait, and its whole plan as JSON."""

    decided: Decided
    rest: tuple[Waits, ...]
    plan: bytes


def planned(state: State, planner: Planner) -> Planned | None:
    """Return the next decision on a state, None where there is nothing to decide."""
    decided = decide(state, planner)
    if decided is None:
        return None
    plan = plan_bytes(decided)
    decided, rest = in_parts(decided, state)
    if len(rest) > MOST_PARTS:
        # What is not told stays news.
        decided, rest = replace(decided, again=True), rest[:MOST_PARTS]
    return Planned(decided, rest, plan)


def plan_bytes(decided: Decided) -> bytes:
    """Return a decision's plan as the JSON that `optsched plan --format json` writes.

    Of a long queue it has no more who wait than were looked at, which come first: 100,000 rows with every round would
    be 13 MB.
    """
    plan = replace(decided.plan, queued=decided.plan.queued[: decided.plan.round.considered])
    return json.dumps(plan_to_dict(plan), separators=(",", ":"), check_circular=False).encode()
