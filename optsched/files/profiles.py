"""Profiles: by name from models/, by path, or as a mapping over a base."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from optsched.errors import InputError
from optsched.files.datafolders import looks_like_path, shipped_file, shipped_names
from optsched.files.document import Document, read_document
from optsched.files.report import Report, Scope, known, show
from optsched.files.schema_profile import ProfileIn
from optsched.files.validate import validate
from optsched.values.ids import LevelName
from optsched.values.profile import PreemptTokens, PriorityMode, Profile, Reclaim

DEFAULT = "default"
MAX_BASES = 8
"""Longest chain of profiles over profiles."""


def load_profile(source: str | os.PathLike[str] | Mapping[str, object]) -> Profile:
    """Return the profile that a name in models/, a path or a mapping describes.

    A key that is given replaces the whole value of the base, mappings too. Raises InputError with all faults.
    """
    report = Report()
    given = dict(source) if isinstance(source, Mapping) else os.fspath(source)
    profile = resolve_profile(given, Scope(report, Document(given, "profile", folder=Path.cwd())))
    report.raise_faults()
    assert profile is not None, "no profile without a fault"
    return profile


def resolve_profile(given: object, scope: Scope, above: tuple[str, ...] = ()) -> Profile | None:
    """Return the profile that a file's `profile:` or `base:` describes; None where a fault was noted.

    `above` holds the files that are being read, to catch a profile that is its own base.
    """
    if isinstance(given, str):
        return _named(given, scope, above)
    if not isinstance(given, dict):
        scope.fault(f"given {show(given)}", "the name or path of a profile, or a mapping over a base")
        return None
    return _over_base(given, scope, above)


def _named(name: str, scope: Scope, above: tuple[str, ...]) -> Profile | None:
    path = find_file("models", name, scope, "profile")
    if path is None:
        return None
    file = str(path)
    if file in above or len(above) >= MAX_BASES:
        chain = " -> ".join(Path(part).name for part in (*above, file))
        scope.fault(
            f"the bases never end: {chain}", f"a chain of at most {MAX_BASES} bases that ends in a profile without one"
        )
        return None
    if (document := read_other(path, scope)) is None:
        return None
    inner = Scope(scope.report, document)
    note_duplicates(inner)
    if not isinstance(document.data, dict):
        inner.fault(f"given {show(document.data)}", "a mapping of the keys of a profile")
        return None
    data = document.data
    if path == shipped_file("models", DEFAULT):
        profile = _apply(Profile(), data, inner)
    else:
        profile = _over_base(data, inner, (*above, file))
    return profile if profile is None or "name" in data else replace(profile, name=path.name.split(".")[0])


def _over_base(data: dict[str, object], scope: Scope, above: tuple[str, ...]) -> Profile | None:
    base = resolve_profile(data.get("base", DEFAULT), scope.at("base"), above)
    return _apply(base if base is not None else Profile(), data, scope)


def find_file(kind: str, name: str, scope: Scope, what: str) -> Path | None:
    """Return the file that a name or path in `scope` means; None where a fault was noted."""
    if not looks_like_path(name):
        if (path := shipped_file(kind, name)) is None:
            scope.fault(
                f"there is no {what} named {show(name)}",
                known(shipped_names(kind), name, f"known {what}s") + ", or a path",
            )
        return path
    folder = scope.document.folder
    if folder is None:
        scope.fault(f"given the path {show(name)}", known(shipped_names(kind), None, "a name; known"))
        return None
    for path in (folder / name, Path(name)):
        if path.is_file():
            return path
    scope.fault(
        f"there is no file {show(name)}", "the path of a file, seen from this one or from the working directory"
    )
    return None


def read_other(path: Path, scope: Scope) -> Document | None:
    """Read a file that another one names; None where a fault was noted."""
    try:
        return read_document(path)
    except InputError as error:
        scope.report.add_ready(error.faults)
        return None


def note_duplicates(scope: Scope) -> None:
    """Note a fault for each key that a mapping of the document has twice."""
    for duplicate in scope.document.duplicates:
        scope.fault("the key is given twice in one mapping", "each key once", *duplicate.path)


def _apply(base: Profile, data: dict[str, object], scope: Scope) -> Profile | None:
    """Return `base` with what `data` gives."""
    before = scope.report.count
    read = validate(scope, ProfileIn, data)
    if read is None:
        return None
    given: dict[str, object] = {
        key: getattr(read, key) for key in read.model_fields_set if key not in ("base", "about", "source")
    }
    if read.priority_mode is not None:
        given["priority_mode"] = PriorityMode(read.priority_mode)
    if read.reclaim is not None:
        given["reclaim"] = Reclaim(read.reclaim)
    if read.preempt_tokens is not None:
        given["preempt_tokens"] = PreemptTokens(per_h=read.preempt_tokens.per_h, burst=read.preempt_tokens.burst)
    if read.speed is not None:
        given["speed"] = {LevelName(level): speed for level, speed in read.speed.items()}
    for key in ("emergency_classes", "deadline_classes"):
        if key in given:
            given[key] = tuple(getattr(read, key))
    if read.classes is not None and read.weights is None:
        given["weights"] = {name: weight for name, weight in base.weights.items() if name in read.classes}
    profile: Profile = replace(base, **given)  # type: ignore[arg-type]
    _check_classes(profile, read, scope)
    return profile if scope.report.count == before else None


def _check_classes(profile: Profile, read: ProfileIn, scope: Scope) -> None:
    for key, names in (
        ("weights", profile.weights if read.weights is not None else ()),
        ("emergency_classes", profile.emergency_classes),
        ("deadline_classes", profile.deadline_classes),
    ):
        for name in names:
            if name not in profile.classes:
                scope.fault(f"{show(name)} is no class", known(list(profile.classes), name, "known classes"), key)
    if profile.grace_period_s > profile.max_grace_period_s:
        scope.fault(
            f"{profile.grace_period_s:g} s is longer than max_grace_period_s",
            f"at most {profile.max_grace_period_s:g} s",
            "grace_period_s",
        )
