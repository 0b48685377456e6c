"""How often what fails, and how long it is gone: rates that were published, by name, and what is our own assumption.

Rates are per GPU-hour: a node of 8 GPUs fails eight times as often as one GPU. Failures come as Poisson processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from optsched.policy.mtbf import PUBLISHED

LLAMA3_GPU_H = PUBLISHED["llama3"].gpu_h
"""GPU-hours of the 54 days on 16,384 H100 in table 5 of Llama 3 (2024)."""

DOMAIN_MTBF_H = 5 * 365 * 24.0
"""A switch, or whatever else takes a whole domain, fails once in five years: our assumption, no rate was found."""


@dataclass(frozen=True, slots=True)
class Repairs:
    """How long a part is gone once its failure was noticed: mean seconds, exponentially distributed.

    MegaScale (NSDI 2024, section 6): more than 90 % of failures are recovered automatically, detection and diagnosis
    take less than 10 minutes. That those which need people take 12 hours on average is our assumption.
    """

    automatic: float = 0.9
    automatic_s: float = 600.0
    manual_s: float = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures per GPU-hour that stop a job, by what fails; `domain_mtbf_h` is hours per domain of `domain_level`.

    `gpu` takes one GPU: its node runs on with what else it runs, and is closed until it is repaired. `node` takes the
    node. `process` stops a run by the fault of network or software and leaves the node. `job` is the job's own fault,
    and counts in its budget for that. `domain_level` None: the narrowest level above the node.
    """

    name: str = "none"
    gpu: float = 0.0
    node: float = 0.0
    process: float = 0.0
    job: float = 0.0
    domain_mtbf_h: float | None = None
    domain_level: str | None = None
    repairs: Repairs = Repairs()
    source: str = "nothing fails"


def _small_jobs() -> float:
    """Return what small jobs fail more often than hardware does, per GPU-hour."""
    every, hardware = PUBLISHED["rsc1-small-jobs"], PUBLISHED["rsc1"]
    return every.failures / every.gpu_h - hardware.failures / hardware.gpu_h


FAILURES: Mapping[str, Failures] = MappingProxyType(
    {
        each.name: each
        for each in (
            Failures(),
            Failures(
                "llama3",
                gpu=268 / LLAMA3_GPU_H,
                process=151 / LLAMA3_GPU_H,
                domain_mtbf_h=DOMAIN_MTBF_H,
                source=f"{PUBLISHED['llama3'].source}; 268 were GPUs and their memory, the other 151 are taken as "
                "failures that leave the node",
            ),
            Failures(
                "rsc1",
                node=PUBLISHED["rsc1"].failures / PUBLISHED["rsc1"].gpu_h,
                domain_mtbf_h=DOMAIN_MTBF_H,
                source=PUBLISHED["rsc1"].source,
            ),
            Failures(
                "rsc1-small-jobs",
                node=PUBLISHED["rsc1"].failures / PUBLISHED["rsc1"].gpu_h,
                job=_small_jobs(),
                domain_mtbf_h=DOMAIN_MTBF_H,
                source=f"{PUBLISHED['rsc1-small-jobs'].source}; what is beyond the rate of nodes is taken as the job's "
                "own",
            ),
        )
    }
)
"""Published rates by name; the rate of domains is an assumption in all of them."""
