"""Messages of the contract to plain data in the schema of files and REST, and back.

Both have the same names, so one walk over a message's description does it. What differs is said once, by message, in
`_OUT` and `_IN`: a choice of two fields that is one key in files, a placement that is a mapping there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from optsched.errors import InternalError
from optsched.wire import shapes

M = TypeVar("M", bound=Message)
T = TypeVar("T")
Plain = dict[str, object]

_OUT: Mapping[str, Callable[[Plain], Plain]] = shapes.TO_MESSAGE
_IN: Mapping[str, Callable[[Plain], Plain]] = shapes.FROM_MESSAGE

_Read = Callable[[Any, bool], object]
"""Returns a field's value as plain data."""

_Write = Callable[[Message, Any], None]
"""Sets a field of a message to what plain data has."""


def to_message(kind: type[M], plain: Mapping[str, object]) -> M:
    """Return plain data as a message. Raises InternalError for a key that the message does not have."""
    message = kind()
    _fill(message, plain)
    return message


def to_plain(message: Message, *, whole: bool = False) -> Plain:
    """Return a message as plain data: only what is present; enums as their words, UNSPECIFIED as absent.

    `whole`: numbers, words and lists that cannot be told from absent ones too, so that readers find every such key.
    """
    return _plain(message, whole)


def word_of(enum: EnumDescriptor, number: int) -> str:
    """Return the word for an enum's value: JOB_STATE_QUEUED is queued; a number that nobody knows is itself."""
    return _words(enum).get(number) or str(number)


@functools.cache
def _words(enum: EnumDescriptor) -> Mapping[int, str]:
    """Return the words of an enum by their numbers."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {number: value.name.removeprefix(prefix).lower() for number, value in enum.values_by_number.items()}


@functools.cache
def _numbers(enum: EnumDescriptor) -> Mapping[str, int]:
    """Return the numbers of an enum by their words."""
    return {word: number for number, word in _words(enum).items()}


def _fields(kind: type[Message]) -> list[FieldDescriptor]:
    return [cast("FieldDescriptor", each) for each in kind.DESCRIPTOR.fields]


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _value_of(field: FieldDescriptor) -> FieldDescriptor:
    """Return what the values of a map are."""
    assert field.message_type is not None, "a map is of messages"
    return field.message_type.fields_by_name["value"]


# Messages to plain data


class _Reader:
    """How a kind of message is read; worked out once, since to ask descriptors takes longer than to read."""

    def __init__(self, kind: type[Message]) -> None:
        self.change = _IN.get(kind.DESCRIPTOR.name)
        self.reads = {field.name: _read_field(field) for field in _fields(kind)}
        self.lists = [field.name for field in _fields(kind) if field.is_repeated and not _is_map(field)]
        self.defaults = {
            field.name: field.default_value
            for field in _fields(kind)
            if not field.has_presence and not field.is_repeated and field.enum_type is None
        }


_reader = functools.cache(_Reader)


def _plain(message: Message, whole: bool) -> Plain:
    reader = _reader(type(message))  # type: ignore[arg-type]
    found: Plain = {name: [] for name in reader.lists} | reader.defaults if whole else {}
    reads = reader.reads
    for field, value in message.ListFields():
        name = field.name
        read = reads[name]
        found[name] = value if read is None else read(value, whole)
    return found if reader.change is None else reader.change(found)


def _read_field(field: FieldDescriptor) -> _Read | None:
    """Return what reads a field; None for one that is plain data as it is."""
    if _is_map(field):
        of_value = _read_one(_value_of(field))
        if of_value is None:
            return lambda value, whole: dict(value)
        return lambda value, whole: {key: of_value(each, whole) for key, each in value.items()}
    one = _read_one(field)
    if field.is_repeated:
        return (
            (lambda value, whole: list(value)) if one is None else lambda value, whole: [one(v, whole) for v in value]
        )
    return one


def _read_one(field: FieldDescriptor) -> _Read | None:
    if field.enum_type is not None:
        enum = field.enum_type
        return lambda value, whole: word_of(enum, value)
    return None if field.message_type is None else _plain


# Plain data to messages


class _Writer:
    """How a kind of message is filled; worked out once."""

    def __init__(self, kind: type[Message]) -> None:
        self.change = _OUT.get(kind.DESCRIPTOR.name)
        self.writes = {field.name: _write_field(field) for field in _fields(kind)}


_writer = functools.cache(_Writer)


def _fill(message: Message, plain: Mapping[str, object]) -> None:
    writer = _writer(type(message))  # type: ignore[arg-type]
    for key, value in (plain if writer.change is None else writer.change(dict(plain))).items():
        write = writer.writes.get(key)
        if write is None:
            raise InternalError(f"{message.DESCRIPTOR.name} has no field {key}")
        if value is not None:
            write(message, value)


def _write_field(field: FieldDescriptor) -> _Write:
    name = field.name
    if _is_map(field):
        number = _write_one(_value_of(field))
        return lambda message, value: getattr(message, name).update({key: number(each) for key, each in value.items()})
    if field.message_type is None:
        number = _write_one(field)
        if field.is_repeated:
            return lambda message, value: getattr(message, name).extend([number(each) for each in _listed(value)])
        return lambda message, value: setattr(message, name, number(value))
    return _write_messages(name) if field.is_repeated else _write_message(name)


def _write_message(name: str) -> _Write:
    def write(message: Message, value: Mapping[str, object]) -> None:
        inside = getattr(message, name)
        inside.SetInParent()
        _fill(inside, value)

    return write


def _write_messages(name: str) -> _Write:
    def write(message: Message, value: list[Mapping[str, object]]) -> None:
        inside = getattr(message, name)
        for each in _listed(value):
            _fill(inside.add(), each)

    return write


def _listed(value: T) -> T:
    """Return a list as it is: a text is none, though one can go through it."""
    assert isinstance(value, list | tuple)
    return value


def _write_one(field: FieldDescriptor) -> Callable[[object], Any]:
    """Return what gives a value as its field takes it: enums by their words."""
    if field.enum_type is None:
        return lambda value: value
    enum = field.enum_type

    def number(value: object) -> object:
        if not isinstance(value, str):
            return value
        found = _numbers(enum).get(value.lower())
        if found is None:
            raise InternalError(f"{enum.name} has no value {value}")
        return found

    return number
