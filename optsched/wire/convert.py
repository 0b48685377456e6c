"""Messages of the contract to plain data in the schema of files and REST, and back.

Both have the same names, so one walk over a message's description does it. What differs is said once, by message, in
`_OUT` and `_IN`: a choice of two fields that is one key in files, a placement that is a mapping there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from optsched.errors import InternalError
from optsched.wire import shapes

M = TypeVar("M", bound=Message)
Plain = dict[str, object]

_OUT: Mapping[str, Callable[[Plain], Plain]] = shapes.TO_MESSAGE
_IN: Mapping[str, Callable[[Plain], Plain]] = shapes.FROM_MESSAGE


def to_message(kind: type[M], plain: Mapping[str, object]) -> M:
    """Return plain data as a message. Raises InternalError for a key that the message does not have."""
    message = kind()
    _fill(message, plain)
    return message


def to_plain(message: Message, *, whole: bool = False) -> Plain:
    """Return a message as plain data: only what is present; enums as their words, UNSPECIFIED as absent.

    `whole`: numbers, words and lists that cannot be told from absent ones too, so that readers find every such key.
    """
    found: Plain = {}
    for each in message.DESCRIPTOR.fields if whole else ():
        field = cast("FieldDescriptor", each)
        if field.is_repeated and not _is_map(field):
            found[field.name] = []
        elif not field.has_presence and not field.is_repeated and field.enum_type is None:
            found[field.name] = field.default_value
    for field, value in message.ListFields():
        found[field.name] = _plain_field(field, value, whole)
    change = _IN.get(message.DESCRIPTOR.name)
    return found if change is None else change(found)


def word_of(enum: EnumDescriptor, number: int) -> str:
    """Return the word for an enum's value: JOB_STATE_QUEUED is queued; a number that nobody knows is itself."""
    value = enum.values_by_number.get(number)
    return str(number) if value is None else value.name.removeprefix(_prefix(enum)).lower()


def _prefix(enum: EnumDescriptor) -> str:
    return enum.values_by_number[0].name.removesuffix("UNSPECIFIED")


def _plain_field(field: FieldDescriptor, value: object, whole: bool) -> object:
    if _is_map(field):
        assert isinstance(value, Mapping)
        of_value = _value_of(field)
        return {key: _plain_one(of_value, each, whole) for key, each in value.items()}
    if field.is_repeated:
        return [_plain_one(field, each, whole) for each in value]  # type: ignore[attr-defined]
    return _plain_one(field, value, whole)


def _plain_one(field: FieldDescriptor, value: object, whole: bool) -> object:
    if isinstance(value, Message):
        return to_plain(value, whole=whole)
    if field.enum_type is not None:
        assert isinstance(value, int)
        return word_of(field.enum_type, value)
    return value


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _value_of(field: FieldDescriptor) -> FieldDescriptor:
    """Return what the values of a map are."""
    assert field.message_type is not None, "a map is of messages"
    return field.message_type.fields_by_name["value"]


def _fill(message: Message, plain: Mapping[str, object]) -> None:
    change = _OUT.get(message.DESCRIPTOR.name)
    for key, value in (plain if change is None else change(dict(plain))).items():
        field = message.DESCRIPTOR.fields_by_name.get(key)
        if field is None:
            raise InternalError(f"{message.DESCRIPTOR.name} has no field {key}")
        if value is not None:
            _set(message, cast("FieldDescriptor", field), value)


def _set(message: Message, field: FieldDescriptor, value: object) -> None:
    inside: Any = getattr(message, field.name) if field.is_repeated or field.message_type is not None else None
    if _is_map(field):
        assert isinstance(value, Mapping)
        inside.update({key: _number(_value_of(field), each) for key, each in value.items()})
    elif field.is_repeated:
        assert isinstance(value, list | tuple)
        for each in value:
            if field.message_type is not None:
                _fill(inside.add(), each)
            else:
                inside.append(_number(field, each))
    elif field.message_type is not None:
        assert isinstance(value, Mapping)
        inside.SetInParent()
        _fill(inside, value)
    else:
        setattr(message, field.name, _number(field, value))


def _number(field: FieldDescriptor, value: object) -> object:
    """Return a value as its field takes it: enums by their words, whole floats where a whole number is wanted."""
    if field.enum_type is not None and isinstance(value, str):
        found = field.enum_type.values_by_name.get(_prefix(field.enum_type) + value.upper())
        if found is None:
            raise InternalError(f"{field.enum_type.name} has no value {value}")
        return found.number
    return value
