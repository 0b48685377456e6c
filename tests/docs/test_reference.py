"""The references name every key that there is, and no other."""

from __future__ import annotations

import re

import pytest

from optsched.files import schema, shipped_names
from optsched.files.plan_json import plan_to_dict
from optsched.files.schema_events import EVENTS
from optsched.files.snapshots import _FileIn
from optsched.values.plan import (
    Move,
    Plan,
    Preemption,
    RankResult,
    ReservedRoom,
    RoundInfo,
    Source,
    Start,
    Status,
    Tier,
    Unblock,
    UnblockKind,
    Waiting,
)
from tests.docs.pages import ROOT, first_cells

FILES = ROOT / "docs" / "files.md"
OUTPUT = ROOT / "docs" / "plan-output.md"
GLOSSARY = ROOT / "docs" / "glossary.md"

SECTIONS = {
    "A snapshot": _FileIn,
    "Clusters": schema.ClusterIn,
    "A node": schema.NodeIn,
    "A group": schema.GroupIn,
    "A fabric": schema.FabricIn,
    "Teams": schema.TeamIn,
    "Amounts": schema.AmountsIn,
    "Jobs": schema.JobIn,
    "Topology": schema.TopologyIn,
    "A slice": schema.SliceIn,
    "Checkpoints": schema.CheckpointIn,
    "A checkpoint tier": schema.TierIn,
    "Retries": schema.RetriesIn,
    "Reservations": schema.ReservationIn,
}


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_file_reference_has_every_key(heading: str) -> None:
    """Each once, and none that would be refused."""
    assert sorted(first_cells(FILES, heading)) == sorted(SECTIONS[heading].model_fields)


def test_the_file_reference_has_every_event() -> None:
    """Each type with its keys."""
    common = {"at", "type", "about"}
    assert first_cells(FILES, "Events") == list(EVENTS)
    for line in FILES.read_text(encoding="utf-8").splitlines():
        cells = line.split("|")
        if len(cells) == 5 and cells[1].strip(" `") in EVENTS:
            model = EVENTS[cells[1].strip(" `")]
            assert set(re.findall(r"`([^`]+)`", cells[2])) == set(model.model_fields) - common, line


def test_the_output_reference_has_every_key() -> None:
    """Each list with the keys of its entries."""
    move = Move("j", {"n": 1}, (), 0.0)
    plan = plan_to_dict(
        Plan(
            round=RoundInfo(
                Source.GREEDY, Status.FEASIBLE, None, None, 0, 0, 0, 0, (RankResult(Tier.FAIR, "P1", True, 1, 1),)
            ),
            starts=(Start("j", {"n": 1}, "node"),),
            preemptions=(Preemption("j", (), 0, 0, 0),),
            migrations=(move,),
            resizes=(move,),
            reservations=(ReservedRoom("j", "d", (), None),),
            queued=(Waiting("j", "no_room", "", Unblock(UnblockKind.FREE, "n", 1, "")),),
        ),
        tasks=True,
    )
    text = OUTPUT.read_text(encoding="utf-8")
    assert [key for key in plan if f"`{key}`" not in text] == []
    for heading, entry in (
        ("`round`", plan["round"]),
        ("`starts`", plan["starts"][0]),
        ("`preemptions`", plan["preemptions"][0]),
        ("`migrations` and `resizes`", plan["migrations"][0]),
        ("`reservations`", plan["reservations"][0]),
        ("`bill`", plan["bill"]),
    ):
        assert first_cells(OUTPUT, heading) == list(entry), heading
    assert first_cells(OUTPUT, "`queued`")[:4] == list(plan["queued"][0])
    assert {"tier", "priority", "above_minimum", "gpus", "gpus_bound"} == set(plan["round"]["ranks"][0])


def test_every_kind_of_advice_is_explained() -> None:
    """With how to follow it."""
    known = [kind.value for kind in UnblockKind]
    assert [cell for cell in first_cells(OUTPUT, "Advice") if cell in known] == known


def test_every_profile_stands_in_the_readme() -> None:
    """With what it is for."""
    assert sorted(first_cells(ROOT / "README.md", "Profiles")) == list(shipped_names("models"))


def test_every_tier_stands_in_the_glossary() -> None:
    """In the words of the output."""
    text = GLOSSARY.read_text(encoding="utf-8")
    assert [tier.value for tier in Tier if tier.value not in text] == []
