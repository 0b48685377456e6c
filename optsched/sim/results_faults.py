"""What is wrong with a file of results, in plain words: what pydantic finds becomes faults with a path."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from optsched.errors import Fault, InputError
from optsched.files.report import known, show

Wrong = tuple[Sequence[int | str], str, str]
"""A fault: the path of the value, what is wrong with it, what is allowed."""

MOST_FAULTS = 10
"""Faults that are told; the rest is counted. Nobody mends such a file by hand: they say what kind of file it is not."""

WRITTEN = "what optsched simulate --format json writes"

_PLAIN = {str: "a text", int: "a whole number", float: "a number"}


def refused(file: str, wrong: Sequence[Wrong]) -> InputError:
    """Return the error for a file with some faults."""
    faults = [Fault(file, None, _path(path), given, allowed) for path, given, allowed in wrong[:MOST_FAULTS]]
    if len(wrong) > MOST_FAULTS:
        faults.append(Fault(file, None, "(more)", f"{len(wrong) - MOST_FAULTS:,} more faults are not listed", WRITTEN))
    return InputError(faults)


def faults_of(error: ValidationError, file: type) -> list[Wrong]:
    """Return what is wrong with data that is no `file`, a dataclass with a field `format`.

    Of a file in another format that alone is told: its other fields may be right there.
    """
    found = [(each["loc"], *_words(each, file)) for each in error.errors(include_url=False)]
    other = [each for each in found if each[0] == ("format",) and each[1].startswith("given")]
    return list(other or found)


def _path(parts: Iterable[int | str]) -> str:
    return ".".join(str(part) for part in parts) or "the file"


def _words(each: ErrorDetails, file: type) -> tuple[str, str]:
    kind, path = each["type"], each["loc"]
    if kind == "json_invalid":
        return each["msg"], WRITTEN
    if kind == "unexpected_keyword_argument":
        keys = list(_fields(_at(file, path[:-1])[0]))
        return "is not known", known(keys, path[-1], "known keys", 30)
    allowed = _at(file, path)[1] or WRITTEN
    return ("is missing", allowed) if kind == "missing" else (f"given {show(each['input'])}", allowed)


def _at(file: type, path: Sequence[int | str]) -> tuple[object, str]:
    """Return the type of the value at a path, and what is allowed there, "" where no words are known for it."""
    hint, said = _bare(file)
    for part in path:
        hint, said = _bare(_inside(hint, part))
    return hint, said


def _inside(hint: object, part: int | str) -> object:
    """Return the type of what is in a value of a type under a key or an index; None where that is not known."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _fields(hint).get(str(part))
    args = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return args[0]
    return args[1] if typing.get_origin(hint) is Mapping else None


def _bare(hint: object) -> tuple[object, str]:
    """Return a type without what is noted at it, and what is allowed there."""
    said = ""
    if typing.get_origin(hint) is typing.Annotated:
        hint, *notes = typing.get_args(hint)
        said = next((note.description for note in notes if isinstance(note, FieldInfo) and note.description), "")
    elif isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        inner, said = _bare(typing.get_args(hint)[0])
        return inner, f"{said}, or null" if said else ""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint, said or known(list(_fields(hint)), None, "a mapping with the keys", 30)
    if typing.get_origin(hint) is Mapping:
        return hint, said or "a mapping"
    if typing.get_origin(hint) is tuple:
        return hint, said or "a list"
    return hint, said or next((text for plain, text in _PLAIN.items() if hint is plain), "")


@cache
def _fields(kind: object) -> dict[str, object]:
    """Return the fields of a dataclass with their types."""
    if not dataclasses.is_dataclass(kind) or not isinstance(kind, type):
        return {}
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
