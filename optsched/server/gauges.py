"""What the state tells in numbers: read from it when somebody scrapes, and not before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from optsched.engine.state import State
from optsched.engine.view import snapshot_of
from optsched.planner.window import in_window
from optsched.server.agents import Agents
from optsched.server.checks import cluster_of
from optsched.server.leader import Leader
from optsched.server.shares import TeamShares, shares_of
from optsched.server.views import gpus_by_team
from optsched.topology.tree import Tree, build_tree
from optsched.values.cluster import NodeState
from optsched.values.ids import TeamId


class OfState(Collector):
    """Reads the state when it is asked."""

    def __init__(self, leader: Leader, agents: Agents) -> None:
        self._leader = leader
        self._agents = agents
        self._tree: tuple[int, Tree] | None = None
        self._shares: tuple[int, Mapping[TeamId, TeamShares]] | None = None

    def collect(self) -> Iterable[Metric]:
        """Yield what the state tells."""
        state = self._leader.state
        teams = GaugeMetricFamily(
            "optsched_team_gpus", "GPUs of a team, running and asked for", labels=["team", "what"]
        )
        jobs = GaugeMetricFamily("optsched_team_jobs", "Jobs of a team, running and queued", labels=["team", "what"])
        for team, (running, runs, queued, waits) in gpus_by_team(state).items():
            teams.add_metric([team, "running"], running)
            teams.add_metric([team, "queued"], queued)
            jobs.add_metric([team, "running"], runs)
            jobs.add_metric([team, "queued"], waits)
        yield teams
        yield jobs
        yield from self._entitled(state)
        yield from _gpus(state)
        yield from _domains(state, self._tree_of(state))
        yield GaugeMetricFamily("optsched_agents_connected", "Agents that are connected", value=self._agents.count)
        yield GaugeMetricFamily("optsched_waiting", "Requests and reports that wait", value=self._leader.waiting)
        yield GaugeMetricFamily("optsched_epoch", "The epoch in force", value=state.epoch)
        yield GaugeMetricFamily("optsched_log_sequence", "Entries in the log", value=self._leader.sequence)

    def _entitled(self, state: State) -> Iterable[Metric]:
        """Yield what teams are entitled to and what share they hold, as of the last round."""
        if self._shares is None or self._shares[0] != state.settled:
            # Of a long queue the window says as much: what it leaves out counts as asked for.
            self._shares = state.settled, shares_of(in_window(snapshot_of(state))[0])
        entitled = GaugeMetricFamily(
            "optsched_team_entitlement_gpus", "GPUs that a team is entitled to", labels=["team", "gpu_type"]
        )
        share = GaugeMetricFamily(
            "optsched_team_dominant_share", "Weighted dominant share that a team holds", labels=["team"]
        )
        for team, found in self._shares[1].items():
            for gpu_type, gpus in found.entitlement_gpus.items():
                entitled.add_metric([team, gpu_type], gpus)
            share.add_metric([team], found.dominant_share)
        yield entitled
        yield share

    def _tree_of(self, state: State) -> Tree:
        if self._tree is None or self._tree[0] != state.rules_changed:
            self._tree = state.rules_changed, build_tree(cluster_of(state))
        return self._tree[1]


def _gpus(state: State) -> Iterable[Metric]:
    """Yield what GPUs there are and how many of them are used, by the state of their nodes."""
    nodes = GaugeMetricFamily("optsched_nodes", "Nodes by state", labels=["state"])
    gpus = GaugeMetricFamily("optsched_gpus", "Healthy GPUs by state of their node", labels=["state"])
    booked = GaugeMetricFamily("optsched_gpus_booked", "GPUs that runs have, by state of their node", labels=["state"])
    counts = {each: [0, 0, 0] for each in NodeState}
    whole = 0
    for record in state.nodes.values():
        row = counts[record.node.state]
        row[0] += 1
        row[1] += record.node.healthy_gpus
        row[2] += record.booked_gpus
        whole += record.node.healthy_gpus if record.node.state is NodeState.UP and not record.bookings else 0
    for each, row in counts.items():
        for family, value in zip((nodes, gpus, booked), row, strict=True):
            family.add_metric([each.value], value)
    yield from (nodes, gpus, booked)
    yield GaugeMetricFamily("optsched_gpus_in_empty_nodes", "Free GPUs in nodes that are wholly free", value=whole)


def _domains(state: State, tree: Tree) -> Iterable[Metric]:
    """Yield, by level, how the domains are used and how much of what is free lies in large pieces."""
    used = GaugeMetricFamily("optsched_domains", "Domains by level and use", labels=["level", "use"])
    largest = GaugeMetricFamily(
        "optsched_largest_free_gpus", "Free GPUs of the domain that has most of them", labels=["level"]
    )
    whole = GaugeMetricFamily(
        "optsched_gpus_in_empty_domains", "Free GPUs in domains that are wholly free", labels=["level"]
    )
    # The tree is that of the set of nodes; how each stands may have changed since.
    records = [state.nodes.get(name) for name in tree.node_ids]
    takes = np.array([each is not None and each.node.state is NodeState.UP for each in records])
    healthy = np.array([0 if each is None else each.node.healthy_gpus for each in records], dtype=np.int64)
    booked = np.array([0 if each is None else each.booked_gpus for each in records], dtype=np.int64)
    free = np.where(takes, np.maximum(0, healthy - booked), 0)
    for number, level in enumerate(tree.levels):
        gpus, left = tree.sum_per_domain(number, healthy), tree.sum_per_domain(number, free)
        empty = (left == gpus) & (gpus > 0)
        used.add_metric([level, "empty"], int(empty.sum()))
        used.add_metric([level, "full"], int((left == 0).sum()))
        used.add_metric([level, "part"], int(((left > 0) & ~empty).sum()))
        largest.add_metric([level], int(left.max(initial=0)))
        whole.add_metric([level], int(left[empty].sum()))
    yield from (used, largest, whole)
