"""What a job writes for its agent: lines of JSON, appended to the file that OPTSCHED_REPORTS names.

    {"checkpoint": "step-120", "step": 120, "tier": "nvme", "bytes": 1048576, "at": 1767225600.5}
    {"step": 130, "step_s": 0.41}
    {"done": true}

The first says that a checkpoint exists (only `checkpoint` is needed; `at` is when its state was taken, seconds since
1970); the second how fast it gets on; the third that its work is complete, even if it was told to stop just then.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path

from optsched.agent.messages import Checkpoint

log = logging.getLogger(__name__)

MOST_AT_ONCE = 1 << 20
LONGEST = 4096
MOST_NAME = 253


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a run gets on: its step, and the seconds for one."""

    step: int
    step_s: float


@dataclass(frozen=True, slots=True)
class Read:
    """What was found in a file of reports, up to the byte `read`."""

    read: int
    checkpoints: tuple[Checkpoint, ...] = ()
    speed: Speed | None = None
    done: bool = False


def read_reports(path: Path, start: int, now: float) -> Read | None:
    """Return what was written after the byte `start`; None where no whole line was. What is no report is logged."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(MOST_AT_ONCE)
    except OSError:
        return None
    end = data.rfind(b"\n") + 1
    if end == 0:
        # A line without an end that is too long to be one is passed over.
        return Read(start + len(data)) if len(data) == MOST_AT_ONCE else None
    checkpoints: list[Checkpoint] = []
    speed, done = None, False
    for line in data[:end].splitlines():
        found = _parse(line, now) if line.strip() else None
        if isinstance(found, Checkpoint):
            checkpoints.append(found)
        elif isinstance(found, Speed):
            speed = found
        elif found is True:
            done = True
    return Read(start + end, tuple(checkpoints), speed, done)


def _parse(line: bytes, now: float) -> Checkpoint | Speed | bool | None:
    try:
        if len(line) > LONGEST:
            raise ValueError(f"longer than {LONGEST} bytes")
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError("no object")
        if "checkpoint" in found:
            return _checkpoint(found, now)
        if "step_s" in found:
            return Speed(_whole(found, "step"), _number(found, "step_s"))
        if found.get("done") is True:
            return True
        raise ValueError("neither checkpoint, step_s nor done")
    except (ValueError, RecursionError) as error:
        log.warning("a report of a job is passed over", extra={"line": repr(line[:200]), "error": str(error)})
        return None


def _checkpoint(found: dict[str, object], now: float) -> Checkpoint:
    version = found["checkpoint"]
    if not isinstance(version, str) or not 0 < len(version) <= MOST_NAME or not version.isprintable():
        raise ValueError(f"checkpoint: allowed: printable text of 1 to {MOST_NAME} characters")
    tier = found.get("tier", "")
    if not isinstance(tier, str) or len(tier) > MOST_NAME or not tier.isprintable():
        raise ValueError(f"tier: allowed: printable text of at most {MOST_NAME} characters")
    at = min(now, _number(found, "at")) if "at" in found else now
    step = _whole(found, "step") if "step" in found else None
    return Checkpoint(version, at, tier, _whole(found, "bytes") if "bytes" in found else 0, step)


def _whole(found: dict[str, object], key: str) -> int:
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{key}: allowed: a whole number from 0 on")
    return value


def _number(found: dict[str, object], key: str) -> float:
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{key}: allowed: a number from 0 on")
    return float(value)
