"""Work side by side in processes of this machine; what comes out is what one process would find, in the same order.

This process hands out one item after the other, each over the pipe of a process that has nothing to do. An interrupt
from the keyboard goes to all processes of a terminal; only this one hears it, and ends the others.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

from optsched.clock import WallClock

NOTE_S = 0.2
"""So often, in seconds, a process tells how far it is; what it would tell in between is left out."""

Item = TypeVar("Item")
Found = TypeVar("Found")

Note = Callable[[float], None]
"""Told how far an item is, as a share of 1."""


def do_apart(
    work: Callable[[Item, Note], Found], items: Sequence[Item], jobs: int, report: Callable[[int, float], None]
) -> list[Found]:
    """Return what `work` makes of each item, in their order, from at most `jobs` processes.

    `work` can be found by its name in its module. `report` hears how many items are done, and the share of 1 that all
    are. What `work` raises is raised here, as a RuntimeError where it cannot be sent; ChildProcessError where a process
    dies. Whatever this ends with, the processes have ended by then.
    """
    found: dict[int, Found] = {}
    shares = [0.0] * len(items)
    ahead = iter(enumerate(items))
    busy: list[_Worker[Item, Found]] = []
    with _workers(work, min(jobs, len(items))) as workers:
        for worker, (index, item) in zip(workers, ahead, strict=False):
            worker.give(index, item)
            busy.append(worker)
        while busy:
            report(len(found), sum(shares) / len(items))
            for worker in _speaking(busy):
                heard = worker.hear()
                if isinstance(heard, float):
                    shares[worker.index] = heard
                    continue
                found[worker.index], shares[worker.index] = heard.found, 1.0
                following = next(ahead, None)
                if following is None:
                    busy.remove(worker)
                else:
                    worker.give(*following)
    return [found[index] for index in range(len(items))]


@contextmanager
def uninterrupted(*others: signal.Signals) -> Iterator[None]:
    """Hold interrupts from the keyboard back, and other signals; processes that are started meanwhile hear none."""
    # Would be started along with the first process, and let them through again.
    resource_tracker.ensure_running()
    numbers = {signal.SIGINT, *others}
    with _put_off(numbers):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _put_off(numbers: set[signal.Signals]) -> Iterator[None]:
    """Let signals act only afterwards: what one thread blocks comes by another, such as those of NumPy."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda which, frame: came.append(which)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for which in came:
            signal.raise_signal(which)


@dataclass(frozen=True, slots=True)
class _Done(Generic[Found]):
    """What came of an item."""

    found: Found


@dataclass(frozen=True, slots=True)
class _Failed:
    """What an item ended with."""

    error: Exception


class _Worker(Generic[Item, Found]):
    """A process and this end of its pipe; `index` is that of the item that it was given last."""

    def __init__(self, work: Callable[[Item, Note], Found]) -> None:
        context = multiprocessing.get_context("spawn")
        self.index = -1
        self._work = work
        self.link, self._theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._theirs,), daemon=True)

    def start(self) -> None:
        """Start the process."""
        self._process.start()
        # Its own end is the only one then, so that its death is the end of the pipe.
        self._theirs.close()

    def give(self, index: int, item: Item) -> None:
        """Let it do an item."""
        self.index = index
        # What the work needs is imported where it is unpickled: when the process already looks after its parent.
        data = pickle.dumps((self._work, item))
        try:
            self.link.send_bytes(data)
        except ConnectionError:
            raise self._death() from None

    def hear(self) -> float | _Done[Found]:
        """Return what it says: how far it is, or what came of its item. Raises what that ended with."""
        try:
            data = self.link.recv_bytes()
        except (EOFError, ConnectionError):
            raise self._death() from None
        heard: float | _Done[Found] | _Failed = pickle.loads(data)
        if isinstance(heard, _Failed):
            raise heard.error
        return heard

    def kill(self) -> None:
        """Have it end at once: nothing is lost with it."""
        if self._process.pid is not None:
            self._process.kill()

    def close(self) -> None:
        """Wait until it has ended, and let go of what it took."""
        if self._process.pid is not None:
            self._process.join()
        self._process.close()
        self.link.close()
        self._theirs.close()

    def _death(self) -> ChildProcessError:
        self._process.join()
        return ChildProcessError(f"a process ended with code {self._process.exitcode}")


@contextmanager
def _workers(work: Callable[[Item, Note], Found], count: int) -> Iterator[list[_Worker[Item, Found]]]:
    """Have so many processes."""
    workers = [_Worker(work) for _ in range(count)]
    try:
        # If this process ended just now, one that has begun would show a traceback for want of what it is to do.
        with uninterrupted(signal.SIGTERM):
            for each in workers:
                each.start()
        yield workers
    finally:
        for each in workers:
            each.kill()
        for each in workers:
            each.close()


def _speaking(workers: list[_Worker[Item, Found]]) -> list[_Worker[Item, Found]]:
    """Return those that have something to say, once there are some."""
    wait([each.link for each in workers])
    return [each for each in workers if each.link.poll()]


# In the other processes


def _serve(link: Connection) -> None:
    """Do one item after the other, until the other end of the pipe is closed or its process is no more."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    note = _teller(link)
    with suppress(EOFError, ConnectionError):
        while True:
            link.send_bytes(_answer(link.recv_bytes(), note))


def _end_with_parent() -> None:
    """End this process once its parent has ended, whatever it is at."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "this process was started by another one"
    wait([parent.sentinel])
    os._exit(1)


def _teller(link: Connection) -> Note:
    clock, last_s = WallClock(), -math.inf

    def note(share: float) -> None:
        nonlocal last_s
        now_s = clock.monotonic_s()
        if now_s - last_s >= NOTE_S:
            last_s = now_s
            link.send_bytes(pickle.dumps(float(share)))

    return note


def _answer(data: bytes, note: Note) -> bytes:
    """Return what came of an item, or what it ended with, as bytes; the work and the item are `data`."""
    try:
        work, item = pickle.loads(data)
        return pickle.dumps(_Done(work(item, note)))
    except Exception as error:
        return pickle.dumps(_Failed(_portable(error)))


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent, with a note of where it was raised."""
    where = "in another process:\n" + "".join(traceback.format_exception(error))
    error.add_note(where)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
        error.add_note(where)
    return error
