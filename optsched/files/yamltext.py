"""YAML text to plain data, by the YAML 1.2 core rules, with optional line marks.

Read from the parser's flat stream of events, so that nesting depth, duplicate keys and aliases are checked before
anything recurses or grows. Unlike YAML 1.1, `yes`, `on`, `4:00` and dates are text, and `010` is 10.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

MAX_DEPTH = 64
MAX_ALIASED = 1_000_000
"""Most values that aliases may repeat in all."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_SPECIAL_FIRST = frozenset("-+.0123456789tTfFnN~")
_MAX_DIGITS = 4000


@dataclass(slots=True)
class Mark:
    """The line of a value (of its key, inside a mapping) and the marks of what it holds."""

    line: int
    keys: dict[object, Mark] = field(default_factory=dict)
    items: list[Mark] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A key that a mapping has twice: the path of the value, and the line of the later key."""

    path: tuple[str | int, ...]
    line: int | None


class YamlProblem(Exception):
    """Text that is no usable YAML; line and column count from 1."""

    def __init__(self, wrong: str, allowed: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(wrong)
        self.wrong, self.allowed, self.line, self.column = wrong, allowed, line, column


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is still open."""

    value: list[Any] | dict[Any, Any]
    line: int
    anchor: str | None
    mark: Mark | None
    has_key: bool = False
    key: Any = None
    key_line: int = 0
    size: int = 1
    merges: list[tuple[Any, Mark | None]] = field(default_factory=list)


def resolve_scalar(text: str) -> object:
    """Return what a plain scalar means by the YAML 1.2 core schema."""
    if not text or text[0] not in _SPECIAL_FIRST:
        return text or None
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if len(text) <= _MAX_DIGITS:
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        if _BASED.fullmatch(text):
            return int(text, 0)
        if _NOT_FINITE.fullmatch(text):
            return float(text.replace(".", ""))
    return text


def parse_yaml(text: str, with_marks: bool = False) -> tuple[object, Mark | None, list[Duplicate]]:
    """Return the data of the one document in `text`, its marks where asked for, and its duplicate keys.

    Raises YamlProblem for a syntax error, more than MAX_DEPTH levels, an alias bomb, a second document or a tag.
    """
    builder = _Builder(with_marks)
    try:
        builder.run(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        wrong = " ".join(filter(None, (error.context, error.problem)))
        line, column = (None, None) if mark is None else (mark.line + 1, mark.column + 1)
        raise YamlProblem(f"not valid YAML: {wrong}", "YAML or JSON", line, column) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise YamlProblem(f"not valid YAML: {error.reason}", "printable text", line) from None
    return builder.root, builder.root_mark, builder.duplicates


class _Builder:
    def __init__(self, with_marks: bool) -> None:
        self.with_marks = with_marks
        self.root: object = None
        self.root_mark: Mark | None = None
        self.duplicates: list[Duplicate] = []
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[object, Mark | None, int]] = {}
        self.aliased = 0
        self.documents = 0

    def run(self, events: Iterator[Any]) -> None:
        """Fold the parser's events into data."""
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._open(event, {} if kind is yaml.MappingStartEvent else [])
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close()
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                self.documents += 1
                if self.documents > 1:
                    raise self._problem(event, "a second document starts here", "one document in a file")

    def _problem(self, event: Any, wrong: str, allowed: str) -> YamlProblem:
        return YamlProblem(wrong, allowed, event.start_mark.line + 1, event.start_mark.column + 1)

    def _scalar(self, event: Any) -> None:
        value: object = event.value
        if event.tag is not None:
            if event.tag not in ("tag:yaml.org,2002:str", "!"):
                raise self._problem(event, f"the tag {event.tag!r} is not supported", "values without tags")
        elif event.implicit[0]:
            value = resolve_scalar(event.value)
        line = event.start_mark.line + 1
        mark = Mark(line) if self.with_marks else None
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, mark, 1)
        if self.stack and not self.stack[-1].has_key and isinstance(self.stack[-1].value, dict):
            frame = self.stack[-1]
            frame.key, frame.has_key, frame.key_line = value, True, line
            if value == "<<" and event.implicit[0]:
                frame.key = _MERGE
            return
        self._add(value, mark, 1, line)

    def _open(self, event: Any, value: list[Any] | dict[Any, Any]) -> None:
        if event.tag not in (None, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise self._problem(event, f"the tag {event.tag!r} is not supported", "values without tags")
        if len(self.stack) >= MAX_DEPTH:
            raise self._problem(event, "nested too deep", f"at most {MAX_DEPTH} levels of lists and mappings")
        if self.stack and isinstance(self.stack[-1].value, dict) and not self.stack[-1].has_key:
            raise self._problem(event, "a list or a mapping stands where a key is expected", "text as a key")
        line = event.start_mark.line + 1
        self.stack.append(_Frame(value, line, event.anchor, Mark(line) if self.with_marks else None))

    def _close(self) -> None:
        frame = self.stack.pop()
        for merged, mark in frame.merges:
            for key, value in merged.items():
                if isinstance(frame.value, dict) and key not in frame.value:
                    frame.value[key] = value
                    if frame.mark is not None and mark is not None:
                        frame.mark.keys[key] = mark.keys[key]
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (frame.value, frame.mark, frame.size)
        self._add(frame.value, frame.mark, frame.size, frame.line)

    def _alias(self, event: Any) -> None:
        if self.stack and isinstance(self.stack[-1].value, dict) and not self.stack[-1].has_key:
            raise self._problem(event, f"the alias *{event.anchor} stands where a key is expected", "text as a key")
        if event.anchor not in self.anchors:
            raise self._problem(
                event, f"the alias *{event.anchor} names nothing that is complete above it", "an anchor given before"
            )
        value, mark, size = self.anchors[event.anchor]
        self.aliased += size
        if self.aliased > MAX_ALIASED:
            raise self._problem(event, "aliases repeat too much", f"at most {MAX_ALIASED:,} values through aliases")
        self._add(value, mark, size, event.start_mark.line + 1)

    def _add(self, value: object, mark: Mark | None, size: int, line: int) -> None:
        if not self.stack:
            self.root, self.root_mark = value, mark
            return
        frame = self.stack[-1]
        frame.size += size
        if isinstance(frame.value, list):
            frame.value.append(value)
            if frame.mark is not None and mark is not None:
                frame.mark.items.append(mark)
            return
        key, frame.has_key = frame.key, False
        if key is _MERGE:
            parts = value if isinstance(value, list) else [value]
            if not all(isinstance(part, dict) for part in parts):
                raise YamlProblem("'<<' merges something that is no mapping", "mappings after '<<'", line, 1)
            marks = mark.items if mark is not None and isinstance(value, list) else [mark] * len(parts)
            frame.merges.extend(zip(parts, marks, strict=True))
            return
        if key in frame.value:
            self.duplicates.append(Duplicate((*self._path(), key), frame.key_line))
        frame.value[key] = value
        if frame.mark is not None and mark is not None:
            frame.mark.keys[key] = Mark(frame.key_line, mark.keys, mark.items)

    def _path(self) -> tuple[str | int, ...]:
        above = self.stack[:-1]
        return tuple(frame.key if isinstance(frame.value, dict) else len(frame.value) for frame in above)


_MERGE = object()
"""Stands for the key `<<` while a mapping is open."""
