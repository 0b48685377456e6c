"""The keys of each type of event. A run that is left out means the run that the job has then."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optsched.files.fields import Absent, Count, Flag, Id, Instant, NodeGpus, Strict, Text


class EventIn(Strict):
    """What every event has."""

    at: Instant
    type: Text
    about: object = None


class SubmitIn(EventIn):
    """A job is submitted; `job` is a job as under `jobs:`."""

    job: Annotated[object, Field(description="a job, as under jobs")]


class JobFinishedIn(EventIn):
    """All tasks of a job ended well; `released_nodes`: only these are free at once."""

    job: Id
    run: Absent[Count] = None
    released_nodes: Absent[Annotated[list[Id], Field(description="a list of node ids")]] = None


class JobCancelledIn(EventIn):
    """A job is withdrawn."""

    job: Id


class JobUpdateIn(EventIn):
    """Some keys of a job change; `set` holds them as under `jobs:`."""

    job: Id
    set: Annotated[dict[str, object], Field(description="a mapping of the keys of a job that change")]


class PreemptIn(EventIn):
    """An operator preempts a job."""

    job: Id
    reason: Text = ""


class GpusReleasedIn(EventIn):
    """An agent confirms that a job's GPUs on a node are free."""

    job: Id
    node: Id


class TaskFinishedIn(EventIn):
    """One task of a job ended, well or not."""

    job: Id
    node: Id
    ok: Flag
    run: Absent[Count] = None


class LaunchFailedIn(EventIn):
    """A node could not start its part of a job."""

    job: Id
    node: Id
    run: Absent[Count] = None
    why: Text = ""


class AgentReportIn(EventIn):
    """An agent says what became of its part of a job."""

    job: Id
    node: Id
    outcome: Id
    run: Absent[Count] = None


class CheckpointedIn(EventIn):
    """A job has a new checkpoint."""

    job: Id
    run: Absent[Count] = None
    version: Absent[Annotated[Count | Id, Field(description="a whole number from 0 to 1,000,000, or an id")]] = None
    tier: Absent[Id] = None


class NodeEventIn(EventIn):
    """Something happens to a node as a whole; `reason` is for whoever asks later."""

    node: Id
    reason: Text = ""


class NodeGpusChangedIn(EventIn):
    """A node reports another number of GPUs."""

    node: Id
    gpus: NodeGpus


class NodeProbedIn(EventIn):
    """A probe of a node passed, or did not, for instance because one of its GPUs failed."""

    node: Id
    ok: Flag = True
    reason: Text = ""


class NodeSlowIn(EventIn):
    """A node runs at `factor` of the speed of its gang's median."""

    node: Id
    factor: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False, description="a number above 0, at most 100")]


class NodeAddedIn(EventIn):
    """A node joins; `node` is a node as under `cluster.nodes`."""

    node: Annotated[object, Field(description="a node, as under cluster.nodes")]


class TeamSetIn(EventIn):
    """A team is created or replaced; `team` is a team as under `teams:`."""

    team: Annotated[object, Field(description="a team, as under teams")]


class ProfileSetIn(EventIn):
    """Another profile holds from now on."""

    profile: Annotated[object, Field(description="the name or path of a profile, or a mapping over a base")]


class ReservationSetIn(EventIn):
    """A reservation is created or replaced; as under `reservations:`."""

    reservation: Annotated[object, Field(description="a reservation, as under reservations")]


EVENTS: dict[str, type[EventIn]] = {
    "submit": SubmitIn,
    "job_finished": JobFinishedIn,
    "job_cancelled": JobCancelledIn,
    "job_update": JobUpdateIn,
    "preempt": PreemptIn,
    "gpus_released": GpusReleasedIn,
    "task_finished": TaskFinishedIn,
    "launch_failed": LaunchFailedIn,
    "agent_report": AgentReportIn,
    "checkpointed": CheckpointedIn,
    "node_down": NodeEventIn,
    "node_up": NodeEventIn,
    "node_gpus_changed": NodeGpusChangedIn,
    "node_probed": NodeProbedIn,
    "node_slow": NodeSlowIn,
    "node_added": NodeAddedIn,
    "node_removed": NodeEventIn,
    "cordon": NodeEventIn,
    "uncordon": NodeEventIn,
    "drain": NodeEventIn,
    "team_set": TeamSetIn,
    "profile_set": ProfileSetIn,
    "reservation_set": ReservationSetIn,
}
