"""What benchmarks/README.md shows is real: its commands run, its files exist, its kinds are all kinds."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

from benchmarks.measure_rounds import arguments_parser
from benchmarks.quality import best
from benchmarks.rounds import KINDS
from benchmarks.rounds.__main__ import main
from optsched.cli.main import parser
from tests.docs.pages import ROOT, blocks, first_cells

PAGE = ROOT / "benchmarks" / "README.md"


def test_its_commands_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds are generated; what takes long is only read by its parser, or found; make knows its target."""
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks(PAGE) if block.language == "sh" for line in block.lines]
    assert len(lines) == 9
    for line in lines:
        program, *rest = shlex.split(line)
        if program == "make":
            assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        elif rest[:2] == ["-m", "benchmarks.rounds"]:
            assert main(rest[2:]) == 0
        elif program == "optsched":
            assert parser().parse_args(rest).command == rest[0]
        elif rest[:2] == ["-m", "benchmarks.quality.best"]:
            assert best.arguments_parser().parse_args(rest[2:]).rounds
        elif rest[0] == "-m":
            assert importlib.import_module(rest[1]).main
        else:
            assert rest[0] == "benchmarks/measure_rounds.py"
            for given in arguments_parser().parse_args(rest[1:]).rounds:
                assert Path(given).is_file() or given.split(":")[0] in KINDS


def test_its_table_of_kinds_says_what_the_program_lists() -> None:
    """Each kind once, in order, with the same words."""
    shown = re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown == [(kind.name, kind.about) for kind in KINDS.values()]


def test_its_files_exist() -> None:
    """Those in the first column of the first table."""
    named = first_cells(PAGE, "Benchmarks")
    assert len(named) >= 5
    assert all((PAGE.parent / name).exists() for name in named)
