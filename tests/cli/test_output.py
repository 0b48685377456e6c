"""Files that commands write: whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from optsched.cli.output import check_output, write_output
from optsched.errors import InputError


def test_what_was_there_stays_where_not_all_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full, say: one line, the file as it was, nothing beside it."""
    kept = tmp_path / "kept"
    kept.write_text("kept")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="kept: --out: cannot be written: No space left on device; allowed: the path"):
        write_output(str(kept), b"new", "--out")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"kept": "kept"}


def test_a_file_is_replaced_with_its_mode_and_through_links(tmp_path: Path) -> None:
    """A link stays one; a new file has the usual mode."""
    kept, link, new = tmp_path / "kept", tmp_path / "link", tmp_path / "new"
    kept.write_text("kept")
    kept.chmod(0o600)
    link.symlink_to(kept)
    before = os.umask(0o027)
    try:
        write_output(str(link), b"longer than that", "--out")
        write_output(str(new), b"new", "--out")
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == ("longer than that", 0o600)
    assert (new.read_text(), stat.S_IMODE(new.stat().st_mode)) == ("new", 0o640)


def test_what_is_no_file_is_written_as_it_is() -> None:
    """/dev/null is not replaced by a file."""
    check_output("/dev/null", "--out")
    write_output("/dev/null", b"gone", "--out")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
