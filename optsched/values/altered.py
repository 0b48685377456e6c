"""Copies of values in which some fields differ, for where there are many of them.

`dataclasses.replace` asks each field what it is and then sets it through `object.__setattr__`, which for a record of
thirty fields takes four times as long as this. But what it is given is held against the types of the fields where types
are checked, so this is only for the few places through which every event goes, or every job of a round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

_Set = Callable[[object, object], None]


@cache
def _means_of(kind: Any) -> tuple[Callable[[Any], Any], dict[str, _Set], Callable[[object], None] | None]:
    """Return how values of a class are copied, how each field of a copy is set, and the class's `__post_init__`.

    A copy is of a class with the same slots that lets them be assigned, until it is given its own: an assignment is
    several times as fast as the call that a frozen class takes.
    """
    names = [each.name for each in fields(kind)]
    loose: Any = type(kind.__name__, (), {"__slots__": kind.__slots__})
    # Written out, as dataclasses write their own methods: a loop over the fields takes twice as long.
    lines = ["def copied(value):", "    copy = loose()", *(f"    copy.{name} = value.{name}" for name in names)]
    scope: dict[str, Any] = {"loose": loose}
    exec("\n".join([*lines, "    return copy"]), scope)
    sets: dict[str, _Set] = {name: getattr(loose, name).__set__ for name in names}
    return scope["copied"], sets, getattr(kind, "__post_init__", None)


def altered(value: T, **changes: Any) -> T:
    """Return what `dataclasses.replace` does of a slotted dataclass.

    Raises KeyError where it has no such field.
    """
    kind: Any = type(value)
    copied, sets, made = _means_of(kind)
    copy: Any = copied(value)
    for name, each in changes.items():
        sets[name](copy, each)
    copy.__class__ = kind
    if made is not None:
        made(copy)
    found: T = copy
    return found
