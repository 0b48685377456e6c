"""States and events as plain data, for whoever stores them, and back: equal to the last field, and in the same order.

A dataclass is `{"$": name, field: value, ...}`, without the fields that are at their defaults; an enum
`{"$enum": name, "value": ...}`; a mapping `{"$map": [[key, value], ...]}`; a set `{"$set": [...]}`; tuples are lists.
Everything is JSON.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import operator
from collections.abc import Callable, Mapping
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


_text = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
"""Plain data is made here, and never holds itself."""

_PLAIN = frozenset({type(None), bool, int, float, str})


class _Fields:
    """How a dataclass is written: its name, and its fields with what each is when nobody gave it."""

    def __init__(self, kind: type) -> None:
        self.name = _NAME_OF[kind]
        self.read = _reader([field.name for field in dataclasses.fields(kind)])
        self.defaults: list[tuple[str, bool, object]] = []
        for field in dataclasses.fields(kind):
            if field.default is not dataclasses.MISSING:
                self.defaults.append((field.name, True, field.default))
            elif field.default_factory is not dataclasses.MISSING:
                self.defaults.append((field.name, False, field.default_factory()))
            else:
                self.defaults.append((field.name, True, dataclasses.MISSING))

    def write(self, value: object) -> dict[str, object]:
        """Return a value of the class as plain data, without what is at its default; 1 is not 1.0 there."""
        plain: dict[str, object] = {"$": self.name}
        for name, given in self.given(value):
            plain[name] = given if type(given) in _PLAIN else to_plain(given)
        return plain

    def given(self, value: object) -> list[tuple[str, object]]:
        """Return the fields of a value that are not at their defaults."""
        return [
            (name, given)
            for (name, exact, default), given in zip(self.defaults, self.read(value), strict=True)
            if given is not default and (given != default or (exact and type(given) is not type(default)))
        ]


def _reader(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """Return what reads all fields of a value."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


_FIELDS: dict[type, _Fields] = {kind: _Fields(kind) for kind in _NAME_OF if dataclasses.is_dataclass(kind)}


def to_plain(value: object) -> object:
    """Return a value as plain data. Raises InternalError for what nobody stores."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    fields = _FIELDS.get(kind)
    if fields is not None:
        return fields.write(value)
    if isinstance(value, enum.Enum):
        return {"$enum": _NAME_OF[kind], "value": value.value}
    if isinstance(value, Mapping):
        return {"$map": [[to_plain(key), to_plain(entry)] for key, entry in value.items()]}
    if isinstance(value, frozenset | set):
        return {"$set": [to_plain(each) for each in sorted(value, key=repr)]}
    if isinstance(value, tuple | list):
        return [to_plain(entry) for entry in value]
    raise InternalError(f"{kind.__name__} cannot be stored")


def from_plain(data: object) -> object:
    """Return the value that plain data stands for. Raises InternalError for a name that nobody knows."""
    if isinstance(data, list):
        return tuple([from_plain(entry) for entry in data])
    if not isinstance(data, dict):
        return data
    name = data.get("$")
    if name is not None:
        given = {key: entry if type(entry) in _PLAIN else from_plain(entry) for key, entry in data.items()}
        del given["$"]
        return _type(name)(**given)
    if "$map" in data:
        return {from_plain(key): from_plain(entry) for key, entry in data["$map"]}
    if "$set" in data:
        return frozenset(from_plain(entry) for entry in data["$set"])
    return _type(data.get("$enum"))(data["value"])


def _type(name: object) -> type:
    kind = _BY_NAME.get(str(name))
    if kind is None:
        raise InternalError(f"stored data names {name}, which is unknown")
    return kind


def encode(value: object) -> bytes:
    """Return a value as the bytes that are stored: JSON in ASCII. Raises InternalError for what nobody stores."""
    return text_of(value).encode("ascii")


def text_of(value: object) -> str:
    """Return a value as the text that is stored. Raises InternalError for what nobody stores."""
    return _text(to_plain(value))


def given_fields(value: object) -> list[tuple[str, object]]:
    """Return the fields of a dataclass that are stored, in order: those not at their defaults."""
    return _FIELDS[type(value)].given(value)


def decode(data: bytes) -> object:
    """Return the value that stored bytes stand for. Raises InternalError for what is none."""
    try:
        return from_plain(json.loads(data))
    except (ValueError, TypeError, KeyError) as error:
        raise InternalError(f"stored data cannot be read: {error}") from error


def save(given: state.State) -> dict[str, object]:
    """Return a state as plain data, with the number of the format."""
    return {"format": FORMAT, "state": to_plain(given)}


def save_bytes(given: state.State) -> bytes:
    """Return a state as the bytes that a store keeps."""
    return _text(save(given)).encode("ascii")


def restore(data: Mapping[str, object]) -> state.State:
    """Return the state that was saved. Raises InternalError for a format from the future or for no state."""
    if data.get("format") != FORMAT:
        raise InternalError(f"stored in format {data.get('format')}; this version reads format {FORMAT}")
    found = from_plain(data.get("state"))
    if not isinstance(found, state.State):
        raise InternalError("stored data is no state")
    return found


def restore_bytes(data: bytes) -> state.State:
    """Return the state that bytes stand for. Raises InternalError for what is none, or of a later format."""
    try:
        plain = json.loads(data)
    except ValueError as error:
        raise InternalError(f"stored data cannot be read: {error}") from error
    if not isinstance(plain, dict):
        raise InternalError("stored data is no state")
    return restore(plain)
