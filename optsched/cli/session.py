"""The terminal of this process joined with one inside a job: keys go there, output comes here."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from optsched.cli.terminal import tell

if TYPE_CHECKING:
    from optsched.client import Client, Terminal

CHUNK = 4096
END_OF_INPUT = b"\x04"
GONE, RESIZED = b"g", b"r"
HUNG_UP = 1


class Escape:
    """Finds `~.` at the start of a line in what is typed: the wish to hang up. `~~` there is one `~`."""

    def __init__(self) -> None:
        self._fresh, self._held = True, False

    def pass_on(self, data: bytes) -> tuple[bytes, bool]:
        """Return what is to be sent of some keys, and whether to hang up after it."""
        out = bytearray()
        for key in data:
            if self._held:
                self._held = False
                if key == ord("."):
                    return bytes(out), True
                if key != ord("~"):
                    out.append(ord("~"))
            elif self._fresh and key == ord("~"):
                self._held = True
                continue
            out.append(key)
            self._fresh = key in b"\r\n"
        return bytes(out), False


def run_session(client: Client, job: str, command: Sequence[str], rank: int = 0) -> int:
    """Run a program beside a task of a job on this terminal; return its exit code, HUNG_UP where it was hung up.

    Raises what refuses the terminal.
    """
    keys = sys.stdin.fileno()
    interactive = os.isatty(keys)
    rows, columns = window(keys)
    with ExitStack() as stack:
        if interactive:
            stack.enter_context(raw(keys))
        terminal = stack.enter_context(client.attach(job, command, rank, rows, columns, os.environ.get("TERM", "")))
        reading, writing = os.pipe()
        typing = threading.Thread(target=_type, args=(terminal, keys, reading, interactive), name="typing", daemon=True)
        with on_resize(lambda: os.write(writing, RESIZED)):
            typing.start()
            try:
                for data in terminal:
                    sys.stdout.buffer.write(data)
                    sys.stdout.buffer.flush()
            finally:
                with suppress(OSError):
                    os.write(writing, GONE)
                terminal.close()
                typing.join(timeout=5)
                os.close(writing)
    return HUNG_UP if terminal.exit_code is None else terminal.exit_code


def window(stream: int) -> tuple[int, int]:
    """Return rows and columns of a terminal; 24 and 80 where there is none."""
    try:
        size = os.get_terminal_size(stream)
    except OSError:
        return 24, 80
    return size.lines or 24, size.columns or 80


def _type(terminal: Terminal, keys: int, reading: int, interactive: bool) -> None:
    """Send what is typed, and the size where that changes, until somebody is gone."""
    escape, last, inputs = Escape(), b"\n", [keys, reading]
    try:
        while True:
            ready, _, _ = select.select(inputs, [], [])
            if reading in ready:
                word = os.read(reading, 1)
                if word == GONE:
                    return
                terminal.resize(*window(keys))
            if keys not in ready:
                continue
            data = os.read(keys, CHUNK)
            if not data:
                # The end of a file or pipe is told as a terminal does; on a line that is begun, once to end that.
                terminal.send(END_OF_INPUT if last == b"\n" else 2 * END_OF_INPUT)
                inputs = [reading]
                continue
            last, over = data[-1:], False
            if interactive:
                data, over = escape.pass_on(data)
            if data:
                terminal.send(data)
            if over:
                tell("\rhung up")
                terminal.close()
    except OSError:
        terminal.close()
    finally:
        os.close(reading)


@contextmanager
def raw(stream: int) -> Iterator[None]:
    """Have every key of a terminal as it is, Ctrl-C too; as it was at the end."""
    before = termios.tcgetattr(stream)
    try:
        # What was typed before is kept.
        tty.setraw(stream, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)


@contextmanager
def on_resize(tell_it: Callable[[], object]) -> Iterator[None]:
    """Have a change of this terminal's size told."""
    before = signal.signal(signal.SIGWINCH, lambda number, frame: tell_it())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
