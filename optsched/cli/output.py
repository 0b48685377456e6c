"""Files that commands write: looked at before any work is done, and written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from optsched.cli.words import clean
from optsched.errors import Fault, InputError


def check_output(path: str | None, option: str) -> None:
    """Refuse a file that cannot be written before time is spent on what is to be in it. Raises InputError."""
    if path is None:
        return
    file = Path(path)
    wrong = ""
    try:
        if file.is_dir():
            wrong = "is a folder"
        elif not file.parent.is_dir():
            wrong = "lies in no folder that exists"
        elif not os.access(file if file.exists() else file.parent, os.W_OK):
            wrong = "may not be written"
    except (OSError, ValueError) as error:
        wrong = f"cannot be used: {error}"
    if wrong:
        raise _refused(path, option, wrong)


def check_outputs(paths: dict[str, str | None]) -> None:
    """Check several outputs, given by their options, and that no two of them are one file. Raises InputError."""
    seen: dict[str, str] = {}
    for option, path in paths.items():
        check_output(path, option)
        if path is not None:
            other = seen.setdefault(os.path.realpath(path), option)
            if other != option:
                raise _refused(path, option, f"is what {other} writes as well")


def write_output(path: str, data: bytes, option: str) -> None:
    """Write a file whole: what was there before stays until all is written. Raises InputError where that fails.

    What is no plain file (a pipe, /dev/null), or lies in a folder where nothing may be added, is written as it is.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    try:
        if (os.path.exists(target) and not os.path.isfile(target)) or not os.access(folder, os.W_OK):
            Path(target).write_bytes(data)
            return
        mode = os.stat(target).st_mode if os.path.exists(target) else 0o666 & ~_umask()
        descriptor, beside = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as half:
                half.write(data)
            os.chmod(beside, mode & 0o7777)
            os.replace(beside, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        raise _refused(path, option, f"cannot be written: {error.strerror or error}") from None


def _umask() -> int:
    """Return the mask of new files' permissions, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refused(path: str, option: str, wrong: str) -> InputError:
    return InputError([Fault(clean(path), None, option, wrong, "the path of a file that may be written")])
