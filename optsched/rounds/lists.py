"""Lists of a round that are worked out as far as they are asked for, and lists asked the other way round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, overload

import numpy as np

T = TypeVar("T")


class OnDemand(Sequence[T]):
    """Things by number, each made by `make` when it is first asked for; `changed` are there already."""

    def __init__(self, count: int, make: Callable[[int], T], changed: Mapping[int, T] | None = None) -> None:
        self._make = make
        self._made: list[T | None] = [None] * count
        self._parts: dict[tuple[int, int, int], tuple[T, ...]] = {}
        for number, each in (changed or {}).items():
            self._made[number] = each

    def replaced(self, changed: Mapping[int, T]) -> OnDemand[T]:
        """Return the same with some in place of those with their numbers."""
        return OnDemand(len(self), self.__getitem__, changed) if changed else self

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            ends = index.indices(len(self._made))
            part = self._parts.get(ends)
            if part is None:
                part = self._parts[ends] = tuple([self[number] for number in range(*ends)])
            return part
        found = self._made[index]
        if found is None:
            found = self._made[index] = self._make(index % len(self._made))
        return found

    def __iter__(self) -> Iterator[T]:
        return iter(self[:])

    def __len__(self) -> int:
        return len(self._made)


class Membership:
    """For members that are numbers, the lists that each of them is in, as their positions."""

    def __init__(self, lists: Sequence[Sequence[int]], members: int) -> None:
        counted = np.array([member for each in lists for member in each], dtype=np.int64)
        which = np.repeat(np.arange(len(lists)), [len(each) for each in lists])
        self._which: list[int] = which[np.argsort(counted, kind="stable")].tolist()
        ends = np.bincount(counted, minlength=members).cumsum() if lists else np.zeros(members, dtype=np.int64)
        self._ends: list[int] = ends.tolist()

    def __getitem__(self, member: int) -> Sequence[int]:
        return self._which[self._ends[member - 1] if member else 0 : self._ends[member]]
