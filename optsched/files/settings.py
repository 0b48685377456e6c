"""What a program that keeps running is set to.

Each key comes from its flag, else from the environment, else from a file, else it has its default. A key `grpc_listen`
is `--grpc-listen` as a flag, the prefix and GRPC_LISTEN in the environment, and `grpc_listen:` in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel

from optsched.errors import InputError
from optsched.files.document import Document, read_document
from optsched.files.profiles import note_duplicates
from optsched.files.report import Report, Scope
from optsched.files.validate import validate

M = TypeVar("M", bound=BaseModel)


def flag_of(key: str) -> str:
    """Return a key's flag."""
    return "--" + key.replace("_", "-")


def load(model: type[M], prefix: str, flags: Mapping[str, str], environment: Mapping[str, str], path: str | None) -> M:
    """Return the settings; `path` is the file, or else what PREFIX_CONFIG names.

    Raises InputError with all faults, each at the flag, variable or line that it comes from.
    """
    report = Report()
    merged: dict[str, object] = {}
    file = path or environment.get(prefix + "CONFIG")
    if file:
        document = read_document(file)
        inner = Scope(report, document)
        note_duplicates(inner)
        if validate(inner, model, document.data) is not None and isinstance(document.data, dict):
            merged |= document.data
    names = {key: prefix + key.upper() for key in model.model_fields}
    variables = {key: environment[name] for key, name in names.items() if name in environment}
    sources = (("environment", variables, names.__getitem__), ("command line", flags, flag_of))
    for source, given, named in sources:
        plain = {key: _typed(model, key, text) for key, text in given.items()}
        for key, value in plain.items():
            _check(model, key, value, Scope(report, Document({named(key): value}, source)), named(key))
        merged |= plain
    report.raise_faults()
    return model.model_validate(merged)


def _typed(model: type[BaseModel], key: str, text: str) -> object:
    """Return the text of a flag or variable as its key's type wants it; as it is where it is no such thing."""
    wanted = _kinds(model.model_fields[key].annotation)
    if bool in wanted and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        if kind in wanted:
            try:
                return kind(text)
            except ValueError:
                continue
    return text


def _kinds(annotation: Any) -> set[object]:
    if get_origin(annotation) is None:
        return {annotation}
    return set().union(*(_kinds(each) for each in get_args(annotation)))


def _check(model: type[BaseModel], key: str, value: object, scope: Scope, shown: str) -> None:
    inner = Report()
    validate(Scope(inner, Document({key: value}, "")), model, {key: value})
    try:
        inner.raise_faults()
    except InputError as error:
        for fault in error.faults:
            scope.fault(fault.wrong, fault.allowed, shown)
