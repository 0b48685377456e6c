"""Copies of values in which some fields differ, for where there are many of them.

`dataclasses.replace` asks each field what it is and then sets it through `object.__setattr__`, which for a record of
thirty fields takes twice as long as this. But what it is given is held against the types of the fields where types are
checked, so this is only for the few places through which every event goes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from itertools import repeat
from operator import attrgetter, call
from typing import Any, NamedTuple, TypeVar, cast

T = TypeVar("T")


class _Slots(NamedTuple):
    """How the fields of a class are read, all at once, and set, one by one; `made` is its `__post_init__`."""

    read: Callable[[object], tuple[object, ...]]
    sets: tuple[Callable[[object, object], None], ...]
    set_by_name: dict[str, Callable[[object, object], None]]
    made: Callable[[object], None] | None


@cache
def _slots_of(kind: Any) -> _Slots:
    names = [each.name for each in fields(kind)]
    sets = tuple(getattr(kind, name).__set__ for name in names)
    return _Slots(attrgetter(*names), sets, dict(zip(names, sets, strict=True)), getattr(kind, "__post_init__", None))


def altered(value: T, **changes: Any) -> T:
    """Return what `dataclasses.replace` does of a slotted dataclass of two fields or more.

    Raises KeyError where it has no such field.
    """
    kind: Any = type(value)
    slots, copy = _slots_of(kind), object.__new__(kind)
    deque(map(call, slots.sets, repeat(copy), slots.read(value)), maxlen=0)
    for name, each in changes.items():
        slots.set_by_name[name](copy, each)
    if slots.made is not None:
        slots.made(copy)
    return cast("T", copy)
