"""Amounts of GPUs, CPUs and memory that a quota or a limit names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from optsched.values.ids import GpuType


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a quota, limit or user limit names; a resource that is None or absent is not named.

    `gpus` counts GPUs of any type; `gpus_by_type` counts each named type on its own. At most one of the two is used.
    CPUs are whole or fractional cores, memory is in GB, both >= 0.
    """

    gpus: int | None = None
    gpus_by_type: Mapping[GpuType, int] = field(default_factory=dict)
    cpus: float | None = None
    memory_gb: float | None = None

    @property
    def names_gpus(self) -> bool:
        """Whether any GPU amount is named."""
        return self.gpus is not None or bool(self.gpus_by_type)
