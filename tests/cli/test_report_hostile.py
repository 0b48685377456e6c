"""A report of results in which anything at all is wrong: a line about it or a page, never an internal error."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optsched.cli.html.draw import Scale, round_ticks, time_axis, time_ticks
from optsched.cli.html.page import comparison_to_html
from optsched.cli.main import main
from optsched.cli.render_simulate import comparison_to_text
from optsched.cli.terminal import Style
from optsched.errors import InputError
from optsched.sim.results import Comparison, from_json, to_json
from tests.sim.made import result

BAD_NUMBERS: tuple[Any, ...] = (
    math.nan,
    math.inf,
    -math.inf,
    -1,
    0,
    1,
    1e308,
    -1e308,
    5e-324,
    10**30,
    10**400,
    None,
    "x",
    True,
    [],
)


def places(data: Any, path: tuple[int | str, ...] = ()) -> Iterator[tuple[int | str, ...]]:
    """Yield the paths of all values in some data; of entries of a list the first, the second and the last."""
    if path:
        yield path
    keys: Any = data if isinstance(data, dict) else ()
    if isinstance(data, list):
        keys = sorted({0, 1, len(data) - 1} & set(range(len(data))))
    for key in keys:
        yield from places(data[key], (*path, key))


def instead(value: Any) -> list[Any]:
    """Return what may stand where a value stood."""
    if isinstance(value, list):
        return [[], value[:1], value[:-1], value * 2, value[::-1], None, {}, "x", 1]
    if isinstance(value, dict):
        return [{}, dict(list(value.items())[1:]), value | {"more": 1}, None, []]
    if isinstance(value, str):
        return ["", "<b>", "\x1b[31m", "é" * 5000, None, 1]
    return list(BAD_NUMBERS)


def test_whatever_one_value_is_there_is_a_fault_or_a_page() -> None:
    whole = json.loads(to_json(Comparison((result(seed=4),))))
    shown = 0
    refused: list[InputError] = []
    for path in places(whole):
        *way, last = path
        for value in instead(_at(whole, path)):
            changed = copy.copy(whole)
            inside: Any = changed
            for part in way:
                inside[part] = copy.copy(inside[part])
                inside = inside[part]
            inside[last] = value
            try:
                found = from_json(json.dumps(changed), "x.json")
            except InputError as error:
                refused.append(error)
                continue
            shown += 1
            page = comparison_to_html(found)
            assert len(page) < 250_000, path
            assert not re.search(r"\b(nan|inf)\b", page), path
            comparison_to_text(found, 100, Style(False))
    assert shown > 500
    assert len(refused) > 2500
    assert all(1 <= len(error.faults) <= 11 for error in refused)
    assert all(len(str(fault)) < 1000 for error in refused for fault in error.faults)


def _at(data: Any, path: tuple[int | str, ...]) -> Any:
    for part in path:
        data = data[part]
    return data


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"results":[],"format":1}', "results"),
        ('{"results":[{}],"format":1e999}', "format"),
        (to_json(Comparison((result(),))).replace('"end_s":7200.0', '"end_s":1e308', 1), ""),
    ],
)
def test_the_command_says_what_is_wrong_and_ends_with_2(
    text: str, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results.json").write_text(text)
    assert main(["report", str(tmp_path / "results.json")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"results.json: {field}" in err
    assert all("; allowed: " in line for line in err.splitlines())
    assert "internal" not in err


@pytest.mark.parametrize(
    "high", [0.0, -1.0, 5e-324, 1e-9, 1.0, 59.9, 7200.0, 8.64e8, 1e13, 1e30, 1e308, math.inf, -math.inf, math.nan]
)
def test_axes_have_a_handful_of_ticks_whatever_their_range(high: float) -> None:
    assert 1 <= len(round_ticks(high)) <= 6
    ticks = time_ticks(high)
    assert 1 <= len(ticks) <= 6
    assert all(math.isfinite(at_s) for at_s, _ in ticks)


def test_ticks_of_all_ranges_are_few_and_reach_far() -> None:
    for power in range(-20, 200):
        high = 1.17**power * 60
        assert 1 <= len(round_ticks(high)) <= 6
        ticks = time_ticks(high)
        assert len(ticks) <= 6
        assert len(round_ticks(high)) >= 3
        assert high < 60 or len(ticks) >= 2


def test_ten_thousand_days_have_ticks_in_days() -> None:
    assert [name for _, name in time_ticks(8.64e8)] == ["0 d", "2000 d", "4000 d", "6000 d", "8000 d", "10000 d"]
    assert len(time_axis(Scale(0, 8.64e8, 0, 300), 0, 100)) == 12
