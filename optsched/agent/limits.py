"""Limits that the kernel holds: one control group for each run, where the agent may make them (cgroup v2).

Where it may not, runs are not limited, and are ended by their keeper alone, which needs no group for that.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from optsched.agent.statefile import file_name
from optsched.agent.values import Key

log = logging.getLogger(__name__)

PERIOD_US = 100_000
CONTROLLERS = ("cpu", "memory", "pids")


class NoLimits:
    """No control groups."""

    def make(self, key: Key, cpus: float, memory_gb: float) -> str:
        """Return "": there is no group."""
        return ""

    def remove(self, key: Key) -> None:
        """There is nothing to remove."""


class Cgroups:
    """Control groups below `base`, which this agent may write to."""

    def __init__(self, base: Path, node: str) -> None:
        self._base = base / f"optsched-{file_name(node)}"
        self._base.mkdir(exist_ok=True)
        for folder in (base, self._base):
            for each in CONTROLLERS:
                # Each by itself: one that the system does not hand on must not keep the others away.
                with suppress(OSError):
                    (folder / "cgroup.subtree_control").write_text(f"+{each}")

    def make(self, key: Key, cpus: float, memory_gb: float) -> str:
        """Make a run's group with what it may use at most (0: no limit), and return its path; "" where it cannot be."""
        folder = self._folder(key)
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            log.warning("no control group", extra={"job": key.job, "run": key.run, "error": str(error)})
            return ""
        if cpus > 0:
            self._set(folder, "cpu.max", f"{round(cpus * PERIOD_US)} {PERIOD_US}")
        if memory_gb > 0:
            self._set(folder, "memory.max", str(round(memory_gb * 1e9)))
            self._set(folder, "memory.oom.group", "1")
        return str(folder)

    def _set(self, folder: Path, name: str, value: str) -> None:
        try:
            (folder / name).write_text(value)
        except OSError as error:
            log.debug("a limit cannot be set", extra={"limit": name, "error": str(error)})

    def remove(self, key: Key) -> None:
        """Remove a run's group, with the groups that its tasks made in it; nothing works there any more."""
        folder = self._folder(key)
        if not folder.is_dir():
            return
        inner = sorted((each for each in folder.rglob("*") if each.is_dir()), key=lambda each: -len(each.parts))
        for each in (*inner, folder):
            with suppress(OSError):
                each.rmdir()

    def _folder(self, key: Key) -> Path:
        return self._base / f"{file_name(key.job)}.{key.run}"


Limits = NoLimits | Cgroups


def limits(setting: str, node: str) -> Limits:
    """Return the limits for a setting: `off`, `auto` (the agent's own group, if it may), or the path of a group."""
    if setting == "off":
        return NoLimits()
    base = own_group() if setting == "auto" else Path(setting)
    if base is None:
        return NoLimits()
    try:
        return Cgroups(base, node)
    except OSError as error:
        level = logging.DEBUG if setting == "auto" else logging.WARNING
        log.log(level, "no control groups", extra={"path": str(base), "error": str(error)})
        return NoLimits()


def own_group(mounts: str = "/proc/self/mounts", groups: str = "/proc/self/cgroup") -> Path | None:
    """Return the folder of the control group that this process is in; None without cgroup v2."""
    with suppress(OSError):
        mounted = [line.split() for line in Path(mounts).read_text().splitlines()]
        root = next((fields[1] for fields in mounted if fields[2] == "cgroup2"), None)
        for line in Path(groups).read_text().splitlines():
            if root is not None and line.startswith("0::"):
                return Path(root) / line[3:].lstrip("/")
    return None
