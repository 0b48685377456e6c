"""JSON text to plain data: fast, with duplicate keys found and every way to fail told apart."""

from __future__ import annotations

import json
from typing import Any

from optsched.files.yamltext import Duplicate


class JsonProblem(Exception):
    """Text that is no usable JSON; line and column count from 1, None where they are not known."""

    def __init__(self, wrong: str, allowed: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(wrong)
        self.wrong, self.allowed, self.line, self.column = wrong, allowed, line, column


class _Repeated(dict[str, Any]):
    """A mapping in which keys were given more than once."""

    __slots__ = ("keys_repeated",)
    keys_repeated: list[str]


def parse_json(text: str) -> tuple[object, list[Duplicate]]:
    """Return the data of `text` and its duplicate keys. NaN and Infinity become floats, for the schema to refuse.

    Raises JsonProblem for a syntax error, nesting too deep or a number too long.
    """
    repeated = False

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        result = dict(pairs)
        if len(result) == len(pairs):
            return result
        repeated = True
        marked = _Repeated(result)
        seen: set[str] = set()
        marked.keys_repeated = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
        return marked

    try:
        data = json.loads(text, object_pairs_hook=mapping)
    except json.JSONDecodeError as error:
        raise JsonProblem(f"not valid JSON: {error.msg}", "YAML or JSON", error.lineno, error.colno) from None
    except RecursionError:
        raise JsonProblem("nested too deep", "at most 64 levels of lists and mappings") from None
    except ValueError:
        raise JsonProblem("a number has too many digits", "numbers of at most 4,000 digits") from None
    return data, _find_repeated(data) if repeated else []


def _find_repeated(data: object) -> list[Duplicate]:
    found: list[Duplicate] = []
    todo: list[tuple[tuple[str | int, ...], object]] = [((), data)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, _Repeated):
            found += [Duplicate((*path, key), None) for key in value.keys_repeated]
        if isinstance(value, dict):
            todo += [((*path, key), child) for key, child in value.items()]
        elif isinstance(value, list):
            todo += [((*path, index), child) for index, child in enumerate(value)]
    return found
