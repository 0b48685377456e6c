"""Probes: a command that tests idle GPUs. Exit code 0 is a pass; its last line says what was found."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from optsched.agent import messages as m
from optsched.agent.settings import Settings

log = logging.getLogger(__name__)

SHIPPED = "shipped"
NONE = "none"


def command_of(setting: str) -> list[str]:
    """Return the command for a setting: the shipped one, none, or words as a shell splits them."""
    if setting == NONE:
        return []
    if setting == SHIPPED:
        return [sys.executable, "-m", "optsched.agent.allreduce"]
    return shlex.split(setting)


PIPE_S = 1.0
"""How long the pipe of a killed probe is waited for, in seconds."""


async def probe(command: Sequence[str], gpus: Sequence[int], limit_s: float) -> tuple[bool, str]:
    """Run a probe on some GPUs; return whether it passed, and why not, or what it found."""
    if not command:
        return True, "no probe is set"
    shown = ",".join(map(str, gpus))
    environment = dict(os.environ) | {"CUDA_VISIBLE_DEVICES": shown, "OPTSCHED_PROBE_GPUS": shown}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
    except OSError as error:
        return False, f"the probe cannot be run: {error}"
    try:
        async with asyncio.timeout(limit_s):
            output, _ = await process.communicate()
    except TimeoutError:
        return False, f"the probe took longer than {limit_s:g} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.returncode is None:
            await process.wait()
        # Its pipe ends with it, unless somebody who left its group holds it: only then asyncio is done with it.
        if process.stdout is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(PIPE_S):
                    await process.stdout.read()
    last = output.decode(errors="replace").strip().rpartition("\n")[2][:500]
    if process.returncode == 0:
        return True, last
    return False, last or f"the probe exited with {process.returncode}"


class Probes:
    """The probes of a node: those that are asked for, and those of a node that has nothing to do."""

    def __init__(self, settings: Settings, tell: Callable[[m.Message], None]) -> None:
        self._command = command_of(settings.probe)
        self._limit_s, self._every_s = settings.probe_limit_s, settings.probe_every_s
        self._tell = tell
        self._asked: asyncio.Task[None] | None = None
        self._idle: asyncio.Task[None] | None = None

    def begin(self, number: int, gpus: Sequence[int]) -> None:
        """Answer a probe that the scheduler asks for; one before it is given up, as nobody waits for it any more."""
        self.yield_room()
        if self._asked is not None:
            self._asked.cancel()
        self._asked = asyncio.get_running_loop().create_task(self._run(number, gpus, asked=True))

    def yield_room(self) -> None:
        """End a probe that nobody asked for: there is something to do."""
        if self._idle is not None:
            self._idle.cancel()

    async def idle(self, gpus: Callable[[], Sequence[int] | None]) -> None:
        """Probe every so often while `gpus` gives some, for ever; only what fails is told."""
        while self._every_s is not None:
            await asyncio.sleep(self._every_s)
            found = gpus()
            if found is not None and (self._asked is None or self._asked.done()):
                self._idle = asyncio.get_running_loop().create_task(self._run(0, found, asked=False))
                await asyncio.wait({self._idle})
                self._idle = None
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Stop probing."""
        tasks = [each for each in (self._asked, self._idle) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, number: int, gpus: Sequence[int], *, asked: bool) -> None:
        ok, found = await probe(self._command, gpus, self._limit_s)
        log.log(logging.INFO if ok else logging.ERROR, "probed", extra={"ok": ok, "found": found})
        if asked or not ok:
            self._tell(m.ProbeEnded(number, ok, "" if ok else found))
