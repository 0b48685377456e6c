"""Terminals inside runs: a program beside a task, with its GPUs and environment, on a pseudo-terminal of the agent's.

The run's keeper starts the program, so that it is ended with the run whatever becomes of the agent. The agent holds the
other side of the terminal; where it lets go, or ends, the program is hung up.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import struct
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from optsched.agent.accounts import Account, NoAccount, account_of
from optsched.agent.runtime import Runtime, folder_of, locked, process_handle, task_environment, until_ended
from optsched.agent.statefile import put, read_json
from optsched.agent.values import Key, Phase, Run, State, Task
from optsched.wire.v1 import agent_pb2 as wire

log = logging.getLogger(__name__)

CHUNK = 16 * 1024
AGAIN_S = 0.02
MOST = 64
"""Terminals on one node at a time."""

MOST_TYPED = 1024 * 1024
"""Bytes of input that may wait for one program; who sends more does not wait for the word that it was taken."""

TERM = "xterm-256color"

Send = Callable[[wire.AgentMessage], Awaitable[None]]


class NoTerminal(Exception):
    """There can be no terminal; the text says why."""


@dataclass(eq=False, slots=True)
class _Terminal:
    """One terminal. `sent` and `taken` count bytes of output, `typed` those of input that the program has."""

    number: int
    window: int
    master: int
    slave: int
    sent: int = 0
    taken: int = 0
    typed: int = 0
    over: bool = False
    telling: bool = False
    waiting: bytearray = field(default_factory=bytearray)
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def room(self) -> int:
        """Bytes of output that may be sent now."""
        return CHUNK if self.window <= 0 else max(0, min(CHUNK, self.taken + self.window - self.sent))

    def resize(self, rows: int, columns: int) -> None:
        """Tell the program how large its terminal is; what is out of bounds is passed over."""
        if 0 < rows < 2**16 and 0 < columns < 2**16:
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)


@dataclass(slots=True)
class Terminals:
    """All terminals of a node. What they say goes out by `send`; who asked for them is known by a number."""

    runtime: Runtime
    send: Send
    _open: dict[int, _Terminal] = field(default_factory=dict)
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    _words: set[asyncio.Task[None]] = field(default_factory=set)

    def hear(self, said: wire.TerminalInput, state: State) -> None:
        """Take in a word about a terminal; one about none that is open is passed over."""
        number = said.terminal
        if said.HasField("open"):
            self._begin(number, said.open, state)
            return
        terminal = self._open.get(number)
        match said.WhichOneof("body"):
            case "close":
                self._cancel(number)
            case "input" if terminal is not None:
                self._type(terminal, said.input)
            case "resize" if terminal is not None:
                terminal.resize(said.resize.rows, said.resize.columns)
            case "taken" if terminal is not None:
                terminal.taken = max(terminal.taken, said.taken)
                terminal.moved.set()

    def cancel_all(self) -> None:
        """Hang up everywhere: who asked is gone."""
        for number in list(self._tasks):
            self._cancel(number)

    async def close(self) -> None:
        """Hang up everywhere, and wait until that is done."""
        tasks = [*self._tasks.values(), *self._words]
        self.cancel_all()
        for word in self._words:
            word.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _cancel(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        if task is not None:
            task.cancel()

    def _begin(self, number: int, asked: wire.TerminalOpen, state: State) -> None:
        self._cancel(number)
        task = asyncio.get_running_loop().create_task(self._serve(number, asked, state))
        self._tasks[number] = task
        task.add_done_callback(lambda done: self._drop(number, done))

    def _drop(self, number: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(number) is task:
            del self._tasks[number]

    # One terminal, from its start to its end

    async def _serve(self, number: int, asked: wire.TerminalOpen, state: State) -> None:
        try:
            code = await self._run(number, asked, state)
        except (NoTerminal, NoAccount, OSError) as error:
            await self._say(number, error=str(error))
        else:
            await self._say(number, exit_code=code)

    async def _run(self, number: int, asked: wire.TerminalOpen, state: State) -> int:
        """Have a program run on a terminal, and return its exit code. Raises NoTerminal, NoAccount or OSError."""
        run, task = _wanted(asked, state)
        if len(self._open) >= MOST:
            raise NoTerminal(f"{MOST} terminals are open on this node")
        assert run.start is not None, "what works was started"
        account = account_of(run.start.user, self.runtime.run_as)
        terminal = _opened(number, asked, account)
        folder = self.runtime.folder.run_folder(run.key)
        name = f"terminal-{os.urandom(8).hex()}"
        self._open[number] = terminal
        pump: asyncio.Task[None] | None = None
        try:
            put(folder / f"{name}.json", json.dumps(self._program(asked, run, task, account, terminal)).encode())
            if not self.runtime.open_terminals(run.key):
                raise NoTerminal("the run was started by an earlier version of the agent, which has no terminals")
            pump = asyncio.create_task(self._pump(terminal))
            end = await _end(folder, name)
            terminal.over = True
            terminal.moved.set()
            await pump
        finally:
            if pump is not None:
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)
            del self._open[number]
            with suppress(OSError):
                asyncio.get_running_loop().remove_writer(terminal.master)
            terminal.close()
            # The keeper may be writing just now: only whole files are touched, the request first.
            for kind in ("json", "started", "end"):
                (folder / f"{name}.{kind}").unlink(missing_ok=True)
        return end

    def _program(
        self, asked: wire.TerminalOpen, run: Run, task: Task, account: Account, terminal: _Terminal
    ) -> dict[str, object]:
        """Return what the keeper needs to start it: the task's own environment, but for the kind of terminal."""
        assert run.start is not None, "what works was started"
        folder = self.runtime.folder.run_folder(run.key)
        found = task_environment(run.key, run.start, task, account, self.runtime.node, folder)
        return {
            "rank": task.rank,
            "argv": list(asked.command) or [_shell(account)],
            "env": found | {"TERM": asked.term or TERM},
            "cwd": folder_of(run.start, account),
            "tty": os.ttyname(terminal.slave),
        }

    # What is written, and what is typed

    async def _pump(self, terminal: _Terminal) -> None:
        """Send what is written, as far as somebody takes it; until the program has ended and all of it is sent."""
        loop = asyncio.get_running_loop()
        while True:
            terminal.moved.clear()
            data = _read(terminal.master, terminal.room)
            if data:
                terminal.sent += len(data)
                await self._say(terminal.number, output=data)
                continue
            if terminal.over and terminal.room:
                return
            if terminal.room:
                loop.add_reader(terminal.master, terminal.moved.set)
            try:
                await terminal.moved.wait()
            finally:
                loop.remove_reader(terminal.master)

    def _type(self, terminal: _Terminal, data: bytes) -> None:
        """Hand input to the program, now or as soon as it takes it."""
        terminal.waiting += data
        if len(terminal.waiting) > MOST_TYPED:
            log.warning("a terminal is hung up: more input than it was let have", extra={"terminal": terminal.number})
            self._cancel(terminal.number)
            return
        self._hand_over(terminal)

    def _hand_over(self, terminal: _Terminal) -> None:
        loop = asyncio.get_running_loop()
        try:
            done = os.write(terminal.master, terminal.waiting[:CHUNK])
        except BlockingIOError:
            done = 0
        except OSError:
            terminal.waiting.clear()
            loop.remove_writer(terminal.master)
            return
        del terminal.waiting[:done]
        terminal.typed += done
        if terminal.waiting:
            loop.add_writer(terminal.master, self._hand_over, terminal)
        else:
            loop.remove_writer(terminal.master)
        if done:
            self._later(terminal)

    def _later(self, terminal: _Terminal) -> None:
        """Say how much was taken, once there is room for the word."""
        if not terminal.telling:
            terminal.telling = True
            task = asyncio.get_running_loop().create_task(self._tell_typed(terminal))
            self._words.add(task)
            task.add_done_callback(self._words.discard)

    async def _tell_typed(self, terminal: _Terminal) -> None:
        told = -1
        while told < terminal.typed:
            told = terminal.typed
            await self._say(terminal.number, taken=told)
        terminal.telling = False

    async def _say(self, number: int, **body: object) -> None:
        said = wire.TerminalOutput(terminal=number, **body)  # type: ignore[arg-type]
        await self.send(wire.AgentMessage(terminal=said))


def _wanted(asked: wire.TerminalOpen, state: State) -> tuple[Run, Task]:
    """Return the run and the task that a terminal is for. Raises NoTerminal."""
    header = asked.header
    if header.epoch < state.epoch:
        raise NoTerminal(f"epoch {header.epoch} is over, {state.epoch} is in force")
    run = state.runs.get(Key(header.job, header.run))
    if run is None or run.start is None or run.phase not in (Phase.RUNNING, Phase.STOPPING):
        raise NoTerminal(f"run {header.run} of {header.job} does not work here")
    task = next((each for each in run.start.tasks if each.rank == asked.rank), None)
    if task is None:
        raise NoTerminal(f"rank {asked.rank} of {header.job} is not here")
    return run, task


def _opened(number: int, asked: wire.TerminalOpen, account: Account) -> _Terminal:
    """Return a new terminal, which belongs to the job's account. Raises OSError."""
    master, slave = os.openpty()
    terminal = _Terminal(number, asked.window, master, slave)
    try:
        os.set_blocking(master, False)
        terminal.resize(asked.size.rows, asked.size.columns)
        if account.change:
            os.fchown(slave, account.uid, -1)
    except OSError:
        terminal.close()
        raise
    return terminal


def _shell(account: Account) -> str:
    """Return an account's shell; sh where it has none that can be run."""
    return account.shell if account.shell and os.access(account.shell, os.X_OK) else "/bin/sh"


def _read(master: int, room: int) -> bytes:
    """Return what is written and may be sent, b"" where that is nothing now."""
    if room <= 0:
        return b""
    try:
        return os.read(master, room)
    except OSError:
        return b""


async def _end(folder: Path, name: str) -> int:
    """Wait until a program that the keeper starts has ended; return its exit code. Raises NoTerminal."""
    ended, started = folder / f"{name}.end", folder / f"{name}.started"
    while not ended.exists():
        if not locked(folder / "lock"):
            raise NoTerminal("the run is over")
        pid = (read_json(started) or {}).get("pid")
        if isinstance(pid, int):
            with process_handle(pid) as handle:
                if handle is not None and not ended.exists():
                    await until_ended(handle)
        await asyncio.sleep(AGAIN_S)
    end = read_json(ended) or {}
    if isinstance(why := end.get("why"), str):
        raise NoTerminal(f"the program cannot be started: {why}")
    code, number = end.get("code"), end.get("signal")
    return code if isinstance(code, int) else 128 + number if isinstance(number, int) else 1
