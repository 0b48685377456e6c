"""What commands read: snapshots, the shipped example, a profile laid over a snapshot's own."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath

from optsched.cli.terminal import warn
from optsched.cli.words import clean
from optsched.errors import Fault, InputError, UsageError
from optsched.files import load_profile, load_scenario, load_snapshot
from optsched.files.datafolders import SUFFIXES
from optsched.files.report import known, show
from optsched.values.profile import Profile
from optsched.values.snapshot import Scenario, Snapshot

EXAMPLE = "philly-busy"
"""The example that is planned where no file is given."""

STORY = "frontier"
"""The example that is replayed where no file is given."""


TRACE = "philly-day"
"""The trace that is described, scaled and simulated where no file is given."""


@dataclass(frozen=True, slots=True)
class Read:
    """A snapshot with the file that it came from and what a heading calls it."""

    snapshot: Snapshot
    file: str
    title: str
    is_example: bool = False


def read_snapshot(path: str | None, profile: str | None) -> Read:
    """Return a snapshot ("-": standard input; None: the shipped example); its warnings go to standard error.

    `profile` (a name or path) is used in place of the snapshot's own. Raises InputError or UsageError.
    """
    with ExitStack() as stack:
        file = path if path is not None else str(stack.enter_context(resources.as_file(example())))
        snapshot, warnings = load_snapshot(file)
    # It stays for as long as the command runs: the collector need not look through it in every round.
    gc.freeze()
    for text in warnings:
        warn(text)
    if profile is not None:
        snapshot = with_profile(snapshot, load_profile(profile), profile)
    name = PurePath(file).name.split(".")[0] if file != "-" else "stdin"
    title = clean(snapshot.cluster.name or name)
    return Read(snapshot, "stdin" if file == "-" else clean(file), title, path is None)


@dataclass(frozen=True, slots=True)
class ReadScenario:
    """A scenario and what a heading calls it."""

    scenario: Scenario
    title: str


def read_scenario(path: str | None, profile: str | None) -> ReadScenario:
    """Return a scenario (None: the shipped story, "-": standard input); its warnings go to standard error.

    Raises InputError.
    """
    with ExitStack() as stack:
        file = path if path is not None else str(stack.enter_context(resources.as_file(example(STORY))))
        scenario, warnings = load_scenario(file)
    for text in warnings:
        warn(text)
    if profile is not None:
        start = with_profile(scenario.start, load_profile(profile), profile)
        scenario = replace(scenario, start=start)
    name = PurePath(file).name.split(".")[0] if file != "-" else "stdin"
    return ReadScenario(scenario, clean(scenario.start.cluster.name or name))


def example(called: str = EXAMPLE) -> Traversable:
    """Return the shipped example of that name, else another. Raises UsageError where this installation has none."""
    folder = resources.files("optsched").joinpath("examples")
    found = sorted(
        (entry for entry in (folder.iterdir() if folder.is_dir() else ()) if entry.name.endswith(SUFFIXES)),
        key=lambda entry: (entry.name.split(".")[0] != called, entry.name),
    )
    if not found:
        raise UsageError(
            "SNAPSHOT: none given, and no example is installed; allowed: the path of a snapshot, or - for stdin"
        )
    return found[0]


@contextmanager
def example_trace() -> Iterator[Path]:
    """Give the path of the trace that comes with optsched. Raises UsageError where this installation has none."""
    found = resources.files("optsched").joinpath("examples", f"{TRACE}.csv.gz")
    if not found.is_file():
        raise UsageError("FILE: none given, and no trace is installed; allowed: the path of a trace, or - for stdin")
    with resources.as_file(found) as path:
        yield path


def with_profile(snapshot: Snapshot, profile: Profile, called: str) -> Snapshot:
    """Return the snapshot under another profile, with each priority class at the number that it has there."""
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
            raise InputError([Fault(clean(called), None, "classes", wrong, allowed)])
        jobs.append(replace(job, priority=profile.classes[name]) if name else job)
    teams = [
        replace(team, max_priority=profile.classes.get(name_of.get(team.max_priority, ""), team.max_priority))
        if team.max_priority is not None
        else team
        for team in snapshot.teams
    ]
    return replace(snapshot, profile=profile, jobs=tuple(jobs), teams=tuple(teams))
