"""Files, commands and output that the pages show are real; links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from optsched.cli.main import main
from tests.docs.pages import (
    PAGES,
    ROOT,
    Block,
    anchors,
    blocks,
    commands,
    differs,
    files,
    name_of,
    prose,
    without_times,
)

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SHELL = re.compile(r"^(echo .+|optsched .+|make( PYTHON=\S+)?( [a-z]+)?|\. \.venv/bin/activate|pip install \.)$")
WITH_A_SERVICE = ("service.md", "commands.md", "integrate.md")
"""Their blocks need a service, and have tests of their own."""

CONSOLES = [
    pytest.param(page, block, id=f"{name_of(page)}:{block.line}")
    for page in PAGES
    for block in blocks(page)
    if block.language == "console"
]


@pytest.mark.parametrize(("page", "block"), CONSOLES)
def test_a_command_prints_what_the_page_shows(
    page: Path, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder with the files of the page, 80 columns wide; times aside, and lines that `…` stands for."""
    for name, text in files(page).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for command in commands(block):
        assert command.arguments[0] == "optsched", f"{name_of(page)}:{command.line}"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = main(command.arguments[1:])
        assert code == command.code, printed.getvalue()
        shown = without_times("\n".join(command.shown))
        wrong = differs(shown, without_times(printed.getvalue()))
        assert not wrong, f"{name_of(page)}:{command.line}: {wrong}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_is_of_a_kind_that_is_checked(page: Path) -> None:
    """A file has a name, and a command of the page uses it; a shell block calls only what there is."""
    found = blocks(page)
    used = " ".join(
        " ".join(command.arguments) for block in found if block.language == "console" for command in commands(block)
    )
    texts = files(page)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in found:
        where = f"{name_of(page)}:{block.line}"
        if page.name in WITH_A_SERVICE:
            assert block.language in ("text", "sh") or block.file, f"{where}: a block without a name is not run"
            continue
        assert block.language in ("yaml", "console", "python", "sh", "text"), where
        if block.language == "python":
            assert block.file, f"{where}: a program without a name is not run"
            assert block.file in (ROOT / "tests" / "docs" / f"test_{page.stem.replace('-', '_')}.py").read_text(), where
        if block.language == "yaml":
            assert block.file, f"{where}: a file without a name is not run"
            others = [text for name, text in texts.items() if name != block.file]
            assert block.file in used or any(block.file in text for text in others), (
                f"{where}: nothing uses {block.file}"
            )
        if block.language == "sh":
            for line in block.lines:
                command = line.split("#")[0].strip()
                assert SHELL.match(command), f"{where}: {command}"
                if command.startswith("make"):
                    assert command.split()[-1] in targets, f"{where}: {command}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_link_leads_somewhere(page: Path) -> None:
    """A file that exists, and a heading that it has; only papers and conventions are on other sites."""
    for number, line in prose(page):
        for target in LINK.findall(line):
            where = f"{name_of(page)}:{number}: {target}"
            path, _, anchor = target.partition("#")
            if path.startswith("https://"):
                continue
            file = page.parent / path if path else page
            assert file.exists(), where
            if anchor:
                assert anchor in anchors(file), where


def test_every_page_can_be_found_from_the_index() -> None:
    """docs/README.md links to all pages of docs/."""
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for _, line in prose(index) for target in LINK.findall(line)}
    assert {page.resolve() for page in (ROOT / "docs").rglob("*.md")} - {index.resolve()} <= linked


def test_output_that_is_shown_is_compared_strictly() -> None:
    """What is left out has to be marked, and order counts."""
    printed = ["a", "b", "c", "d"]
    assert not differs(["a", "b", "c", "d"], printed)
    assert not differs(["a", "…", "d"], printed)
    assert not differs(["…", "b", "…"], printed)
    assert differs(["a", "b"], printed)
    assert differs(["b", "…"], printed)
    assert differs(["a", "…", "c"], printed)
    assert differs(["…", "c", "b", "…"], printed)
    assert differs(["a", "c", "…"], printed)
