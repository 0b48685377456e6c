"""Requests about nodes, teams, profile and reservations: one function each, called by gRPC and REST alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

import optsched
from optsched.engine import events
from optsched.engine.ports import Store
from optsched.engine.state import NodeRecord, State
from optsched.engine.view import snapshot_of
from optsched.errors import NotKnown
from optsched.files.dump import profile_to_dict
from optsched.files.jsontext import JsonProblem, parse_json
from optsched.files.profiles import resolve_profile
from optsched.files.report import Scope, show
from optsched.server import asked
from optsched.server.caller import Caller
from optsched.server.checks import (
    Plain,
    Rules,
    check_version,
    cluster_of,
    read_nodes,
    read_reservation,
    read_teams,
    request,
)
from optsched.server.history import change_of
from optsched.server.leader import Leader, Prepared
from optsched.server.lists import read_token, write_token
from optsched.server.shares import TeamShares, shares_of
from optsched.server.views import gpus_by_team, node_view, reservation_view, team_view
from optsched.topology.tree import build_tree
from optsched.values.cluster import NodeState
from optsched.values.ids import NODE_LEVEL, JobId, NodeId, ReservationId

RULES = JobId("")
"""Whose history is that of what operators changed."""


class Connections(Protocol):
    """Which agents are there."""

    def connected(self, node: NodeId) -> bool:
        """Return whether a node's agent is connected."""
        ...

    def skew_s(self, node: NodeId) -> float | None:
        """Return by how much an agent's clock is ahead, None where it is not known."""
        ...

    @property
    def count(self) -> int:
        """How many agents are connected."""
        ...


@dataclass(slots=True)
class Cluster:
    """What may be asked about the cluster and its rules."""

    leader: Leader
    store: Store
    rules: Rules
    agents: Connections
    last_round: Callable[[], int | None] = field(default=lambda: None)

    # The scheduler

    async def status(self, data: Plain, caller: Caller) -> Plain:
        """Return how the scheduler stands."""
        request(asked.GetStatusRequest, data)
        state = self.leader.state
        by_state: dict[str, int] = {}
        for record in (*state.jobs.values(), *state.ended.values()):
            by_state[record.state.value] = by_state.get(record.state.value, 0) + 1
        nodes = state.nodes.values()
        up = [each for each in nodes if each.node.state is NodeState.UP]
        return {
            "version": optsched.__version__,
            "leads": not self.leader.stopped.is_set(),
            "epoch": state.epoch,
            "now_at": self.leader.now(),
            "paused": state.paused,
            "rules_version": state.rules_changed,
            "nodes": len(nodes),
            "agents_connected": self.agents.count,
            "gpus": sum(each.node.gpus for each in nodes),
            "gpus_healthy": sum(each.node.healthy_gpus for each in nodes),
            "gpus_free": sum(max(0, each.node.healthy_gpus - each.booked_gpus) for each in up),
            "jobs_by_state": by_state,
            "last_round": self.last_round(),
        }

    async def changes(self, data: Plain, caller: Caller) -> Plain:
        """Return what operators changed, oldest first."""
        asking, _ = request(asked.ListChangesRequest, data)
        size = asking.page_size or 100
        found = await asyncio.to_thread(self.store.history, RULES, asking.after_sequence, size + 1)
        return {"changes": [change_of(entry) for entry in found[:size]], "more": len(found) > size}

    # Nodes

    async def nodes(self, data: Plain, caller: Caller) -> Plain:
        """Return a page of nodes, in order of their ids."""
        asking, scope = request(asked.ListNodesRequest, data)
        after = read_token(asking.page_token, scope)
        state = self.leader.state
        inside = self._inside(asking.domain, state) if asking.domain else None
        found = [
            name
            for name, record in state.nodes.items()
            if (not asking.states or record.node.state.value in asking.states) and (inside is None or name in inside)
        ]
        later = sorted(name for name in found if after is None or name > after[1])
        page = later[: asking.size]
        token = write_token(0.0, page[-1]) if len(later) > asking.size else ""
        return {
            "nodes": [self._node(state.nodes[name]) for name in page],
            "next_page_token": token,
            "total": len(found),
        }

    def _inside(self, domain: str, state: State) -> set[NodeId]:
        """Return the nodes of a domain. Raises NotKnown."""
        tree = build_tree(cluster_of(state))
        found = tree.find_domains(domain)
        if not found:
            raise NotKnown(f"no domain is called {domain}")
        return {tree.node_ids[n] for level, number in found for n in tree.nodes_in(level, number)}

    async def node(self, data: Plain, caller: Caller) -> Plain:
        """Return one node."""
        asking, _ = request(asked.GetNodeRequest, data)
        return self._node(_known(self.leader.state, asking.id))

    def _node(self, record: NodeRecord) -> Plain:
        name = record.node.id
        return node_view(record, connected=self.agents.connected(name), skew_s=self.agents.skew_s(name))

    async def domains(self, data: Plain, caller: Caller) -> Plain:
        """Return the domains of one level, or of all but the node."""
        asking, scope = request(asked.ListDomainsRequest, data)
        state = self.leader.state
        levels = (*state.cluster.levels, NODE_LEVEL)
        if asking.level and asking.level not in levels:
            scope.fault(f"unknown level {show(asking.level)}", f"one of {', '.join(levels)}", "level")
            scope.report.raise_faults()
        return await asyncio.to_thread(_domains, state, asking.level)

    async def set_nodes(self, data: Plain, caller: Caller) -> Plain:
        """Add nodes, or describe them anew: all of them, or none."""
        asking, scope = request(asked.SetNodesRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            check_version(state, asking.expected_version)
            read = read_nodes(asking.nodes, scope.at("nodes"), self.rules.known(state, now))
            scope.report.raise_faults()
            return self._changed(caller, "set_node", data, scope, [events.SetNode(node) for node in read])

        return await self.leader.ask(prepare)

    async def remove_node(self, data: Plain, caller: Caller) -> Plain:
        """Take a node out for good."""
        asking, scope = request(asked.RemoveNodeRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            node = _known(state, asking.id).node.id
            return self._changed(caller, "node_removed", data, scope, [events.NodeRemoved(node)], warns=False)

        return await self.leader.ask(prepare)

    async def cordon(self, data: Plain, caller: Caller) -> Plain:
        """Close a node to new work."""
        asking, _ = request(asked.CordonNodeRequest, data)
        return await self._operate(caller, "cordon", data, events.Cordon(NodeId(asking.id), asking.reason))

    async def uncordon(self, data: Plain, caller: Caller) -> Plain:
        """Open a node again."""
        asking, _ = request(asked.UncordonNodeRequest, data)
        return await self._operate(caller, "uncordon", data, events.Uncordon(NodeId(asking.id)))

    async def drain(self, data: Plain, caller: Caller) -> Plain:
        """Close a node and empty it."""
        asking, _ = request(asked.DrainNodeRequest, data)
        return await self._operate(caller, "drain", data, events.Drain(NodeId(asking.id), asking.reason))

    async def fence(self, data: Plain, caller: Caller) -> Plain:
        """State that nothing runs any more on a lost node."""
        asking, _ = request(asked.FenceNodeRequest, data)
        return await self._operate(caller, "fenced", data, events.Fenced(NodeId(asking.id)))

    async def _operate(
        self,
        caller: Caller,
        what: str,
        data: Plain,
        event: events.Cordon | events.Uncordon | events.Drain | events.Fenced,
    ) -> Plain:
        def prepare(state: State, now: float) -> Prepared[Plain]:
            _known(state, event.node)
            happened = (_asked(caller, what, data), event)
            return Prepared(lambda after: self._node(_known(after, event.node)), happened)

        return await self.leader.ask(prepare)

    # Teams

    async def teams(self, data: Plain, caller: Caller) -> Plain:
        """Return all teams, what they may have and what they have."""
        request(asked.ListTeamsRequest, data)
        state = self.leader.state
        shares = await asyncio.to_thread(lambda: shares_of(snapshot_of(state)))
        use = gpus_by_team(state)
        below = _below(state, {team: row[0] for team, row in use.items()})
        rows = []
        for team in state.teams.values():
            running, jobs, queued, waiting = use[team.id]
            share = shares.get(team.id, TeamShares({}, 0.0))
            rows.append(
                {
                    "team": team_view(team, state.profile),
                    "running_gpus": running,
                    "running_gpus_below": below[team.id],
                    "queued_gpus": queued,
                    "queued_jobs": waiting,
                    "running_jobs": jobs,
                    "entitlement_gpus": dict(share.entitlement_gpus),
                    "dominant_share": share.dominant_share,
                }
            )
        return {"teams": rows, "rules_version": state.rules_changed}

    async def set_teams(self, data: Plain, caller: Caller) -> Plain:
        """Create or replace teams: all of them, or none."""
        asking, scope = request(asked.SetTeamsRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            check_version(state, asking.expected_version)
            about = self.rules.known(state, now)
            teams = read_teams(asking.teams, scope.at("teams"), about, cluster_of(state))
            scope.report.raise_faults()
            return self._changed(caller, "set_team", data, scope, [events.SetTeam(team) for team in teams])

        return await self.leader.ask(prepare)

    # Profile

    async def profile(self, data: Plain, caller: Caller) -> Plain:
        """Return the profile in force."""
        request(asked.GetProfileRequest, data)
        return _profile(self.leader.state)

    async def set_profile(self, data: Plain, caller: Caller) -> Plain:
        """Put another profile in force."""
        asking, scope = request(asked.SetProfileRequest, data)
        given, place = _profile_given(asking, scope)
        found = resolve_profile(given, place)
        scope.report.raise_faults()
        assert found is not None, "no profile without a fault"

        def prepare(state: State, now: float) -> Prepared[Plain]:
            check_version(state, asking.expected_version)
            return Prepared(_profile, (_asked(caller, "set_profile", data), events.SetProfile(found)))

        return await self.leader.ask(prepare)

    # Reservations

    async def reservations(self, data: Plain, caller: Caller) -> Plain:
        """Return maintenance windows and grants, in order of their ids."""
        request(asked.ListReservationsRequest, data)
        state = self.leader.state
        rows = [reservation_view(entry) for _, entry in sorted(state.reservations.items())]
        return {"reservations": rows, "rules_version": state.rules_changed}

    async def set_reservation(self, data: Plain, caller: Caller) -> Plain:
        """Create or replace a maintenance window or a grant."""
        asking, scope = request(asked.SetReservationRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            check_version(state, asking.expected_version)
            place = scope.at("reservation")
            found = read_reservation(asking.reservation, place, self.rules.known(state, now), state)
            scope.report.raise_faults()
            assert found is not None, "no reservation without a fault"
            return self._changed(caller, "set_reservation", data, scope, [events.SetReservation(found)])

        return await self.leader.ask(prepare)

    async def drop_reservation(self, data: Plain, caller: Caller) -> Plain:
        """Withdraw a maintenance window or a grant."""
        asking, scope = request(asked.DropReservationRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            name = ReservationId(asking.id)
            if name not in state.reservations:
                raise NotKnown(f"no reservation is called {name}")
            event = events.DropReservation(name)
            return self._changed(caller, "drop_reservation", data, scope, [event], warns=False)

        return await self.leader.ask(prepare)

    def _changed(
        self,
        caller: Caller,
        what: str,
        data: Plain,
        scope: Scope,
        happened: Sequence[events.Event],
        *,
        warns: bool = True,
    ) -> Prepared[Plain]:
        """Return a change of the rules, answered with their version and, where it may, with warnings."""
        warnings = list(scope.report.warnings())
        more: Plain = {"warnings": warnings} if warns else {}
        return Prepared(
            lambda after: {"rules_version": after.rules_changed, **more}, (_asked(caller, what, data), *happened)
        )


def _asked(caller: Caller, what: str, data: Plain) -> events.Asked:
    return events.Asked(caller.name, what, json.dumps(data, sort_keys=True, default=str), RULES)


def _known(state: State, node: str) -> NodeRecord:
    record = state.nodes.get(NodeId(node))
    if record is None:
        raise NotKnown(f"no node is called {node}")
    return record


def _below(state: State, own: dict[str, int]) -> dict[str, int]:
    """Return a number of each team with those of all teams below it."""
    total = dict.fromkeys(state.teams, 0) | dict(own)
    for team in state.teams.values():
        above = team.parent
        while above is not None and above in state.teams:
            total[above] += own.get(team.id, 0)
            above = state.teams[above].parent
    return {str(name): count for name, count in total.items()}


def _domains(state: State, level: str) -> Plain:
    cluster = cluster_of(state)
    tree = build_tree(cluster)
    records = list(state.nodes.values())

    def column(number: Callable[[NodeRecord], int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([number(each) for each in records], dtype=np.int64)

    columns = {
        "nodes": column(lambda each: 1),
        "gpus": column(lambda each: each.node.gpus),
        "healthy_gpus": column(lambda each: each.node.healthy_gpus),
        "free_gpus": column(lambda each: max(0, each.node.healthy_gpus - each.booked_gpus)),
        "nodes_up": column(lambda each: int(each.node.state is NodeState.UP)),
        "nodes_empty": column(lambda each: int(not each.bookings)),
    }
    rows: list[Plain] = []
    for index, name in enumerate(tree.levels):
        if name != level and (level or name == NODE_LEVEL):
            continue
        sums = {key: tree.sum_per_domain(index, each) for key, each in columns.items()}
        for number, path in enumerate(tree.domain_names[index]):
            rows.append({"level": name, "name": path} | {key: int(each[number]) for key, each in sums.items()})
    return {"levels": list(tree.levels), "domains": rows}


def _profile(state: State) -> Plain:
    return {
        "name": state.profile.name,
        "json": json.dumps(profile_to_dict(state.profile)),
        "rules_version": state.rules_changed,
    }


def _profile_given(asking: asked.SetProfileRequest, scope: Scope) -> tuple[object, Scope]:
    """Return the profile that a request names or describes, and the place of it. Raises InputError."""
    given = asking.json_
    if (asking.name is None) == (given is None):
        scope.fault("names no profile, or two", "name, or json", "name")
    elif isinstance(given, str):
        try:
            given, _ = parse_json(given)
        except JsonProblem as problem:
            scope.fault(problem.wrong, "a JSON object with the keys of a profile", "json")
    if given is not None and not isinstance(given, str | dict):
        scope.fault(f"given {show(given)}", "a JSON object with the keys of a profile", "json")
    scope.report.raise_faults()
    return (asking.name, scope.at("name")) if given is None else (given, scope.at("json"))
