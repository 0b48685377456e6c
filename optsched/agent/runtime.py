"""Runs as processes: a keeper for each, which is started, told, watched, and found again after a restart."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from optsched.agent import messages as m
from optsched.agent.accounts import Account, NoAccount, account_of
from optsched.agent.environment import environment_of
from optsched.agent.limits import Limits
from optsched.agent.statefile import StateFolder, passable, put, read_json
from optsched.agent.values import Key, Outcome, Phase, Run, RunEnd, StartSpec, Task, TaskEnd

log = logging.getLogger(__name__)

KEEPER = Path(__file__).with_name("keeper.py")
TOKEN = "OPTSCHED_TOKEN"
AGAIN_S = 0.02

Tell = Callable[[m.Message], None]


@dataclass(slots=True)
class _Live:
    """A keeper that is watched; `pidfd` names its process, whatever becomes of its number."""

    run: Run
    pidfd: int


@dataclass(slots=True)
class Runtime:
    """All runs of a node as processes.

    `before_end` is called with a run's key when nothing of it works any more, and before that is told: it takes in what
    the job reported last, and returns what the GPUs of the run reported.
    """

    folder: StateFolder
    node: str
    run_as: str
    limits: Limits
    tell: Tell
    before_end: Callable[[Run], Awaitable[tuple[str, ...]]]
    _live: dict[Key, _Live] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    # What the core asks

    def launch(self, run: Run) -> None:
        """Start a run."""
        self._spawn(self._launch(run))

    def tell_to_end(self, key: Key) -> None:
        """Tell a run's tasks to save their work and exit."""
        self._send(key, signal.SIGTERM)

    def kill(self, key: Key) -> None:
        """End all that works of a run."""
        self._send(key, signal.SIGUSR1)

    def open_terminals(self, key: Key) -> bool:
        """Have a run's keeper look for terminals that are asked for; False where no keeper works that knows of them."""
        keeper = read_json(self.folder.run_folder(key) / "keeper.json") or {}
        if key not in self._live or not keeper.get("terminals"):
            return False
        self._send(key, signal.SIGUSR2)
        return True

    def forget(self, key: Key) -> None:
        """Clear away what is on disk of a run, but for its logs."""
        folder = self.folder.run_folder(key)
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()
        self.limits.remove(key)

    def adopt(self, run: Run) -> None:
        """Find out what became of a run that an agent before this one started."""
        self._spawn(self._adopt(run))

    async def close(self) -> None:
        """Stop watching; what works goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._live.clear()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, key: Key, number: int) -> None:
        live = self._live.get(key)
        if live is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(live.pidfd, number)

    # Starting

    async def _launch(self, run: Run) -> None:
        key, spec = run.key, run.start
        assert spec is not None, "the core launches what it was told to start"
        try:
            account = account_of(spec.user, self.run_as)
            folder, lock = self._prepare(run, spec, account)
        except NoAccount as error:
            self.tell(m.NotLaunched(key, Outcome.FAILED, str(error)))
            return
        except OSError as error:
            self.tell(m.NotLaunched(key, Outcome.REFUSED, f"cannot be started here: {error}"))
            return
        try:
            await self._begin(run, folder, lock)
        except OSError as error:
            self.tell(m.NotLaunched(key, Outcome.REFUSED, f"cannot be started here: {error}"))

    def _prepare(self, run: Run, spec: StartSpec, account: Account) -> tuple[Path, int]:
        """Write what the keeper needs, and take its lock. Raises OSError."""
        folder = self.folder.run_folder(run.key)
        shutil.rmtree(folder, ignore_errors=True)
        for each in (folder.parent, folder):
            passable(each)
        reports = folder / "reports.jsonl"
        reports.touch(mode=0o600)
        if account.change:
            os.chown(reports, account.uid, account.gid)
        tasks = [self._task(run.key, spec, task, account, folder) for task in spec.tasks]
        plain: dict[str, object] = {
            "boot": _boot(),
            "tasks": tasks,
            "cgroup": self.limits.make(run.key, spec.cpus, spec.memory_gb),
        }
        if account.change:
            plain["account"] = {"uid": account.uid, "gid": account.gid, "groups": list(account.groups)}
        put(folder / "spec.json", json.dumps(plain).encode())
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return folder, lock

    def _task(self, key: Key, spec: StartSpec, task: Task, account: Account, folder: Path) -> dict[str, object]:
        """Return a task as its keeper needs it, and make the folder of its logs. Raises OSError."""
        out, err = (self.folder.log_file(key, task.rank, stream) for stream in ("out", "err"))
        out.parent.mkdir(parents=True, exist_ok=True)
        return {
            "rank": task.rank,
            "argv": list(spec.command),
            "env": task_environment(key, spec, task, account, self.node, folder),
            "cwd": folder_of(spec, account),
            "stdout": str(out),
            "stderr": str(err),
        }

    async def _begin(self, run: Run, folder: Path, lock: int) -> None:
        """Start the keeper, hear from it how the start went, and watch it to its end. Raises OSError."""
        try:
            with (folder / "keeper.log").open("wb") as complaints:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", str(KEEPER), str(folder), str(lock)),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=complaints,
                    pass_fds=(lock,),
                    start_new_session=True,
                    env={"PATH": os.environ.get("PATH", os.defpath)},
                )
        finally:
            os.close(lock)
        assert process.stdout is not None
        with process_handle(process.pid) as pidfd:
            if pidfd is not None:
                self._live[run.key] = _Live(run, pidfd)
            line = await process.stdout.readline()
            wrong = _wrong(line)
            if line and wrong is None:
                self.tell(m.Launched(run.key))
            await process.wait()
            self._live.pop(run.key, None)
        if wrong is not None:
            self.tell(_not_launched(run.key, wrong))
        elif not line:
            complaint = (folder / "keeper.log").read_text(errors="replace").strip().rpartition("\n")[2]
            await self._sweep(run)
            self.tell(m.NotLaunched(run.key, Outcome.REFUSED, f"its keeper failed: {complaint or 'no word from it'}"))
        else:
            await self._over(run, folder)

    # Finding again

    async def _adopt(self, run: Run) -> None:
        folder = self.folder.run_folder(run.key)
        if not locked(folder / "lock"):
            await self._found_gone(run, folder)
            return
        while (keeper := read_json(folder / "keeper.json")) is None and locked(folder / "lock"):
            await asyncio.sleep(AGAIN_S)
        pid = keeper.get("pid") if keeper else None
        with process_handle(pid if isinstance(pid, int) else -1) as pidfd:
            # Where the lock is still held now, the number was the keeper's when it was looked up.
            if pidfd is not None and locked(folder / "lock"):
                self._live[run.key] = _Live(run, pidfd)
                while not (folder / "started.json").exists() and locked(folder / "lock"):
                    await asyncio.sleep(AGAIN_S)
                if (folder / "started.json").exists():
                    log.info("a run is found at work", extra={"job": run.key.job, "run": run.key.run})
                    self.tell(m.Launched(run.key))
                await until_ended(pidfd)
                self._live.pop(run.key, None)
        await self._found_gone(run, folder)

    async def _found_gone(self, run: Run, folder: Path) -> None:
        """Tell what became of a run whose keeper is no more."""
        end = read_json(folder / "end.json")
        wrong = None if end is None else end.get("wrong")
        if isinstance(wrong, dict):
            self.tell(_not_launched(run.key, wrong))
        elif end is None and not (folder / "started.json").exists():
            await self._sweep(run)
            self.tell(m.NotLaunched(run.key, Outcome.REFUSED, "the agent was restarted while it was being started"))
        else:
            if run.phase is Phase.STARTING:
                self.tell(m.Launched(run.key))
            await self._over(run, folder)

    # Ending

    async def _over(self, run: Run, folder: Path) -> None:
        """Tell how a run ended, once nothing of it is left."""
        end = read_json(folder / "end.json")
        if end is None:
            await self._sweep(run)
        faults = await self.before_end(run)
        self.tell(m.Ended(run.key, _end_of(end, _lost(folder), faults)))

    async def _sweep(self, run: Run) -> None:
        """End what a keeper left behind that was ended itself: all that carries the run's token."""
        while found := carriers(str(self.folder.run_folder(run.key))):
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(AGAIN_S)


def task_environment(
    key: Key, spec: StartSpec, task: Task, account: Account, node: str, folder: Path
) -> dict[str, str]:
    """Return all that a task finds in its environment; `folder` is the run's."""
    own = {"HOME": account.home, "SHELL": account.shell, "USER": account.name}
    found = environment_of(key, spec, task, node, str(folder / "reports.jsonl"), os.environ)
    return own | found | {TOKEN: str(folder)}


def folder_of(spec: StartSpec, account: Account) -> str:
    """Return the working directory of a job."""
    return spec.working_directory or (account.home if os.path.isdir(account.home) else "/")


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _lost(folder: Path) -> str:
    spec = read_json(folder / "spec.json") or {}
    if spec.get("boot") != _boot():
        return "the node was restarted"
    return "the process that kept its tasks was ended from outside"


@contextmanager
def process_handle(pid: int) -> Iterator[int | None]:
    """Give a handle of a process; None where there is none of that number."""
    try:
        handle = os.pidfd_open(pid)
    except (ProcessLookupError, ValueError, OSError):
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


async def until_ended(handle: int) -> None:
    """Wait until a process handle says that its process has ended."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)


def locked(path: Path) -> bool:
    """Return whether a keeper holds its lock, and so lives."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def carriers(folder: str) -> list[int]:
    """Return the processes that tasks of runs in or below a folder are, or have started."""
    wanted = re.compile(re.escape(f"{TOKEN}={folder}".encode()) + rb"[\0/]")
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):
                if wanted.search(Path("/proc", name, "environ").read_bytes()):
                    found.append(int(name))
    return found


def _wrong(line: bytes) -> dict[str, object] | None:
    """Return what a keeper says was wrong with the start; None where nothing was."""
    with suppress(ValueError):
        said = json.loads(line) if line else {}
        if isinstance(said, dict) and isinstance(said.get("wrong"), dict):
            wrong: dict[str, object] = said["wrong"]
            return wrong
    return None


def _not_launched(key: Key, wrong: dict[str, object]) -> m.NotLaunched:
    outcome = Outcome.FAILED if wrong.get("fault") == "job" else Outcome.REFUSED
    code, rank = wrong.get("exit_code"), wrong.get("rank")
    return m.NotLaunched(
        key,
        outcome,
        str(wrong.get("why", "")),
        code if isinstance(code, int) else None,
        rank if isinstance(rank, int) else None,
    )


def _end_of(end: dict[str, object] | None, lost: str, faults: tuple[str, ...]) -> RunEnd:
    if end is None:
        return RunEnd(lost=lost, faults=faults)
    tasks, bad = end.get("tasks"), end.get("first_bad")
    return RunEnd(
        tuple(TaskEnd(**each) for each in tasks) if isinstance(tasks, list) else (),
        TaskEnd(**bad) if isinstance(bad, dict) else None,
        end.get("out_of_memory") is True,
        faults=faults,
    )
