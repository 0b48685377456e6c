"""Records are what a dict would be, version by version."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import numpy as np
import pytest

from optsched.engine.records import CHUNK, Records


def test_versions_are_what_copies_of_dicts_are():
    """Thousands of changes, each to a version drawn from the last ones: all versions stay what they were, in order."""
    draw = np.random.default_rng(5)
    versions: list[tuple[Records[int, int], dict[int, int]]] = [(Records.of({}), {})]
    for number in range(6000):
        records, plain = versions[-1 if draw.random() < 0.9 else int(draw.integers(0, len(versions)))]
        # It grows to some chunks, then shrinks.
        key = int(draw.integers(0, 4 * CHUNK))
        plain = dict(plain)
        if key in plain and draw.random() < (0.2 if number < 4000 else 0.9):
            records = records.drop(key)
            del plain[key]
        else:
            records = records.put(key, number)
            plain[key] = number
        versions = [*versions[-20:], (records, plain)]
        assert len(records) == len(plain)
        if number % 50 == 0:
            for mine, theirs in versions:
                assert list(mine.items()) == list(theirs.items())
                assert list(mine) == list(theirs)
                assert list(mine.values()) == list(theirs.values())
                found = [mine.get(key, -1) for key in range(4 * CHUNK)]
                assert found == [theirs.get(key, -1) for key in range(4 * CHUNK)]
                assert [key in mine for key in range(100)] == [key in theirs for key in range(100)]


def test_one_key_in_two_branches_is_found_in_both():
    """Put at different places, with different values."""
    base = Records.of(dict.fromkeys(range(CHUNK - 1), 0))
    left = base.put(-1, 1)
    right = base.put(-2, 0).put(-1, 2)
    assert (base.get(-1), left[-1], right[-1]) == (None, 1, 2)
    assert left.drop(-1) == base
    assert left.drop(-1).get(-1) is None
    assert list(right)[-2:] == [-2, -1]


def test_many_keys_get_other_values_at_once():
    """Every third of 2,000; older versions keep theirs, and chunks that nothing is put into are shared."""
    records = Records.of(dict.fromkeys(range(2000), 0))
    changed = records.put_all({key: key for key in range(0, 600, 3)})
    assert list(changed.items()) == [(key, key if key < 600 and key % 3 == 0 else 0) for key in range(2000)]
    assert (len(changed), records[3]) == (2000, 0)
    shared = [mine is theirs for mine, theirs in zip(changed.chunks(), records.chunks(), strict=True)]
    touched = -(-600 // CHUNK)
    assert shared == [False] * touched + [True] * (-(-2000 // CHUNK) - touched)
    with pytest.raises(KeyError):
        records.put_all({5: 1, -1: 1})


def test_many_keys_are_dropped_at_once():
    """Every third of 2,000, and one that is not there; older versions have them still."""
    records = Records.of({key: -key for key in range(2000)})
    left = records.without({*range(0, 2000, 3), -1})
    assert list(left.items()) == [(key, -key) for key in range(2000) if key % 3]
    assert (len(left), len(records)) == (1333, 2000)
    assert (left.get(3), records[3]) == (None, -3)
    assert records.without(set(range(1990))) == {key: -key for key in range(1990, 2000)}
    assert left.put(3, 0)[3] == 0


def test_equal_to_mappings_with_the_same_entries():
    """Dicts among them, on either side; what is no mapping is not equal."""
    records = Records.of({1: 2, 3: 4})
    assert records == {3: 4, 1: 2}
    assert records == {1: 2, 3: 4}
    assert records == Records.of({1: 2}).put(3, 4)
    assert records != {1: 2}
    assert records != [(1, 2), (3, 4)]
    assert Records.of(records) is records
    assert pickle.loads(pickle.dumps(records)) == records
    assert repr(records) == "Records({1: 2, 3: 4})"


def test_a_key_that_is_not_there_is_an_error():
    """As with dicts."""
    records = Records.of({1: 2})
    for key in (2, 3):
        with pytest.raises(KeyError):
            records[key]
        with pytest.raises(KeyError):
            records.drop(key)
    assert records.get(2) is None
    assert records.get(2, 7) == 7


def test_many_drops_leave_few_chunks():
    """A queue through which many pass does not become a list of empty chunks."""
    records: Records[int, int] = Records.of({})
    for key in range(30 * CHUNK):
        records = records.put(key, key)
        if key >= CHUNK:
            records = records.drop(key - CHUNK)
    assert list(records) == list(range(29 * CHUNK, 30 * CHUNK))
    assert len(records._chunks) <= 10
    assert len(records._where) <= 10 * CHUNK


def test_what_was_found_of_entries_is_found_anew_where_they_changed_only():
    """Of 300 entries one changes, one comes and one goes, with versions in between at which nobody looks."""
    looked: list[int] = []

    def look(value: list[int]) -> int:
        looked.append(value[0])
        return 2 * value[0]

    records = Records.of({key: [key] for key in range(300)})
    assert [mark for chunk in records.marks(look) for mark in chunk.values()] == [2 * key for key in range(300)]
    looked.clear()
    later = records.put(7, [1000]).put(7, [1001]).put(400, [400]).drop(8)
    for _ in range(2):
        found = {key: mark for chunk in later.marks(look) for key, mark in chunk.items()}
        assert found == {key: 2 * value[0] for key, value in later.items()}
    assert sorted(looked) == [400, 1001]
    assert [mark for chunk in records.marks(look) for mark in chunk.values()] == [2 * key for key in range(300)]


def test_what_was_found_of_a_chunk_is_found_anew_where_it_changed_only():
    """Sums, chunk by chunk."""
    looked: list[int] = []

    def total(chunk: Mapping[int, int]) -> int:
        looked.append(len(chunk))
        return sum(chunk.values())

    records = Records.of({key: key for key in range(4 * CHUNK)})
    assert sum(records.parts(total)) == sum(range(4 * CHUNK))
    looked.clear()
    later = records.put(0, 5)
    assert sum(later.parts(total)) == sum(later.parts(total)) == sum(range(4 * CHUNK)) + 5
    assert looked == [CHUNK]
