"""One policy on one workload, from the setup to its result; several side by side over processes."""

from __future__ import annotations

import gc
from dataclasses import dataclass, replace

from optsched.clock import Clock
from optsched.sim.figures import gangs, metrics, node_places, series
from optsched.sim.kernel import Progress, Setup, Simulation
from optsched.sim.policies.policy import Means
from optsched.sim.policies.registry import POLICIES
from optsched.sim.results import Result, Timing
from optsched.sim.tally import quantiles
from optsched.sim.workload import Workload
from optsched.values.ids import NODE_LEVEL, LevelName


@dataclass(frozen=True, slots=True)
class Task:
    """One policy, by its name, on one workload; `setup.profile` is the one that was asked for, by `profile_name`."""

    setup: Setup
    policy: str
    profile_name: str
    deterministic_s: float = 0.5


GC_EVERY = (50_000, 20, 100)
"""How seldom Python looks for circles among objects: hardly anything here makes any."""


def collect_seldom() -> None:
    """Let what is there be, and look for circles seldom: for a process that does nothing but simulate."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_EVERY)


def required_levels(workload: Workload) -> frozenset[LevelName]:
    """Return the levels that some job requires, for itself or its slices."""
    found = {each.job.required for each in workload.arrivals if each.job.required is not None}
    found |= {piece.within for each in workload.arrivals for piece in each.job.slices}
    return frozenset(found - {NODE_LEVEL})


def begin(task: Task, clock: Clock) -> Simulation:
    """Return a simulation that is about to begin."""
    policy = POLICIES[task.policy]
    given = task.setup.settings
    # What is only worth a new round is looked at as often as rounds are.
    engine = replace(given.engine, round_every_s=max(given.round_every_s, given.engine.round_every_s))
    settings = replace(given, engine=engine)
    setup = replace(task.setup, profile=policy.profile(task.setup.profile), settings=settings)
    levels = required_levels(setup.workload)
    means = Means(setup.settings.seed, task.deterministic_s, levels)
    return Simulation(setup, policy.planner(means), clock)


def finish(simulation: Simulation, task: Task, wall_s: float) -> Result:
    """Return the result of a simulation as it stands."""
    policy, setup, end = POLICIES[task.policy], task.setup, simulation.end()
    done = sum(1 for job in end.notes.jobs.values() if job.ended >= 0)
    return Result(
        policy=policy.name,
        about=policy.about,
        workload=setup.workload.name,
        cluster=setup.cluster.name,
        profile=task.profile_name,
        seed=setup.settings.seed,
        failures=setup.settings.failures.name,
        end_s=end.now / 1000.0,
        gpus=sum(node.gpus for node in setup.cluster.nodes),
        metrics=metrics(end),
        series=series(end),
        gangs=gangs(end),
        nodes=node_places(setup.cluster),
        maps=tuple(end.notes.maps),
        timing=Timing(wall_s, quantiles(end.notes.decide_s), done / wall_s if wall_s > 0 else 0.0),
    )


def simulate(task: Task, clock: Clock, progress: Progress = lambda stage, fraction: None) -> Result:
    """Simulate to the end."""
    began = clock.monotonic_s()
    simulation = begin(task, clock)
    simulation.run(progress)
    return finish(simulation, task, clock.monotonic_s() - began)
