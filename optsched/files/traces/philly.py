"""Microsoft Philly: the job log as it was published (JSON), and the table that the artifact of Sia made of it (CSV)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optsched.errors import InputError
from optsched.files.document import Document, parse_document
from optsched.files.report import field_name, show
from optsched.files.traces.rows import MAX_SECONDS, Faults, csv_rows, doubled_keys, seconds_of
from optsched.files.traces.source import Options, Parsed, Source
from optsched.values.trace import TraceJob

LOG_KEYS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")
TABLE = ("timestamp", "duration", "num_gpus", "cluster")
STATUS = {"pass": "completed", "failed": "failed", "killed": "cancelled"}
NEVER_STARTED = "jobs that never started: the log tells GPUs only of those that did"


def is_log(source: Source) -> bool:
    """Whether it is the job log: a list of jobs with attempts."""
    start = source.text[:20_000]
    return start.lstrip().startswith("[") and '"attempts"' in start and '"submitted_time"' in start


def is_table(source: Source) -> bool:
    """Whether it is the table of Sia's artifact."""
    return source.has(*TABLE)


def read_log(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read job logs. A job's GPUs are those of its largest attempt, its duration the sum of those with both times."""
    parsed.wall_clock = True
    parsed.note("the time of a job is that of all its attempts together; attempts without a start or an end count 0 s")
    for source in sources:
        faults = parsed.open(source)
        try:
            document = parse_document(source.text, source.file, None)
        except InputError as error:
            faults.kept += error.faults
            faults.count += len(error.faults)
            continue
        if doubled_keys(document, faults):
            continue
        if not isinstance(document.data, list):
            faults.add(1, "(top level)", f"given {show(document.data)}", "a list of jobs")
            continue
        for index, entry in enumerate(document.data):
            _LogJob(document, index, faults).read(entry, parsed)


class _LogJob:
    """One entry of the job log."""

    def __init__(self, document: Document, index: int, faults: Faults) -> None:
        self.document = document
        self.index = index
        self.faults = faults
        self.sound = True

    def fault(self, path: Sequence[str | int], wrong: str, allowed: str) -> None:
        whole = (self.index, *path)
        self.sound = False
        self.faults.add(self.document.line_of(whole), field_name(self.document.data, whole), wrong, allowed)

    def read(self, entry: Any, parsed: Parsed) -> None:
        if not isinstance(entry, dict):
            return self.fault((), f"given {show(entry)}", "a mapping: " + ", ".join(LOG_KEYS))
        for key in ("jobid", "submitted_time", "status"):
            if not isinstance(entry.get(key), str) or not entry[key]:
                self.fault((key,), f"given {show(entry.get(key))}", "some text")
        attempts = entry.get("attempts")
        if not isinstance(attempts, list):
            self.fault(("attempts",), f"given {show(attempts)}", "a list of attempts, which may be empty")
        if not self.sound:
            return None
        assert isinstance(attempts, list)
        submit_s = self.instant(entry, ("submitted_time",))
        status = STATUS.get(entry["status"].lower())
        if status is None:
            self.fault(("status",), f"given {show(entry['status'])}", "Pass, Failed or Killed")
        runs = [self.attempt(number, attempt) for number, attempt in enumerate(attempts)]
        if not self.sound or submit_s is None or status is None:
            return None
        gpus = max((run[0] for run in runs), default=0)
        if not gpus:
            parsed.left_out[NEVER_STARTED] += 1
            return None
        known = [run[1] for run in runs if run[1] is not None]
        job = TraceJob(
            id=entry["jobid"],
            submit_s=submit_s,
            gpus=gpus,
            duration_s=sum(known) if known else None,
            team=str(entry.get("vc") or ""),
            user=str(entry.get("user") or ""),
            status=status,
            tasks=max(run[2] for run in runs),
        )
        parsed.jobs.append((self.faults, self.document.line_of((self.index,)) or 0, job))
        return None

    def attempt(self, number: int, attempt: Any) -> tuple[int, float | None, int]:
        """Return GPUs, seconds (None: not known) and machines of one attempt."""
        path = ("attempts", number)
        detail = attempt.get("detail") if isinstance(attempt, dict) else None
        machines = detail if isinstance(detail, list) else []
        lists = [machine.get("gpus") if isinstance(machine, dict) else None for machine in machines]
        if not isinstance(detail, list) or not all(isinstance(gpus, list) for gpus in lists):
            self.fault(path, "no GPUs that can be read", "start_time, end_time, detail: [{ip, gpus: [...]}, ...]")
            return 0, None, 0
        start, end = (self.instant(attempt, (*path, key)) for key in ("start_time", "end_time"))
        if start is not None and end is not None and end < start:
            self.fault((*path, "end_time"), f"given {show(attempt['end_time'])}", "no moment before start_time")
        seconds = end - start if start is not None and end is not None else None
        return sum(len(gpus) for gpus in lists if gpus), seconds, len(machines)

    def instant(self, entry: dict[str, Any], path: Sequence[str | int]) -> float | None:
        """Return a time of the log; "None" and null mean that it is not known."""
        text = entry.get(str(path[-1]))
        if text in (None, "", "None") and path[-1] != "submitted_time":
            return None
        # The log has times such as "2017-10-09 07:01:55 PDT": the zone's name says nothing that could be used.
        seconds = seconds_of(" ".join(text.split()[:2])) if isinstance(text, str) else None
        if seconds is None:
            self.fault(path, f"given {show(text)}", 'a date and time such as 2017-10-07 01:12:09, or "None"')
        return seconds


def read_table(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read the table: a row for each job, named p0, p1, ... by its place; `cluster` is the virtual cluster."""
    parsed.wall_clock = True
    for source in sources:
        faults = parsed.open(source)
        for index, row in enumerate(csv_rows(source.text, faults)):
            submit_s = row.instant("timestamp", unknown=())
            gpus = row.whole("num_gpus", 1)
            if gpus is None and row.sound:
                row.fault("num_gpus", "empty", "a whole number from 1 to 1,000,000")
            duration_s = row.number("duration", 0, MAX_SECONDS)
            if row.sound and submit_s is not None and gpus is not None:
                job = TraceJob(f"p{index}", submit_s, gpus, duration_s, team=row.text("cluster"))
                parsed.jobs.append((faults, row.line, job))
