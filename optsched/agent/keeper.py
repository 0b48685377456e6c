"""The keeper of one run: starts its tasks, outlives the agent, and leaves nothing behind.

It is run as a file by itself, with nothing but the standard library, and stays small: one for each run of a node. All
that a task starts becomes the keeper's own child when its parent goes, in whatever session or group (it is a
subreaper), so it can end all of it, and knows when nothing is left.

In its folder it finds `spec.json`, and writes `keeper.json` (who it is), `started.json` and at last `end.json`. The
lock that it inherits is held for as long as it lives. SIGTERM is passed on to the tasks, once; SIGUSR1 ends them all.
At SIGUSR2 it looks for `terminal-NAME.json`: a program to start beside the tasks, on a terminal that the agent holds.
It answers with `terminal-NAME.started`, and with `terminal-NAME.end` once that program has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import sys
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
AGAIN_S = 0.05
WANTED = {signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD}
OWN = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)
NOT_FOUND, NOT_RUN = 127, 126

Plain = dict[str, Any]


def put(name: str, data: dict[str, object]) -> None:
    """Write a file at once and durably."""
    with open(name + ".new", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(name + ".new", name)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def oom_kills(cgroup: str) -> int:
    """Return how many processes the kernel has ended for want of memory: in a group, else on the machine."""
    for path in ([os.path.join(cgroup, "memory.events")] if cgroup else []) + ["/proc/vmstat"]:
        with contextlib.suppress(OSError), open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return None


def descendants() -> list[int]:
    """Return the processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                children.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    found: list[int] = []
    open_ones = [os.getpid()]
    while open_ones:
        for pid in children.get(open_ones.pop(), ()):
            found.append(pid)
            open_ones.append(pid)
    return found


def become(task: Plain, spec: Plain) -> None:
    """Turn this child into a task: its group, its limits, its user, its files."""
    os.setsid()
    if spec.get("cgroup"):
        with open(os.path.join(spec["cgroup"], "cgroup.procs"), "w") as file:
            file.write("0")
    if "tty" in task:
        # The first terminal that the leader of a session opens is the one that controls it.
        reading = out = err = os.open(task["tty"], os.O_RDWR)
    else:
        out = os.open(task["stdout"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        err = os.open(task["stderr"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        reading = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((reading, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for name, (soft, hard) in spec.get("rlimits", {}).items():
        resource.setrlimit(getattr(resource, name), (soft, hard))
    account = spec.get("account")
    if account:
        os.setgroups(account["groups"])
        os.setgid(account["gid"])
        os.setuid(account["uid"])
    # Only now: a change of user takes it away.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.umask(0o022)
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, *OWN):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def execute(task: Plain) -> None:
    """Become the task's program. Returns only by an error."""
    os.chdir(task["cwd"])
    os.execvpe(task["argv"][0], task["argv"], task["env"])


def start(task: Plain, spec: Plain) -> tuple[int, tuple[int, str, str] | None]:
    """Start one task; return its pid and None, or what was wrong: (errno, step, text)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        step = "set up"
        try:
            os.close(reading)
            become(task, spec)
            step = "execute"
            execute(task)
        except OSError as error:
            os.write(writing, json.dumps([error.errno or 0, step, str(error)]).encode())
        except BaseException as error:
            os.write(writing, json.dumps([0, step, repr(error)]).encode())
        os._exit(NOT_FOUND)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    return pid, json.loads(said) if said else None


def exit_of(status: int) -> Plain:
    """Return how a process ended: by a code, or by a signal."""
    code = os.waitstatus_to_exitcode(status)
    return {"code": code if code >= 0 else None, "signal": -code if code < 0 else None}


def answer(name: str, kind: str, data: Plain) -> None:
    """Say something of a terminal to who still waits for it. What fails is let be: no terminal is worth the run."""
    with contextlib.suppress(OSError):
        if os.path.exists(f"{name}.json"):
            put(f"{name}.{kind}", data)


class Keeper:
    """The tasks of a run, from their start until nothing of them is left."""

    def __init__(self, spec: Plain) -> None:
        self.spec = spec
        self.living: dict[int, int] = {}
        self.terminals: dict[int, str] = {}
        self.begun: set[str] = set()
        self.ends: list[Plain] = []
        self.first_bad: Plain | None = None
        self.told = self.killing = False
        self.oom_before = oom_kills(spec.get("cgroup", ""))

    def start_all(self) -> Plain | None:
        """Start every task; return what was wrong with the first that could not be, None where all work."""
        for task in self.spec["tasks"]:
            try:
                pid, wrong = start(task, self.spec)
            except OSError as error:
                return {"fault": "machine", "why": f"rank {task['rank']}: {error}", "rank": task["rank"]}
            self.living[pid] = task["rank"]
            if wrong is not None:
                number, step, text = wrong
                missing = number in (errno.ENOENT, errno.ENOTDIR)
                own = step == "execute" and number in (
                    0, errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.E2BIG, errno.ELOOP,
                    errno.ENAMETOOLONG, errno.EINVAL,
                )  # fmt: skip
                return {
                    "fault": "job" if own else "machine",
                    "why": f"rank {task['rank']}: {text}",
                    "rank": task["rank"],
                    "exit_code": (NOT_FOUND if missing else NOT_RUN) if own else None,
                }
        return None

    def reap(self) -> bool:
        """Take in who has ended. Returns whether anybody is left below this process."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self.living:
                self.note(self.living.pop(pid), status)
            elif pid in self.terminals:
                answer(self.terminals.pop(pid), "end", exit_of(status))

    def note(self, rank: int, status: int) -> None:
        """Note how a task ended; the first that ends badly by itself takes the others along."""
        end = {"rank": rank} | exit_of(status)
        self.ends.append(end)
        if status != 0 and self.first_bad is None and not self.killing:
            self.first_bad = end
            if not self.told:
                self.killing = True

    def open_terminals(self) -> None:
        """Start what is asked for on terminals; the run ends with its tasks, not with these."""
        asked = sorted(name[:-5] for name in os.listdir() if name.startswith("terminal-") and name.endswith(".json"))
        for name in asked:
            if name in self.begun or self.killing:
                continue
            self.begun.add(name)
            try:
                with open(f"{name}.json") as file:
                    task = json.load(file)
                pid, wrong = start(task, self.spec)
            except (OSError, ValueError, KeyError) as error:
                answer(name, "end", {"why": str(error)})
                continue
            if wrong is not None:
                answer(name, "end", {"why": wrong[2]})
            else:
                self.terminals[pid] = name
                answer(name, "started", {"pid": pid})

    def tell(self) -> None:
        """Tell the tasks, whole groups, to save their work and exit."""
        if not self.told:
            self.told = True
            for pid in self.living:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGTERM)

    def kill(self) -> None:
        """End everything below this process, and in the run's group of the kernel."""
        cgroup = self.spec.get("cgroup")
        if cgroup:
            with contextlib.suppress(OSError), open(os.path.join(cgroup, "cgroup.kill"), "w") as file:
                file.write("1")
        for pid in descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until nothing is left. When the last task has ended, what it left behind is ended too."""
        while self.reap():
            if not self.living:
                self.killing = True
            if self.killing:
                self.kill()
                got = signal.sigtimedwait(WANTED, AGAIN_S)
            else:
                got = signal.sigwaitinfo(WANTED)
            number = None if got is None else got.si_signo
            if number == signal.SIGTERM:
                self.tell()
            elif number == signal.SIGUSR1:
                self.killing = True
            elif number == signal.SIGUSR2:
                self.open_terminals()

    def end(self) -> Plain:
        """Return how it ended."""
        out_of_memory = oom_kills(self.spec.get("cgroup", "")) > self.oom_before
        return {"tasks": self.ends, "first_bad": self.first_bad, "out_of_memory": out_of_memory}


def main(folder: str, lock: int) -> None:
    """Keep one run. What went wrong with the start is told on standard output, in a line of JSON."""
    os.chdir(folder)
    os.set_inheritable(lock, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, WANTED | {signal.SIGINT, signal.SIGHUP})
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    put("keeper.json", {"pid": os.getpid(), "started": start_time(os.getpid()), "terminals": True})
    with open("spec.json") as file:
        keeper = Keeper(json.load(file))
    wrong = keeper.start_all()
    if wrong is not None:
        keeper.killing = True
        keeper.wait()
        put("end.json", {"wrong": wrong})
    else:
        put("started.json", {"tasks": [{"rank": rank, "pid": pid} for pid, rank in keeper.living.items()]})
    with contextlib.suppress(OSError):
        os.write(1, json.dumps({"wrong": wrong}).encode() + b"\n")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(nowhere, target)
    if wrong is None:
        keeper.wait()
        put("end.json", keeper.end())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
