"""Who asks, and what a request is given beside itself."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from optsched.errors import NotAllowed


class Role(enum.Enum):
    """What a token is for."""

    SUBMITTER = "submitter"
    """Jobs of its teams, and a look at the cluster."""
    OPERATOR = "operator"
    """Everything but what agents say."""
    AGENT = "agent"
    """To speak for nodes."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a name for the record, and what it may see.

    `teams` are those whose jobs it may see and change, `nodes` those that it may speak for (None: all). `key` tells
    callers apart for idempotency keys and rates; "" where nobody has to say who it is.
    """

    name: str = ""
    teams: frozenset[str] | None = None
    nodes: frozenset[str] | None = None
    key: str = ""

    @property
    def team(self) -> str:
        """The team of a job that names none: the token's, if it is for one ("": none)."""
        return next(iter(self.teams)) if self.teams is not None and len(self.teams) == 1 else ""

    def sees(self, team: str) -> bool:
        """Return whether jobs of a team are its business."""
        return self.teams is None or team in self.teams

    def check_team(self, team: str, what: str) -> None:
        """Raise NotAllowed for what belongs to a team that is none of its business."""
        if not self.sees(team):
            names = ", ".join(sorted(self.teams or ())) or "(none)"
            raise NotAllowed(f"{what} is of another team: the token of {self.name} is for {names}")

    def check_node(self, node: str) -> None:
        """Raise NotAllowed for a node that it may not speak for."""
        if self.nodes is not None and node not in self.nodes:
            raise NotAllowed(f"the token of {self.name} does not speak for node {node}")
