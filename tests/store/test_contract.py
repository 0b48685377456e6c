"""What every store promises: in memory, in a file, in a server."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import pytest

from optsched.engine import events as ev
from optsched.engine.codec import restore_bytes, save_bytes
from optsched.engine.log import LogEntry, rebuild
from optsched.engine.ports import Store, print_of
from optsched.errors import InternalError
from optsched.store import Retention
from optsched.values.ids import JobId, NodeId
from tests.engine.world import World
from tests.store.places import Place, all_history, decided, entries, known, record, started, submits


@pytest.fixture
def store(place: Place) -> Store:
    """An empty store, opened."""
    made = place.store()
    made.open()
    return made


def test_a_new_store_is_empty(place: Place):
    """No state, no entries, epoch 1."""
    found = place.store().open()
    assert (found.epoch, found.sequence, found.state, found.entries) == (1, 0, None, ())


def test_what_was_appended_comes_back_in_order(place: Place):
    """Every entry as it was, whatever the batches; each opening has a larger epoch."""
    store = place.store()
    store.open()
    given = [*submits(1, 3), *entries(4, decided("j1", "j2", waits=300), started("j1"), ev.Tick())]
    store.append(given[:2])
    store.append(given[2:])
    again = place.store().open()
    assert again.entries == tuple(given)
    assert again.epoch == 2


def test_a_saved_state_replaces_the_replay_of_what_lies_before(place: Place):
    """The newest state comes back with its number and what follows; any bytes will do."""
    store = place.store()
    store.open()
    store.save_state(0, b"the first")
    store.append(submits(1, 5))
    store.save_state(3, b"\x00\xff not text")
    found = place.store().open()
    assert (found.sequence, found.state) == (3, b"\x00\xff not text")
    assert found.entries == tuple(submits(4, 5))
    store = place.store()
    store.open()
    store.save_state(5, b"the third")
    found = place.store().open()
    assert (found.sequence, found.state, found.entries) == (5, b"the third", ())


@pytest.mark.parametrize("first", [1, 3, 5, 0])
def test_an_entry_that_is_not_the_next_is_refused(place: Place, first: int):
    """Entry 4 is next after three; nothing of a refused batch is stored, its keys included."""
    store = place.store()
    store.open()
    store.append(submits(1, 3))
    with pytest.raises(InternalError, match=f"entry {first} is not the next: that is 4"):
        store.append(submits(first, first + 1), {"key": b"x"})
    with pytest.raises(InternalError, match="entry 6 is not the next: that is 5"):
        store.append([*submits(4, 4), *submits(6, 6)])
    assert known(store, "key") is None
    store.append(submits(4, 4))
    assert place.store().open().entries == tuple(submits(1, 4))


def test_an_idempotency_key_is_known_with_its_answer(place: Place):
    """From the very append on, over restarts; any text is a key, and an answer may go without entries."""
    store = place.store()
    store.open()
    given = {"a": b"one", "ключ\x00": b"", "\ud800" * 5000: b"\x00\x01"}
    store.append(submits(1, 1), given)
    store.append([], {"b": b"two"})
    store = place.store()
    assert len(store.open().entries) == 1
    assert {key: known(store, key) for key in given} == given
    assert known(store, "b") == b"two"
    assert known(store, "A") is None


def test_a_known_key_is_not_given_again(store: Store):
    """Neither the key nor the entries that came with it are stored."""
    store.append(submits(1, 1), {"a": b"one"})
    with pytest.raises(InternalError, match="key is known"):
        store.append(submits(2, 2), {"new": b"x", "a": b"two"})
    assert known(store, "a") == b"one"
    assert known(store, "new") is None
    store.append(submits(2, 2))


@pytest.mark.parametrize("sequence", [1, 6])
def test_a_state_of_the_past_or_the_future_is_refused(store: Store, sequence: int):
    """Saved is that after entry 2; the last entry is 5."""
    store.append(submits(1, 5))
    store.save_state(2, b"two")
    with pytest.raises(InternalError, match=f"after entry {sequence} cannot be saved: allowed are 2 to 5"):
        store.save_state(sequence, b"x")
    store.save_state(2, b"two again")


def test_rounds_come_newest_first_and_page_by_page(place: Place):
    """Without their plans in lists, with it one by one."""
    store = place.store()
    store.open()
    assert store.rounds(None, 10) == []
    for number in (1, 2, 5, 6):
        store.add_round(record(number, plan=b'{"round": %d}' % number * 100))
    store.add_round(replace(record(7), gap=None, plan=None))
    store = place.store()
    store.open()
    bare = [replace(record(number), plan=None) for number in (6, 5, 2, 1)]
    assert store.rounds(None, 2) == [replace(record(7), gap=None, plan=None), bare[0]]
    assert store.rounds(6, 2) == bare[1:3]
    assert store.rounds(2, 9) == bare[3:]
    assert store.round(5) == record(5, plan=b'{"round": 5}' * 100)
    assert store.round(7) == replace(record(7), gap=None, plan=None)
    assert store.round(4) is None


def test_a_round_that_is_not_later_is_refused(store: Store):
    """The same number again, or an older one."""
    store.add_round(record(5))
    for number in (5, 4):
        with pytest.raises(InternalError, match=f"round {number} is not later than the last, 5"):
            store.add_round(record(number))
    assert len(store.rounds(None, 9)) == 1


def test_the_history_of_a_job_is_what_concerns_it(place: Place):
    """Its own events and the decisions that change it, page by page; not those of others, nor mere signs of life."""
    store = place.store()
    store.open()
    happened = (
        submits(1, 1)[0].event,
        submits(2, 2)[0].event,
        decided("j1", waits=50),
        started("j1"),
        ev.Inventory(NodeId("n1"), frozenset({(JobId("j1"), 1)})),
        decided("j2"),
        ev.Preempt(JobId("j1"), "for a test"),
    )
    store.append(entries(1, *happened))
    bare = replace(happened[2], plan=replace(happened[2].plan, queued=()))
    wanted = [*entries(1, happened[0]), *entries(3, bare, happened[3]), *entries(7, happened[6])]
    for _ in range(2):
        assert store.history(JobId("j1"), 0, 100) == wanted
        assert store.history(JobId("j1"), 1, 2) == wanted[1:3]
        assert store.history(JobId("j1"), 7, 2) == []
        assert store.history(JobId("nobody"), 0, 100) == []
        store = place.store()
        store.open()


def test_the_history_outlives_the_saved_state_and_signs_of_life_do_not(place: Place):
    """What is needed for replay is there until a state is saved; then only what somebody may ask for."""
    store = place.store()
    store.open()
    happened = (submits(1, 1)[0].event, ev.Tick(), ev.Heartbeat(NodeId("n1")), decided("j1", waits=9), decided())
    store.append(entries(1, *happened))
    store.save_state(5, b"state")
    store.append(entries(6, started("j1")))
    assert all_history(store, "j1") == [1, 4, 6]
    found = place.store().open()
    assert [entry.sequence for entry in found.entries] == [6]


def test_the_engine_goes_on_from_what_was_stored(place: Place):
    """A world of 40 steps, its state saved in the middle: state and entries lead to where it was."""
    world = World(3, crashes=True)
    world.live(20)
    middle = len(world.log)
    world.live(20)
    store = place.store()
    store.open()
    store.append(world.log[:middle])
    store.save_state(0, save_bytes(world.start))
    store.save_state(middle, save_bytes(rebuild(world.start, world.log[:middle])))
    store.append(world.log[middle:])
    found = place.store().open()
    assert found.state is not None
    assert rebuild(restore_bytes(found.state), found.entries) == world.state


def test_threads_may_call_at_the_same_time(store: Store):
    """One appends, others read: everybody sees whole batches only."""
    wrong: list[str] = []

    def read() -> None:
        for _ in range(30):
            seen = [key for key in ("a-1", "a-2") if known(store, key) is not None]
            found = all_history(store, "j1")
            if len(seen) == 1 and known(store, "a-2") is None:
                wrong.append("half a batch")
            if found not in ([], [1]):
                wrong.append(str(found))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for each in readers:
        each.start()
    for number in range(1, 41, 2):
        store.append(submits(number, number + 1), {f"a-{number}": b"", f"a-{number + 1}": b""})
    for each in readers:
        each.join()
    assert not wrong


def test_a_store_is_used_while_it_is_open_only(place: Place):
    """Before and after every call is refused; opening twice too; closing twice is no fault."""
    store = place.store()
    calls = (
        lambda: store.append(submits(1, 1)),
        lambda: known(store, "a"),
        lambda: store.save_state(0, b""),
        lambda: store.add_round(record(1)),
        lambda: store.rounds(None, 1),
        lambda: store.round(1),
        lambda: store.history(JobId("j"), 0, 1),
    )
    for call in calls:
        with pytest.raises(InternalError, match="is not open"):
            call()
    store.open()
    with pytest.raises(InternalError, match="is open"):
        store.open()
    store.append(submits(1, 1))
    store.close()
    store.close()
    with pytest.raises(InternalError, match="is not open"):
        known(store, "a")
    assert store.open().epoch == 2


def test_an_event_that_nobody_can_store_stores_nothing(place: Place):
    """Of the whole batch."""
    store = place.store()
    store.open()
    bad = LogEntry(2, 2.0, ev.Update(JobId("j1"), {"gpus": object()}))
    with pytest.raises(InternalError, match="cannot be stored"):
        store.append([*submits(1, 1), bad])
    assert place.store().open().entries == ()


RETENTION = Retention(history_s=100.0, rounds_s=1000.0, keys_s=50.0)


def test_what_is_too_old_goes_when_a_state_is_saved(place: Place):
    """Entries at 1 s to 200 s: the last is at 200 s, so history from 100 s on stays, and keys from 150 s on."""
    store = place.store(RETENTION)
    store.open()
    for number in range(1, 201):
        store.append(submits(number, number), {f"k{number}": b""})
    for number in range(1, 4):
        store.add_round(record(number, at=-900.0 + 100 * number))
    store.save_state(200, b"state")
    assert [n for n in range(1, 201) if all_history(store, f"j{n}")] == list(range(100, 201))
    assert [n for n in range(1, 201) if known(store, f"k{n}") is not None] == list(range(150, 201))
    assert [each.number for each in store.rounds(None, 10)] == [3, 2, 1]
    store.append(entries(201, ev.Tick(), every_s=1.5))
    store.save_state(201, b"state")
    # 301.5 s - 1000 s = -698.5 s: the rounds at -800 s and -700 s are older.
    assert [each.number for each in store.rounds(None, 10)] == [3]


def test_nothing_that_has_to_be_replayed_goes(place: Place):
    """However old it is, and however little room is allowed."""
    store = place.store(Retention(history_s=0.0, history_bytes=0, keys=0, round_bytes=0))
    store.open()
    store.append(submits(1, 50, every_s=1000.0))
    store.save_state(10, b"state")
    assert [n for n in range(1, 51) if all_history(store, f"j{n}")] == list(range(11, 51))
    assert place.store().open().entries == tuple(submits(11, 50, every_s=1000.0))


def test_what_there_is_no_room_for_goes_the_oldest_first(place: Place):
    """Keys by number; plans before the rounds themselves; the history by bytes."""
    store = place.store(Retention(history_bytes=20_000, round_bytes=12_000, keys=25))
    store.open()
    for first in range(1, 400, 10):
        store.append(submits(first, first + 9), {f"k{first}": b""})
        store.append([], {f"again{first}": b""})
    for number in range(1, 21):
        store.add_round(record(number, plan=os.urandom(1000)))
    store.save_state(400, b"state")
    kept = [n for n in range(1, 401) if all_history(store, f"j{n}")]
    assert kept == list(range(kept[0], 401))
    # A submit takes about 100 bytes of text and as much around it.
    assert 70 <= len(kept) <= 200
    numbers = [each.number for each in store.rounds(None, 99)]
    with_plan = [number for number in numbers if store.round(number).plan is not None]
    assert numbers == list(range(20, 0, -1))
    # 20 rounds take about 130 bytes each without plans, which leaves 9,400 for plans of 1,000.
    assert with_plan == list(range(20, 20 - len(with_plan), -1))
    assert 8 <= len(with_plan) <= 9
    names = [f"{word}{first}" for first in range(1, 400, 10) for word in ("k", "again")]
    assert sum(known(store, name) is not None for name in names) == 25
    assert known(store, "again391") == b""


def test_rounds_stay_in_their_room_without_a_saved_state(place: Place):
    """Between two states there may be thousands: the oldest plans go, then the oldest rounds; the number goes on."""
    store = place.store(Retention(round_bytes=12_000))
    store.open()
    for number in range(1, 101):
        store.add_round(record(number, plan=os.urandom(1000)))
        numbers = [each.number for each in store.rounds(None, 200)]
        assert numbers == list(range(number, number - len(numbers), -1))
    # Rounds take about 130 bytes each without plans: 12,000 hold some ninety of them.
    assert 80 <= len(numbers) < 100
    assert place.store(Retention(round_bytes=0)).open().epoch == 2


def test_a_round_for_which_there_is_no_room_still_counts(place: Place):
    """Its number is never given again."""
    store = place.store(Retention(round_bytes=0))
    store.open()
    store.add_round(record(1))
    assert store.rounds(None, 9) == []
    with pytest.raises(InternalError, match="round 1 is not later than the last, 1"):
        store.add_round(record(1))
    store.add_round(record(2))


def test_a_key_whose_print_is_not_there_is_not_known(place: Place):
    """Those of all keys that are kept, over restarts too."""
    store = place.store()
    store.open()
    assert set(store.key_prints()) == set()
    given = {"a": b"one", "ключ\x00": b"", "\ud800" * 5000: b"\x00\x01"}
    store.append(submits(1, 1), given)
    store = place.store()
    store.open()
    assert set(store.key_prints()) == {print_of(key) for key in given}
    assert print_of("b") not in store.key_prints()
