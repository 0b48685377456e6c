"""Bytes of a file to text: size limits, gzip and encoding, with one clear fault for each way to fail."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from pathlib import Path
from typing import BinaryIO

from optsched.errors import Fault, InputError

MAX_BYTES = 512 * 1024 * 1024
"""Largest input, unpacked."""

_ALLOWED = f"a YAML or JSON file, gzipped or not, of at most {MAX_BYTES // 1024**2} MB unpacked"
_CHUNK = 1024 * 1024


def refuse(file: str, wrong: str, allowed: str = _ALLOWED, line: int | None = None) -> InputError:
    """Return the error for a file that cannot be read at all; the caller raises it."""
    return InputError([Fault(file, line, "(file)", wrong, allowed)])


def read_text(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the text of a file and the name to call it by, as read_bytes does; not UTF-8 is a fault as well."""
    raw, file = read_bytes(path)
    return _decode(raw, file), file


def read_bytes(path: str | os.PathLike[str]) -> tuple[bytes, str]:
    """Return the bytes of a file and the name to call it by; "-" reads standard input.

    Gzip is told by content. Raises InputError with one fault where the file is missing, unreadable, a folder, larger
    than MAX_BYTES unpacked, or damaged.
    """
    if os.fspath(path) == "-":
        return _unpack(_read(sys.stdin.buffer, "stdin"), "stdin"), "stdin"
    file = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in os.fspath(path))
    try:
        with Path(path).open("rb") as stream:
            raw = _read(stream, file)
    except FileNotFoundError:
        raise refuse(file, "there is no such file", "the path of a file that exists") from None
    except IsADirectoryError:
        raise refuse(file, "this is a folder", _ALLOWED) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refuse(file, f"cannot be read: {reason}", "a file that may be read") from None
    return _unpack(raw, file), file


def _read(stream: BinaryIO, file: str) -> bytes:
    raw = stream.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise refuse(file, "the file is too large")
    return raw


def _unpack(raw: bytes, file: str) -> bytes:
    """Undo gzip, if any, in pieces, so that a small file that unpacks to terabytes costs no more than the limit."""
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    pieces: list[bytes] = []
    size = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            while piece := stream.read(_CHUNK):
                size += len(piece)
                if size > MAX_BYTES:
                    raise refuse(file, "the file is too large once unpacked")
                pieces.append(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise refuse(file, f"the gzip data is damaged or cut short: {error}", "a whole gzip file") from None
    return b"".join(pieces)


def _decode(raw: bytes, file: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise refuse(file, f"byte {error.start} is not UTF-8 text", "UTF-8 text", line) from None
