"""A simulated day, written down as a scenario and replayed, comes to the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from optsched.cli.main import main
from optsched.cli.render_replay import moment_to_dict
from optsched.engine.events import Probed
from optsched.files import scenario_to_dict
from optsched.sim.failures import Failures, Repairs
from optsched.sim.replay import Moment
from optsched.sim.settings import PROMPT, SimSettings
from optsched.sim.told import scenario_of
from tests.sim.made import simulation

BREAKS = Failures(
    "all", gpu=0.02, node=0.01, process=0.03, job=0.02, domain_mtbf_h=40.0, repairs=Repairs(0.5, 600.0, 7200.0)
)


@pytest.mark.parametrize("seed", range(2))
def test_a_simulated_day_is_what_its_events_replay_to(seed, tmp_path, capsys):
    """Every job and node stands in the end, and ran in between, as `optsched replay` says."""
    prompt = replace(PROMPT, inspect_s=1800.0)
    settings = SimSettings(
        seed=seed, round_every_s=0.0, until_s=86_400.0, failures=BREAKS, agents=prompt, keep_log=True, checked=True
    )
    running = simulation(seed, "greedy", settings, jobs=20, free=True)
    running.run()
    file = tmp_path / "day.json"
    file.write_text(json.dumps(scenario_to_dict(scenario_of(running.start, running.happened))))
    assert main(["replay", str(file), "--solver", "greedy", "--format", "json"]) == 0
    timeline = json.loads(capsys.readouterr().out)["timeline"]
    assert len(running.happened) > 60
    assert any(isinstance(event, Probed) and not event.ok for _, event in running.happened), "a GPU failed"
    mine = moment_to_dict(Moment(running.state, (), ()), {})
    last = timeline[-1]
    assert last["nodes"] == mine["nodes"]
    assert {name: _stands(entry) for name, entry in last["jobs"].items()} == {
        name: _stands(entry) for name, entry in mine["jobs"].items()
    }
    assert sum(entry["run"] for entry in mine["jobs"].values()) > len(mine["jobs"]), "some ran more than once"


def _stands(entry):
    """How a job stands, but for what is said of it."""
    return {key: entry[key] for key in ("state", "placement", "gpus", "run", "preemptions", "migrations")}
