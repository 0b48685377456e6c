"""A state that is saved piece by piece is what it would be whole, whatever was saved before it."""

from __future__ import annotations

from collections.abc import Generator

from optsched.engine import events as ev
from optsched.engine.codec import restore_bytes, save_bytes
from optsched.engine.saving import Saver
from optsched.engine.state import initial
from optsched.engine.step import step
from optsched.values.ids import JobId
from tests.builders import job, nodes, snapshot, team


def returned(writing: Generator[None, None, bytes]) -> bytes:
    """What a generator returns once it has been run to its end."""
    found: list[bytes] = []

    def run() -> Generator[None, None, None]:
        found.append((yield from writing))

    list(run())
    return found[0]


def test_what_is_written_is_the_same_to_the_last_byte():
    """600 jobs in three chunks, of which one changes, ends or comes between two saves."""
    many = [job(f"j{number}").gang(8) for number in range(600)]
    state, saver = initial(snapshot(nodes("a", 8), team("t"), *many)), Saver()
    happened: list[ev.Event] = [ev.Tick(), ev.Cancel(JobId("j300")), ev.Hold(JobId("j5"), "why: \u00e4"), ev.Tick()]
    for number, event in enumerate(happened):
        assert saver.bytes_of(state) == save_bytes(state)
        state = step(state, event, float(number)).state
    assert restore_bytes(saver.bytes_of(state)) == state


def test_what_happens_while_a_state_is_written_is_not_in_it():
    """Written to the half, the state of then comes out, though another one is saved meanwhile."""
    many = [job(f"j{number}").gang(8) for number in range(600)]
    state, saver = initial(snapshot(nodes("a", 8), team("t"), *many)), Saver()
    state = step(state, ev.Cancel(JobId("j1")), 1.0).state
    writing = saver.writing(state)
    next(writing)
    later = step(state, ev.Cancel(JobId("j599")), 2.0).state
    assert saver.bytes_of(later) == save_bytes(later)
    assert returned(writing) == save_bytes(state)
