"""A snapshot under another profile than its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optsched.errors import Fault, InputError
from optsched.files.report import cut, known, show
from optsched.values.profile import Profile
from optsched.values.snapshot import Snapshot


def with_profile(snapshot: Snapshot, profile: Profile, called: str) -> Snapshot:
    """Return the snapshot under another profile, with each priority class at the number that it has there.

    `called` is what the profile is called in a fault. Raises InputError where it lacks a class that a job names.
    """
    old = snapshot.profile.classes
    if profile.classes == old:
        return replace(snapshot, profile=profile)
    name_of: Mapping[int, str] = {number: name for name, number in reversed(list(old.items()))}
    jobs = []
    for job in snapshot.jobs:
        name = job.priority_class
        if name and name not in profile.classes:
            wrong = f"has no class {show(name)}, which job {job.id} names"
            allowed = known(list(profile.classes), name, "a profile that has it; this one has")
            raise InputError([Fault(cut(called), None, "classes", wrong, allowed)])
        jobs.append(replace(job, priority=profile.classes[name]) if name else job)
    teams = [
        replace(team, max_priority=profile.classes.get(name_of.get(team.max_priority, ""), team.max_priority))
        if team.max_priority is not None
        else team
        for team in snapshot.teams
    ]
    return replace(snapshot, profile=profile, jobs=tuple(jobs), teams=tuple(teams))
