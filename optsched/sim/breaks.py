"""When parts of a cluster fail by themselves, and how long they are gone: the same under every policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from optsched.engine.state import NodeRecord
from optsched.sim import happenings as hap
from optsched.sim.draws import exponential, uniform
from optsched.sim.happenings import Part
from optsched.sim.physics import HOUR_MS
from optsched.sim.settings import SimSettings
from optsched.topology.tree import Tree
from optsched.values.ids import LevelName, NodeId

Push = Callable[[int, hap.Happening], None]
"""Puts something into the calendar, at an instant in ms."""


class Breaks:
    """Draws failures of GPUs, nodes and domains; `domains` are the nodes of each domain that can fail, by name."""

    def __init__(self, tree: Tree, settings: SimSettings, push: Push) -> None:
        self._seed, self._rates = settings.seed, settings.failures
        self._push = push
        self.domains = domains_that_fail(tree, settings.failures.domain_level)

    def set_off(self, nodes: Mapping[NodeId, NodeRecord]) -> None:
        """Put the first failure of every part into the calendar."""
        for name, record in nodes.items():
            self.next(Part.GPU, str(name), record.node.gpus, 0, 0)
            self.next(Part.NODE, str(name), record.node.gpus, 0, 0)
        for domain in self.domains:
            self.next(Part.DOMAIN, domain, 1, 0, 0)

    def next(self, part: Part, name: str, gpus: int, now: int, count: int) -> None:
        """Put the `count`-th failure of a part into the calendar, if it ever fails; `gpus` are a node's."""
        rates = self._rates
        if part is Part.DOMAIN:
            mean = 0.0 if rates.domain_mtbf_h is None else rates.domain_mtbf_h * HOUR_MS
        else:
            rate = (rates.gpu if part is Part.GPU else rates.node) * gpus
            mean = HOUR_MS / rate if rate > 0 else 0.0
        if mean > 0:
            after = exponential(mean, self._seed, "failure", part.value, name, count)
            self._push(now + max(1, round(after)), hap.Fails(part, name, count))

    def repair_ms(self, *what: object) -> int:
        """Return how long what is named is gone once that was noticed, at least 1 ms."""
        repairs = self._rates.repairs
        by_itself = uniform(self._seed, "by hand", *what) < repairs.automatic
        mean = repairs.automatic_s if by_itself else repairs.manual_s
        return max(1, round(1000 * exponential(mean, self._seed, "repair", *what))) if mean > 0 else 1


def domains_that_fail(tree: Tree, level: str | None) -> dict[str, tuple[NodeId, ...]]:
    """Return, by name, the nodes of each domain of a level (None: the narrowest above the node)."""
    above = tree.node_level - 1 if level is None else tree.level_index.get(LevelName(level), -1)
    if above < 0:
        return {}
    return {
        name: tuple(tree.node_ids[int(n)] for n in np.asarray(tree.nodes_in(above, domain)))
        for domain, name in enumerate(tree.domain_names[above])
    }
