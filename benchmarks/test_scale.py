"""Speed of a round by the size of the cluster, on generated rounds. `make bench` runs these.

Each test is one step of a round and runs at every scale. What is asserted is quality: that plans are valid, better
than changing nothing, never worse than greedy. A further step is a further test with the arguments (benchmark, scale);
what the steps before it have made is in `scale`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gains import gains
from benchmarks.rounds import KINDS, compress, encode, generate
from optsched.clock import WallClock
from optsched.files import load_snapshot
from optsched.planner.plan import PlanOptions, plan_round
from optsched.rounds.assignment import NO_CHANGE
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.rounds.score import score
from optsched.solve.cpsat.admission import Admission, Admitted
from optsched.solve.cpsat.decisions import full_scope
from optsched.solve.cpsat.stages import Stages
from optsched.solve.exact import most_gpus, stage_rows, through
from optsched.solve.fine import STYLES, place
from optsched.solve.greedy import greedy
from optsched.solve.ladder import SolverChoice
from optsched.solve.result import Budget, Spent
from optsched.topology.tree import Tree, build_tree
from optsched.values.job import JobState
from optsched.values.plan import Plan, Source
from optsched.values.snapshot import Snapshot

SEED = 1
REPEATS = {"h100-1k": 5, "h100-10k": 3, "h100-100k": 1}
"""How often each step is timed at each scale."""


class Scale:
    """A generated round as a file, and what each step makes of it; every value is made when it is first asked for."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.file = folder / f"{kind}-{SEED}.json.gz"
        self.file.write_bytes(compress(encode(generate(kind, SEED))))

    @cached_property
    def snapshot(self) -> Snapshot:
        return load_snapshot(self.file)[0]

    @cached_property
    def tree(self) -> Tree:
        return build_tree(self.snapshot.cluster)

    @cached_property
    def problem(self) -> Problem:
        return build_problem(self.snapshot, self.tree)

    @cached_property
    def greedy_plan(self) -> Plan:
        """The whole round by greedy, with what it reserves and explains."""
        return plan_round(self.snapshot, PlanOptions(solver=SolverChoice.GREEDY), WallClock(), tree=self.tree)

    @cached_property
    def admitted(self) -> Admitted:
        """Who starts and who makes way in as good an admission as a minute finds."""
        admission = Admission(self.problem, full_scope(self.problem))
        stages = Stages(admission.model, Spent(Budget(wall_s=60.0), WallClock()), lean=True)
        goals = [admission.ladder.stage(row, len(self.problem.priorities)) for row in stage_rows(self.problem)]
        stages.maximize_in_order(goals, most_gpus(self.problem), 0.5)
        return admission.decode(stages.value)

    def first_rank(self, row: int) -> int:
        """What greedy runs at ranks up to a row."""
        return through(score(self.problem, greedy(self.problem)).rows, row, len(self.problem.priorities))

    def timed(self, benchmark: Any, step: Callable[..., Any], *args: Any) -> Any:
        """Time a step as often as this scale allows; return its last result."""
        return benchmark.pedantic(step, args, rounds=REPEATS[self.kind])


@pytest.fixture(scope="session")
def scales(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Scale]:
    """Return a function from a kind to its round, which is generated once in a session."""
    known: dict[str, Scale] = {}

    def scale(kind: str) -> Scale:
        if kind not in known:
            known[kind] = Scale(kind, tmp_path_factory.mktemp(kind))
        return known[kind]

    return scale


@pytest.fixture(params=REPEATS)
def scale(request: pytest.FixtureRequest, scales: Callable[[str], Scale]) -> Scale:
    """Each scale in turn."""
    return scales(request.param)


def test_load(benchmark: Any, scale: Scale) -> None:
    """From the gzipped file to values; nothing that is generated is lost."""
    snapshot, _ = scale.timed(benchmark, load_snapshot, scale.file)
    assert sum(job.state is JobState.QUEUED for job in snapshot.jobs) == KINDS[scale.kind].queued


def test_topology_and_problem(benchmark: Any, scale: Scale) -> None:
    """From values to the tree of domains and the round problem."""
    problem = scale.timed(benchmark, build_problem, scale.snapshot)
    assert not check(problem, NO_CHANGE)


def test_greedy(benchmark: Any, scale: Scale) -> None:
    """The greedy plan alone: valid, and better than changing nothing."""
    assignment = scale.timed(benchmark, greedy, scale.problem)
    mode = scale.problem.profile.priority_mode
    assert not check(scale.problem, assignment)
    assert score(scale.problem, assignment).key(mode) > score(scale.problem, NO_CHANGE).key(mode)


def test_admission(benchmark: Any, scale: Scale) -> None:
    """Building admission and solving it for the first rank: as much as greedy runs there, or more."""
    row = next(row for row in stage_rows(scale.problem) if scale.first_rank(row))

    def admit() -> int:
        admission = Admission(scale.problem, full_scope(scale.problem))
        stages = Stages(admission.model, Spent(Budget(wall_s=60.0), WallClock()), lean=True)
        return stages.maximize(admission.ladder.stage(row, len(scale.problem.priorities)), 1.0).bound

    assert scale.timed(benchmark, admit) >= scale.first_rank(row)


def test_fine(benchmark: Any, scale: Scale) -> None:
    """Places for a whole admission: valid, or refused for want of homes for those who would have to move."""
    found = scale.timed(benchmark, place, scale.problem, scale.admitted, STYLES[0])
    assert found is None or not check(scale.problem, found)


def test_whole_round(benchmark: Any, scale: Scale) -> None:
    """From values to the plan, within the profile's budget, by the solver that suits the size: at least as good as
    greedy's, rank by rank."""
    plan = scale.timed(benchmark, plan_round, scale.snapshot, PlanOptions(), WallClock())
    assert plan.starts
    assert plan.round.source is not Source.NO_CHANGE
    assert gains(scale.greedy_plan, plan, scale.snapshot.profile.classes).rank_gpus >= 0
