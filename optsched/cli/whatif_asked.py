"""What the arguments of optsched whatif ask."""

from __future__ import annotations

import argparse
import math
import re

from optsched.cli.simulate import span
from optsched.cli.words import clean
from optsched.errors import UsageError
from optsched.files import load_profile
from optsched.files.added import read_added
from optsched.files.document import Document, read_document
from optsched.files.report import Report, Scope
from optsched.values.ids import JobId
from optsched.values.job import Job
from optsched.values.snapshot import Snapshot
from optsched.whatif import changes as ch
from optsched.whatif.changes import Change, FailureRates, changed
from optsched.whatif.scenarios import Questions, Scenario, read_questions

NEW_JOB = "new-job"
"""The id of a job that --gpus describes."""

OF_THE_JOB = ("team", "priority", "runtime", "within")


def questions_of(args: argparse.Namespace, snapshot: Snapshot) -> Questions:
    """Return all that is asked. Raises InputError or UsageError."""
    jobs = [*_job_of_file(args, snapshot), *_job_of_flags(args, snapshot)]
    here = snapshot
    for job in jobs:
        here = changed(here, [ch.AddJob(job)])
    scenario = _scenario(args, here)
    file = Questions() if args.questions is None else read_questions(args.questions, here)
    scenarios = (*([] if scenario is None else [scenario]), *file.scenarios)
    ask = tuple(dict.fromkeys((*(JobId(name) for name in args.ask), *file.ask)))
    if not (ask or jobs or file.jobs or scenarios):
        raise UsageError(
            "nothing is asked; allowed: --ask, --job, --gpus with --team, --questions, or a change such as --drain"
        )
    return Questions(ask, (*jobs, *file.jobs), scenarios)


def _job_of_file(args: argparse.Namespace, snapshot: Snapshot) -> list[Job]:
    if args.job is None:
        return []
    document = read_document(args.job)
    # A file of one job is read as the only entry of a list; its faults are told at the keys of the file.
    report = Report()
    jobs = read_added([document.data], Scope(report, Document([document.data], document.file)), snapshot)
    report.raise_faults()
    return jobs


def _job_of_flags(args: argparse.Namespace, snapshot: Snapshot) -> list[Job]:
    if args.gpus is None:
        for name in OF_THE_JOB:
            if getattr(args, name) is not None:
                raise UsageError(f"--{name}: given without --gpus; allowed: with --gpus, which describes a job")
        return []
    if args.team is None:
        raise UsageError("--gpus: given without --team; allowed: with the team of that job")
    data: dict[str, object] = {"id": NEW_JOB, "team": args.team, "gpus": args.gpus}
    if args.priority is not None:
        data["priority"] = int(args.priority) if re.fullmatch(r"-?[0-9]{1,10}", args.priority) else args.priority
    if args.runtime is not None:
        data["estimated_runtime_s"] = args.runtime
    if args.within is not None:
        data["topology"] = {"required": args.within}
    report = Report()
    jobs = read_added([data], Scope(report, Document([data], "the job of --gpus")), snapshot)
    report.raise_faults()
    return jobs


def _scenario(args: argparse.Namespace, snapshot: Snapshot) -> Scenario | None:
    """Return the scenario of all changes that flags name, None where none does."""
    made: list[Change] = []
    told: list[str] = []

    def then(flag: str, text: str, change: Change) -> None:
        nonlocal snapshot
        try:
            snapshot = changed(snapshot, [change])
        except UsageError as error:
            raise UsageError(f"{flag} {clean(text)}: {error}") from error
        made.append(change)
        told.append(f"{flag.removeprefix('--').replace('-', ' ')} {text}")

    if args.profile is not None:
        then("--profile", args.profile, ch.UseProfile(load_profile(args.profile)))
    for text in args.add_nodes:
        then("--add-nodes", text, _nodes(text))
    for text in args.add_like:
        then("--add-like", text, ch.AddLike(text))
    for text in args.remove:
        then("--remove", text, ch.Remove(text))
    drains = _Values("--drain")
    for text in args.drain:
        drain = _drain(text)
        drains.take(drain.target, drain.start_s or 0.0, math.inf if drain.end_s is None else drain.end_s)
        then("--drain", text, drain)
    quotas, weights = _Values("--set-quota"), _Values("--set-weight")
    for text in args.set_quota:
        team, value = _pair("--set-quota", text, "TEAM=GPUS, GPUS a whole number", r"[0-9]{1,9}")
        quotas.take(team)
        then("--set-quota", text, ch.SetQuota(team, int(value)))
    for text in args.set_weight:
        team, value = _pair("--set-weight", text, "TEAM=W, W a number of at most 1,000,000", r"[0-9]{1,6}(\.[0-9]+)?")
        weights.take(team)
        then("--set-weight", text, ch.SetWeight(team, float(value)))
    failures = None if args.failures is None else _failures(args.failures, args.rates)
    if failures is not None:
        told.append(f"failures {args.failures}")
    return Scenario(", ".join(told), tuple(made), failures) if told else None


def _nodes(text: str) -> Change:
    count, _, within = text.partition("@")
    if not re.fullmatch(r"[1-9][0-9]{0,4}", count) or text.endswith("@"):
        raise UsageError(
            f"--add-nodes: given {clean(text)!r}; allowed: N or N@DOMAIN, N a whole number from 1 to 99,999"
        )
    return ch.AddNodes(int(count), within or None)


class _Values:
    """What an option has been given for which name, and for which window: one value each."""

    def __init__(self, flag: str) -> None:
        self.flag = flag
        self.taken: dict[str, list[tuple[float, float]]] = {}

    def take(self, name: str, start_s: float = 0.0, end_s: float = math.inf) -> None:
        """Note a value. Raises UsageError where there is one for some of the window."""
        windows = self.taken.setdefault(name, [])
        if any(start_s < end and begin < end_s for begin, end in windows):
            at_once = "each team once" if self.flag != "--drain" else "each name once, or for windows apart"
            raise UsageError(f"{self.flag}: {clean(name)!r} is given twice; allowed: {at_once}")
        windows.append((start_s, end_s))


def _drain(text: str) -> ch.Drain:
    target, at, window = text.rpartition("@")
    if not at:
        return ch.Drain(text)
    first, dash, last = window.partition("-")
    try:
        start_s, end_s = 0.0 if first == "0" else span(first), span(last)
    except argparse.ArgumentTypeError:
        dash = ""
    if not dash or end_s <= start_s:
        raise UsageError(f"--drain: given {clean(text)!r}; allowed: NAME, or NAME@FROM-TO, such as b0@2h-6h")
    return ch.Drain(target, start_s, end_s)


def _pair(flag: str, text: str, allowed: str, pattern: str) -> tuple[str, str]:
    team, _, value = text.partition("=")
    if not team or not re.fullmatch(pattern, value):
        raise UsageError(f"{flag}: given {clean(text)!r}; allowed: {allowed}")
    return team, value


def _failures(text: str, rates: str) -> FailureRates:
    found = re.fullmatch(r"([a-z0-9-]*?)x([0-9]*\.?[0-9]+)", text)
    if not found or not float(found[2]) <= 1000:
        raise UsageError(f"--failures: given {clean(text)!r}; allowed: xN or RATESxN, such as x2, N from 0 to 1,000")
    made = FailureRates(found[1] or rates, float(found[2]))
    try:
        made.rates()
    except UsageError as error:
        raise UsageError(f"--failures: {error}") from error
    return made
