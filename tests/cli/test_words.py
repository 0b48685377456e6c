"""Durations, amounts and node lists as people write them."""

from __future__ import annotations

import pytest

from optsched.cli.places import level_word, numbers, ranges, shortened
from optsched.cli.tables import Column, Row, cut, plain, table
from optsched.cli.words import clean, count, duration, from_now, gpu_hours, instant, listed, number, percent, sentence


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.02, "20 ms"),
        (2.5, "2.5 s"),
        (40, "40 s"),
        (120, "2 min"),
        (433, "7 min 13 s"),
        (1500, "25 min"),
        (3600, "1 h"),
        (11_520, "3 h 12 min"),
        (97_200, "1 d 3 h"),
        (90 * 86_400, "90 d"),
        (1e12, "more than 100 years"),
        (-60, "-1 min"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_moments_are_relative_to_now() -> None:
    assert from_now(11_530, 10) == "in 3 h 12 min"
    assert from_now(10, 310) == "5 min ago"
    assert from_now(10, 10) == "now"


def test_dates_are_told_from_a_clock_of_the_files_own() -> None:
    assert instant(60) == "t = 60 s"
    assert instant(1_772_352_000) == "2026-03-01 08:00:00 UTC"
    assert instant(1e12) == "t = 1,000,000,000,000 s"


@pytest.mark.parametrize(
    ("gpu_s", "text"), [(0, "0.0"), (44_640, "12.4"), (1200, "0.33"), (3, "<0.01"), (36_403_200, "10,112.0")]
)
def test_gpu_hours_have_the_digits_that_matter(gpu_s: float, text: str) -> None:
    assert gpu_hours(gpu_s) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0, "0 %"), (1, "100 %"), (0.003, "0.3 %"), (0.0004, "0.04 %"), (1e-9, "less than 0.01 %"), (0.99999, "99.9 %")],
)
def test_shares_are_never_rounded_to_all_or_nothing(fraction: float, text: str) -> None:
    assert percent(fraction) == text


def test_numbers_have_separators() -> None:
    assert number(1024) == "1,024"
    assert number(0.5) == "0.5"
    assert count(1, "job") == "1 job"
    assert count(1024, "GPU") == "1,024 GPUs"


def test_sentences_begin_with_a_capital_but_names_are_left_alone() -> None:
    assert sentence("would exceed the limit") == "Would exceed the limit"
    assert sentence("j7 is stopped") == "j7 is stopped"


def test_lists_of_names_are_shortened() -> None:
    assert listed([], 3) == ""
    assert listed(["a"], 3) == "a"
    assert listed(["a", "b", "c"], 3) == "a, b and c"
    assert listed(["a", "b", "c", "d"], 3) == "a, b and 2 more"


def test_control_characters_are_escaped() -> None:
    assert clean("ok") == "ok"
    assert clean("a\x1b[0mb\x9b") == "a\\x1b[0mb\\x9b"
    assert clean("a\n\tb") == "a b"
    assert clean("\u202eevil") == "\\u202eevil"


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (["b0r0n0", "b0r0n1", "b0r0n2", "b0r0n3"], ["b0r0n0–b0r0n3"]),
        (["n1", "n2", "n4"], ["n1", "n2", "n4"]),
        (["n8", "n9", "n10"], ["n8–n10"]),
        (["n08", "n09", "n10"], ["n08–n10"]),
        (["n9", "n010", "n011"], ["n9", "n010", "n011"]),
        (["gpu1.x", "gpu2.x", "gpu3.x", "gpu4.y"], ["gpu1.x–gpu3.x", "gpu4.y"]),
        (["a", "b", "c"], ["a", "b", "c"]),
    ],
)
def test_runs_of_names_become_ranges(names: list[str], parts: list[str]) -> None:
    assert ranges(names) == parts


def test_gpu_indices_become_ranges() -> None:
    assert numbers([0, 1, 2, 3]) == "0–3"
    assert numbers([0, 1, 3, 5, 6, 7]) == "0,1,3,5–7"


def test_levels_have_a_plural() -> None:
    assert [level_word(level, 2) for level in ("rack", "leaf", "nvlink")] == ["racks", "leaves", "nvlink domains"]
    assert level_word("rack", 1) == "rack"


def test_long_lists_of_pieces_count_the_rest() -> None:
    assert shortened(["a", "b", "c"], 3) == "a, b, c"
    assert shortened(["a", "b", "c", "d"], 3) == "a, b … 2 more"


def test_cut_names_keep_their_start_and_their_end() -> None:
    assert cut("abcdefghij", 10) == "abcdefghij"
    assert cut("abcdefghijk", 10) == "abcdef…ijk"


def test_tables_line_up_and_cut_only_what_may_be_cut() -> None:
    columns = [Column("job", least=4), Column("GPUs", right=True)]
    lines = table(columns, [Row(["x" * 30, "1,024"]), Row(["y", "8"], ["why"])], 20, plain)
    assert lines == [
        "  job           GPUs",
        "  xxxxxxx…xxx  1,024",
        "  y                8",
        "    why",
    ]
