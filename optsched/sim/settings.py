"""What a simulation is set up with, beside the workload, the cluster and the policy."""

from __future__ import annotations

from dataclasses import dataclass, field

from optsched.engine.settings import Settings
from optsched.sim.failures import Failures


@dataclass(frozen=True, slots=True)
class AgentTimes:
    """How long agents and machines take, in seconds; all but `hang_s` are our assumptions.

    `start_s` is from the word to start until the task works (images, processes, communicators). `exit_s` is from the
    end of a task, or the word to stop, until its GPUs are confirmed free; a checkpoint on signal comes on top.
    `notice_s` is how long a lost node goes unnoticed (a lease and its patience), `fence_s` how long until it is known
    that nothing runs there. `hang_s`: after a GPU fails its gang hangs for so long before that is known; time-outs of
    communication are "several minutes" (Kokolis et al., HPCA 2025). `inspect_s` is how long a node stays closed that
    the scheduler itself suspects.
    """

    reserve_s: float = 1.0
    start_s: float = 30.0
    exit_s: float = 5.0
    notice_s: float = 40.0
    fence_s: float = 60.0
    hang_s: float = 180.0
    probe_s: float = 120.0
    inspect_s: float = 3600.0


PROMPT = AgentTimes(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Agents that answer at once, as those of `optsched replay` do."""


@dataclass(frozen=True, slots=True)
class SimSettings:
    """How to simulate; times in seconds.

    Decisions are made every `round_every_s` where there is something to decide; 0: after whatever happens at an
    instant, as `optsched replay` does. Series are sampled every `sample_every_s`, and maps of the nodes taken at the
    instants `maps_at`. `until_s` ends the simulation early (None: when all jobs have ended or nothing moves any more).
    `checked`: the books are held against the engine's after every instant, which takes time. `keep_log`: what
    happens is kept, for who wants to replay it.
    """

    seed: int = 0
    round_every_s: float = 60.0
    until_s: float | None = None
    sample_every_s: float = 3600.0
    maps_at: tuple[float, ...] = ()
    gantt_gpus: int = 256
    agents: AgentTimes = AgentTimes()
    failures: Failures = Failures()
    engine: Settings = field(default_factory=Settings)
    checked: bool = False
    keep_log: bool = False
