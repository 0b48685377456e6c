"""Logs to standard error, a line for each event: as text for people, or as JSON for machines."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from optsched.engine.commands import Kind
from optsched.server.leader import Change

log = logging.getLogger(__name__)

_OWN = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in record.__dict__.items() if key not in _OWN}


class TextLines(logging.Formatter):
    """A line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        more = " ".join(f"{key}={value}" for key, value in _fields(record).items())
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = f"{when} {record.levelname.lower()} {record.getMessage()}{' ' if more else ''}{more}"
        return line + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


class JsonLines(logging.Formatter):
    """A line for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        found: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
        } | _fields(record)
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


_QUIET = (Kind.SUBMITTED, Kind.WAITS, Kind.STALE, Kind.RESERVED)
"""Kinds of notes that are told only where everything is."""

_LOUD = (Kind.ALARM, Kind.DEADLINE)


def tell_changes(changes: Sequence[Change]) -> None:
    """Log what happened to jobs, nodes and rules, a line each with their ids and the place in the log."""
    for change in changes:
        for note in change.notes:
            level = logging.WARNING if note.kind in _LOUD else logging.DEBUG if note.kind in _QUIET else logging.INFO
            if not log.isEnabledFor(level):
                continue
            about: dict[str, object] = {"sequence": change.sequence, "text": note.text}
            if note.job is not None:
                about["job"] = note.job
            if note.node is not None:
                about["node"] = note.node
            log.log(level, note.kind.value, extra=about)


def set_up(level: str, form: str) -> None:
    """Write the package's logs of a level and above; form is text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger("optsched")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
