"""All that is wrong with an input, gathered first and told at once, in the order of the file."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from optsched.errors import Fault, InputError
from optsched.files.document import Document, PathOf

MAX_FAULTS = 200
"""Faults that are told; the rest is counted."""

MAX_WARNINGS_OF_A_KIND = 5
_MAX_KEPT = 5000
_SHOWN = 80


def show(value: object) -> str:
    """Return a given value in at most 80 characters, with nothing in it that a terminal would act on."""
    if isinstance(value, dict):
        return f"a mapping of {len(value)} keys"
    if isinstance(value, list | tuple | set | frozenset):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        text = "'" + value[: _SHOWN + 1] + "'"
    elif value is None or isinstance(value, bool | float):
        text = json.dumps(value)
    elif isinstance(value, int):
        text = str(value) if value.bit_length() < 4096 else "a number of more than 1,000 digits"
    else:
        text = type(value).__name__
    return cut(text)


def cut(text: str) -> str:
    """Return `text` with unprintable characters escaped, in at most 80 characters."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: _SHOWN + 2])
    return text if len(text) <= _SHOWN else text[: _SHOWN - 4] + "..." + ("'" if text[0] == "'" else "")


def listed(names: Iterable[object], most: int = 12) -> str:
    """Return names as a short list, in the order given."""
    all_names = [cut(str(name)) for name in names]
    more = f" and {len(all_names) - most} more" if len(all_names) > most else ""
    return ", ".join(all_names[:most]) + more if all_names else "(none)"


def known(names: Collection[str], given: object = None, what: str = "known", most: int = 12) -> str:
    """Return what is allowed where one of `names` is: a near miss first, then at most `most` of them."""
    near: list[str] = []
    if isinstance(given, str) and len(names) <= 2000 and len(given) <= 300:
        lower = {name.lower(): name for name in reversed(list(names))}
        near = [lower[hit] for hit in difflib.get_close_matches(given.lower(), lower, n=1, cutoff=0.6)]
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"{hint}{what}: {listed(names, most)}"


@dataclass(frozen=True, slots=True)
class _Raw:
    document: Document
    path: PathOf
    wrong: str
    allowed: str


@dataclass(slots=True)
class Report:
    """Faults and warnings of one load, over all files that it reads."""

    count: int = 0
    _raw: list[_Raw] = field(default_factory=list)
    _documents: list[Document] = field(default_factory=list)
    _warnings: dict[str, list[str]] = field(default_factory=dict)
    _ready: list[Fault] = field(default_factory=list)
    _touched: set[tuple[int, PathOf]] = field(default_factory=set)

    def has(self, document: Document, path: PathOf) -> bool:
        """Whether a fault of the value at `path`, or of something in it, was noted."""
        return (id(document), path) in self._touched

    def add(self, document: Document, path: PathOf, wrong: str, allowed: str) -> None:
        """Note a fault of the value at `path`."""
        self.count += 1
        if len(self._raw) < _MAX_KEPT:
            self._raw.append(_Raw(document, path, wrong, allowed))
            self._touched.update((id(document), path[:depth]) for depth in range(len(path) + 1))
            if document not in self._documents:
                self._documents.append(document)

    def add_ready(self, faults: Iterable[Fault]) -> None:
        """Note faults that another file's own load has found."""
        for fault in faults:
            self.count += 1
            self._ready.append(fault)

    def warn(self, kind: str, text: str) -> None:
        """Note a warning; beyond five of one `kind` (a plural noun) they are counted."""
        self._warnings.setdefault(kind, []).append(text)

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings, a line each."""
        lines: list[str] = []
        for kind, texts in self._warnings.items():
            lines += texts[:MAX_WARNINGS_OF_A_KIND]
            if len(texts) > MAX_WARNINGS_OF_A_KIND:
                lines.append(f"... and {len(texts) - MAX_WARNINGS_OF_A_KIND} more: {kind}")
        return tuple(lines)

    def raise_faults(self) -> None:
        """Raise InputError where any fault was noted; beyond 200 they are counted."""
        if not self.count:
            return
        lines = {id(raw): raw.document.line_of(raw.path) for raw in self._raw}
        ordered = sorted(
            self._raw,
            key=lambda raw: (self._documents.index(raw.document), lines[id(raw)] or 0, _position(raw)),
        )
        faults = [
            Fault(
                raw.document.file,
                lines[id(raw)],
                field_name(raw.document.data, raw.path),
                raw.wrong,
                raw.allowed,
            )
            for raw in ordered[:MAX_FAULTS]
        ]
        faults = (faults + self._ready)[:MAX_FAULTS]
        if self.count > len(faults):
            left = f"{self.count - len(faults)} more faults are not listed"
            faults.append(Fault(faults[0].file, None, "(more)", left, "mend those above first"))
        raise InputError(faults)


@dataclass(frozen=True, slots=True)
class Scope:
    """A place in a document, at which faults are noted."""

    report: Report
    document: Document
    path: PathOf = ()

    def at(self, *parts: str | int) -> Scope:
        """Return the place further down."""
        return Scope(self.report, self.document, (*self.path, *parts))

    def fault(self, wrong: str, allowed: str, *parts: str | int) -> None:
        """Note a fault here, or further down."""
        self.report.add(self.document, (*self.path, *parts), wrong, allowed)

    @property
    def name(self) -> str:
        """This place as a user would write it."""
        return field_name(self.document.data, self.path)


def field_name(data: object, path: PathOf) -> str:
    """Return a path as text, with the id of each list entry that has one: `jobs[3] (pretrain-7).gpus`."""
    text = ""
    for part in path:
        if isinstance(part, int) and isinstance(data, list):
            text += f"[{part}]"
            data = data[part] if part < len(data) else None
            name = data.get("id") if isinstance(data, dict) else None
            if isinstance(name, str) and name:
                text += f" ({cut(name)})"
        else:
            text += ("." if text else "") + cut(str(part))
            data = data.get(part) if isinstance(data, dict) else None
    return text or "(top level)"


def _position(raw: _Raw) -> tuple[int, ...]:
    """Return where in the document a path stands, for sorting."""
    data, position = raw.document.data, []
    for part in raw.path:
        if isinstance(data, dict):
            keys = list(data)
            position.append(keys.index(part) if part in data else len(keys))
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int):
            position.append(part)
            data = data[part] if part < len(data) else None
        else:
            break
    return tuple(position)
