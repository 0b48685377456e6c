"""From questions to answers: every scenario's round of now, and all futures of all scenarios, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from optsched.clock import Clock
from optsched.errors import UsageError
from optsched.files.report import known, show
from optsched.planner.plan import PlanOptions
from optsched.values.ids import JobId
from optsched.values.snapshot import Snapshot
from optsched.whatif.answers import Answer, ScenarioAnswer, summary
from optsched.whatif.changes import AddJob, changed
from optsched.whatif.executors import Executor, Report
from optsched.whatif.futures import Future, FutureRules, future
from optsched.whatif.rounds import RoundNow, round_now
from optsched.whatif.scenarios import Questions, Scenario, jobs_of

AS_IS = "as it is"
"""The scenario in which nothing is changed but the jobs that are asked about."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One scenario's round of now (`seed` None), or one of its futures."""

    snapshot: Snapshot
    asked: tuple[JobId, ...]
    rules: FutureRules
    options: PlanOptions
    seed: int | None

    def work(self, clock: Clock) -> Future | RoundNow:
        """Return what it comes to."""
        if self.seed is None:
            return round_now(self.snapshot, self.asked, self.options, clock)
        return future(self.snapshot, self.asked, self.rules, self.seed, clock)


@dataclass(frozen=True, slots=True)
class Asking:
    """How to ask: `futures` of each scenario (0: only the round of now), their rules, how rounds of now are planned."""

    rules: FutureRules = FutureRules()
    futures: int = 20
    seed: int = 0
    options: PlanOptions = PlanOptions(prove=0)


def answer(snapshot: Snapshot, questions: Questions, asking: Asking, executor: Executor, report: Report) -> Answer:
    """Return the answers of all scenarios. Raises UsageError for a job that the snapshot does not have as queued."""
    waiting = {str(job.id) for job in snapshot.jobs if not job.placement}
    for name in questions.ask:
        if name not in waiting:
            raise UsageError(
                f"no queued job is called {show(name)}; allowed: {known(sorted(waiting), name, 'queued jobs')}"
            )
    scenarios = (Scenario(AS_IS), *questions.scenarios)
    base = changed(snapshot, [AddJob(job) for job in questions.jobs])
    everywhere = (*questions.ask, *(job.id for job in questions.jobs))
    pieces: list[Piece] = []
    for scenario in scenarios:
        here = changed(base, scenario.changes)
        rules = replace(asking.rules, failures=scenario.failures or asking.rules.failures)
        asked = (*everywhere, *jobs_of(scenario))
        seeds: Sequence[int | None] = (None, *range(asking.seed, asking.seed + asking.futures))
        pieces += [Piece(here, asked, rules, asking.options, seed) for seed in seeds]
    found = executor.work(pieces, report)
    answers = []
    for index, scenario in enumerate(scenarios):
        first, *rest = found[index * (asking.futures + 1) : (index + 1) * (asking.futures + 1)]
        assert isinstance(first, RoundNow), "the first piece of a scenario"
        futures = [each for each in rest if isinstance(each, Future)]
        answers.append(ScenarioAnswer(scenario.name, first, summary(futures) if futures else None))
    rules = asking.rules
    spread = f"={rules.run_times.spread:g}" if rules.run_times.spread else ""
    return Answer(
        cluster=snapshot.cluster.name,
        profile=snapshot.profile.name,
        horizon_s=rules.horizon_s,
        run_times=f"{rules.run_times.model}{spread}",
        failures=rules.failures.rates().name,
        arrivals="steady" if rules.arrivals else "none",
        seed=asking.seed,
        scenarios=tuple(answers),
    )
