"""The service as an object: one method for each thing that can be asked of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from optsched.client.calls import Calls, Time
from optsched.client.settings import Settings, load_settings
from optsched.client.terminal import Terminal
from optsched.client.watching import log_of, watched
from optsched.client.words import ENDED
from optsched.errors import NoAnswer, TooSlow
from optsched.wire.v1 import cluster_pb2 as cluster
from optsched.wire.v1 import scheduler_pb2 as api
from optsched.wire.v1 import types_pb2 as t

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Given:
    """What was put into the queue: the ids of the jobs, and what is unusual about them, a sentence each."""

    ids: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id of the only job, or of the first."""
        return self.ids[0]


def connect(**flags: str) -> Client:
    """Return a client. Its settings come from the arguments, else from the environment, else from a file.

    Arguments are the keys of Settings, as text: `connect(scheduler="head:7440", token_file="ada.token")`. Nothing is
    sent before the first call. Raises InputError or UsageError for settings that are wrong.
    """
    return Client(load_settings(flags, os.environ, None))


class Client:
    """A client of one service. May be shared by threads; use it as a context manager, or close it.

    Every method raises what the service refuses the call with (InputError with a Fault for each field that is wrong,
    NotKnown, NotAllowed, Conflict, …), NoAnswer where nobody answers for `patience_s`, TooSlow after `timeout_s`. A
    call that does no harm twice is made again while nobody answers; submitting is one, since it carries a key.
    """

    def __init__(self, settings: Settings, clock: Time | None = None) -> None:
        self._calls = Calls(settings, clock)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._calls.close()

    # Submitting

    def submit(self, job: t.JobSpec, key: str = "") -> Given:
        """Put a job into the queue; durable when it returns.

        `key` names the submission: the same again is the same job. Without one a key is made, for this call alone.
        """
        request = api.SubmitJobRequest(job=job, idempotency_key=key or new_key())
        answer = self._calls.call("Scheduler.SubmitJob", request, api.SubmitJobResponse)
        return Given((answer.job_id,), tuple(answer.warnings))

    def submit_many(self, jobs: Sequence[t.JobSpec], key: str = "") -> Given:
        """Put 1 to 1,000 jobs into the queue, or none of them."""
        request = api.SubmitJobsRequest(jobs=jobs, idempotency_key=key or new_key())
        return self._submitted(request)

    def submit_array(self, array: api.JobArray, key: str = "") -> Given:
        """Put an array into the queue: many jobs alike."""
        request = api.SubmitJobsRequest(array=array, idempotency_key=key or new_key())
        return self._submitted(request)

    def _submitted(self, request: api.SubmitJobsRequest) -> Given:
        answer = self._calls.call("Scheduler.SubmitJobs", request, api.SubmitJobsResponse)
        return Given(tuple(answer.job_ids), tuple(answer.warnings))

    # Jobs

    def job(self, job: str) -> t.Job:
        """Return a job as it stands."""
        return self._calls.call("Scheduler.GetJob", api.GetJobRequest(id=job), t.Job)

    def page_of_jobs(
        self, wanted: api.JobFilter | None = None, size: int = 100, token: str = ""
    ) -> api.ListJobsResponse:
        """Return a page of jobs in order of their submission: those of a filter, after a token of the page before."""
        request = api.ListJobsRequest(filter=wanted, page_size=size, page_token=token)
        return self._calls.call("Scheduler.ListJobs", request, api.ListJobsResponse)

    def jobs(self, wanted: api.JobFilter | None = None) -> Iterator[t.Job]:
        """Yield all jobs of a filter in order of their submission."""
        token = ""
        while True:
            page = self.page_of_jobs(wanted, PAGE, token)
            yield from page.jobs
            token = page.next_page_token
            if not token:
                return

    def job_events(self, job: str, after: int = 0, size: int = 100) -> api.ListJobEventsResponse:
        """Return what has happened to a job after an event, the oldest first."""
        request = api.ListJobEventsRequest(id=job, after_sequence=after, page_size=size)
        return self._calls.call("Scheduler.ListJobEvents", request, api.ListJobEventsResponse)

    def explain(self, job: str, budget_s: float = 0.0) -> api.ExplainJobResponse:
        """Return what the next round does with a job, and why."""
        request = api.ExplainJobRequest(id=job, budget_s=budget_s)
        return self._calls.call("Scheduler.ExplainJob", request, api.ExplainJobResponse)

    def update(self, request: api.UpdateJobRequest) -> t.Job:
        """Change priority, estimate or deadline of a job."""
        return self._calls.call("Scheduler.UpdateJob", request, t.Job)

    def hold(self, job: str, reason: str = "") -> t.Job:
        """Keep a queued job from being started."""
        return self._calls.call("Scheduler.HoldJob", api.HoldJobRequest(id=job, reason=reason), t.Job)

    def release(self, job: str) -> t.Job:
        """Let a job that is held be started."""
        return self._calls.call("Scheduler.ReleaseJob", api.ReleaseJobRequest(id=job), t.Job)

    def cancel(self, job: str, reason: str = "") -> t.Job:
        """Withdraw a job; what runs has its grace period."""
        return self._calls.call("Scheduler.CancelJob", api.CancelJobRequest(id=job, reason=reason), t.Job)

    def preempt(self, job: str, reason: str = "") -> api.PreemptJobResponse:
        """Stop a job that runs, and queue it again. Never repeated by itself: the second time it may be another run."""
        request = api.PreemptJobRequest(id=job, reason=reason)
        return self._calls.call("Scheduler.PreemptJob", request, api.PreemptJobResponse, again=False)

    # As they happen

    def watch(
        self, wanted: api.JobFilter | None = None, after: int = 0, timeout_s: float | None = None
    ) -> Iterator[api.WatchJobsResponse]:
        """Yield jobs of a filter: first as they stand (then `caught_up`), then each time that one changes.

        With `after`, the sequence of a row, it goes on from there. It outlives its connection and the scheduler's
        restart, for as long as one answers again within `patience_s`: nothing is missed. Where what happened meanwhile
        is kept no longer it begins anew. Raises TooSlow after `timeout_s`.
        """
        end = None if timeout_s is None else self._calls.clock.now() + timeout_s

        def begin(done: int) -> Iterator[api.WatchJobsResponse]:
            asking = api.WatchJobsRequest(filter=wanted, after_sequence=done)
            return self._calls.stream("Scheduler.WatchJobs", asking, api.WatchJobsResponse, end)

        return watched(self._calls, begin, after, lambda row: row.job.id, caught_up=True)

    def events(self, after: int = 0) -> Iterator[t.Event]:
        """Yield what happens to nodes, rules and the scheduler, from now on or after a sequence; as `watch` does."""

        def begin(done: int) -> Iterator[t.Event]:
            return self._calls.stream("Cluster.WatchEvents", cluster.WatchEventsRequest(after_sequence=done), t.Event)

        return watched(self._calls, begin, after, lambda row: (row.kind, row.node, row.text), caught_up=False)

    def wait(self, job: str, timeout_s: float | None = None, *, running: bool = False) -> t.Job:
        """Return a job once it has ended; `running`: or once it runs.

        Raises TooSlow where that takes longer than `timeout_s`.
        """
        wanted = (*ENDED, t.JOB_STATE_RUNNING) if running else ENDED
        found = self.job(job)
        if found.state in wanted:
            return found
        try:
            for change in self.watch(api.JobFilter(ids=[job]), timeout_s=timeout_s):
                if change.job.state in wanted:
                    return change.job
        except TooSlow:
            what = "does not run" if running else "has not ended"
            raise TooSlow(f"job {job} {what} within {timeout_s:g} s") from None
        raise NoAnswer("the watch has ended", again=False)

    # Output

    def logs(
        self,
        job: str,
        run: int = 0,
        rank: int = 0,
        stream: Literal["stdout", "stderr"] = "stdout",
        offset: int = 0,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """Yield what a task of a run (0: the last) has written, from an offset (negative: from the end) on.

        `follow`: on as it writes, until the run ends. Raises Conflict for a job that was never started, Away while the
        node's agent is, NotKnown where nothing is kept.
        """
        if run == 0:
            # Where the connection breaks, it goes on in the same run.
            run = self.job(job).run
        which = api.LOG_STREAM_STDERR if stream == "stderr" else api.LOG_STREAM_STDOUT
        asking = api.ReadLogsRequest(job=job, run=run, rank=rank, stream=which, offset=offset, follow=follow)
        return log_of(self._calls, asking)

    def attach(
        self, job: str, command: Sequence[str] = (), rank: int = 0, rows: int = 24, columns: int = 80, term: str = ""
    ) -> Terminal:
        """Return a terminal beside a task of a job that runs, with a program on it; a shell where none is named."""
        size = api.TerminalSize(rows=rows, columns=columns)
        return Terminal(self._calls, api.AttachOpen(job=job, rank=rank, command=command, size=size, term=term))

    # Rounds

    def rounds(self, size: int = 20, token: str = "") -> api.ListRoundsResponse:
        """Return a page of rounds, the newest first."""
        request = api.ListRoundsRequest(page_size=size, page_token=token)
        return self._calls.call("Scheduler.ListRounds", request, api.ListRoundsResponse)

    def round(self, number: int) -> api.Round:
        """Return a round with its plan."""
        return self._calls.call("Scheduler.GetRound", api.GetRoundRequest(id=number), api.Round)

    def plan(self, request: api.PlanRequest) -> t.Plan:
        """Plan a round and change nothing."""
        return self._calls.call("Scheduler.Plan", request, api.PlanResponse).plan

    # The cluster

    def status(self) -> cluster.GetStatusResponse:
        """Return how the scheduler stands."""
        return self._calls.call("Cluster.GetStatus", cluster.GetStatusRequest(), cluster.GetStatusResponse)

    def node(self, node: str) -> t.Node:
        """Return a node as it stands."""
        return self._calls.call("Cluster.GetNode", cluster.GetNodeRequest(id=node), t.Node)

    def page_of_nodes(
        self, states: Sequence[t.NodeState] = (), domain: str = "", size: int = 100, token: str = ""
    ) -> cluster.ListNodesResponse:
        """Return a page of nodes, in some states, in a domain, in order of their ids."""
        request = cluster.ListNodesRequest(states=states, domain=domain, page_size=size, page_token=token)
        return self._calls.call("Cluster.ListNodes", request, cluster.ListNodesResponse)

    def cordon(self, node: str, reason: str = "") -> t.Node:
        """Close a node to new work."""
        return self._calls.call("Cluster.CordonNode", cluster.CordonNodeRequest(id=node, reason=reason), t.Node)

    def uncordon(self, node: str) -> t.Node:
        """Open a node again, once its probe has passed."""
        return self._calls.call("Cluster.UncordonNode", cluster.UncordonNodeRequest(id=node), t.Node)

    def drain(self, node: str, reason: str = "") -> t.Node:
        """Close a node and move what it runs elsewhere."""
        return self._calls.call("Cluster.DrainNode", cluster.DrainNodeRequest(id=node, reason=reason), t.Node)

    def fence(self, node: str, reason: str = "") -> t.Node:
        """State that nothing runs any more on a lost node."""
        return self._calls.call("Cluster.FenceNode", cluster.FenceNodeRequest(id=node, reason=reason), t.Node)

    def teams(self) -> cluster.ListTeamsResponse:
        """Return all teams, what they may have and what they have."""
        return self._calls.call("Cluster.ListTeams", cluster.ListTeamsRequest(), cluster.ListTeamsResponse)

    def set_teams(self, teams: Sequence[t.Team], expected_version: int = 0) -> cluster.SetTeamsResponse:
        """Create or replace teams, all of them or none; only where the rules have a version, if one is given."""
        request = cluster.SetTeamsRequest(teams=teams, expected_version=expected_version)
        return self._calls.call("Cluster.SetTeams", request, cluster.SetTeamsResponse, again=not expected_version)

    def reservations(self) -> cluster.ListReservationsResponse:
        """Return maintenance windows and grants."""
        request = cluster.ListReservationsRequest()
        return self._calls.call("Cluster.ListReservations", request, cluster.ListReservationsResponse)

    def set_reservation(self, entry: t.Reservation) -> cluster.SetReservationResponse:
        """Create or replace a maintenance window or a grant."""
        request = cluster.SetReservationRequest(reservation=entry)
        return self._calls.call("Cluster.SetReservation", request, cluster.SetReservationResponse)

    def drop_reservation(self, name: str) -> cluster.DropReservationResponse:
        """Withdraw a maintenance window or a grant."""
        request = cluster.DropReservationRequest(id=name)
        return self._calls.call("Cluster.DropReservation", request, cluster.DropReservationResponse, again=False)


def new_key() -> str:
    """Return a key that no other submission has."""
    return uuid.uuid4().hex
