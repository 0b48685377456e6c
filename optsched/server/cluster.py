"""Requests about the scheduler, teams, profile and reservations: one function each, called by gRPC and REST alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import optsched
from optsched.engine import events
from optsched.engine.ports import Store
from optsched.engine.records import Records
from optsched.engine.state import NodeRecord, State
from optsched.engine.view import snapshot_of
from optsched.errors import NotKnown
from optsched.files.dump import profile_to_dict
from optsched.files.jsontext import JsonProblem, parse_json
from optsched.files.profiles import resolve_profile
from optsched.files.report import Scope, show
from optsched.server import asked
from optsched.server.caller import Caller
from optsched.server.changes import RULES, asked_by, changed
from optsched.server.checks import (
    Plain,
    Rules,
    check_version,
    cluster_of,
    read_reservation,
    read_teams,
    request,
)
from optsched.server.history import change_of
from optsched.server.leader import Leader, Prepared
from optsched.server.nodes import Connections
from optsched.server.shares import TeamShares, shares_of
from optsched.server.tally import Tally
from optsched.server.views import gpus_by_team, reservation_view, team_view
from optsched.values.cluster import NodeState
from optsched.values.ids import NodeId, ReservationId


class _Room(NamedTuple):
    """GPUs of some nodes: all, healthy ones, free ones."""

    gpus: int
    healthy: int
    free: int


@dataclass(slots=True)
class Cluster:
    """What may be asked about the cluster and its rules."""

    leader: Leader
    store: Store
    rules: Rules
    agents: Connections
    last_round: Callable[[], int | None] = field(default=lambda: None)
    _by_state: Tally = field(default_factory=lambda: Tally(lambda record: record.state.value))

    # The scheduler

    async def status(self, data: Plain, caller: Caller) -> Plain:
        """Return how the scheduler stands."""
        request(asked.GetStatusRequest, data)
        state = self.leader.state
        by_state = dict(self._by_state.of(state.jobs, state.ended))
        rooms = Records.of(state.nodes).parts(_room_of)
        return {
            "version": optsched.__version__,
            "leads": not self.leader.stopped.is_set(),
            "epoch": state.epoch,
            "now_at": self.leader.now(),
            "paused": state.paused,
            "rules_version": state.rules_changed,
            "state_version": state.version,
            "nodes": len(state.nodes),
            "agents_connected": self.agents.count,
            "gpus": sum(each.gpus for each in rooms),
            "gpus_healthy": sum(each.healthy for each in rooms),
            "gpus_free": sum(each.free for each in rooms),
            "jobs_by_state": by_state,
            "last_round": self.last_round(),
        }

    async def changes(self, data: Plain, caller: Caller) -> Plain:
        """Return what operators changed, oldest first."""
        asking, _ = request(asked.ListChangesRequest, data)
        size = asking.page_size or 100
        found = await asyncio.to_thread(self.store.history, RULES, asking.after_sequence, size + 1)
        return {"changes": [change_of(entry) for entry in found[:size]], "more": len(found) > size}

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
            return changed(caller, "set_team", data, scope, [events.SetTeam(team) for team in teams])

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
            return Prepared(_profile, (asked_by(caller, "set_profile", data), events.SetProfile(found)))

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
            return changed(caller, "set_reservation", data, scope, [events.SetReservation(found)])

        return await self.leader.ask(prepare)

    async def drop_reservation(self, data: Plain, caller: Caller) -> Plain:
        """Withdraw a maintenance window or a grant."""
        asking, scope = request(asked.DropReservationRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            name = ReservationId(asking.id)
            if name not in state.reservations:
                raise NotKnown(f"no reservation is called {name}")
            event = events.DropReservation(name)
            return changed(caller, "drop_reservation", data, scope, [event], warns=False)

        return await self.leader.ask(prepare)


def _room_of(nodes: Mapping[NodeId, NodeRecord]) -> _Room:
    """Return what some nodes have; what is free counts on those that are up."""
    up = [each for each in nodes.values() if each.node.state is NodeState.UP]
    return _Room(
        sum(each.node.gpus for each in nodes.values()),
        sum(each.node.healthy_gpus for each in nodes.values()),
        sum(max(0, each.node.healthy_gpus - each.booked_gpus) for each in up),
    )


def _below(state: State, own: dict[str, int]) -> dict[str, int]:
    """Return a number of each team with those of all teams below it."""
    total = dict.fromkeys(state.teams, 0) | dict(own)
    for team in state.teams.values():
        above = team.parent
        while above is not None and above in state.teams:
            total[above] += own.get(team.id, 0)
            above = state.teams[above].parent
    return {str(name): count for name, count in total.items()}


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
