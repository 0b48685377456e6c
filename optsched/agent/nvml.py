"""GPUs read by NVML, through the optional package nvidia-ml-py (`pip install optsched[nvml]`)."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from optsched.agent.gpus import DeclaredGpus, Gpus, Reading

log = logging.getLogger(__name__)


def find_gpus(declared: int | None, kind: str) -> Gpus:
    """Return the GPUs of this machine: as declared where a number is given, else those that NVML finds, else none.

    Counters are read where NVML is there and has as many GPUs as are declared.
    """
    found = _nvml(kind)
    if found is None:
        return DeclaredGpus(declared or 0, kind)
    if declared is not None and declared != found.count:
        log.warning("NVML has another number of GPUs than declared", extra={"nvml": found.count, "declared": declared})
        found.close()
        return DeclaredGpus(declared, kind)
    return found


def _nvml(kind: str) -> NvmlGpus | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        return NvmlGpus(pynvml, kind)
    except pynvml.NVMLError as error:
        log.info("no NVML", extra={"error": str(error)})
        return None


class NvmlGpus:
    """The GPUs that NVML knows, in its order, which CUDA has too with CUDA_DEVICE_ORDER=PCI_BUS_ID."""

    def __init__(self, nvml: Any, kind: str = "") -> None:
        self._nvml = nvml
        nvml.nvmlInit()
        self.count: int = nvml.nvmlDeviceGetCount()
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(self.count)]
        self.kind = kind or (_kind(nvml.nvmlDeviceGetName(self._handles[0])) if self._handles else "")
        self._events = None
        with suppress(nvml.NVMLError):
            events = nvml.nvmlEventSetCreate()
            for handle in self._handles:
                with suppress(nvml.NVMLError):
                    nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
            self._events = events
        self._index_of = {self._bus(handle): index for index, handle in enumerate(self._handles)}

    def _bus(self, handle: Any) -> str:
        with suppress(self._nvml.NVMLError):
            bus = self._nvml.nvmlDeviceGetPciInfo(handle).busId
            return bus.decode() if isinstance(bus, bytes) else str(bus)
        return ""

    def read(self) -> tuple[Reading, ...]:
        """Return a reading of each GPU; a counter that a GPU does not have is None."""
        xids = self._xids()
        return tuple(
            self._read(index, handle, tuple(xids.get(index, ()))) for index, handle in enumerate(self._handles)
        )

    def close(self) -> None:
        """End the use of NVML."""
        with suppress(self._nvml.NVMLError):
            if self._events is not None:
                self._nvml.nvmlEventSetFree(self._events)
            self._nvml.nvmlShutdown()

    def _xids(self) -> dict[int, list[int]]:
        """Return the errors since the last call, by GPU."""
        found: dict[int, list[int]] = {}
        while self._events is not None:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:
                # A timeout: there is none left.
                return found
            index = self._index_of.get(self._bus(event.device))
            if index is not None:
                found.setdefault(index, []).append(int(event.eventData))
        return found

    def _read(self, index: int, handle: Any, xids: tuple[int, ...]) -> Reading:
        nvml = self._nvml
        try:
            temperature = float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        except nvml.NVMLError as error:
            lost = {nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_UNKNOWN}
            if getattr(error, "value", None) in lost:
                return Reading(index, xids=xids, gone=f"it cannot be read: {error}")
            temperature = None
        remapped = self._maybe(nvml.nvmlDeviceGetRemappedRows, handle)
        corrected, uncorrected, pending, failed = remapped if remapped is not None else (None,) * 4
        return Reading(
            index,
            self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            xids,
            temperature,
            self._maybe(nvml.nvmlDeviceGetTemperatureThreshold, handle, nvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
            None if corrected is None else corrected + uncorrected,
            None if pending is None else bool(pending),
            None if failed is None else bool(failed),
        )

    def _ecc(self, handle: Any, kind: int) -> int | None:
        nvml = self._nvml
        found: int | None = self._maybe(nvml.nvmlDeviceGetTotalEccErrors, handle, kind, nvml.NVML_VOLATILE_ECC)
        return found

    def _maybe(self, ask: Any, *args: Any) -> Any:
        """Return what a call gives, None where this GPU or driver does not have it."""
        try:
            return ask(*args)
        except self._nvml.NVMLError:
            return None


def _kind(name: str | bytes) -> str:
    """Return a GPU's type as clusters name it: "NVIDIA H100 80GB HBM3" is h100."""
    text = name.decode() if isinstance(name, bytes) else name
    for word in text.lower().replace("-", " ").split():
        if word not in ("nvidia", "tesla", "geforce", "quadro", "rtx"):
            return word
    return text.lower()
