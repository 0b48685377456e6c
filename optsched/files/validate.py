"""Data against a model of the schema; what pydantic finds becomes faults with a path and plain words."""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from optsched.files.document import PathOf
from optsched.files.report import Scope, known, show

M = TypeVar("M", bound=BaseModel)

_NOWHERE = object()


def validate(scope: Scope, model: type[M], data: object) -> M | None:
    """Return `data` as a `model`; None where it is not, with every fault noted at `scope`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        _note(scope, model, data, error, in_list=False)
        return None


def validate_list(scope: Scope, model: type[M], data: object) -> list[tuple[int, M]]:
    """Return the entries of the list `data` that are right, with their indices; faults of the others are noted."""
    if data is None:
        return []
    if not isinstance(data, list):
        scope.fault(f"given {show(data)}", "a list")
        return []
    try:
        return list(enumerate(_list_adapter(model).validate_python(data)))
    except ValidationError as error:
        bad = _note(scope, model, data, error, in_list=True)
        right = [(index, entry) for index, entry in enumerate(data) if index not in bad]
        return [(index, model.model_validate(entry)) for index, entry in right]


def ids_of(data: object) -> set[str]:
    """Return the ids of the entries of a list, right or wrong, so that one fault does not breed others."""
    entries: Iterable[object] = data if isinstance(data, list) else ()
    found = (entry.get("id") for entry in entries if isinstance(entry, dict))
    return {name for name in found if isinstance(name, str)}


@functools.cache
def _list_adapter(model: type[BaseModel]) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[model])  # type: ignore[valid-type]


def _note(scope: Scope, model: type[BaseModel], data: object, error: ValidationError, in_list: bool) -> set[int]:
    """Note the errors and return the indices of the wrong entries.

    A union reports an error per member: of those of one value one is told, the innermost.
    """
    bad: set[int] = set()
    found: dict[PathOf, ErrorDetails] = {}
    for item in error.errors(include_url=False, include_context=False):
        if in_list:
            bad.add(int(item["loc"][0]))
        found.setdefault(_path(data, item["loc"], item["type"]), item)
    above = {path[:depth] for path in found for depth in range(len(path))}
    for path, item in found.items():
        if path not in above:
            field, owner = _describe(model, item["loc"][1:] if in_list else item["loc"])
            scope.fault(*_words(item["type"], path, field, owner, item.get("input")), *path)
    return bad


def _words(kind: str, path: PathOf, field: str, owner: type[BaseModel], given: object) -> tuple[str, str]:
    if kind == "missing":
        return "is missing", field
    if kind in ("extra_forbidden", "invalid_key"):
        return f"unknown key {show(path[-1])}", known(_keys(owner), path[-1], "known keys", 50)
    if kind in ("model_type", "model_attributes_type", "dict_type") and not field:
        return f"given {show(given)}", f"a mapping; {known(_keys(owner), None, 'known keys', 50)}"
    if given is None:
        return "given null", f"{field} (leave the key out instead of null)" if "null" not in field else field
    return f"given {show(given)}", field


def _keys(model: type[BaseModel]) -> list[str]:
    """Return the keys of a model as a user writes them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _path(data: object, loc: tuple[int | str, ...], kind: str) -> PathOf:
    """Follow a pydantic location in the data; what leads nowhere there (names of union members) is passed over."""
    path: list[int | str] = []
    for part in loc:
        inside = data.get(part, _NOWHERE) if isinstance(data, dict) else _NOWHERE
        if isinstance(data, list) and isinstance(part, int) and part < len(data):
            inside = data[part]
        if inside is not _NOWHERE:
            path.append(part)
            data = inside
    if kind == "missing" or (kind == "invalid_key" and data is not None and len(path) < len(loc)):
        path.append(loc[-1])
    return tuple(path)


def _describe(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, type[BaseModel]]:
    """Return what is allowed in the innermost field on the way, and the model that it belongs to."""
    text = ""
    inside: type[BaseModel] | None = model
    for part in loc:
        field = inside.model_fields.get(part) if inside is not None and isinstance(part, str) else None
        if field is None:
            continue
        text = field.description or ""
        inside = _model_in(field.annotation)
        model = inside or model
    return text, model


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in typing.get_args(annotation):
        if (found := _model_in(argument)) is not None:
            return found
    return None
