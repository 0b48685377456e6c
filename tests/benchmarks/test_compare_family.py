"""The comparison runs both engines on one round and reports the same things of both."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "compare_family.py"


def test_both_engines_prove_all_tiers_of_a_small_round(tmp_path):
    """Four nodes: 32 GPUs asked for and run, four tiers proven, plans that are valid, equally few moves."""
    command = [sys.executable, str(SCRIPT), "--nodes", "4", "--budget", "20", "--json", str(tmp_path / "seen.json")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=SCRIPT.parents[1]).stdout
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert [each["engine"] for each in seen] == ["flat", "optsched"]
    assert len({each["moves"] for each in seen}) == 1
    for each in seen:
        assert (each["nodes"], each["seed"], each["tiers_proven"], each["valid"]) == (4, 0, 4, True)
        assert sum(gpus for gpus, _ in each["tiers"]) == 32
        assert all(gpus == bound for gpus, bound in each["tiers"])
    rows = [line for line in printed.splitlines() if line.startswith("| 4 |")]
    assert [row.split(" | ")[3] for row in rows] == ["flat", "optsched"]
