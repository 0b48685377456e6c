"""A mapping that is never changed: a new version shares all but a few hundred entries with the one before.

A state has 100,000 jobs and an event changes one of them; a copy of a dict for each would cost milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, Set, ValuesView
from itertools import chain, compress
from operator import is_not
from typing import Any, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
P = TypeVar("P")

CHUNK = 64
"""Entries of a chunk, at most: a new version copies one chunk, and the list of all.

What is known of a chunk is found out anew once one entry has changed, so small ones save work where many change.
"""


_NOTHING: Any = object()


class Chunk(dict[K, V]):
    """Some entries, never changed; `found` is what was found out of them, by what looked for it.

    `marks` are what was found of each entry alone, likewise; where they are not here yet, `known` may be the last chunk
    before this one that has them.
    """

    __slots__ = ("found", "known", "marks")

    def __init__(self, entries: Mapping[K, V] | Sequence[tuple[K, V]] = ()) -> None:
        super().__init__(entries)
        self.found: dict[object, Any] = {}
        self.marks: dict[object, dict[K, Any]] = {}
        self.known: Chunk[K, V] | None = None
        if isinstance(entries, Chunk):
            self.known = entries if entries.marks else entries.known


class Records(Mapping[K, V]):
    """Entries in the order of their insertion, as a dict has them, cut into chunks.

    `where` tells in which chunk a key was put last, by any version; it is shared by all versions and only ever grows.
    A key that is not in it is in none of them. What it tells may be wrong for this version of keys in `moved`, which
    were put in a second chunk after they had been dropped: for those all chunks are looked through.
    """

    __slots__ = ("_chunks", "_moved", "_size", "_where")

    def __init__(self, chunks: tuple[Chunk[K, V], ...], where: dict[K, int], moved: set[K], size: int) -> None:
        self._chunks = chunks
        self._where = where
        self._moved = moved
        self._size = size

    @classmethod
    def of(cls, given: Mapping[K, V]) -> Records[K, V]:
        """Return the same entries in the same order, as they are where they are such records already."""
        if isinstance(given, Records):
            return given
        items = list(given.items())
        chunks = tuple(Chunk(items[first : first + CHUNK]) for first in range(0, len(items), CHUNK))
        where = {key: number for number, chunk in enumerate(chunks) for key in chunk}
        return cls(chunks, where, set(), len(items))

    def put(self, key: K, value: V) -> Records[K, V]:
        """Return a version in which a key has a value: in its place, at the end where it is new."""
        found = self._find(key)
        new = found is None
        if found is None:
            full = not self._chunks or len(self._chunks[-1]) >= CHUNK
            found = len(self._chunks) if full else len(self._chunks) - 1
        changed = Chunk(self._chunks[found] if found < len(self._chunks) else ())
        changed[key] = value
        if new:
            if self._where.get(key, found) != found:
                self._moved.add(key)
            self._where[key] = found
        chunks = (*self._chunks[:found], changed, *self._chunks[found + 1 :])
        return Records(chunks, self._where, self._moved, self._size + new)

    def put_all(self, entries: Mapping[K, V]) -> Records[K, V]:
        """Return a version in which keys that are there have other values. Raises KeyError for one that is not."""
        by_chunk: dict[int, dict[K, V]] = {}
        for key, value in entries.items():
            found = self._find(key)
            if found is None:
                raise KeyError(key)
            by_chunk.setdefault(found, {})[key] = value
        chunks = list(self._chunks)
        for number, new in by_chunk.items():
            changed = Chunk(chunks[number])
            changed.update(new)
            chunks[number] = changed
        return Records(tuple(chunks), self._where, self._moved, self._size)

    def drop(self, key: K) -> Records[K, V]:
        """Return a version without a key. Raises KeyError where there is none."""
        found = self._find(key)
        if found is None:
            raise KeyError(key)
        changed = Chunk(self._chunks[found])
        del changed[key]
        chunks = (*self._chunks[:found], changed, *self._chunks[found + 1 :])
        return self._thinned(Records(chunks, self._where, self._moved, self._size - 1))

    def without(self, keys: Set[K]) -> Records[K, V]:
        """Return a version without some keys, of which it need not have all."""
        touched: dict[int, int] = {}
        for key in keys:
            found = self._find(key)
            if found is not None:
                touched[found] = touched.get(found, 0) + 1
        chunks = list(self._chunks)
        for number in touched:
            chunks[number] = Chunk([(key, value) for key, value in chunks[number].items() if key not in keys])
        return self._thinned(Records(tuple(chunks), self._where, self._moved, self._size - sum(touched.values())))

    @staticmethod
    def _thinned(left: Records[K, V]) -> Records[K, V]:
        """Return the same entries; chunks that have become thin are joined before there are many of them."""
        thin = len(left._chunks) > 8 + 2 * left._size // CHUNK
        return Records.of(dict(left.items())) if thin else left

    def chunks(self) -> Sequence[Mapping[K, V]]:
        """Return the entries in their chunks: the same object where nothing of a chunk has changed."""
        return self._chunks

    def parts(self, look: Callable[[Mapping[K, V]], P]) -> list[P]:
        """Return what `look` finds out of each chunk, chunk by chunk; it depends on nothing but the entries.

        It is remembered with the chunk, so `look` has to be the same object the next time.
        """
        parts: list[P] = []
        for chunk in self._chunks:
            found = chunk.found
            if look not in found:
                found[look] = look(chunk)
            parts.append(found[look])
        return parts

    def marks(self, look: Callable[[V], P]) -> list[dict[K, P]]:
        """Return what `look` finds out of each value, chunk by chunk; as with `parts`, but value by value."""
        marks: list[dict[K, P]] = []
        for chunk in self._chunks:
            found: dict[K, P] | None = chunk.marks.get(look)
            if found is None:
                before = chunk.known
                marked: dict[K, P] = {} if before is None else before.marks.get(look, {})
                if before is None or not marked:
                    found = {key: look(value) for key, value in chunk.items()}
                elif list(before) == list(chunk):
                    found = marked.copy()
                    for key, value in compress(chunk.items(), map(is_not, chunk.values(), before.values())):
                        found[key] = look(value)
                else:
                    was = before.get
                    found = {key: marked[key] if was(key) is value else look(value) for key, value in chunk.items()}
                chunk.marks[look] = found
                chunk.known = None
            marks.append(found)
        return marks

    def _find(self, key: K) -> int | None:
        """Return the number of the chunk that a key is in."""
        told = self._where.get(key)
        if told is None:
            return None
        if told < len(self._chunks) and key in self._chunks[told]:
            return told
        if key not in self._moved:
            return None
        return next((number for number, chunk in enumerate(self._chunks) if key in chunk), None)

    def __getitem__(self, key: K) -> V:
        found = self._find(key)
        if found is None:
            raise KeyError(key)
        return self._chunks[found][key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: V | D | None = None) -> V | D | None:
        """Return the value of a key, else the default."""
        # What is found at once, as nearly all is, is looked up but once.
        told = self._where.get(key)
        if told is None:
            return default
        if told < len(self._chunks):
            value: V = self._chunks[told].get(key, _NOTHING)
            if value is not _NOTHING:
                return value
        found = self._find(key) if key in self._moved else None
        return default if found is None else self._chunks[found][key]

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._chunks)

    def __len__(self) -> int:
        return self._size

    def values(self) -> ValuesView[V]:
        """Return all values, in order."""
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        """Return all entries, in order."""
        return _Items(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return other is self or dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return Records.of, (dict(self.items()),)

    def __repr__(self) -> str:
        return f"Records({dict(self.items())!r})"


class _Values(ValuesView[V]):
    """Values, as fast as those of dicts."""

    _mapping: Records[object, V]

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(chunk.values() for chunk in self._mapping._chunks)


class _Items(ItemsView[K, V]):
    """Entries, as fast as those of dicts."""

    _mapping: Records[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(chunk.items() for chunk in self._mapping._chunks)
