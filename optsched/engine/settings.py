"""What the engine itself is tuned by; the rules of a round are in the profile."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds, shares as fractions.

    A lease lasts `lease_s` from the receipt of a heartbeat; a node is given up `lease_patience_s` after that. One whose
    agent's stream broke is late after half of `stream_grace_s`, and given up after all of it, unless the agent is back.
    Where more than `mass_nodes` nodes and `mass_share` of all are late together, none is given up and starts pause.
    A gang start may swap `swap_share` of its nodes (at least one) for agents that do not answer within
    `reserve_timeout_s`. A node is suspected after `suspect_failures` gangs failed on it within `suspect_within_s`, or
    when it runs below `slow_factor` of its gang's median. A run that fails within `early_s` failed early;
    `early_failures` in a row and the job displaces nobody. From the second job-class failure on a job waits
    `backoff_s`, doubled with every further one up to `max_backoff_s`; so it does from the second infra failure in a row
    on that came early. Estimates are corrected
    from `history_runs` runs on. Checkpoint claims closer than `checkpoint_gap_s` count as one. A launch that failed on
    a node keeps the job off it for `avoid_s`. A job that has ended leaves the state `ended_kept_s` after that, or where
    more than `ended_kept` have ended since (None: never); sooner or later, but not while another job waits for it.
    """

    lease_s: float = 30.0
    lease_patience_s: float = 10.0
    stream_grace_s: float = 6.0
    mass_nodes: int = 20
    mass_share: float = 0.05
    reserve_timeout_s: float = 10.0
    start_timeout_s: float = 300.0
    swap_share: float = 0.01
    max_starting_nodes: int = 2048
    suspect_failures: int = 3
    suspect_within_s: float = 86_400.0
    slow_factor: float = 0.8
    early_s: float = 300.0
    early_failures: int = 2
    backoff_s: float = 30.0
    max_backoff_s: float = 3600.0
    history_runs: int = 5
    history_kept: int = 20
    checkpoint_gap_s: float = 10.0
    checkpoints_kept: int = 8
    avoid_s: float = 86_400.0
    max_node_gpus: int = 1024
    round_every_s: float = 60.0
    ended_kept_s: float | None = None
    ended_kept: int | None = None
