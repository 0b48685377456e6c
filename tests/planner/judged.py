"""Case files: a snapshot and what must come of it, judged on the values of one plan, in process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from optsched.files import parse_snapshot
from optsched.values.job import JobState
from tests.builders import Outcome, outcome

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases"
"""The folder of cases beside the checkout; it may be missing."""

ONLY_ONE_DECISION = {"checkpointed"}
"""Events that change nothing about the first decision."""


def single_decisions() -> list[Path]:
    """The case files that are one decision."""
    files = sorted(CASES.glob("scenarios/*.yaml")) + sorted(CASES.glob("peer/*.yaml"))
    return [file for file in files if {event["type"] for event in _read(file).get("events", [])} <= ONLY_ONE_DECISION]


def _read(file: Path) -> dict[str, Any]:
    return yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def faults_of(file: Path) -> list[str]:
    """Plan a case and say what is not as its `expect:` block wants it."""
    case = _read(file)
    expect = case["expect"]
    given = {key: value for key, value in case.items() if key not in ("about", "rules", "expect", "events")}
    snapshot, _ = parse_snapshot(given, file.name)
    found = outcome(snapshot)
    return _Case(case, expect, found, snapshot).faults()


class _Case:
    def __init__(self, case: Mapping[str, Any], expect: Mapping[str, Any], found: Outcome, snapshot) -> None:
        self.case, self.expect, self.found, self.snapshot = case, expect, found, snapshot
        self.domains = {node.id: dict(node.domains) for node in snapshot.cluster.nodes}
        self.levels = list(snapshot.cluster.levels)
        self.groups = {name: group for group in expect.get("interchangeable", []) for name in group}

    def faults(self) -> list[str]:
        """Everything that is not as expected."""
        return [*self._states(), *self._gpus(), *self._placements(), *self._preempted(), *self._others()]

    def _state(self, name: str) -> str:
        return "running" if name in self.found.runs else "queued"

    def _states(self):
        wanted = self.expect.get("states", {})
        for group in self.expect.get("interchangeable", []):
            want = sorted(str(wanted[name]) for name in group if name in wanted)
            got = sorted(self._state(name) for name in group if name in wanted)
            if want != got:
                yield f"states of {group}: {got}, want {want}"
        for name, want in wanted.items():
            if name not in self.groups and self._state(name) not in (want if isinstance(want, list) else [want]):
                yield f"{name} is {self._state(name)}, want {want}"

    def _gpus(self):
        for name, want in self.expect.get("gpus", {}).items():
            got = sum(self.found.runs.get(name, {}).values())
            if got != want and name not in self.groups:
                yield f"{name} holds {got} GPUs, want {want}"

    def _placements(self):
        for name, want in self.expect.get("placement", {}).items():
            where = dict(self.found.runs.get(name, {}))
            if "exact" in want and where != want["exact"]:
                yield f"{name} on {where}, want {want['exact']}"
            if "nodes" in want and sorted(where) != sorted(want["nodes"]):
                yield f"{name} on {sorted(where)}, want {want['nodes']}"
            for level, domain in want.get("within", {}).items():
                if {self.domains[node].get(level) for node in where} != {domain}:
                    yield f"{name} on {sorted(where)}, want inside {level} {domain}"
            if set(want.get("avoid", [])) & set(where):
                yield f"{name} on {sorted(where)}, must avoid {want['avoid']}"
            if "any_of" in want and not (len(where) == 1 and next(iter(where)) in want["any_of"]):
                yield f"{name} on {where}, want one of {want['any_of']}"
            for level, count in want.get("domains_used", {}).items():
                if len({self._path(node, level) for node in where}) != count:
                    yield f"{name} on {sorted(where)}, want {count} domains of {level}"

    def _path(self, node: str, level: str) -> tuple:
        return tuple(self.domains[node].get(each) for each in self.levels[: self.levels.index(level) + 1])

    def _preempted(self):
        running = {str(job.id) for job in self.snapshot.jobs if job.state is JobState.RUNNING}
        want = self.expect.get("preempted", sorted(running - set(self.found.runs)))
        if sorted(self.found.stopped) != sorted(want):
            yield f"preempted {sorted(self.found.stopped)}, want {sorted(want)}"

    def _others(self):
        if "running_jobs_per_team" in self.expect:
            team = {str(job.id): str(job.team) for job in self.snapshot.jobs}
            for name, count in self.expect["running_jobs_per_team"].items():
                got = sum(team[job] == name for job in self.found.runs)
                if got != count:
                    yield f"team {name} runs {got} jobs, want {count}"
        for name in self.expect.get("never_running", []):
            if name in self.found.runs:
                yield f"{name} runs"
        if not self.snapshot.profile.migration and self.found.moved:
            yield f"{sorted(self.found.moved)} moved"
