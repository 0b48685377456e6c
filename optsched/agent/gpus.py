"""The GPUs of a node and what they say about themselves: NVML's counters where there is NVML, else as declared.

What a reading means is decided here by pure functions, so that every fault can be tried without a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

FATAL_XIDS: Mapping[int, str] = {
    48: "a memory error that could not be corrected",
    62: "its microcontroller has stopped",
    64: "a bad row of memory could not be put out of use",
    74: "an NVLink error",
    79: "it has fallen off the bus",
    95: "a memory error that was not contained",
    119: "its system processor does not answer",
    120: "its system processor has failed",
    140: "a memory error that nothing has recovered",
}
"""XID errors after which a GPU is not to be used; others, such as 13, 31 and 43, come from programs."""

BLAMED_XIDS: Mapping[int, str] = {**FATAL_XIDS, 92: "many corrected memory errors", 94: "a memory error, contained"}
"""XID errors that end a program by no fault of its own."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one GPU says. None: it does not say. Counts are since the driver was loaded; temperatures in °C.

    `xids` are the errors since the reading before, oldest first. `gone`: why it cannot be read at all.
    """

    index: int
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    xids: tuple[int, ...] = ()
    temperature_c: float | None = None
    hottest_c: float | None = None
    rows_remapped: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    gone: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one GPU over time. `faults`, once found, stay until the agent starts anew."""

    reading: Reading
    faults: tuple[str, ...] = ()
    last_xid: int | None = None
    xids: int = 0
    uncorrected_at_start: int = 0


class Gpus(Protocol):
    """Where GPUs are read."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    @property
    def kind(self) -> str:
        """What they are, as clusters name it; "" where that is not known."""
        ...

    def read(self) -> tuple[Reading, ...]:
        """Return a reading of each GPU."""
        ...

    def close(self) -> None:
        """Let them go."""
        ...


@dataclass(frozen=True, slots=True)
class DeclaredGpus:
    """GPUs that are said to be there; they have no counters."""

    count: int
    kind: str = ""

    def read(self) -> tuple[Reading, ...]:
        """Return nothing: nobody is asked."""
        return ()

    def close(self) -> None:
        """There is nothing to let go."""


def taken_in(before: Mapping[int, Standing], readings: Iterable[Reading]) -> dict[int, Standing]:
    """Return what is known of each GPU after new readings."""
    found = dict(before)
    for reading in readings:
        old = before.get(reading.index)
        if old is None:
            old = Standing(reading, uncorrected_at_start=reading.ecc_uncorrected or 0)
        faults = tuple(dict.fromkeys((*old.faults, *_faults(reading, old.uncorrected_at_start))))
        last = reading.xids[-1] if reading.xids else old.last_xid
        found[reading.index] = Standing(reading, faults, last, old.xids + len(reading.xids), old.uncorrected_at_start)
    return found


def _faults(reading: Reading, uncorrected_before: int) -> list[str]:
    """Return why a GPU is not to be used, by one reading of it."""
    if reading.gone:
        return [reading.gone]
    faults = [f"XID {xid}: {FATAL_XIDS[xid]}" for xid in reading.xids if xid in FATAL_XIDS]
    if (reading.ecc_uncorrected or 0) > uncorrected_before:
        faults.append("memory errors that could not be corrected (ECC)")
    if reading.remap_failed:
        faults.append("a bad row of memory could not be remapped")
    if reading.remap_pending:
        faults.append("a remapped row of memory waits for a reset")
    if (
        reading.temperature_c is not None
        and reading.hottest_c is not None
        and reading.temperature_c >= reading.hottest_c
    ):
        faults.append(f"{reading.temperature_c:g} °C, and {reading.hottest_c:g} °C is the most")
    return faults


def blamed(gpus: Sequence[int], before: Mapping[int, Standing], after: Mapping[int, Standing]) -> tuple[str, ...]:
    """Return what some GPUs have reported between two moments that ends programs without their fault."""
    found = []
    for index in gpus:
        now, then = after.get(index), before.get(index)
        if now is None:
            continue
        known = then.faults if then else ()
        found += [f"GPU {index}: {fault}" for fault in now.faults if fault not in known]
        fresh = now.xids - (then.xids if then else 0)
        last = now.last_xid
        if fresh and last is not None and last in BLAMED_XIDS and last not in FATAL_XIDS:
            found.append(f"GPU {index}: XID {last}: {BLAMED_XIDS[last]}")
    return tuple(found)
