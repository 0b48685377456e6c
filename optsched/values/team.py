"""Teams: who shares the cluster, with what weight, guarantee and ceiling."""

from __future__ import annotations

from dataclasses import dataclass

from optsched.values.ids import TeamId
from optsched.values.resources import Amounts


@dataclass(frozen=True, slots=True)
class Team:
    """One node of the team tree.

    `quota` is guaranteed, lent while unused; None means that the team has none: nothing is guaranteed to it and its
    non-preemptible work is not bounded. `limit` is hard and covers the team with all teams below it. `weight` >= 0;
    with weight 0 the team has no claim above its quota. `max_priority` is the largest priority that its jobs may use.
    """

    id: TeamId
    parent: TeamId | None = None
    weight: float = 1.0
    quota: Amounts | None = None
    limit: Amounts | None = None
    max_priority: int | None = None
    max_deadline_gpus: int = 0
    user_limit: Amounts | None = None
