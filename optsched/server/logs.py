"""Logs to standard error, a line for each event: as text for people, or as JSON for machines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_OWN = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in record.__dict__.items() if key not in _OWN}


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        more = " ".join(f"{key}={value}" for key, value in _fields(record).items())
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = f"{when} {record.levelname.lower()} {record.getMessage()}{' ' if more else ''}{more}"
        return line + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
        } | _fields(record)
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


def set_up(level: str, form: str) -> None:
    """Write the package's logs of a level and above; form is text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    root = logging.getLogger("optsched")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
