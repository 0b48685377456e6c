"""Work in other processes comes to what one alone finds, and none of them outlives the one that started it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import threading

import pytest

from optsched.apart import do_apart
from optsched.errors import CheckFailed, InputError
from tests.sessions import PATIENCE_S, started, wait_until_gone
from tests.works import fails, half_way, square


def unheard(done: int, share: float) -> None:
    """A report that nobody hears."""


@pytest.mark.parametrize(("count", "jobs"), [(0, 2), (1, 2), (5, 2)])
def test_what_is_found_is_in_the_order_of_the_items(count: int, jobs: int) -> None:
    assert do_apart(square, range(count), jobs, unheard) == [number * number for number in range(count)]
    assert not multiprocessing.active_children()


def test_how_far_all_are_is_heard_while_they_work() -> None:
    heard: list[tuple[int, float]] = []
    do_apart(half_way, [7], 1, lambda done, share: heard.append((done, share)))
    assert heard == [(0, 0.0), (0, 0.5)]


def test_what_fails_there_is_raised_here_with_a_note_of_where() -> None:
    with pytest.raises(CheckFailed, match="a gang is torn") as raised:
        do_apart(fails, ["check"], 2, unheard)
    assert str(raised.value) == "a gang is torn; a node is full twice"
    assert raised.value.violations == ("a gang is torn", "a node is full twice")
    assert any("in fails" in note for note in raised.value.__notes__)
    assert not multiprocessing.active_children()


def test_faults_of_an_input_come_over_whole() -> None:
    with pytest.raises(InputError) as raised:
        do_apart(fails, ["fault"], 2, unheard)
    assert [fault.line for fault in raised.value.faults] == [1, 2]
    assert str(raised.value).splitlines()[0] == "a.yaml:1: gpus: given -1; allowed: 1 or more"


def test_an_error_that_cannot_be_sent_comes_as_its_text() -> None:
    with pytest.raises(RuntimeError, match="Odd: 3 is odd: so it is"):
        do_apart(fails, ["odd"], 2, unheard)


def test_a_result_that_cannot_be_sent_is_an_error() -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        do_apart(fails, ["lock"], 2, unheard)


def test_an_item_that_cannot_be_sent_is_an_error_and_leaves_no_process() -> None:
    with pytest.raises((TypeError, pickle.PicklingError)):
        do_apart(square, [1, threading.Lock()], 2, unheard)
    assert not multiprocessing.active_children()


def test_the_death_of_a_process_is_told() -> None:
    with pytest.raises(ChildProcessError, match="a process ended with code -9"):
        do_apart(fails, ["dies"], 2, unheard)
    assert not multiprocessing.active_children()


def wait_until_they_work(program: subprocess.Popen[str]) -> None:
    """Wait until both items have told that a quarter of them is done."""
    assert program.stdout is not None
    assert any(line.strip() == "0.25" for line in program.stdout), "it has ended"


def test_an_interrupt_ends_processes_that_work() -> None:
    with started("-m", "tests.works") as program:
        wait_until_they_work(program)
        os.killpg(program.pid, signal.SIGINT)
        assert program.wait(PATIENCE_S) == 130
        wait_until_gone(program.pid)
        assert program.communicate()[1] == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_that_work_end_when_their_parent_has_died(number: signal.Signals) -> None:
    with started("-m", "tests.works") as program:
        wait_until_they_work(program)
        program.send_signal(number)
        assert program.wait(PATIENCE_S) == -number
        wait_until_gone(program.pid)
        assert program.communicate()[1] == ""
