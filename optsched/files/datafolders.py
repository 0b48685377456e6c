"""Where the data that optsched ships lies: profiles in models/, clusters in topologies/."""

from __future__ import annotations

from pathlib import Path

import optsched
from optsched.errors import InternalError

SUFFIXES = (".yaml", ".yml", ".json", ".yaml.gz", ".yml.gz", ".json.gz")


def data_folder(kind: str) -> Path:
    """Return the folder `kind` ("models", "topologies", "examples"): of an installed wheel, else the checkout's own.

    Raises InternalError where neither exists: the installation is broken.
    """
    package = Path(optsched.__file__).resolve().parent
    for folder in (package / "_data" / kind, package.parent / kind, package.parent / "service" / kind):
        if folder.is_dir():
            return folder
    raise InternalError(f"the data folder {kind!r} is neither in the package nor beside it")


def shipped_names(kind: str) -> tuple[str, ...]:
    """Return the names that can be used for files of `kind`, sorted."""
    names = {entry.name.split(".")[0] for entry in data_folder(kind).iterdir() if entry.name.endswith(SUFFIXES)}
    return tuple(sorted(names))


def shipped_file(kind: str, name: str) -> Path | None:
    """Return the file of `kind` that goes by `name`, or None."""
    if name not in shipped_names(kind):
        return None
    folder = data_folder(kind)
    return next((path for suffix in SUFFIXES if (path := folder / (name + suffix)).is_file()), None)


def looks_like_path(text: str) -> bool:
    """Whether a reference is a path (it has a folder or a known suffix) and not a bare name."""
    return "/" in text or "\\" in text or text.endswith(SUFFIXES)
