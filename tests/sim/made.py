"""Small clusters and seeded workloads, and short ways to simulate them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from optsched.clock import StoppedClock
from optsched.sim.failures import Failures, Repairs
from optsched.sim.kernel import Setup, Simulation
from optsched.sim.policies.policy import Means
from optsched.sim.policies.registry import POLICIES
from optsched.sim.results import Result
from optsched.sim.settings import SimSettings
from optsched.sim.simulate import Task, simulate
from optsched.sim.workload import Arrival, Ending, Workload
from optsched.values.cluster import Cluster
from optsched.values.ids import JobId, LevelName, TeamId, UserId
from optsched.values.job import Checkpoint, Job
from optsched.values.profile import Profile
from optsched.values.resources import Amounts
from optsched.values.team import Team
from tests.builders import node

SLOW = Profile(speed={LevelName("node"): 1.0, LevelName("rack"): 0.9}, speed_widest=0.7, min_runtime_s=60.0)
"""A gang across racks trains at 70 % of full speed, one across nodes of a rack at 90 %."""

BREAKS = Failures(
    "often", gpu=0.02, node=0.01, process=0.03, job=0.02, domain_mtbf_h=40.0, repairs=Repairs(0.5, 600.0, 7200.0)
)
"""A cluster on which something fails all the time."""


def cluster(racks: int = 3, nodes: int = 3, gpus: int = 4) -> Cluster:
    """Racks of nodes of a few GPUs each."""
    return Cluster(
        tuple(node(f"r{r}n{n}", gpus, rack=f"r{r}") for r in range(racks) for n in range(nodes)),
        (LevelName("rack"),),
        name="small",
    )


def workload(seed: int, jobs: int = 30, gpus: int = 36, load: float = 1.2) -> Workload:
    """Jobs of 1 to 16 GPUs, minutes to hours long; some checkpoint, end badly, are urgent or cannot be stopped."""
    draw = np.random.default_rng(seed)
    sizes = draw.choice([1, 2, 4, 8, 12, 16], p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05], size=jobs)
    work = np.exp(draw.normal(math.log(2400), 1.0, size=jobs)).clip(30, 20_000)
    span = float((sizes * work).sum()) / gpus / load
    arrivals = []
    for i, at in enumerate(np.sort(draw.uniform(0, span, size=jobs)).tolist()):
        size = int(sizes[i])
        saves = draw.random() < 0.7
        job = Job(
            JobId(f"j{i}"),
            TeamId("ab"[int(draw.integers(2))]),
            size,
            priority=int(draw.choice([0, 1000, 2000])),
            user=UserId(f"u{int(draw.integers(3))}"),
            gpus_per_node=4 if size > 4 else None,
            required=LevelName("rack") if size in (8, 12) and draw.random() < 0.3 else None,
            preemptible=bool(draw.random() < 0.85),
            min_gpus=4 if size == 8 and draw.random() < 0.5 else 0,
            max_gpus=0,
            estimated_runtime_s=float(work[i] * draw.uniform(1, 4)) if draw.random() < 0.9 else None,
            checkpoint=Checkpoint(300.0 if saves else None, 7.0, 45.0, on_signal=bool(saves and draw.random() < 0.5)),
        )
        ending = [Ending.COMPLETED, Ending.FAILED, Ending.CANCELLED][int(draw.choice(3, p=[0.7, 0.15, 0.15]))]
        arrivals.append(Arrival(round(at, 3), job, float(work[i]), ending))
    teams = (Team(TeamId("a"), weight=2.0, quota=Amounts(gpus=12)), Team(TeamId("b"), quota=Amounts(gpus=8)))
    return Workload(f"made-{seed}", tuple(arrivals), teams)


def simulation(
    seed: int, policy: str = "greedy", settings: SimSettings | None = None, jobs: int = 30, free: bool = False
) -> Simulation:
    """A simulation of a small cluster that is about to begin; `free`: checkpoints block nothing."""
    chosen = POLICIES[policy]
    settings = settings or SimSettings(seed=seed, failures=BREAKS, checked=True, sample_every_s=600.0)
    made = workload(seed, jobs)
    if free:
        made = replace(made, arrivals=tuple(_free(each) for each in made.arrivals))
    setup = Setup(cluster(), made, chosen.profile(SLOW), SLOW, settings)
    means = Means(seed, 0.05, frozenset({LevelName("rack")}))
    return Simulation(setup, chosen.planner(means), StoppedClock())


def _free(arrival: Arrival) -> Arrival:
    job = arrival.job
    return replace(arrival, job=replace(job, checkpoint=replace(job.checkpoint, cost_s=0.0)))


def result(
    seed: int = 1, policy: str = "greedy", settings: SimSettings | None = None, jobs: int = 12, racks: int = 2
) -> Result:
    """What two hours of a small cluster on which a lot fails come to, with samples, maps of all nodes and gangs."""
    settings = settings or SimSettings(
        seed=seed, failures=BREAKS, sample_every_s=1200.0, maps_at=(1800.0, 3600.0), gantt_gpus=8, until_s=7200.0
    )
    setup = Setup(cluster(racks), workload(seed, jobs, gpus=12 * racks), SLOW, SLOW, settings)
    return simulate(Task(setup, policy, "default", 0.05), StoppedClock())
