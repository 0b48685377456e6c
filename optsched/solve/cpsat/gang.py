"""One gang's placement as variables: rules 1 to 6 of the formulation, and what its span costs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model
from ortools.sat.python.cp_model import CpModel, IntVar

from optsched.rounds.problem import Cut, Problem, RoundJob
from optsched.rounds.score import loss_at, scatter_price
from optsched.solve.cpsat.terms import Linear, total


@dataclass(frozen=True, slots=True)
class Gang:
    """A placement that exists exactly if `active`.

    `gpus[n]` on each candidate node, `size` in all, `loss` per the horizon.
    """

    job: RoundJob
    active: IntVar
    gpus: Mapping[int, Linear]
    size: Linear
    loss: Linear
    above: IntVar | None
    units: Mapping[int, IntVar]
    types: Mapping[int, IntVar]


def add_gang(
    model: CpModel,
    problem: Problem,
    job: RoundJob,
    name: str,
    active: IntVar,
    candidates: Mapping[int, int],
    sizes: Sequence[int],
) -> Gang:
    """Add a gang's placement. `candidates` maps each node that it may use to the most GPUs it could have there."""
    builder = _GangBuilder(model, problem, job, name, active, candidates, sizes)
    return builder.build()


class _GangBuilder:
    def __init__(
        self,
        model: CpModel,
        problem: Problem,
        job: RoundJob,
        name: str,
        active: IntVar,
        candidates: Mapping[int, int],
        sizes: Sequence[int],
    ) -> None:
        self.model, self.problem, self.job, self.name, self.active = model, problem, job, name, active
        self.candidates, self.sizes = candidates, tuple(sizes)
        self.units: dict[int, IntVar] = {}
        self.gpus: dict[int, Linear] = {}
        self.on: dict[int, IntVar] = {}
        self._used: dict[int, dict[int, IntVar]] = {}

    def build(self) -> Gang:
        self._add_nodes()
        size, above = self._add_size()
        self._add_type()
        self._add_required()
        self._add_slices()
        loss = self._add_loss(size)
        return Gang(self.job, self.active, self.gpus, size, loss, above, self.units, self.types)

    def _add_nodes(self) -> None:
        """The cut: GPUs on a node are a whole number of units; no more units than the node could ever give."""
        job, model = self.job, self.model
        for n, most in self.candidates.items():
            if job.cut is Cut.PER_TASK:
                unit = model.new_int_var(0, most // job.unit, f"{self.name}@{n}")
                self.gpus[n] = unit * job.unit
            elif job.cut is Cut.ONE_NODE and len(self.sizes) > 1:
                unit = model.new_int_var(0, most, f"{self.name}@{n}")
                self.gpus[n] = unit
            else:
                unit = model.new_bool_var(f"{self.name}@{n}")
                per_unit = {Cut.PER_NODE: job.unit, Cut.ONE_NODE: self.sizes[0]}.get(
                    job.cut, int(self.problem.nodes.capacity[n])
                )
                self.gpus[n] = unit * per_unit
                self.on[n] = unit
                if job.cut is Cut.ONE_NODE and per_unit > most:
                    model.add(unit == 0)
            self.units[n] = unit

    def on_node(self, n: int) -> IntVar:
        """Return whether the gang has any GPU on node n."""
        if n not in self.on:
            used = self.model.new_bool_var(f"{self.name} on {n}")
            unit = self.units[n]
            self.model.add(unit >= 1).only_enforce_if(used)
            self.model.add(unit == 0).only_enforce_if(~used)
            self.on[n] = used
        return self.on[n]

    def _add_size(self) -> tuple[Linear, IntVar | None]:
        """The size: one of the job's, all of it placed exactly if the gang is active."""
        model, job = self.model, self.job
        placed = total(list(self.gpus.values()))
        if len(self.sizes) == 1:
            model.add(placed == self.sizes[0] * self.active)
            if job.cut is Cut.ONE_NODE or (job.cut is Cut.PER_NODE and self.sizes[0] == job.unit):
                model.add_exactly_one([~self.active, *self.units.values()])
            return self.sizes[0] * self.active, None
        domain = cp_model.Domain.from_values([0, *self.sizes])
        size = model.new_int_var_from_domain(domain, f"size {self.name}")
        model.add(placed == size)
        model.add(size >= self.sizes[0]).only_enforce_if(self.active)
        model.add(size == 0).only_enforce_if(~self.active)
        if job.cut is Cut.ONE_NODE:
            model.add_exactly_one([~self.active, *(self.on_node(n) for n in self.units)])
        above = model.new_bool_var(f"above {self.name}")
        model.add(size > job.minimum).only_enforce_if(above)
        model.add(size <= job.minimum).only_enforce_if(~above)
        return size, above

    def _add_type(self) -> None:
        """One type: all GPUs of a gang are of one type."""
        by_type: dict[int, list[int]] = defaultdict(list)
        for n in self.candidates:
            by_type[int(self.problem.nodes.gpu_type[n])].append(n)
        self.types: dict[int, IntVar] = {}
        if len(by_type) <= 1:
            self.types = dict.fromkeys(by_type, self.active)
            return
        for y, nodes in by_type.items():
            chosen = self.model.new_bool_var(f"{self.name} type {y}")
            self.types[y] = chosen
            for n in nodes:
                self.model.add_implication(self.on_node(n), chosen)
        self.model.add_exactly_one([~self.active, *self.types.values()])

    def _domains(self, level: int) -> dict[int, list[int]]:
        domains: dict[int, list[int]] = defaultdict(list)
        for n in self.candidates:
            domains[int(self.problem.tree.domain_of[level][n])].append(n)
        return domains

    def used(self, level: int) -> dict[int, IntVar]:
        """Return, for each domain of a level (-1-n: node n outside every one), whether the gang uses it."""
        if level not in self._used:
            used: dict[int, IntVar] = {}
            if level == self.problem.tree.node_level:
                used = {n: self.on_node(n) for n in self.candidates}
            else:
                for domain, nodes in self._domains(level).items():
                    if domain < 0:
                        used.update({-1 - n: self.on_node(n) for n in nodes})
                        continue
                    literal = self.model.new_bool_var(f"{self.name} in {level}.{domain}")
                    members = [self.on_node(n) for n in nodes]
                    for member in members:
                        self.model.add_implication(member, literal)
                    self.model.add_bool_or([~literal, *members])
                    used[domain] = literal
            self._used[level] = used
        return self._used[level]

    def _add_required(self) -> None:
        """Required level: one domain holds the whole gang."""
        level = self.job.required
        if level is None or (level == self.problem.tree.node_level and self.job.cut is Cut.ONE_NODE):
            return
        if self.job.cut is not Cut.ONE_NODE:
            used = self.used(level)
            self.model.add_exactly_one([~self.active, *used.values()])

    def _add_slices(self) -> None:
        """Slices: inside each domain of a slice's level the gang has whole slices."""
        for piece, level in self.job.slices:
            for domain, nodes in self._domains(level).items():
                if domain < 0:
                    # A running job may be where no domain of the level is; what is placed anew may not.
                    self.model.add(total([self.gpus[n] for n in nodes]) == 0)
                    continue
                if len(nodes) == 1 and self.job.unit % piece == 0 and self.job.cut in (Cut.PER_NODE, Cut.PER_TASK):
                    continue
                most = sum(self.candidates[n] for n in nodes) // piece
                count = self.model.new_int_var(0, most, f"{self.name} slices {level}.{domain}")
                self.model.add(total([self.gpus[n] for n in nodes]) == piece * count)

    def _add_loss(self, size: Linear) -> Linear:
        """Placement loss: by type and span, and for domains of the preferred level beyond the fewest."""
        return self._span_loss(size) + self._scatter_loss(size)

    def _span_loss(self, size: Linear) -> Linear:
        levels = len(self.problem.tree.levels)
        spans = self._possible_spans()
        losses = {(y, span): loss_at(self.problem, self.job, 1, span, y) for y in self.types for span in spans}
        if len(set(losses.values())) == 1:
            return next(iter(losses.values())) * size
        chosen = dict.fromkeys(spans, self.active) if len(spans) == 1 else self._choose_span(spans, levels)
        parts: list[Linear] = []
        largest = self.sizes[-1]
        for (y, span), per_gpu in losses.items():
            both = self._both(self.types[y], chosen[span])
            if not per_gpu:
                continue
            if len(self.sizes) == 1:
                parts.append(per_gpu * largest * both)
            else:
                share = self.model.new_int_var(0, largest, f"{self.name} loses {y}.{span}")
                self.model.add(share >= size - largest * (1 - both))
                if per_gpu < 0:
                    # Faster than full speed: what is gained must be real.
                    self.model.add(share <= size)
                    self.model.add(share <= largest * both)
                parts.append(per_gpu * share)
        return total(parts) if parts else 0

    def _both(self, first: IntVar, second: IntVar) -> IntVar:
        """Return a literal that is true exactly if both are."""
        if first is second or first.index == self.active.index:
            return second
        if second.index == self.active.index:
            return first
        both = self.model.new_bool_var(f"{self.name} both")
        self.model.add_bool_or([~first, ~second, both])
        self.model.add_implication(both, first)
        self.model.add_implication(both, second)
        return both

    def _possible_spans(self) -> list[int]:
        """Return the spans that the gang could have, narrowest first; -1 is the whole cluster."""
        tree = self.problem.tree
        node = tree.node_level
        on_one_node = self.job.cut is Cut.ONE_NODE or (self.job.cut is Cut.PER_NODE and self.sizes == (self.job.unit,))
        if on_one_node:
            return [node]
        spans = []
        smallest = self.sizes[0]
        for level in range(node, -1, -1):
            most = max(
                (sum(self.candidates[n] for n in nodes) for d, nodes in self._domains(level).items() if d >= 0),
                default=0,
            )
            if most >= smallest and not (level == node and self.job.cut is Cut.PER_NODE and smallest > self.job.unit):
                spans.append(level)
            if level == self.job.required:
                return spans or [level]
        return [*spans, -1]

    def _choose_span(self, spans: list[int], levels: int) -> dict[int, IntVar]:
        """Add one literal per span: the narrowest level one domain of which holds the whole gang."""
        model = self.model
        chosen = {span: model.new_bool_var(f"{self.name} span {span}") for span in spans}
        model.add_exactly_one([~self.active, *chosen.values()])
        speed = [round(self.problem.horizon_s * (1.0 - s)) for s in self.job.span_speed]
        for level in [span for span in spans if span >= 0]:
            inside = [literal for domain, literal in self.used(level).items() if domain >= 0]
            outside = [literal for domain, literal in self.used(level).items() if domain < 0]
            if outside:
                model.add(total(inside) <= 1).only_enforce_if(chosen[level])
                for literal in outside:
                    model.add_implication(chosen[level], ~literal)
            else:
                wider = [chosen[span] for span in spans if span < level]
                many = max(0, len(inside) - 1)
                model.add(total(inside) <= 1 + (many * total(wider) if wider else 0))
            # A narrower span may be the slower one: then a wider span must not be claimed for it.
            for span in [s for s in spans if s < level and speed[s] < speed[level]]:
                model.add(total(inside) + 2 * total(outside) >= 2).only_enforce_if(chosen[span])
        return chosen

    def _scatter_loss(self, size: Linear) -> Linear:
        job = self.job
        if job.preferred is None:
            return 0
        used = self.used(job.preferred)
        most = max(0, min(len(used), math.ceil(self.sizes[-1] / max(1, job.unit))) - job.preferred_fewest)
        price = scatter_price(self.problem, job, 1)
        if not most or not price:
            return 0
        excess = self.model.new_int_var(0, most, f"{self.name} scatter")
        self.model.add(excess >= total(list(used.values())) - job.preferred_fewest)
        if len(self.sizes) == 1:
            return price * self.sizes[0] * excess
        worth = self.model.new_int_var(0, most * self.sizes[-1], f"{self.name} scattered")
        self.model.add_multiplication_equality(worth, [size, excess])
        return price * worth
