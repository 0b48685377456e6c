"""What GPUs say of themselves, by a fake of NVML, and what is made of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from optsched.agent import messages as m
from optsched.agent.exits import classify
from optsched.agent.gpus import DeclaredGpus, Reading, Standing, blamed, taken_in
from optsched.agent.health import Health
from optsched.agent.nvml import NvmlGpus
from optsched.agent.values import Key, Outcome, Phase, Run, RunEnd, TaskEnd

FINE = Reading(0, 0, 0, (), 40.0, 90.0, 0, False, False)


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


@dataclass
class FakeGpu:
    bus: str
    name: str = "NVIDIA H100 80GB HBM3"
    temperature: float = 40.0
    corrected: int = 0
    uncorrected: int = 0
    remapped: tuple[int, int, int, int] = (0, 0, 0, 0)
    lost: bool = False
    has_ecc: bool = True


@dataclass
class FakeEvent:
    device: FakeGpu
    eventData: int


@dataclass
class FakeNvml:
    """As much of pynvml as is used, over GPUs that a test makes ill."""

    gpus: list[FakeGpu]
    events: list[FakeEvent] = field(default_factory=list)
    open: int = 0
    NVMLError = NVMLError
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_ERROR_UNKNOWN = 999
    NVML_TEMPERATURE_GPU = 0
    NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    nvmlEventTypeXidCriticalError = 8

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:
        return gpu.name

    def nvmlDeviceGetPciInfo(self, gpu: FakeGpu) -> Any:
        return type("Pci", (), {"busId": gpu.bus.encode()})

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlEventSetFree(self, events: object) -> None:
        pass

    def nvmlDeviceRegisterEvents(self, gpu: FakeGpu, kinds: int, events: object) -> None:
        pass

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> FakeEvent:
        if not self.events:
            raise NVMLError(10)
        return self.events.pop(0)

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: int) -> float:
        if gpu.lost:
            raise NVMLError(self.NVML_ERROR_GPU_IS_LOST)
        return gpu.temperature

    def nvmlDeviceGetTemperatureThreshold(self, gpu: FakeGpu, which: int) -> int:
        return 90

    def nvmlDeviceGetTotalEccErrors(self, gpu: FakeGpu, kind: int, counter: int) -> int:
        if not gpu.has_ecc:
            raise NVMLError(3)
        return gpu.uncorrected if kind else gpu.corrected

    def nvmlDeviceGetRemappedRows(self, gpu: FakeGpu) -> tuple[int, int, int, int]:
        if not gpu.has_ecc:
            raise NVMLError(3)
        return gpu.remapped


def two() -> FakeNvml:
    return FakeNvml([FakeGpu("0000:01:00.0"), FakeGpu("0000:02:00.0")])


# Reading


def test_nvml_is_read_and_its_gpus_are_named_as_clusters_name_them() -> None:
    fake = two()
    fake.gpus[1].remapped = (2, 1, 0, 0)
    gpus = NvmlGpus(fake)
    assert (gpus.count, gpus.kind) == (2, "h100")
    fake.events = [FakeEvent(fake.gpus[1], 31), FakeEvent(fake.gpus[1], 79)]
    first, second = gpus.read()
    assert first == FINE
    assert second == replace(FINE, index=1, xids=(31, 79), rows_remapped=3)
    assert gpus.read()[1].xids == (), "an error is told once"
    gpus.close()
    assert fake.open == 0


def test_what_a_gpu_does_not_count_is_not_told() -> None:
    """A consumer card: no ECC, no remapping."""
    (found,) = NvmlGpus(FakeNvml([FakeGpu("b", "NVIDIA GeForce RTX 4090", has_ecc=False)])).read()
    assert (found.ecc_corrected, found.ecc_uncorrected, found.rows_remapped, found.remap_pending) == (None,) * 4
    assert NvmlGpus(FakeNvml([FakeGpu("b", "NVIDIA GeForce RTX 4090")])).kind == "4090"


def test_a_gpu_that_is_lost_is_told_as_gone() -> None:
    fake = two()
    fake.gpus[0].lost = True
    assert "cannot be read" in NvmlGpus(fake).read()[0].gone


# Judging


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"xids": (79,)}, "fallen off the bus"),
        ({"xids": (48,)}, "XID 48"),
        ({"ecc_uncorrected": 1}, "ECC"),
        ({"remap_pending": True}, "waits for a reset"),
        ({"remap_failed": True}, "could not be remapped"),
        ({"temperature_c": 92.0}, "92 °C, and 90 °C is the most"),
        ({"gone": "it cannot be read"}, "cannot be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_fault_is_found_and_stays(change: dict[str, Any], word: str) -> None:
    known = taken_in({}, [FINE])
    known = taken_in(known, [replace(FINE, **change)])
    assert word in known[0].faults[0]
    assert taken_in(known, [FINE])[0].faults == known[0].faults


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 63])
def test_errors_that_programs_make_are_no_fault_of_the_gpu(xid: int) -> None:
    known = taken_in(taken_in({}, [FINE]), [replace(FINE, xids=(xid,))])
    assert (known[0].faults, known[0].last_xid, known[0].xids) == ((), xid, 1)
    assert blamed((0,), {}, known) == ()


def test_memory_errors_from_before_the_agent_are_not_held_against_a_gpu() -> None:
    old = replace(FINE, ecc_uncorrected=5)
    assert taken_in(taken_in({}, [old]), [old])[0].faults == ()


def test_a_run_is_not_blamed_for_what_its_own_gpus_report_meanwhile() -> None:
    """A contained memory error ends the program, and leaves the GPU usable."""
    before = taken_in({}, [FINE, replace(FINE, index=1)])
    after = taken_in(before, [replace(FINE, xids=(94,)), replace(FINE, index=1, xids=(79,))])
    assert blamed((0,), before, after) == ("GPU 0: XID 94: a memory error, contained",)
    assert blamed((1,), before, after) == ("GPU 1: XID 79: it has fallen off the bus",)
    assert blamed((0, 1), after, after) == ()
    bad = TaskEnd(0, 1)
    assert classify(RunEnd((bad,), bad, faults=("GPU 0: XID 94",)))[0] is Outcome.INFRA


# Classes of ends


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (RunEnd((TaskEnd(0, 0),)), Outcome.OK),
        (RunEnd((), TaskEnd(0, 1)), Outcome.FAILED),
        (RunEnd((), TaskEnd(0, None, 11)), Outcome.FAILED),
        (RunEnd((), TaskEnd(0, None, 6)), Outcome.FAILED),
        (RunEnd((), TaskEnd(0, None, 9)), Outcome.INFRA),
        (RunEnd((), TaskEnd(0, None, 9), out_of_memory=True), Outcome.FAILED),
        (RunEnd((), TaskEnd(0, None, 15)), Outcome.INFRA),
        (RunEnd((), TaskEnd(0, 1), out_of_memory=True), Outcome.FAILED),
        (RunEnd(lost="the node was restarted"), Outcome.INFRA),
    ],
)
def test_the_machine_is_blamed_on_evidence_only(end: RunEnd, outcome: Outcome) -> None:
    assert classify(end)[0] is outcome


# Telling


def test_a_bad_gpu_is_told_to_the_core_and_to_the_scheduler() -> None:
    fake = two()
    told: list[m.Message] = []

    async def story() -> None:
        health = Health(NvmlGpus(fake), told.append)
        said = await health.look()
        assert said is not None
        assert [each.ok for each in said.gpus] == [True, True]
        health.begin(Key("j", 1))
        fake.events = [FakeEvent(fake.gpus[1], 79)]
        run = Run(Key("j", 1), Phase.RUNNING, (1,))
        assert await health.faults(run) == ("GPU 1: XID 79: it has fallen off the bus",)
        said = await health.look()
        assert said is not None
        assert [each.ok for each in said.gpus] == [True, False]
        assert said.gpus[1].last_xid == 79
        assert told == [m.Inventory(2, frozenset({1}))]

    asyncio.run(story())


def test_declared_gpus_have_nothing_to_tell() -> None:
    async def story() -> None:
        told: list[m.Message] = []
        assert await Health(DeclaredGpus(8), told.append).look() is None
        assert told == []

    asyncio.run(story())
    assert taken_in({}, []) == dict[int, Standing]()
