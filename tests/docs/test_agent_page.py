"""The agent's page has every setting with its default, and the errors by which a GPU is taken out of use."""

from __future__ import annotations

import re

from optsched.agent.gpus import FATAL_XIDS
from optsched.agent.settings import Settings
from tests.docs.pages import ROOT, first_cells, prose

PAGE = ROOT / "docs" / "agent.md"


def shown(value: object) -> str:
    if value in (None, ""):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def test_the_table_of_settings_is_that_of_the_code() -> None:
    assert first_cells(PAGE, "Settings") == list(Settings.model_fields)
    rows = {}
    for _, line in prose(PAGE):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 2 and cells[0].strip("`") in Settings.model_fields:
            rows[cells[0].strip("`")] = cells[1]
    assert rows == {key: shown(field.default) for key, field in Settings.model_fields.items()}


def test_the_errors_that_take_a_gpu_out_of_use_are_those_of_the_code() -> None:
    text = " ".join(line for _, line in prose(PAGE))
    found = re.search(r"an XID error that says so \(([0-9, ]+)\)", text)
    assert found is not None
    assert [int(each) for each in found[1].split(",")] == sorted(FATAL_XIDS)
