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
    """Return how values of a class are copied as they are, how each field is set, and its `__post_init__`."""
    names = [each.name for each in fields(kind)]
    sets: dict[str, _Set] = {name: getattr(kind, name).__set__ for name in names}
    # Written out, as dataclasses write their own methods: a loop over the fields takes twice as long.
    lines = ["def copied(value):", "    copy = new(kind)"]
    lines += [f"    set_{name}(copy, value.{name})" for name in names]
    scope: dict[str, Any] = {"new": object.__new__, "kind": kind}
    scope |= {f"set_{name}": each for name, each in sets.items()}
    exec("\n".join([*lines, "    return copy"]), scope)
    return scope["copied"], sets, getattr(kind, "__post_init__", None)


def altered(value: T, **changes: Any) -> T:
    """Return what `dataclasses.replace` does of a slotted dataclass.

    Raises KeyError where it has no such field.
    """
    kind: Any = type(value)
    copied, sets, made = _means_of(kind)
    copy: T = copied(value)
    for name, each in changes.items():
        sets[name](copy, each)
    if made is not None:
        made(copy)
    return copy
