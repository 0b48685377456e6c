"""optsched's own planner, whole, and with one of its ideas taken away at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from optsched.clock import StoppedClock
from optsched.engine.planning import RoundPlanner
from optsched.planner.plan import PlanOptions
from optsched.sim.policies.policy import Means, Planning, Policy
from optsched.solve.ladder import SolverChoice
from optsched.values.job import Job, JobState
from optsched.values.plan import Plan
from optsched.values.profile import Profile
from optsched.values.snapshot import Snapshot

ENDLESS_S = 1e9
"""A wall budget that never runs out: counted work bounds the search, so that the same seed gives the same plans."""

BOUND_EVERY = 10
"""One round in so many says how far from the best it is: enough for quantiles, and a quarter of the time is saved."""

See = Callable[[Snapshot], Snapshot]
"""What a planner sees of a snapshot."""


class Seeing:
    """A planner that sees something else than there is."""

    def __init__(self, planner: RoundPlanner, see: See) -> None:
        self.planner = planner
        self.viewer = planner.viewer
        self._see = see

    @property
    def turn(self) -> int | None:
        """What a successor must know."""
        return self.planner.turn

    def go_on(self, turn: int | None) -> None:
        """Go on where another one stood."""
        self.planner.go_on(turn)

    def __call__(self, snapshot: Snapshot) -> Plan:
        """Return the plan of what it sees."""
        return self.planner(self._see(snapshot))

    def quickly(self, snapshot: Snapshot) -> Plan:
        """Return the greedy plan of what it sees."""
        return self.planner.quickly(self._see(snapshot))


def rounds(means: Means, solver: SolverChoice) -> RoundPlanner:
    """Return optsched's planner of consecutive rounds. Nobody reads why simulated jobs wait."""
    options = PlanOptions(
        budget_s=ENDLESS_S,
        solver=solver,
        seed=means.seed,
        deterministic_s=means.deterministic_s,
        prove=0,
        reasons=False,
        bound_every=BOUND_EVERY,
    )
    return RoundPlanner(options, StoppedClock())


def _greedy(means: Means) -> Planning:
    return rounds(means, SolverChoice.GREEDY)


def _searching(means: Means) -> Planning:
    return rounds(means, SolverChoice.AUTO)


def _blind_to_loss(means: Means) -> Planning:
    return Seeing(rounds(means, SolverChoice.AUTO), all_saved)


def all_saved(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as if every run had saved its work this very moment, and came back at once."""
    return replace(snapshot, jobs=tuple(_saved(job, snapshot.now) for job in snapshot.jobs))


def _saved(job: Job, now: float) -> Job:
    if job.state is not JobState.RUNNING:
        return job
    return replace(job, last_checkpoint_at=now, checkpoint=replace(job.checkpoint, on_signal=False, restart_s=0.0))


def _flat(means: Means) -> Planning:
    levels = means.levels

    def flat(snapshot: Snapshot) -> Snapshot:
        cluster = replace(snapshot.cluster, levels=tuple(level for level in snapshot.cluster.levels if level in levels))
        jobs = tuple(
            replace(job, preferred=None, speed={}) if job.preferred is not None or job.speed else job
            for job in snapshot.jobs
        )
        return replace(snapshot, cluster=cluster, jobs=jobs)

    return Seeing(rounds(means, SolverChoice.AUTO), flat)


def _without_places(profile: Profile) -> Profile:
    return replace(profile, speed={}, speed_widest=1.0, domain_price={})


def _without_reservations(profile: Profile) -> Profile:
    return replace(profile, max_reservations=0)


def _without_holds(profile: Profile) -> Profile:
    return replace(profile, hold_horizon_s=0.0, starve_after_s=ENDLESS_S)


OWN = (
    Policy("optsched", _searching),
    Policy("greedy", _greedy),
    Policy("no-lost-work-price", _blind_to_loss),
    Policy("no-reservations", _searching, _without_reservations),
    Policy("no-topology", _flat, _without_places),
    Policy("unbounded-backfill", _searching, _without_holds),
)
"""optsched and its ablations."""
