"""The rounds that placements are judged on: those that are shipped, and any snapshot's file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath

from optsched.errors import UsageError
from optsched.files import load_snapshot
from optsched.files.datafolders import looks_like_path
from optsched.files.document import read_document
from optsched.files.report import known, show
from optsched.rounds.build import build_problem
from optsched.rounds.problem import Problem
from optsched.values.snapshot import Snapshot

SUFFIX = ".json"
TABLE = "best-known.json"
"""The table of best known values, beside the rounds."""


@dataclass(frozen=True)
class Round:
    """A round by its name; `hard` and `good` say what makes it hard and what a good plan does, "" where nothing does.

    `digest` is of the snapshot's content: what the table knows of a round holds for this very content.
    """

    name: str
    hard: str
    good: str
    digest: str
    snapshot: Snapshot

    @cached_property
    def problem(self) -> Problem:
        """The round as the rules see it: what operators reserve binds, what an engine would keep for later does not."""
        return build_problem(self.snapshot)


def folder() -> Traversable:
    """Return the folder of the shipped rounds."""
    return resources.files("optsched").joinpath("examples").joinpath("quality")


def round_names() -> tuple[str, ...]:
    """Return the names of the shipped rounds, sorted."""
    files = (entry.name for entry in folder().iterdir())
    return tuple(sorted(name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX) and name != TABLE))


def export(names: Sequence[str], to: Path) -> tuple[Path, ...]:
    """Write shipped rounds as files into a folder that exists, and return them. Raises OSError."""
    written = []
    for name in names:
        file = to / (name + SUFFIX)
        file.write_bytes(folder().joinpath(name + SUFFIX).read_bytes())
        written.append(file)
    return tuple(written)


def load_round(name: str) -> Round:
    """Return a shipped round by its name, or that of a snapshot's file.

    Raises UsageError for a name that nobody knows, InputError for a file with faults.
    """
    if name in round_names():
        with resources.as_file(folder().joinpath(name + SUFFIX)) as path:
            return _read(path, name)
    if not looks_like_path(name) and not Path(name).exists():
        allowed = known(list(round_names()), name, "a snapshot's file, or one of", 40)
        raise UsageError(f"--round: given {show(name)}; allowed: {allowed}")
    return _read(Path(name), PurePath(name).name.split(".")[0])


def _read(path: Path, name: str) -> Round:
    snapshot, _ = load_snapshot(path)
    data = read_document(path).data
    assert isinstance(data, dict), "a snapshot is a mapping"
    about = data.get("about")
    told: Mapping[str, object] = about if isinstance(about, dict) else {}
    return Round(name, str(told.get("hard", "")), str(told.get("good", "")), digest(data), snapshot)


def digest(data: Mapping[str, object]) -> str:
    """Return what stands for the content of a snapshot, its notes left out: 16 hexadecimal digits."""
    content = {key: value for key, value in data.items() if key != "about"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
