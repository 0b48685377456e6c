"""Every method of the contract and what serves it: the one table that gRPC and REST read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from optsched.server.agents import Agents
from optsched.server.caller import Caller
from optsched.server.checks import Plain
from optsched.server.cluster import Cluster
from optsched.server.hub import Hub
from optsched.server.jobs import Jobs
from optsched.server.leader import Leader
from optsched.server.nodes import Nodes
from optsched.server.output import Output
from optsched.server.plans import Plans

Answer = Callable[[Plain, Caller], Awaitable[Plain]]
Stream = Callable[[Plain, Caller], AsyncGenerator[Plain, None]]


@dataclass(frozen=True, slots=True)
class Application:
    """What the service does, apart from how it is reached."""

    leader: Leader
    jobs: Jobs
    plans: Plans
    nodes: Nodes
    cluster: Cluster
    hub: Hub
    agents: Agents
    output: Output

    def answers(self) -> Mapping[str, Answer]:
        """Return the methods that take a request and give an answer, by service and name."""
        jobs, plans, nodes, cluster = self.jobs, self.plans, self.nodes, self.cluster
        return {
            "Scheduler.SubmitJob": jobs.submit,
            "Scheduler.SubmitJobs": jobs.submit_many,
            "Scheduler.GetJob": jobs.get,
            "Scheduler.ListJobs": jobs.list,
            "Scheduler.UpdateJob": jobs.update,
            "Scheduler.HoldJob": jobs.hold,
            "Scheduler.ReleaseJob": jobs.release,
            "Scheduler.CancelJob": jobs.cancel,
            "Scheduler.PreemptJob": jobs.preempt,
            "Scheduler.ExplainJob": plans.explain,
            "Scheduler.ListJobEvents": jobs.events,
            "Scheduler.Plan": plans.plan,
            "Scheduler.ListRounds": plans.rounds,
            "Scheduler.GetRound": plans.round,
            "Cluster.GetStatus": cluster.status,
            "Cluster.ListNodes": nodes.list,
            "Cluster.GetNode": nodes.get,
            "Cluster.ListDomains": nodes.domains,
            "Cluster.SetNodes": nodes.set,
            "Cluster.RemoveNode": nodes.remove,
            "Cluster.CordonNode": nodes.cordon,
            "Cluster.UncordonNode": nodes.uncordon,
            "Cluster.DrainNode": nodes.drain,
            "Cluster.FenceNode": nodes.fence,
            "Cluster.ListTeams": cluster.teams,
            "Cluster.SetTeams": cluster.set_teams,
            "Cluster.GetProfile": cluster.profile,
            "Cluster.SetProfile": cluster.set_profile,
            "Cluster.ListReservations": cluster.reservations,
            "Cluster.SetReservation": cluster.set_reservation,
            "Cluster.DropReservation": cluster.drop_reservation,
            "Cluster.ListChanges": cluster.changes,
        }

    def streams(self) -> Mapping[str, Stream]:
        """Return the methods that take a request and give many answers, by service and name."""
        return {
            "Scheduler.WatchJobs": self.hub.watch_jobs,
            "Scheduler.ReadLogs": self.output.read,
            "Cluster.WatchEvents": self.hub.watch_events,
        }
