"""The REST side of the contract: which method and path is which call, and where its request is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

INTEGER, NUMBER, TEXT, WORDS = "integer", "number", "string", "array"
"""Kinds of a query's values; WORDS may be given more than once."""


@dataclass(frozen=True, slots=True)
class Route:
    """One call of REST.

    The body is the request of the call, or its field `body`. `path` may hold `{id}`, which is the request's `id`.
    `query` maps keys of the query to a field of the request (with a dot: a field in a field) and its kind. `status` is
    that of success. `streams`: answers come one by one, as server-sent events.
    """

    verb: str
    path: str
    call: str
    about: str
    body: str | None = None
    takes_body: bool = False
    query: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    status: int = 200
    streams: bool = False
    idempotent: bool = False


PAGE = {"page_size": ("page_size", INTEGER), "page_token": ("page_token", TEXT)}
AFTER = {"after_sequence": ("after_sequence", INTEGER), "page_size": ("page_size", INTEGER)}
FILTER = {
    "state": ("filter.states", WORDS),
    "team": ("filter.teams", WORDS),
    "user": ("filter.users", WORDS),
    "id": ("filter.ids", WORDS),
    "node": ("filter.node", TEXT),
    "min_priority": ("filter.min_priority", INTEGER),
    "array": ("filter.array", TEXT),
    "view": ("view", TEXT),
}
BUDGET = {"budget_s": ("budget_s", NUMBER)}

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/jobs",
        "Scheduler.SubmitJob",
        "Put a job into the queue",
        body="job",
        takes_body=True,
        status=202,
        idempotent=True,
    ),
    Route(
        "POST",
        "/v1/jobs:batch",
        "Scheduler.SubmitJobs",
        "Put many jobs into the queue, or none",
        takes_body=True,
        status=202,
        idempotent=True,
    ),
    Route(
        "GET",
        "/v1/jobs",
        "Scheduler.ListJobs",
        "Jobs that match, in order of their submission",
        query={**FILTER, **PAGE},
    ),
    Route(
        "GET",
        "/v1/jobs:watch",
        "Scheduler.WatchJobs",
        "Jobs that match as they change",
        query={**FILTER, "after_sequence": ("after_sequence", INTEGER)},
        streams=True,
    ),
    Route(
        "GET",
        "/v1/jobs/{id}/explain",
        "Scheduler.ExplainJob",
        "What the next round does with a job, and why",
        query=BUDGET,
    ),
    Route("GET", "/v1/jobs/{id}/events", "Scheduler.ListJobEvents", "What has happened to a job", query=AFTER),
    Route(
        "POST",
        "/v1/jobs/{id}/preempt",
        "Scheduler.PreemptJob",
        "Stop a job that runs, and queue it again",
        takes_body=True,
        status=202,
    ),
    Route("POST", "/v1/jobs/{id}/cancel", "Scheduler.CancelJob", "Withdraw a job", takes_body=True, status=202),
    Route("POST", "/v1/jobs/{id}/hold", "Scheduler.HoldJob", "Keep a queued job from being started", takes_body=True),
    Route(
        "POST", "/v1/jobs/{id}/release", "Scheduler.ReleaseJob", "Let a job that is held be started", takes_body=True
    ),
    Route("GET", "/v1/jobs/{id}", "Scheduler.GetJob", "One job as it stands"),
    Route("PATCH", "/v1/jobs/{id}", "Scheduler.UpdateJob", "Change priority, estimate or deadline", takes_body=True),
    Route("POST", "/v1/plan", "Scheduler.Plan", "Plan a round and change nothing", takes_body=True),
    Route("GET", "/v1/rounds", "Scheduler.ListRounds", "Rounds, the newest first", query=PAGE),
    Route("GET", "/v1/rounds/{id}", "Scheduler.GetRound", "One round, with its plan"),
    Route("GET", "/v1/status", "Cluster.GetStatus", "How the scheduler stands"),
    Route(
        "GET",
        "/v1/nodes",
        "Cluster.ListNodes",
        "Nodes that match, in order of their ids",
        query={"state": ("states", WORDS), "domain": ("domain", TEXT), **PAGE},
    ),
    Route("PUT", "/v1/nodes", "Cluster.SetNodes", "Add nodes, or describe them anew", takes_body=True),
    Route("POST", "/v1/nodes/{id}/cordon", "Cluster.CordonNode", "Close a node to new work", takes_body=True),
    Route("POST", "/v1/nodes/{id}/uncordon", "Cluster.UncordonNode", "Open a node again", takes_body=True),
    Route("POST", "/v1/nodes/{id}/drain", "Cluster.DrainNode", "Close a node and empty it", takes_body=True),
    Route(
        "POST",
        "/v1/nodes/{id}/fence",
        "Cluster.FenceNode",
        "State that nothing runs any more on a lost node",
        takes_body=True,
    ),
    Route("GET", "/v1/nodes/{id}", "Cluster.GetNode", "One node"),
    Route(
        "DELETE", "/v1/nodes/{id}", "Cluster.RemoveNode", "Take a node out for good", query={"reason": ("reason", TEXT)}
    ),
    Route(
        "GET",
        "/v1/domains",
        "Cluster.ListDomains",
        "The levels, and the domains of one or all of them",
        query={"level": ("level", TEXT)},
    ),
    Route("GET", "/v1/teams", "Cluster.ListTeams", "Teams, what they may have and what they have"),
    Route("PUT", "/v1/teams", "Cluster.SetTeams", "Create or replace teams", takes_body=True),
    Route("GET", "/v1/profile", "Cluster.GetProfile", "The profile in force"),
    Route("PUT", "/v1/profile", "Cluster.SetProfile", "Put another profile in force", takes_body=True),
    Route("GET", "/v1/reservations", "Cluster.ListReservations", "Maintenance windows and grants"),
    Route(
        "PUT", "/v1/reservations", "Cluster.SetReservation", "Create or replace a window or a grant", takes_body=True
    ),
    Route("DELETE", "/v1/reservations/{id}", "Cluster.DropReservation", "Withdraw a window or a grant"),
    Route("GET", "/v1/changes", "Cluster.ListChanges", "What operators have changed, oldest first", query=AFTER),
    Route(
        "GET",
        "/v1/events",
        "Cluster.WatchEvents",
        "What happens to nodes, rules and the scheduler",
        query={"after_sequence": ("after_sequence", INTEGER)},
        streams=True,
    ),
)
