"""Terminals on terminals: the command line on a pseudo-terminal, joined with one inside a job of a real agent."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from optsched.cli.session import Escape
from optsched.values.ids import JobId
from optsched.values.job import JobState
from tests.agent.agents import ROOT
from tests.server.threaded import Threaded, threaded

LONGEST_S = 60.0
"""A test that takes longer hangs."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    with threaded(tmp_path_factory.mktemp("here"), "n1") as made:
        yield made


class Seat:
    """A command on a pseudo-terminal that it controls."""

    def __init__(self, here: Threaded, *words: str) -> None:
        self.master, slave = os.openpty()
        self.size(30, 100)
        self.seen = b""
        whole = {**os.environ, "PYTHONPATH": str(ROOT), "OPTSCHED_CLIENT_SCHEDULER": here.address, "TERM": "xterm"}
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(
            # setsid --ctty: the terminal is to tell it of changes of its size.
            ["setsid", "--ctty", "--wait", sys.executable, "-m", "optsched.cli", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=whole,
        )

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, data: bytes) -> None:
        os.write(self.master, data)

    def until(self, wanted: bytes) -> None:
        end = time.monotonic() + LONGEST_S
        while wanted not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, end - time.monotonic()))
            assert ready, self.seen
            self.seen += os.read(self.master, 4096)

    def ended(self) -> int:
        code = self.process.wait(LONGEST_S)
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 4096)
        assert termios.tcgetattr(self.slave) == self.before, "the terminal is left as it was found"
        return code


def test_an_interactive_session_waits_for_its_gpu_and_gives_it_back(here: Threaded) -> None:
    with Seat(here, "submit", "--name", "sit", "--gpus", "1", "--attach") as seat:
        seat.type(b"echo gpu=$CUDA_VISIBLE_DEVICES:$OPTSCHED_JOB\n")
        seat.until(b"gpu=0:sit")
        # One program that says when it is interrupted: between two of them an interrupt is lost in the shell.
        seat.type(b"sh -c 'trap \"echo caught; exit\" INT; stty size; while :; do sleep 0.05; done'\n")
        seat.until(b"30 100")
        seat.type(b"\x03")
        seat.until(b"caught\r\n")
        seat.size(11, 44)
        seat.type(b"echo after=$((1+1))\n")
        seat.until(b"after=2")
        seat.type(b"while [ \"$(stty size)\" != '11 44' ]; do sleep 0.05; done; echo resized=$((2+2))\n")
        seat.until(b"resized=4")
        seat.type(b"exit 7\n")
        assert seat.ended() == 7
    here.do(lambda it: it.job_is("sit", JobState.CANCELLED))
    here.do(lambda it: it.until(lambda state: not any(node.bookings for node in state.nodes.values())))
    record = here.it.state.record(JobId("sit"))
    assert record is not None
    assert record.job.estimated_runtime_s == 8 * 3600


def test_a_session_is_hung_up_from_the_keyboard(here: Threaded) -> None:
    with Seat(here, "submit", "--name", "hang", "--gpus", "1", "--runtime", "1h", "--attach", "--", "cat") as seat:
        seat.type(b"hello\n")
        seat.until(b"hello\r\nhello\r\n")
        seat.type(b"~.")
        assert seat.ended() == 1
        assert b"hung up" in seat.seen
    here.do(lambda it: it.job_is("hang", JobState.CANCELLED))


def test_a_session_that_is_given_up_while_it_waits_leaves_nothing_in_the_queue(here: Threaded) -> None:
    with Seat(here, "submit", "--name", "wait", "--gpus", "64", "--attach") as seat:
        seat.until(b"wait is queued")
        seat.type(b"\x03")
        assert seat.ended() == 130
    here.do(lambda it: it.job_is("wait", JobState.CANCELLED))


def test_a_program_is_fed_from_a_pipe(here: Threaded) -> None:
    whole = {**os.environ, "PYTHONPATH": str(ROOT), "OPTSCHED_CLIENT_SCHEDULER": here.address}

    def command(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        line = [sys.executable, "-m", "optsched.cli", *words]
        return subprocess.run(line, input=given, capture_output=True, env=whole, check=False, timeout=LONGEST_S)

    command("submit", "--name", "base", "--gpus", "1", "--", "sleep", "1000")
    here.do(lambda it: it.job_is("base", JobState.RUNNING))
    said = command("attach", "base", "--", "wc", "-l", given=b"a\nb\nc\n")
    assert said.returncode == 0
    assert said.stdout.endswith(b"3\r\n")
    said = command("attach", "base", "--", "sh", "-c", "kill -9 $$")
    assert said.returncode == 128 + 9
    said = command("attach", "base", "--", "no-such-program")
    assert (said.returncode, said.stdout) == (1, b"")
    assert said.stderr.startswith(b"optsched: the program cannot be started: ")
    assert command("attach", "none").returncode == 2
    assert command("attach", "base", "--rank", "5").returncode == 2
    command("cancel", "base")
    said = command("attach", "base")
    assert said.returncode == 1
    assert b"a terminal is for one that runs" in said.stderr


def test_a_tilde_is_found_at_the_start_of_a_line_only() -> None:
    for typed, sent, over in (
        (b"~.", b"", True),
        (b"ls\r~.", b"ls\r", True),
        (b"ls ~.", b"ls ~.", False),
        (b"~~.", b"~.", False),
        (b"~x", b"~x", False),
        (b"a~.\r~", b"a~.\r", False),
    ):
        assert Escape().pass_on(typed) == (sent, over), typed
    piecewise = Escape()
    assert piecewise.pass_on(b"x\r~") == (b"x\r", False)
    assert piecewise.pass_on(b".") == (b"", True)


def test_the_folder_of_the_agent_is_left_alone(here: Threaded) -> None:
    """What terminals needed there is gone with them."""
    assert [path for path in Path(here.folder).rglob("terminal-*") if path.exists()] == []
