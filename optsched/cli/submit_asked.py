"""What is submitted: a job from flags, from a file, or from both; and its faults, each where it stands."""

from __future__ import annotations

import argparse
import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from optsched.cli.service import instant, pair, span, whole
from optsched.errors import Fault, InputError
from optsched.files.document import Document, PathOf, read_document
from optsched.files.profiles import note_duplicates
from optsched.files.report import Report, Scope, field_name
from optsched.files.validate import validate

Plain = dict[str, object]

_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag and the key of a job that it sets."""

    name: str
    key: str
    what: str
    value: str = "N"
    kind: object = str
    many: bool = False


_GPUS = whole(1, 1_000_000)
_COUNT = whole(0, 1_000_000)


def _amount(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text):
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: a number of at least 0")
    return float(text)


FLAGS = (
    Flag("--name", "id", "the job's id (default: made by the scheduler)", "ID"),
    Flag("--team", "team", "whose it is (default: that of your token, or the service's)", "TEAM"),
    Flag("--user", "user", "who it runs as on its nodes (default: your account's name)", "USER"),
    Flag("--priority", "priority", "a class such as P1, or a number; larger is more urgent", "PRIORITY"),
    Flag("--gpus", "gpus", "GPUs of the whole gang", "N", _GPUS),
    Flag("--gpus-per-node", "gpus_per_node", "exactly so many on each node that is used", "N", _GPUS),
    Flag("--gpus-per-task", "gpus_per_task", "GPUs of one task; tasks may share a node", "N", _GPUS),
    Flag("--min-gpus", "min_gpus", "the smallest size at which it may run", "N", _GPUS),
    Flag("--max-gpus", "max_gpus", "the largest size at which it may run", "N", _GPUS),
    Flag("--gpu-type", "gpu_types", "a type of GPU that will do; may be repeated", "TYPE", str, many=True),
    Flag("--cpus", "cpus", "CPU cores of the whole gang", "N", _amount),
    Flag("--memory-gb", "memory_gb", "memory of the whole gang", "N", _amount),
    Flag("--hint", "topology_hint", "where it should lie, such as nvlink-domain or rack", "HINT"),
    Flag("--within", "topology.required", "a level: the whole gang in one domain of it", "LEVEL"),
    Flag(
        "--select", "node_selector", "a label that its nodes must have; may be repeated", "NAME=VALUE", pair, many=True
    ),
    Flag("--exclude", "exclude_nodes", "a node that it must not use; may be repeated", "NODE", str, many=True),
    Flag("--runtime", "estimated_runtime_s", "about how long it runs, such as 90m or 2d", "TIME", span),
    Flag("--deadline", "start_deadline_at", "started later it is of no use, in RFC 3339", "AT", instant),
    Flag("--grace", "grace_period_s", "between the signal to stop and the kill", "TIME", span),
    Flag("--checkpoint-every", "checkpoint.interval_s", "how often it saves its work", "TIME", span),
    Flag(
        "--retries", "retries.job", "how often it is started again after failures of its own (default 2)", "N", _COUNT
    ),
    Flag("--env", "environment", "a variable of its environment; may be repeated", "NAME=VALUE", pair, many=True),
    Flag("--workdir", "working_directory", "where it starts (default: its user's home)", "PATH"),
    Flag("--after", "after", "a job that has to be completed first; may be repeated", "ID", str, many=True),
)
SWITCHES = (
    Flag("--saves-on-signal", "checkpoint.on_signal", "it saves its work when it is told to stop"),
    Flag("--not-preemptible", "preemptible", "it is never stopped for others; only inside the team's quota"),
    Flag("--hold", "hold", "do not start it before it is released"),
)


def add_job_flags(parser: argparse.ArgumentParser) -> None:
    """Add what a job may ask for."""
    group = parser.add_argument_group("what is asked for")
    for flag in FLAGS:
        action = "append" if flag.many else "store"
        kind = flag.kind
        assert callable(kind)
        group.add_argument(flag.name, metavar=flag.value, type=kind, action=action, dest=_dest(flag), help=flag.what)
    for flag in SWITCHES:
        group.add_argument(flag.name, action="store_true", dest=_dest(flag), help=flag.what)


def _dest(flag: Flag) -> str:
    return "job_" + flag.name.strip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Asked:
    """The jobs that are submitted, and where each key of them comes from.

    `document` is the file, `single` whether that is one job and not a list; `flags` names the flag of a key.
    """

    jobs: tuple[Plain, ...]
    document: Document | None = None
    single: bool = True
    flags: Mapping[str, str] = field(default_factory=dict)

    def located(self, error: InputError) -> InputError:
        """Return what the service found wrong as faults of the file and of the flags."""
        return InputError(self._fault(each) for each in error.faults)

    def _fault(self, fault: Fault) -> Fault:
        path = _path(fault.field)
        if path[:1] == ("job",):
            path = path[1:]
        elif path[:2] == ("array", "template") or (path[:1] == ("jobs",) and self.single):
            path = path[2:]
        inner = path if self.single else path[2:]
        key = ".".join(str(part) for part in inner[:2])
        flag = self.flags.get(key) or self.flags.get(str(inner[0]) if inner else "")
        if flag is not None:
            return replace(fault, file="command line", field=flag)
        if self.document is None:
            known = {each.key: each.name for each in (*FLAGS, *SWITCHES)}
            named = known.get(key) or (known.get(str(inner[0])) if inner else None)
            return replace(fault, file="command line", field=named or ".".join(map(str, inner)) or fault.field)
        where = field_name(self.document.data, path)
        return replace(fault, file=self.document.file, line=self.document.line_of(path), field=where)


def _path(name: str) -> PathOf:
    return tuple(int(index) if index else key for key, index in _STEP.findall(name))


def read_asked(args: argparse.Namespace, user: str) -> Asked:
    """Return what arguments ask for. `user`: the name of whoever asks. Raises InputError with every fault."""
    changes, flags = _of_flags(args)
    if args.program:
        changes["command"], flags["command"] = list(args.program), "-- COMMAND"
    if args.file is None:
        if "gpus" not in changes:
            raise InputError([Fault("command line", None, "--gpus", "is missing", "--gpus N, or --file FILE")])
        return Asked((_laid_over({"user": user}, changes),), flags=flags)
    document = read_document(args.file)
    jobs, single = _of_file(document)
    whole_jobs = tuple(_laid_over({"user": user} | job, changes) for job in jobs)
    return Asked(whole_jobs, document, single, flags)


def _of_flags(args: argparse.Namespace) -> tuple[Plain, dict[str, str]]:
    """Return the keys that flags set, by their whole names, and the flag of each."""
    changes: Plain = {}
    for flag in FLAGS:
        given = getattr(args, _dest(flag))
        if given is None:
            continue
        if flag.key == "priority" and re.fullmatch(r"-?[0-9]{1,10}", given):
            given = int(given)
        elif flag.key in ("node_selector", "environment"):
            given = dict(given)
        elif flag.key == "after":
            given = [{"job": job} for job in given]
        changes[flag.key] = given
    for flag in SWITCHES:
        if getattr(args, _dest(flag)):
            changes[flag.key] = flag.key != "preemptible"
    named = {flag.key: flag.name for flag in (*FLAGS, *SWITCHES) if flag.key in changes}
    return changes, named


def _laid_over(job: Plain, changes: Plain) -> Plain:
    """Return a job with some keys changed; mappings such as the environment keep what is not named."""
    found = copy.deepcopy(job)
    for name, value in changes.items():
        outer, _, key = name.partition(".")
        if key:
            inside = found.setdefault(outer, {})
            assert isinstance(inside, dict), "the file was checked"
            inside[key] = value
        elif isinstance(value, dict):
            before = found.get(name)
            found[name] = (before if isinstance(before, dict) else {}) | value
        else:
            found[name] = value
    return found


def _of_file(document: Document) -> tuple[list[Plain], bool]:
    """Return the jobs of a file, and whether it is one job. Raises InputError with every fault of their form."""
    from optsched.server.asked import MAX_BATCH, JobAsked

    report = Report()
    scope = Scope(report, document)
    note_duplicates(scope)
    data = document.data
    rows: object = data
    single = not (isinstance(data, dict) and "jobs" in data)
    if isinstance(data, dict) and not single:
        rows = data["jobs"]
        for key in data:
            if key != "jobs":
                scope.fault("stands beside jobs", "the keys of one job, or jobs: a list of them, alone", str(key))
        if not isinstance(rows, list) or not 1 <= len(rows) <= MAX_BATCH:
            scope.fault("is no list of jobs", f"a list of 1 to {MAX_BATCH:,} jobs", "jobs")
            report.raise_faults()
    places: list[tuple[Scope, object]] = [(scope, rows)]
    if not single:
        assert isinstance(rows, list), "anything else was refused"
        places = [(scope.at("jobs", number), row) for number, row in enumerate(rows)]
    found: list[Plain] = []
    for place, row in places:
        if validate(place, JobAsked, row) is not None:
            assert isinstance(row, dict), "it was checked"
            found.append(_in_seconds(row, place))
    report.raise_faults()
    return found, single


def _in_seconds(job: Plain, place: Scope) -> Plain:
    """Return a job whose instants are numbers, as the contract has them."""
    at = job.get("start_deadline_at")
    if isinstance(at, str):
        try:
            return job | {"start_deadline_at": instant(at)}
        except argparse.ArgumentTypeError:
            place.fault(f"given {at!r}", "a date and time that exist", "start_deadline_at")
    return job
