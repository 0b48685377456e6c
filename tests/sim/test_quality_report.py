"""A result of the quality benchmark as Markdown says what the result says."""

from __future__ import annotations

import json

from benchmarks.quality.report import best_known, by_round, summary
from optsched.cli.render_quality import scored_to_json
from optsched.clock import StoppedClock
from optsched.sim.policies.policy import Means
from optsched.sim.policies.registry import POLICIES
from optsched.sim.quality.collection import load_round
from optsched.sim.quality.measure import score_all


def test_tables_of_a_result():
    """greedy is at best in floors and refuses nothing; in cpu-hogs 8 of 64 GPUs stay idle, an eighth."""
    rounds = [load_round("floors"), load_round("cpu-hogs")]
    policies = [POLICIES["greedy"], POLICIES["one-at-a-time-reclaim"]]
    data = json.loads(scored_to_json(score_all(rounds, policies, Means(), StoppedClock())))
    assert summary(data)[2].startswith("| greedy | 1 of 2 | 2 | 6.25% | 12.50% | 8 | ")
    assert by_round(data)[2:] == [
        "| floors | 8 | 64 GPUs, proven | * | * |",
        "| cpu-hogs | 8 | 64 GPUs, proven | 12.50% | 12.50% |",
    ]
    assert best_known(data)[2].startswith("| floors | 64 | all proven | 6.2 | 6.2 | solver exact")
    data["rounds"][0]["best_known"]["bounds"]["guaranteed P3"] = 60
    data["rounds"][1]["best_known"]["bounds"]["fair P2"] = None
    assert "| guaranteed P3: 56 of at most 60 |" in best_known(data)[2]
    assert "| fair P2: not known |" in best_known(data)[3]
