"""Every exception that optsched raises on purpose.

OptschedError
├── InputError          the user's file is wrong: one Fault per mistake, exit code 2
├── UsageError          a command was asked for something that does not exist, exit code 2
├── Conflict            a request that the state of things does not allow; nothing was changed
├── Refusal             a request that is right in itself and is not served; nothing was changed
│   ├── NotKnown        it names what does not exist
│   ├── Taken           it names what exists with another content
│   ├── Outdated        it was made for a version that is no longer in force
│   ├── NotKept         it asks for what is kept no longer
│   ├── NotNamed        it does not say, or not credibly, who asks
│   ├── NotAllowed      who asks may not ask that
│   ├── Busy            there is more to do than is taken in; to be tried again after a while
│   ├── Away            what it needs is not to be had now, such as a node whose agent is not connected
│   ├── NotLeading      this scheduler does not lead, or shuts down
│   ├── TooSlow         its time ran out
│   └── NotServed       this version does not serve it
├── NoAnswer            nobody answered, or the answer was lost: whether anything was done is not known; exit code 1
├── StoreError          what is kept cannot be read or written: one line, exit code 1; nothing half done
│   ├── StoreInUse      another process writes to it
│   ├── StoreDeposed    another process has taken over since: what this one says is void
│   ├── StoreTooNew     a later version of optsched wrote it
│   ├── StoreDamaged    it is no store, or not what was written
│   ├── StoreFull       no room is left; nothing was stored
│   └── StoreLost       whether the last write is stored is not known before it is opened again
└── InternalError       optsched broke its own contract: a bug, exit code 1
    ├── CheckFailed     a plan that the checker refuses
    ├── IllegalTransition  a change of state that the tables do not have
    └── SolverFailed    the solver said INFEASIBLE or MODEL_INVALID where "change nothing" is always a plan
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class OptschedError(Exception):
    """Base of all errors raised on purpose."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake in a user's input: where it is, what is wrong and what is allowed."""

    file: str
    line: int | None
    field: str
    wrong: str
    allowed: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.field}: {self.wrong}; allowed: {self.allowed}"


class InputError(OptschedError):
    """A file that cannot be used; `faults` lists every mistake found, in file order."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.faults,), self.__dict__


class UsageError(OptschedError):
    """A request for something that does not exist, such as an unknown job."""


class Conflict(OptschedError):
    """A request that the state of things does not allow, such as preempting a job that does not run."""


class Refusal(OptschedError):
    """A request that is right in itself, and that is not served; nothing was changed."""


class NotKnown(Refusal):
    """A request names a job, node, team or the like that does not exist."""


class Taken(Refusal):
    """A request would create what exists already with another content."""


class Outdated(Refusal):
    """A request states a version that is no longer the one in force."""


class NotKept(Refusal):
    """A request goes on from a place in the log that is kept no longer; begin anew."""


class NotNamed(Refusal):
    """Who asks has to say who it is, with a token or a certificate that is known."""


class NotAllowed(Refusal):
    """Who asks may not ask for that."""


class Busy(Refusal):
    """There is more to do than is taken in; `retry_after_s` is when to try again, in seconds."""

    def __init__(self, text: str, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(text)


class Away(Refusal):
    """What a request needs is not to be had now, such as a node whose agent is not connected; it may be tried again."""


class NotLeading(Refusal):
    """This scheduler does not lead, or is shutting down."""


class TooSlow(Refusal):
    """The time that a request had ran out; whether it was done is not known to who asked."""


class NotServed(Refusal):
    """This version does not serve the request."""


class NoAnswer(OptschedError):
    """Nobody answered, or the answer was lost on the way: whether what was asked was done is not known.

    `again`: nothing speaks against asking again.
    """

    def __init__(self, text: str, *, again: bool = True) -> None:
        self.again = again
        super().__init__(text)


class StoreError(OptschedError):
    """What is kept cannot be read or written; unless a subclass says otherwise, nothing was changed."""


class StoreInUse(StoreError):
    """Another process writes to the store, and only one may."""


class StoreDeposed(StoreError):
    """Another process has opened the store since; nothing that this one says is stored any more."""


class StoreTooNew(StoreError):
    """A later version of optsched wrote the store, in a way that this one does not know."""


class StoreDamaged(StoreError):
    """The store is not what was written, or no store at all."""


class StoreFull(StoreError):
    """No room is left. Nothing was stored; the same may be tried again once there is room."""


class StoreLost(StoreError):
    """The connection or the disk failed while something was being stored: opening again tells whether it was."""


class InternalError(OptschedError):
    """A bug in optsched itself."""


class CheckFailed(InternalError):
    """The independent checker refused a plan; `violations` says why."""

    def __init__(self, violations: Iterable[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(self.violations))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.violations,), self.__dict__


class IllegalTransition(InternalError):
    """A change of state that the transition tables do not have."""


class SolverFailed(InternalError):
    """The solver rejected a model that always has the no-change plan."""
