"""The diagrams of the engine's page are drawn from the tables, and the reference has the keys that are printed."""

from __future__ import annotations

import pytest

from optsched.cli.render_replay import moment_to_dict
from optsched.engine.settings import Settings
from optsched.engine.tables import JOB_TABLE, NODE_TABLE, diagram
from optsched.sim.replay import Replay
from optsched.values.snapshot import Scenario
from tests.builders import job, nodes, snapshot
from tests.docs.pages import ROOT, blocks, first_cells
from tests.engine.driven import PLANNER

PAGE = ROOT / "docs" / "engine.md"


@pytest.mark.parametrize(("place", "table"), [(0, JOB_TABLE), (1, NODE_TABLE)])
def test_a_diagram_is_what_the_table_says(place, table) -> None:
    """Line by line, in the order of the table."""
    drawn = [block for block in blocks(PAGE) if block.language == "text"][place]
    assert "\n".join(drawn.lines) == diagram(table)


def test_the_reference_of_the_timeline_has_every_key() -> None:
    """Of an entry."""
    scenario = Scenario(snapshot(nodes("a", 8), job("j").gang(8)))
    entry = moment_to_dict(next(Replay(scenario, PLANNER).run()), {})
    assert first_cells(PAGE, "Replaying a scenario") == list(entry)


def test_the_numbers_of_the_page_are_those_of_the_settings() -> None:
    """Leases, timeouts and limits that the page states."""
    text = PAGE.read_text(encoding="utf-8")
    known = Settings()
    for number, words in (
        (known.lease_s, "{:g} s from the receipt"),
        (known.lease_patience_s, "{:g} s of patience"),
        (known.reserve_timeout_s, "silent for {:g} s"),
        (known.slow_factor, "less than {:g} of the gang's median"),
        (known.backoff_s, "waits {:g} s, then 60"),
        (known.early_s, "failed within {:g} s"),
        (known.checkpoint_gap_s, "count once in {:g} s"),
        (float(known.mass_nodes), "more than {:g}\n  nodes"),
        (100 * known.mass_share, "more than {:g} % are late"),
        (100 * known.swap_share, "up to {:g} % of the gang"),
    ):
        assert words.format(number) in text, words
