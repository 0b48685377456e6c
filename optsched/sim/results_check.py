"""What the values of results must be to one another, so that they can be shown: what a simulation writes always is so.

It holds what pages and tables count on, and what would make them tell nonsense. Each rule is of one result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from optsched.sim.results_faults import Wrong
from optsched.values.cluster import NodeState

if TYPE_CHECKING:
    from optsched.sim.results import Comparison, Gang, NodeMap, Quantiles, Result, Waits

ALL = "all"
"""The group of all jobs among the waits."""

SOME = "a list of one result or more"

STATES = frozenset(state.value for state in NodeState)

Found = Iterator[Wrong]


def faults_between(found: Comparison) -> Found:
    """Yield what does not fit together, with its path from the top of the file."""
    if not found.results:
        yield ("results",), "given a list of 0", SOME
    for index, result in enumerate(found.results):
        for path, wrong, allowed in _result(result):
            yield ("results", index, *path), wrong, allowed


def _result(result: Result) -> Found:
    yield from _metrics(result)
    yield from _series(result)
    yield from _below(("timing", "decide_s"), _quantiles(result.timing.decide_s))
    for index, gang in enumerate(result.gangs):
        yield from _below(("gangs", index), _gang(gang, result.end_s))
    held = sum(node.gpus for node in result.nodes)
    if held != result.gpus:
        yield ("nodes",), f"they have {held:,} GPUs", f"nodes that have all {result.gpus:,} of gpus"
    yield from _instants(("maps",), [each.at_s for each in result.maps], result.end_s)
    for index, each in enumerate(result.maps):
        yield from _below(("maps", index), _map(each, result))


def _below(start: Sequence[int | str], found: Iterable[Wrong]) -> Found:
    """Yield faults with the path of what they are in put before their own."""
    for path, wrong, allowed in found:
        yield (*start, *path), wrong, allowed


def _metrics(result: Result) -> Found:
    found = result.metrics
    if found.share_error > result.gpus:
        # Healthy GPUs may be fewer than what teams were promised, but there is one at least.
        yield ("metrics", "share_error"), f"given {found.share_error:g}", f"from 0 to gpus, {result.gpus:,}"
    for name in ("gpu_time", "busy_gpu_time"):
        spent = getattr(found, name)
        if spent.accounted > spent.capacity:
            yield (
                ("metrics", name),
                f"its parts add up to {spent.accounted:,}",
                f"up to its capacity, {spent.capacity:,}",
            )
    for name in ("waits", "waits_by_team"):
        yield from _below(("metrics", name), _waits(getattr(found, name)))
    if all(each.name != ALL for each in found.waits):
        yield ("metrics", "waits"), f"no entry is named '{ALL}'", f"an entry '{ALL}', then one for each size of jobs"
    told = found.promises
    if told.kept + told.missed + told.open != told.made:
        parts = f"kept, missed and open add up to {told.kept + told.missed + told.open:,}"
        yield ("metrics", "promises"), parts, f"as many as made, {told.made:,}"
    yield from _below(("metrics", "promises", "late_s"), _quantiles(told.late_s))
    yield from _below(("metrics", "rounds", "gap"), _quantiles(found.rounds.gap))


def _waits(groups: Sequence[Waits]) -> Found:
    seen: set[str] = set()
    for index, each in enumerate(groups):
        if each.name in seen:
            yield (index, "name"), "a name that another entry has", "a name of its own for each"
        seen.add(each.name)
        if each.never_started > each.jobs:
            yield (index, "never_started"), f"given {each.never_started:,}", f"up to jobs, {each.jobs:,}"
        yield from _below((index, "wait_s"), _quantiles(each.wait_s))
        yield from _below((index, "slowdown"), _quantiles(each.slowdown))


def _quantiles(found: Quantiles) -> Found:
    values = (found.p50, found.p90, found.p99, found.max)
    if any(low > high for low, high in pairwise(values)):
        yield (), "p50, p90, p99 and max fall", "each no less than the one before"


def _series(result: Result) -> Found:
    found = result.series
    samples = len(found.at_s)
    yield from _instants(("series", "at_s"), found.at_s, result.end_s)
    lists: list[tuple[tuple[str, ...], Sequence[float], bool]] = [
        (("queued_jobs",), found.queued_jobs, False),
        (("queued_gpus",), found.queued_gpus, False),
        (("fragmentation",), found.fragmentation, False),
        (("share_error",), found.share_error, False),
    ]
    for name in ("places", "tiers", "team_held", "team_entitled", "largest_free"):
        # Quotas stand as they are when GPUs fail: what teams are entitled to has no bound in what there is.
        lists += [((name, key), each, name != "team_entitled") for key, each in getattr(found, name).items()]
    for path, values, bounded in lists:
        if len(values) != samples:
            yield ("series", *path), f"given a list of {len(values):,}", f"as many as at_s has, {samples:,}"
        elif bounded and max(values, default=0) > result.gpus:
            yield ("series", *path), f"one of them is {max(values):,}", f"GPUs up to gpus, {result.gpus:,}"


def _instants(path: Sequence[int | str], instants: Sequence[float], end_s: float) -> Found:
    if any(before > after for before, after in pairwise(instants)):
        yield path, "their instants go back", "in the order of time"
    elif instants and instants[-1] > end_s:
        yield path, f"the last is at {instants[-1]:g} s", f"up to end_s, {end_s:g} s"


def _gang(gang: Gang, end_s: float) -> Found:
    over = end_s if gang.end_s is None else gang.end_s
    if not gang.submitted_s <= over <= end_s:
        given = f"submitted at {gang.submitted_s:g} s, over at {over:g} s"
        yield (), given, f"over after it was submitted, up to end_s, {end_s:g} s"
    for index, run in enumerate(gang.runs):
        if not run.start_s <= run.end_s <= end_s:
            given = f"started at {run.start_s:g} s, over at {run.end_s:g} s"
            yield ("runs", index), given, f"over after its start, up to end_s, {end_s:g} s"


def _map(found: NodeMap, result: Result) -> Found:
    nodes = result.nodes
    for name, values in (("booked", found.booked), ("state", found.state)):
        if len(values) != len(nodes):
            yield (name,), f"given a list of {len(values):,}", f"one for each of the {len(nodes):,} nodes"
            return
    over = [index for index, (booked, node) in enumerate(zip(found.booked, nodes, strict=False)) if booked > node.gpus]
    for index in over[:1]:
        yield ("booked", index), f"given {found.booked[index]:,}", f"up to the node's GPUs, {nodes[index].gpus:,}"
    strange = [index for index, state in enumerate(found.state) if state not in STATES]
    for index in strange[:1]:
        yield ("state", index), "no state of a node", f"one of: {', '.join(sorted(STATES))}"
