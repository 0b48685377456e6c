"""Requests about nodes and domains: one function each, called by gRPC and REST alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from optsched.engine import events
from optsched.engine.state import NodeRecord, State
from optsched.errors import NotKnown
from optsched.files.report import show
from optsched.server import asked
from optsched.server.caller import Caller
from optsched.server.changes import asked_by, changed
from optsched.server.checks import Plain, Rules, check_version, cluster_of, read_nodes, request
from optsched.server.leader import Leader, Prepared
from optsched.server.lists import read_token, write_token
from optsched.server.views import node_view
from optsched.topology.tree import build_tree
from optsched.values.cluster import NodeState
from optsched.values.ids import NODE_LEVEL, NodeId


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
class Nodes:
    """What may be asked about nodes."""

    leader: Leader
    rules: Rules
    agents: Connections

    async def list(self, data: Plain, caller: Caller) -> Plain:
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

    async def get(self, data: Plain, caller: Caller) -> Plain:
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

    async def set(self, data: Plain, caller: Caller) -> Plain:
        """Add nodes, or describe them anew: all of them, or none."""
        asking, scope = request(asked.SetNodesRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            check_version(state, asking.expected_version)
            read = read_nodes(asking.nodes, scope.at("nodes"), self.rules.known(state, now))
            scope.report.raise_faults()
            return changed(caller, "set_node", data, scope, [events.SetNode(node) for node in read])

        return await self.leader.ask(prepare)

    async def remove(self, data: Plain, caller: Caller) -> Plain:
        """Take a node out for good."""
        asking, scope = request(asked.RemoveNodeRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            node = _known(state, asking.id).node.id
            return changed(caller, "node_removed", data, scope, [events.NodeRemoved(node)], warns=False)

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
            happened = (asked_by(caller, what, data), event)
            return Prepared(lambda after: self._node(_known(after, event.node)), happened)

        return await self.leader.ask(prepare)


def _known(state: State, node: str) -> NodeRecord:
    record = state.nodes.get(NodeId(node))
    if record is None:
        raise NotKnown(f"no node is called {node}")
    return record


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
