"""Whose processes the tasks of a job are."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass


class NoAccount(Exception):
    """The job's user cannot run anything here; the text says why."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account of this machine. `change`: the agent has to become it first."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str
    change: bool


def account_of(user: str, run_as: str) -> Account:
    """Return the account for a job's user.

    An agent that is not root runs everything as itself. One that is root runs as `run_as` says: `submitter` (the job's
    user, never root), `agent` (itself) or an account's name. Raises NoAccount.
    """
    if os.geteuid() != 0 or run_as == "agent":
        return _account(_entry(os.geteuid()), change=False)
    name = user if run_as == "submitter" else run_as
    if not name:
        raise NoAccount("the job names no user, and nothing is run as root")
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise NoAccount(f"there is no account {name!r} on this node") from None
    if entry.pw_uid == 0:
        raise NoAccount("nothing is run as root")
    return _account(entry, change=True)


def _entry(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        # As in a container that is run under a number: there is no name for it.
        fields = (str(uid), "x", uid, os.getegid(), "", os.environ.get("HOME", "/"), "/bin/sh")
        return pwd.struct_passwd(fields)


def _account(entry: pwd.struct_passwd, *, change: bool) -> Account:
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)) if change else ()
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell, change)
