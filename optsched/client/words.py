"""Values of the contract's enums as the words that files and REST have for them."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from optsched.wire.convert import word_of
from optsched.wire.v1 import types_pb2

ENDED = (types_pb2.JOB_STATE_COMPLETED, types_pb2.JOB_STATE_FAILED, types_pb2.JOB_STATE_CANCELLED)
"""States of a job that it does not leave."""


def word(message: Message, field: str = "state") -> str:
    """Return the word for an enum's value in a message, as in "queued" or "up"."""
    enum: Any = message.DESCRIPTOR.fields_by_name[field].enum_type
    assert enum is not None, "the field is an enum"
    return word_of(enum, getattr(message, field))
