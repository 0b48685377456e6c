"""States and events as plain data, for whoever stores them, and back: equal to the last field, and in the same order.

A dataclass is `{"$": name, field: value, ...}`, without the fields that are at their defaults; an enum
`{"$enum": name, "value": ...}`; a mapping `{"$map": [[key, value], ...]}`; a set `{"$set": [...]}`; tuples are lists.
Everything is JSON.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from types import ModuleType

from optsched.engine import commands, events, log, settings, state
from optsched.errors import InternalError
from optsched.values import cluster, job, plan, profile, resources, snapshot, team

FORMAT = 1
"""Grows when what is written can no longer be read by what was there before."""

_MODULES: tuple[ModuleType, ...] = (
    *(commands, events, log, settings, state),
    *(cluster, job, plan, profile, resources, snapshot, team),
)


def _types() -> tuple[dict[str, type], dict[type, str]]:
    """Return the dataclasses and enums that may be stored, by name; one name in two modules is told apart by module."""
    by_name: dict[str, type] = {}
    for module in _MODULES:
        short = module.__name__.rsplit(".", 1)[-1]
        for name, kind in vars(module).items():
            own = isinstance(kind, type) and kind.__module__ == module.__name__
            if own and (dataclasses.is_dataclass(kind) or issubclass(kind, enum.Enum)):
                by_name[f"{short}.{name}"] = kind
    return by_name, {kind: name for name, kind in by_name.items()}


_BY_NAME, _NAME_OF = _types()


def to_plain(value: object) -> object:
    """Return a value as plain data. Raises InternalError for what nobody stores."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, enum.Enum):
        return {"$enum": _NAME_OF[type(value)], "value": value.value}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"$": _NAME_OF[type(value)]} | {
            field.name: to_plain(given)
            for field in dataclasses.fields(value)
            if not _is_default(field, given := getattr(value, field.name))
        }
    if isinstance(value, Mapping):
        return {"$map": [[to_plain(key), to_plain(entry)] for key, entry in value.items()]}
    if isinstance(value, frozenset | set):
        return {"$set": _sorted(value)}
    if isinstance(value, tuple | list):
        return [to_plain(entry) for entry in value]
    raise InternalError(f"{type(value).__name__} cannot be stored")


def _sorted(values: Iterable[object]) -> list[object]:
    return [to_plain(each) for each in sorted(values, key=repr)]


def _is_default(field: dataclasses.Field[object], given: object) -> bool:
    if field.default is not dataclasses.MISSING:
        return type(given) is type(field.default) and given == field.default
    return field.default_factory is not dataclasses.MISSING and given == field.default_factory()


def from_plain(data: object) -> object:
    """Return the value that plain data stands for. Raises InternalError for a name that nobody knows."""
    if isinstance(data, list):
        return tuple(from_plain(entry) for entry in data)
    if not isinstance(data, dict):
        return data
    if "$map" in data:
        return {from_plain(key): from_plain(entry) for key, entry in data["$map"]}
    if "$set" in data:
        return frozenset(from_plain(entry) for entry in data["$set"])
    name = data.get("$enum") or data.get("$")
    kind = _BY_NAME.get(str(name))
    if kind is None:
        raise InternalError(f"stored data names {name}, which is unknown")
    if "$enum" in data:
        return kind(data["value"])
    return kind(**{key: from_plain(entry) for key, entry in data.items() if key != "$"})


def save(given: state.State) -> dict[str, object]:
    """Return a state as plain data, with the number of the format."""
    return {"format": FORMAT, "state": to_plain(given)}


def restore(data: Mapping[str, object]) -> state.State:
    """Return the state that was saved. Raises InternalError for a format from the future or for no state."""
    if data.get("format") != FORMAT:
        raise InternalError(f"stored in format {data.get('format')}; this version reads format {FORMAT}")
    found = from_plain(data.get("state"))
    if not isinstance(found, state.State):
        raise InternalError("stored data is no state")
    return found
