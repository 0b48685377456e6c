"""What may be asked: the keys of every request, their bounds, and what is said where they do not hold.

Each model has the keys of the message of the contract that it is named for; REST bodies have the same. What a request
carries of jobs, nodes, teams and reservations is checked by the schema of files.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from optsched.files.fields import Absent, Flag, Id, Instant, Priority, RuntimeSeconds, Strict, Text
from optsched.files.schema import JobIn, NodeIn

MAX_PAGE = 1000
MAX_BATCH = 1000
MAX_ARRAY = 10_000
MAX_NODES = 10_000

Key = Annotated[
    str,
    Field(max_length=253, pattern=r"^[\x21-\x7e]*$", description="at most 253 printable ASCII characters, no spaces"),
]
PageSize = Annotated[int, Field(ge=0, le=MAX_PAGE, description="a whole number from 1 to 1,000, or 0 for 100")]
Sequence = Annotated[int, Field(ge=0, le=2**63 - 1, description="a whole number of at least 0")]
Number = Annotated[int, Field(ge=1, le=2**63 - 1, description="a whole number of at least 1")]
BudgetSeconds = Annotated[
    float, Field(ge=0, le=60, allow_inf_nan=False, description="a number of seconds above 0, at most 60, or 0")
]
Reason = Annotated[
    str,
    Field(
        max_length=1000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$", description="text of at most 1,000 characters"
    ),
]
JobStateWord = Literal["queued", "starting", "running", "preempting", "completed", "failed", "cancelled"]
NodeStateWord = Literal["up", "draining", "cordoned", "suspect", "probing", "down"]
View = Annotated[Literal["basic", "full"], Field(description="basic or full")]
SmallPriority = Annotated[int, Field(ge=-(10**9), le=10**9, description="a whole number within 1,000,000,000 of 0")]

NOT_ASKED = ("state", "placement", "started_at", "submitted_at", "last_checkpoint_at", "run", "preemptions")
"""Keys of a job in files that no request states."""


class DependencyIn(Strict):
    """A job that another one waits for."""

    job: Id
    condition: Annotated[Literal["completed", "ended", "started"], Field(description="completed, ended or started")] = (
        "completed"
    )


def _job_model() -> type[Strict]:
    """Return the model of a job that is asked for: that of files, less what has happened, and with its own keys."""
    fields: dict[str, Any] = {
        name: (field.annotation, field)
        for name, field in JobIn.model_fields.items()
        if name not in (*NOT_ASKED, "id", "team")
    }
    fields |= {
        "id": (Id, None),
        "team": (Id, None),
        "topology_hint": (Text, None),
        "after": (
            list[DependencyIn],
            Field(default_factory=list, max_length=1000, description="a list of at most 1,000"),
        ),
        "hold": (Flag, False),
    }
    return create_model("JobAsked", __base__=Strict, __doc__="A job that is asked for.", **fields)


JobAsked = _job_model()


def _node_model() -> type[Strict]:
    """Return the model of a node that is set: that of files, less the state, which operators change by other calls."""
    fields: dict[str, Any] = {
        name: (field.annotation, field)
        for name, field in NodeIn.model_fields.items()
        if name not in ("state", "reason")
    }
    return create_model("NodeAsked", __base__=Strict, __doc__="A node as it is described.", **fields)


NodeAsked = _node_model()


class SubmitJobRequest(Strict):
    """One job; `job` is checked apart."""

    job: object = None
    idempotency_key: Key = ""


class ArrayAsked(Strict):
    """Many jobs alike; `template` is checked apart."""

    template: object = None
    count: Annotated[int, Field(ge=1, le=MAX_ARRAY, description="a whole number from 1 to 10,000")]
    first_index: Annotated[int, Field(ge=0, le=10**9, description="a whole number from 0 to 1,000,000,000")] = 0
    max_running: Annotated[int, Field(ge=0, le=MAX_ARRAY, description="a whole number from 0 to 10,000")] = 0


class SubmitJobsRequest(Strict):
    """Many jobs; each is checked apart."""

    jobs: list[object] = Field(default_factory=list, max_length=MAX_BATCH, description="a list of at most 1,000 jobs")
    array: Absent[ArrayAsked] = None
    idempotency_key: Key = ""


class ByJob(Strict):
    """A job by its id."""

    id: Id


class GetJobRequest(ByJob):
    """One job."""


class JobFilter(Strict):
    """Which jobs."""

    states: list[JobStateWord] = Field(
        default_factory=list,
        description="a list of queued, starting, running, preempting, completed, failed, cancelled",
    )
    teams: list[Id] = Field(default_factory=list, max_length=1000, description="a list of at most 1,000 teams")
    users: list[Id] = Field(default_factory=list, max_length=1000, description="a list of at most 1,000 users")
    ids: list[Id] = Field(default_factory=list, max_length=1000, description="a list of at most 1,000 ids")
    node: Id | Literal[""] = Field(default="", description="the id of a node")
    min_priority: Absent[SmallPriority] = None
    array: Id | Literal[""] = Field(default="", description="the id of an array")


class Paged(Strict):
    """A list that comes page by page."""

    page_size: PageSize = 0
    page_token: Text = ""

    @property
    def size(self) -> int:
        """Entries of one page."""
        return self.page_size or 100


class ListJobsRequest(Paged):
    """Jobs that match."""

    filter: JobFilter = Field(default_factory=JobFilter, description="a mapping")
    view: View = "basic"


class UpdateJobRequest(ByJob):
    """What of a job changes."""

    priority: Absent[Priority] = None
    estimated_runtime_s: Absent[RuntimeSeconds] = None
    start_deadline_at: Absent[Instant] = None
    clear_estimated_runtime: Flag = False
    clear_start_deadline: Flag = False


class HoldJobRequest(ByJob):
    """A job that is kept from starting."""

    reason: Reason = ""


class ReleaseJobRequest(ByJob):
    """A job that may start."""


class CancelJobRequest(ByJob):
    """A job that is withdrawn."""

    reason: Reason = ""


class PreemptJobRequest(ByJob):
    """A job that is stopped and queued again."""

    reason: Reason = ""


class ExplainJobRequest(ByJob):
    """A job whose fate is asked for."""

    budget_s: BudgetSeconds = 0.0


class ListJobEventsRequest(ByJob):
    """What happened to a job."""

    after_sequence: Sequence = 0
    page_size: PageSize = 0


class WatchJobsRequest(Strict):
    """Jobs as they change."""

    filter: JobFilter = Field(default_factory=JobFilter, description="a mapping")
    after_sequence: Sequence = 0
    view: View = "basic"


class PlanRequest(Strict):
    """A round that changes nothing."""

    jobs: list[object] = Field(default_factory=list, max_length=MAX_BATCH, description="a list of at most 1,000 jobs")
    without: list[Id] = Field(default_factory=list, max_length=MAX_BATCH, description="a list of at most 1,000 ids")
    profile: Id | Literal[""] = Field(default="", description="the name of a profile")
    budget_s: BudgetSeconds = 0.0
    snapshot: object = None
    tasks: Flag = False


class ListRoundsRequest(Paged):
    """Rounds, the newest first."""


class GetRoundRequest(Strict):
    """One round."""

    id: Number


class GetStatusRequest(Strict):
    """How the scheduler stands."""


class ListNodesRequest(Paged):
    """Nodes that match."""

    states: list[NodeStateWord] = Field(
        default_factory=list, description="a list of up, draining, cordoned, suspect, probing, down"
    )
    domain: Text = ""


class ByNode(Strict):
    """A node by its id."""

    id: Id


class GetNodeRequest(ByNode):
    """One node."""


class ListDomainsRequest(Strict):
    """Domains of one level, or of all."""

    level: Text = ""


class SetNodesRequest(Strict):
    """Nodes that join or are described anew; each is checked apart."""

    nodes: list[object] = Field(min_length=1, max_length=MAX_NODES, description="a list of 1 to 10,000 nodes")
    expected_version: Sequence = 0


class RemoveNodeRequest(ByNode):
    """A node that leaves."""

    reason: Reason = ""


class CordonNodeRequest(ByNode):
    """A node that is closed."""

    reason: Reason = ""


class UncordonNodeRequest(ByNode):
    """A node that is opened."""


class DrainNodeRequest(ByNode):
    """A node that is to be empty."""

    reason: Reason = ""


class FenceNodeRequest(ByNode):
    """A lost node on which nothing runs any more."""

    reason: Reason = ""


class ListTeamsRequest(Strict):
    """Teams and what they have."""


class SetTeamsRequest(Strict):
    """Teams that are created or replaced; each is checked apart."""

    teams: list[object] = Field(min_length=1, max_length=10_000, description="a list of 1 to 10,000 teams")
    expected_version: Sequence = 0


class GetProfileRequest(Strict):
    """The profile in force."""


class SetProfileRequest(Strict):
    """A profile by name, or its keys over a base; which is checked apart."""

    name: Absent[Id] = None
    json_: object = Field(default=None, alias="json")
    expected_version: Sequence = 0


class ListReservationsRequest(Strict):
    """Windows and grants."""


class SetReservationRequest(Strict):
    """A window or a grant; which is checked apart."""

    reservation: object = None
    expected_version: Sequence = 0


class DropReservationRequest(Strict):
    """A window or a grant that is withdrawn."""

    id: Id


class ListChangesRequest(Strict):
    """What operators changed."""

    after_sequence: Sequence = 0
    page_size: PageSize = 0


class WatchEventsRequest(Strict):
    """What happens to nodes, rules and the scheduler."""

    after_sequence: Sequence = 0
