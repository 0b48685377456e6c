"""Errors as what a caller sees: a gRPC status with details, or an HTTP status with a JSON body.

One table serves both: an exception has a code, and the code its HTTP number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status

from optsched.errors import (
    Away,
    Busy,
    Conflict,
    Fault,
    InputError,
    NoAnswer,
    NotAllowed,
    NotKept,
    NotKnown,
    NotLeading,
    NotNamed,
    NotServed,
    OptschedError,
    Outdated,
    StoreError,
    StoreFull,
    Taken,
    TooSlow,
    UsageError,
)

_ID = re.compile(r" \([^()]*\)")
"""The id of a list's entry, which files show beside its index."""

DETAILS_KEY = "grpc-status-details-bin"
"""Where a status travels with its details."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One field that is wrong, and how."""

    field: str
    wrong: str
    allowed: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a caller is told instead of what it asked for."""

    code: grpc.StatusCode
    message: str
    violations: tuple[Violation, ...] = ()
    retry_after_s: float | None = None
    http: int = field(default=500)


_CODES: tuple[tuple[type[BaseException], grpc.StatusCode, int], ...] = (
    (InputError, grpc.StatusCode.INVALID_ARGUMENT, 400),
    (UsageError, grpc.StatusCode.INVALID_ARGUMENT, 400),
    (NotKnown, grpc.StatusCode.NOT_FOUND, 404),
    (Taken, grpc.StatusCode.ALREADY_EXISTS, 409),
    (Outdated, grpc.StatusCode.ABORTED, 409),
    (NotKept, grpc.StatusCode.OUT_OF_RANGE, 410),
    (NotNamed, grpc.StatusCode.UNAUTHENTICATED, 401),
    (NotAllowed, grpc.StatusCode.PERMISSION_DENIED, 403),
    (Busy, grpc.StatusCode.RESOURCE_EXHAUSTED, 429),
    (Away, grpc.StatusCode.UNAVAILABLE, 503),
    (NotLeading, grpc.StatusCode.UNAVAILABLE, 503),
    (TooSlow, grpc.StatusCode.DEADLINE_EXCEEDED, 504),
    (NotServed, grpc.StatusCode.UNIMPLEMENTED, 501),
    (Conflict, grpc.StatusCode.FAILED_PRECONDITION, 409),
    (StoreFull, grpc.StatusCode.RESOURCE_EXHAUSTED, 507),
    (StoreError, grpc.StatusCode.UNAVAILABLE, 503),
)


def answer_of(error: BaseException) -> Answer:
    """Return what a caller is told of an error; of a bug only that it is one."""
    for kind, code, http in _CODES:
        if isinstance(error, kind):
            retry = error.retry_after_s if isinstance(error, Busy) else None
            if isinstance(error, InputError):
                violations = tuple(_violation(fault) for fault in error.faults)
                message = "; ".join(f"{each.field}: {each.wrong}; allowed: {each.allowed}" for each in violations)
                return Answer(code, message, violations, http=http)
            return Answer(code, str(error), retry_after_s=retry, http=http)
    text = "internal error: it is logged, and a bug" if isinstance(error, OptschedError) else "internal error"
    return Answer(grpc.StatusCode.INTERNAL, text)


def error_of(code: grpc.StatusCode, message: str, details: bytes | None) -> OptschedError:
    """Return the error that a caller's answer stands for. `details`: what came with it under DETAILS_KEY.

    UNAVAILABLE without details, and what is in no table, is NoAnswer: the service has not spoken.
    """
    told = Status.FromString(details) if details else Status()
    bad, retry = BadRequest(), RetryInfo()
    for each in told.details:
        each.Unpack(bad)
        each.Unpack(retry)
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return (
            InputError(_fault(each) for each in bad.field_violations) if bad.field_violations else UsageError(message)
        )
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return (
            Busy(message, retry.retry_delay.ToMilliseconds() / 1000)
            if retry.HasField("retry_delay")
            else StoreFull(message)
        )
    if code is grpc.StatusCode.UNAVAILABLE and details is None:
        return NoAnswer(message)
    kind = next((kind for kind, each, _ in _CODES if each is code), None)
    if kind is None:
        return NoAnswer(f"the scheduler failed: {message}", again=False)
    found = kind(message)
    assert isinstance(found, OptschedError), "the table is of these"
    return found


def _fault(violation: BadRequest.FieldViolation) -> Fault:
    wrong, _, allowed = violation.description.partition("; allowed: ")
    return Fault("request", None, violation.field, wrong, allowed)


def _violation(fault: Fault) -> Violation:
    return Violation(_ID.sub("", fault.field), fault.wrong, fault.allowed)


def status_of(answer: Answer) -> Status:
    """Return an answer as google.rpc.Status, with BadRequest and RetryInfo where there is something to say."""
    number, _ = answer.code.value
    status = Status(code=number, message=answer.message)
    if answer.violations:
        bad = BadRequest()
        for each in answer.violations:
            bad.field_violations.add(field=each.field, description=f"{each.wrong}; allowed: {each.allowed}")
        _pack(status, bad)
    if answer.retry_after_s is not None:
        retry = RetryInfo()
        retry.retry_delay.FromMilliseconds(int(answer.retry_after_s * 1000))
        _pack(status, retry)
    return status


def _pack(status: Status, detail: Message) -> None:
    packed = Any()
    packed.Pack(detail)
    status.details.append(packed)


def trailers_of(answer: Answer) -> tuple[tuple[str, str | bytes], ...]:
    """Return the trailing metadata that carries an answer's details.

    UNAVAILABLE has them always: a caller tells by that whether the service said so, or nobody could be reached.
    """
    unavailable = answer.code is grpc.StatusCode.UNAVAILABLE
    if not answer.violations and answer.retry_after_s is None and not unavailable:
        return ()
    found: list[tuple[str, str | bytes]] = [(DETAILS_KEY, status_of(answer).SerializeToString())]
    if answer.retry_after_s is not None:
        found.append(("retry-after", f"{max(1, round(answer.retry_after_s))}"))
    return tuple(found)


def body_of(answer: Answer) -> dict[str, object]:
    """Return an answer as the JSON body of REST."""
    error: dict[str, object] = {"code": answer.code.name, "message": answer.message}
    if answer.violations:
        error["violations"] = [
            {"field": each.field, "wrong": each.wrong, "allowed": each.allowed} for each in answer.violations
        ]
    return {"error": error}
