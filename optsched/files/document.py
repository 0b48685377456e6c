"""One input: its data, its name, and where in the text each value stands."""

from __future__ import annotations

import os
import re
from pathlib import Path

from optsched.errors import Fault, InputError
from optsched.files.jsontext import JsonProblem, parse_json
from optsched.files.reading import MAX_BYTES, read_text, refuse
from optsched.files.yamltext import Duplicate, Mark, YamlProblem, parse_yaml

MAX_YAML_BYTES = 64 * 1024 * 1024
"""Longest YAML text; a larger input must be JSON, which is read much faster."""

_MARKED_JSON = 4 * 1024 * 1024
"""JSON longer than this gets no line numbers (its fields are named by path all the same)."""

_JSON_START = re.compile(r'\s*(?:\{\s*["}]|\[)')

PathOf = tuple[str | int, ...]
"""Keys and indices from the top of a document to a value."""


class Document:
    """Parsed input. `folder` is where relative references start; None: the input may name no files of its own."""

    def __init__(
        self,
        data: object,
        file: str,
        text: str | None = None,
        folder: Path | None = None,
        duplicates: tuple[Duplicate, ...] = (),
    ) -> None:
        self.data = data
        self.file = file
        self.folder = folder
        self.duplicates = duplicates
        self._text = text
        self._marks: Mark | None = None

    def line_of(self, path: PathOf) -> int | None:
        """Return the line of the value (in a mapping: of the key) at `path`, or of what would hold it, if known."""
        if self._text is not None:
            text, self._text = self._text, None
            try:
                self._marks = parse_yaml(text, with_marks=True)[1]
            except YamlProblem:
                self._marks = None
        mark = self._marks
        if mark is None:
            return None
        for part in path:
            if isinstance(part, int) and not mark.keys:
                if part >= len(mark.items):
                    break
                mark = mark.items[part]
            elif part in mark.keys:
                mark = mark.keys[part]
            else:
                break
        return mark.line


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read and parse a YAML or JSON file, gzipped or not ("-": standard input).

    Raises InputError with one fault where there is no data to speak of.
    """
    text, file = read_text(path)
    folder = Path.cwd() if file == "stdin" else Path(path).parent
    return parse_document(text, file, folder)


def parse_document(text: str, file: str, folder: Path | None) -> Document:
    """Parse the text of a document; raises InputError with one fault for a syntax error."""
    if not text.strip():
        raise refuse(file, "the file is empty", "a mapping of the keys of a snapshot")
    if _JSON_START.match(text):
        try:
            data, found = parse_json(text)
        except JsonProblem as error:
            return _yaml_after_all(text, file, folder, error)
        return Document(data, file, text if len(text) <= _MARKED_JSON else None, folder, tuple(found))
    if len(text) > MAX_YAML_BYTES:
        limits = f"at most {MAX_YAML_BYTES // 1024**2} MB of YAML, or {MAX_BYTES // 1024**2} MB of JSON"
        raise refuse(file, "too large for YAML", limits)
    try:
        data, _, found = parse_yaml(text)
    except YamlProblem as error:
        raise _syntax(file, error) from None
    return Document(data, file, text, folder, tuple(found))


def _yaml_after_all(text: str, file: str, folder: Path | None, problem: JsonProblem) -> Document:
    """Read what began like JSON as YAML (a flow mapping, comments); where that fails too, it was bad JSON."""
    if len(text) <= _MARKED_JSON and problem.line is not None:
        try:
            data, _, found = parse_yaml(text)
        except YamlProblem:
            pass
        else:
            return Document(data, file, text, folder, tuple(found))
    raise _syntax(file, problem) from None


def _syntax(file: str, problem: JsonProblem | YamlProblem) -> InputError:
    where = "(syntax)" if problem.column is None else f"column {problem.column}"
    return InputError([Fault(file, problem.line, where, problem.wrong, problem.allowed)])
