"""A file of questions: jobs that are asked about, and named scenarios, each against the same snapshot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from optsched.errors import InputError, UsageError
from optsched.files.added import read_added
from optsched.files.document import Document, read_document
from optsched.files.fields import Absent, GpuAmount, Id, Seconds, Strict, Weight
from optsched.files.profiles import note_duplicates, resolve_profile
from optsched.files.report import Report, Scope, known, show
from optsched.files.validate import validate, validate_list
from optsched.values.ids import JobId
from optsched.values.job import Job
from optsched.values.snapshot import Snapshot
from optsched.whatif import changes as ch
from optsched.whatif.changes import Change, FailureRates, changed

Nodes = Annotated[int, Field(ge=1, le=100_000, description="a whole number of nodes from 1 to 100,000")]
Copies = Annotated[int, Field(ge=1, le=1_000, description="a whole number from 1 to 1,000")]
Factor = Annotated[float, Field(ge=0, le=1_000, allow_inf_nan=False, description="a number from 0 to 1,000")]
Name = Annotated[str, Field(min_length=1, max_length=100, description="a name of 1 to 100 characters")]


class _TopIn(Strict):
    """The top of the file; scenarios and jobs are checked one by one."""

    ask: list[Id] = Field(default_factory=list, description="a list of ids of queued jobs")
    jobs: object = None
    scenarios: object = None


class _AddIn(Strict):
    """Nodes that come: so many, or a domain like another one."""

    nodes: Absent[Nodes] = None
    within: Absent[Id] = None
    like: Absent[Id] = None
    copies: Copies = 1


class _DrainIn(Strict):
    """A node or domain that is emptied; without from_s and to_s from now on for good."""

    target: Id
    from_s: Absent[Seconds] = None
    to_s: Absent[Seconds] = None


class _FailuresIn(Strict):
    """Which published rates, times what."""

    rates: Absent[Id] = None
    factor: Factor = 1.0


class _ScenarioIn(Strict):
    """One scenario."""

    name: Name
    add: list[_AddIn] = Field(default_factory=list, description="a list of mappings with nodes, or with like")
    remove: list[Id] = Field(default_factory=list, description="a list of nodes and domains")
    drain: list[_DrainIn] = Field(default_factory=list, description="a list of mappings with target, from_s, to_s")
    quota: dict[Id, GpuAmount] = Field(default_factory=dict, description="a mapping of teams to whole numbers of GPUs")
    weight: dict[Id, Weight] = Field(
        default_factory=dict, description="a mapping of teams to numbers from 0 to 1,000,000"
    )
    profile: object = None
    failures: Absent[_FailuresIn] = None
    jobs: object = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is changed under which name; `failures` None: as for all others."""

    name: str
    changes: tuple[Change, ...] = ()
    failures: FailureRates | None = None


@dataclass(frozen=True, slots=True)
class Questions:
    """Jobs of the snapshot that are asked about, jobs that are submitted in every scenario, and the scenarios."""

    ask: tuple[JobId, ...] = ()
    jobs: tuple[Job, ...] = ()
    scenarios: tuple[Scenario, ...] = ()


def read_questions(path: str | os.PathLike[str], snapshot: Snapshot) -> Questions:
    """Return the questions of a file, read against a snapshot. Raises InputError with all faults."""
    return parse_questions(read_document(path), snapshot)


def parse_questions(document: Document, snapshot: Snapshot) -> Questions:
    """Return the questions of a document. Raises InputError with all faults."""
    report = Report()
    top = Scope(report, document)
    note_duplicates(top)
    data = document.data
    read = validate(top, _TopIn, data)
    if read is None:
        report.raise_faults()
    assert read is not None, "or there were faults"
    jobs = read_added(read.jobs, top.at("jobs"), snapshot)
    there = {str(job.id) for job in snapshot.jobs if not job.placement}
    for index, name in enumerate(read.ask):
        if name not in there:
            top.fault(f"no queued job is called {show(name)}", known(sorted(there), name, "queued jobs"), "ask", index)
    base = snapshot if report.count else changed(snapshot, [ch.AddJob(job) for job in jobs])
    scenarios = []
    names: set[str] = set()
    for index, entry in validate_list(top.at("scenarios"), _ScenarioIn, read.scenarios):
        here = top.at("scenarios", index)
        if entry.name in names:
            here.fault(f"the name {show(entry.name)} is given twice", "each name once", "name")
        names.add(entry.name)
        scenarios.append(_scenario(entry, here, base))
    if not scenarios and not read.ask and not jobs and not report.count:
        top.fault("asks nothing", "scenarios, jobs, or ask with the ids of queued jobs")
    report.raise_faults()
    return Questions(tuple(JobId(name) for name in read.ask), tuple(jobs), tuple(scenarios))


def _scenario(entry: _ScenarioIn, scope: Scope, snapshot: Snapshot) -> Scenario:
    made: list[Change] = []

    def then(change: Change, *where: str | int) -> None:
        nonlocal snapshot
        try:
            snapshot = changed(snapshot, [change])
            made.append(change)
        except UsageError as error:
            wrong, _, allowed = str(error).partition("; allowed: ")
            scope.fault(wrong, allowed, *where)
        except InputError as error:
            scope.fault(error.faults[0].wrong, error.faults[0].allowed, *where)

    if entry.profile is not None and (found := resolve_profile(entry.profile, scope.at("profile"))) is not None:
        then(ch.UseProfile(found), "profile")
    for index, added in enumerate(entry.add):
        if (added.nodes is None) == (added.like is None):
            scope.fault("given both or none of nodes and like", "one of them", "add", index)
        elif added.nodes is not None:
            then(ch.AddNodes(added.nodes, added.within), "add", index, "within" if added.within else "nodes")
        elif added.like is not None:
            then(ch.AddLike(added.like, added.copies), "add", index, "like")
    for index, target in enumerate(entry.remove):
        then(ch.Remove(target), "remove", index)
    for index, drained in enumerate(entry.drain):
        if (drained.from_s is None) != (drained.to_s is None):
            scope.fault("given one of from_s and to_s", "both of them, or none", "drain", index)
        elif drained.from_s is not None and drained.to_s is not None and drained.to_s <= drained.from_s:
            scope.fault(f"given {show(drained.to_s)}", "a number of seconds above from_s", "drain", index, "to_s")
        else:
            then(ch.Drain(drained.target, drained.from_s, drained.to_s), "drain", index, "target")
    for team, gpus in entry.quota.items():
        then(ch.SetQuota(team, gpus), "quota", team)
    for team, weight in entry.weight.items():
        then(ch.SetWeight(team, weight), "weight", team)
    for job in read_added(entry.jobs, scope.at("jobs"), snapshot):
        then(ch.AddJob(job), "jobs")
    rates = None
    if entry.failures is not None:
        rates = FailureRates(entry.failures.rates or FailureRates().name, entry.failures.factor)
        _check_rates(rates, scope)
    return Scenario(entry.name, tuple(made), rates)


def _check_rates(rates: FailureRates, scope: Scope) -> None:
    try:
        rates.rates()
    except UsageError as error:
        wrong, _, allowed = str(error).partition("; allowed: ")
        scope.fault(wrong, allowed, "failures", "rates")


def jobs_of(scenario: Scenario) -> Sequence[JobId]:
    """Return the jobs that a scenario alone submits."""
    return [change.job.id for change in scenario.changes if isinstance(change, ch.AddJob)]
