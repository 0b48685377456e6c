"""Another value like one that is there: what `dataclasses.replace` does, in half the time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import TypeVar

V = TypeVar("V")


@functools.cache
def _shape(kind: type) -> tuple[Callable[[object], tuple[object, ...]], Mapping[str, int]]:
    """Return what reads all fields of a dataclass, and the place of each."""
    names = [field.name for field in fields(kind)]
    return attrgetter(*names), {name: place for place, name in enumerate(names)}


def changed(value: V, **changes: object) -> V:
    """Return a value with some fields changed. Its class has several fields, all of which its constructor takes.

    Raises KeyError for a field that it does not have.
    """
    read, place_of = _shape(type(value))  # type: ignore[arg-type]
    given = list(read(value))
    for name, new in changes.items():
        given[place_of[name]] = new
    return type(value)(*given)
