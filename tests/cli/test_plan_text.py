"""What an operator reads of a plan."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from optsched.cli.render_plan_text import plan_to_text
from optsched.cli.terminal import Style
from optsched.values.plan import Bill, Plan, RoundInfo, Source, Start, Status, Waiting
from tests.cli.builders import info, plan, snapshot


def text(shown: Plan | None = None, width: int = 100, everything: bool = False, colour: bool = False) -> str:
    made = plan_to_text(
        snapshot(), shown or plan(), title="tiny", width=width, style=Style(colour), everything=everything
    )
    assert colour or all(len(line) <= width for line in made.splitlines())
    return made


def section(title: str, shown: Plan | None = None) -> list[str]:
    """The lines of one section, without its heading."""
    for block in text(shown).split("\n\n"):
        if block.startswith(title + "  "):
            return block.splitlines()[1:]
    return []


def cells(line: str) -> list[str]:
    """The cells of a table's line."""
    return re.split(r"  +", line.strip())


def test_the_head_says_what_is_planned_how_well_and_what_changes() -> None:
    lines = text().splitlines()
    assert lines[0] == "tiny · t = 36,000 s · profile default (strict priorities)"
    assert lines[1] == "Optimal: no better plan exists"
    assert lines[2] == "CP-SAT, 1.2 s · all 5 queued jobs considered"
    # 62 healthy GPUs; 30 in use before, 27 after (see builders.plan).
    assert lines[4].startswith("GPUs in use  30 → 27 of 62 healthy  48.4 % → 43.5 %")
    assert lines[5] == "Jobs         running 4 → 5, queued 5 → 4"
    assert lines[6] == "Changes      2 start, 1 stopped, 1 moved, 1 resized, 2 reserved"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"status": Status.FEASIBLE, "gap": 0.003}, "Within 0.3 % of the best possible"),
        ({"status": Status.FEASIBLE, "gap": 0.003, "gap_gpus": 12}, "(at most 12 GPUs short, over all ranks)"),
        (
            {"status": Status.FEASIBLE, "gap": None, "gap_gpus": None, "ranks": ()},
            "how far from the best possible is not known",
        ),
        (
            {"status": Status.FEASIBLE, "gap": None, "gap_gpus": None},
            "its highest rank is proven the best possible, what is below is not known",
        ),
        ({"status": Status.FEASIBLE, "gap": 0.0}, "As good as the bound: nothing better is possible"),
        ({"source": Source.GREEDY, "why": "the solver found nothing in time"}, "The solver found nothing in time"),
        ({"source": Source.GREEDY}, "Greedy plan, 1.2 s"),
        ({"considered": 3}, "3 of 5 queued jobs considered"),
    ],
)
def test_how_good_the_plan_is_stands_in_a_sentence(changes: dict[str, object], sentence: str) -> None:
    assert sentence in text(info(**changes))


def test_a_reason_that_only_repeats_the_verdict_is_not_said_twice() -> None:
    assert text(info(why="no better plan exists")).lower().count("no better plan exists") == 1


def test_a_start_says_where_after_whom_and_why_there() -> None:
    assert section("Starts") == [
        "  job  team    prio  GPUs  where and why",
        "  big  vision  P1      16  rack b0r0: 2 × 8",
        "    waits for train to go (at most 2 min) · rack b0r0 ×8 · inside one rack, as preferred · 99 % of",
        "      full speed at the span rack",
        "  one  vision  P2       1  b0r1n1[4] · breaks up an empty node",
    ]


def test_a_stop_says_for_whom_and_what_it_costs() -> None:
    # 4,320 s of work lost; 16 GPUs · 4,500 s = 20 GPU-hours.
    assert cells(section("Stopped")[1]) == ["train", "nlp", "P3", "16", "1 h 12 min", "20.0", "2 min", "big"]


def test_a_move_says_from_where_to_where() -> None:
    lines = section("Moved")
    assert lines[1].split() == ["small", "nlp", "P3", "4", "0.33", "one"]
    assert lines[2].strip() == "b0r1n0[0–3] → b0r1n1[0–3]"


def test_a_resize_says_from_what_size_to_what_size() -> None:
    assert cells(section("Resized")[1]) == ["grow", "nlp", "P3", "8 → 4", "0.67", "shrinks"]


def test_reserved_room_says_when_and_what_it_holds() -> None:
    lines = section("Reserved")
    assert cells(lines[1]) == ["huge", "vision", "P2", "64", "in 3 h 12 min", "block b1", "b1r1n0"]
    assert "not known" in lines[2]
    assert "nothing yet" in lines[2]


def test_waiting_jobs_are_counted_by_reason_and_told_with_what_would_help() -> None:
    blocks = text().split("\n\n")
    at = next(index for index, block in enumerate(blocks) if block.startswith("Waiting  3 jobs, 80 GPUs"))
    assert [line.split() for line in blocks[at].splitlines()[2:]] == [
        ["limit", "2", "16"],
        ["no", "domain", "fits", "1", "64"],
    ]
    assert blocks[at + 1].splitlines()[1:] == [
        "  huge    vision  P2      64    10 h",
        "    0 of 2 blocks can hold it: 2 with too few GPUs",
        "    → Would help: it can start in 3 h 12 min",
        "  wait-1  nlp     7        8     1 h",
        "    Would exceed the limit of team nlp",
        "    The same for wait-2",
    ]


def test_ranks_show_what_is_proven_what_is_open_and_leave_out_empty_ones() -> None:
    rows = [cells(line) for line in section("Ranks")]
    assert rows == [
        ["tier", "priority", "part", "GPUs", "bound"],
        ["guaranteed", "P1", "16", "16", "proven"],
        ["opportunistic", "P2", "1", "65", "at most 64 more"],
        ["opportunistic", "P3", "10", "–", "a higher rank is open"],
        ["opportunistic", "P3", "above minimum", "0", "–", "a higher rank is open"],
    ]


def test_the_bill_stands_in_gpu_hours_and_gpu_seconds() -> None:
    rows = {line[:17].strip(): line[17:].split() for line in section("Bill")[1:-1]}
    assert rows["run value"] == ["27.0", "97,200"]
    assert rows["preemptions"] == ["20.0", "72,000", "74.1", "%"]
    # 540 + 72,000 + 1,200 + 2,400.5 + 0 + 10 = 76,150.5
    assert rows["total cost"][:2] == ["21.2", "76,150"]
    assert rows["no plan below"] == ["21.2", "76,150"]
    assert section("Bill")[-1] == "  Gap: none"


def test_what_the_bill_leaves_open_is_said() -> None:
    shown = replace(info(status=Status.FEASIBLE, gap=0.01), bill=Bill(36_000.0, 7200.0, bound=3600.0))
    assert "Gap: 1 %; 1.0 GPU-h of the bill are open" in text(shown)


def many() -> Plan:
    starts = tuple(Start(f"j{n}", {"b1r0n1": 1}, "node") for n in range(123))  # type: ignore[arg-type, dict-item]
    queued = tuple(Waiting(f"q{n}", "no_room", f"sentence {n}") for n in range(50))  # type: ignore[arg-type]
    return plan(starts=starts, queued=queued)


def test_long_lists_are_shortened_and_say_so() -> None:
    shown = text(many())
    assert "… and 113 more; --all shows them" in shown
    assert "… and 45 more; --all shows them" in shown
    assert "j122" not in shown


def test_all_shortens_nothing() -> None:
    shown = text(many(), everything=True)
    assert "--all" not in shown
    assert "j122" in shown
    assert "Sentence 49" in shown or "sentence 49" in shown


def test_a_plan_that_changes_nothing_says_so() -> None:
    shown = text(Plan(round=RoundInfo(Source.NO_CHANGE, Status.OPTIMAL, 0.0, 0, 0.02, 0.0, 0, 0)))
    assert "Changes      nothing changes" in shown
    assert "No change, 20 ms" in shown
    assert "Starts" not in shown
    assert "Waiting" not in shown


def test_a_cluster_without_gpus_can_be_shown() -> None:
    empty = replace(snapshot(jobs=[]), cluster=replace(snapshot().cluster, nodes=()))
    bare = Plan(round=RoundInfo(Source.NO_CHANGE, Status.OPTIMAL, 0.0, 0, 0.0, 0.0, 0, 0))
    assert "no healthy GPU" in plan_to_text(empty, bare, title="empty", width=80, style=Style())


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = Waiting("huge", "no_domain_fits", "word " * 80)  # type: ignore[arg-type]
    text(plan(queued=(long,)), width)


def test_long_ids_are_cut_so_that_the_table_fits() -> None:
    name = "a" * 120 + "-end"
    shown = text(plan(starts=(Start(name, {"b0r1n1": 8}, "node"),)), 80)  # type: ignore[arg-type, dict-item]
    assert re.search(r"a…a*-end", shown)


def test_colour_is_only_there_when_asked_for_and_changes_no_text() -> None:
    bare = re.sub(r"\x1b\[[0-9]*m", "", text(colour=True))
    assert "\x1b" in text(colour=True)
    assert bare == text()


def test_control_characters_of_users_do_not_reach_the_terminal() -> None:
    evil = Waiting("huge", "no_\x1b[31mdomain", "a\x1b]0;pwned\x07 b\r\nc", None)  # type: ignore[arg-type]
    shown = text(plan(queued=(evil,), warnings=()))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\\x1b]0;pwned\\x07 b c" in shown


def test_a_gang_says_when_no_narrower_domain_has_room() -> None:
    # Racks have 16 GPUs. train fills b0r0, small leaves 12 in b0r1, grow leaves 8 in b1r0; b1r1 has 14 healthy, nine 2.
    block = Start("big", {"b1r0n1": 8, "b1r1n0": 8}, "block")  # type: ignore[arg-type, dict-item]
    shown = " ".join(text(plan(starts=(block,), preemptions=(), migrations=(), resizes=())).split())
    assert "over 2 racks, one preferred · no rack has 16 GPUs free beside the rest of the plan" in shown


def test_a_gang_says_when_it_is_larger_than_any_narrower_domain() -> None:
    # 24 GPUs, racks of 16.
    wide = Start("huge", {"b0r1n1": 8, "b0r1n0": 8, "b0r0n0": 8}, "block")  # type: ignore[arg-type, dict-item]
    assert "larger than any rack" in text(plan(starts=(wide,)))
