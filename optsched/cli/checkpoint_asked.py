"""What optsched checkpoint-interval was asked, from its options; every fault is found before any is told."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optsched.cli.words import clean, number
from optsched.errors import Fault, InputError
from optsched.policy.checkpoint_tiers import FAILURE_KINDS, MAX_KINDS, durable_tier, uncovered
from optsched.policy.mtbf import PUBLISHED, MtbfEstimate, Prior, estimate_mtbf, job_mtbf_s, job_nodes, weak_prior
from optsched.values.job import CheckpointTier

COMMAND = "optsched checkpoint-interval"
MAX_TIERS = 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TIER = "NAME:cost_s=S[,upload_s=S],survives=KIND+KIND, as in nvme:cost_s=5,upload_s=60,survives=process"
_LEAST = 0.001
_LONGEST_S, _MOST_H = 1e6, 1e12


@dataclass(frozen=True, slots=True)
class Asked:
    """A job, how often its nodes fail and how that is known, its checkpoints, and what kinds of failure there are."""

    gpus: int
    gpus_per_node: int
    restart_s: float
    tiers: tuple[CheckpointTier, ...]
    kinds: Mapping[str, float]
    node: MtbfEstimate
    origin: str
    """Where the MTBF of a node comes from, in words."""
    observed: bool
    """Whether failures that were seen are part of it, so that its range means something."""

    @property
    def nodes(self) -> int:
        """The nodes under the job."""
        return job_nodes(self.gpus, self.gpus_per_node)

    @property
    def mtbf_s(self) -> float:
        """M: the MTBF of the job."""
        return job_mtbf_s(self.node.mtbf_h, self.nodes)

    @property
    def mtbf_range_s(self) -> tuple[float, float]:
        """What M lies between with a probability of 90 %."""
        return job_mtbf_s(self.node.low_h, self.nodes), job_mtbf_s(self.node.high_h, self.nodes)


def asked(args: argparse.Namespace) -> Asked:
    """Return what the arguments ask; raises InputError with a line for every fault."""
    reader = _Reader()
    gpus = reader.whole("--gpus", args.gpus, 1, 1_000_000)
    per_node = reader.whole("--gpus-per-node", args.gpus_per_node, 1, 1024)
    restart_s = reader.number("--restart-s", args.restart_s, _LONGEST_S, zero=True)
    if gpus is None and args.gpus is None:
        reader.fault("--gpus", "is missing", "the number of GPUs of the job")
    tiers, kinds = _checkpoints(reader, args)
    known = _node_mtbf(reader, args, per_node or 8)
    if reader.faults or gpus is None or per_node is None or restart_s is None or known is None:
        raise InputError(reader.faults)
    node, origin, observed = known
    return Asked(gpus, per_node, restart_s, tuple(tiers), kinds, node, origin, observed)


class _Reader:
    """Turns texts into values and collects what is wrong with them."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def fault(self, option: str, wrong: str, allowed: str) -> None:
        self.faults.append(Fault(COMMAND, None, option, wrong, allowed))

    def number(self, option: str, text: str | None, most: float, zero: bool = False) -> float | None:
        """Return a number from `_LEAST` (0 where `zero` is) to `most`; None where there is none or it is a fault."""
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if (value >= _LEAST or (zero and value >= 0)) and value <= most:
            return value
        self.fault(option, _given(text), f"a number from {'0' if zero else _LEAST} to {number(most)}")
        return None

    def whole(self, option: str, text: str | None, least: int, most: int) -> int | None:
        """Return a whole number; None where there is none or it is a fault."""
        if text is None:
            return None
        if re.fullmatch(r"[0-9]{1,12}", text) and least <= int(text) <= most:
            return int(text)
        self.fault(option, _given(text), f"a whole number from {least} to {most:,}")
        return None


def _given(text: str) -> str:
    return f"given {clean(text)[:80]!r}"


def _checkpoints(reader: _Reader, args: argparse.Namespace) -> tuple[list[CheckpointTier], Mapping[str, float]]:
    """Return the tiers, a job's own checkpoint last, and the kinds of failure."""
    before = len(reader.faults)
    kinds = _kinds(reader, args.kind) if args.kind else FAILURE_KINDS
    cost_s = reader.number("--cost-s", args.cost_s, _LONGEST_S)
    upload_s = reader.number("--upload-s", args.upload_s, _LONGEST_S, zero=True)
    tiers = [tier for text in args.tier if (tier := _tier(reader, text, kinds)) is not None]
    if args.upload_s is not None and args.cost_s is None:
        reader.fault("--upload-s", "given without --cost-s", "with --cost-s; the upload of a tier stands in --tier")
    if args.kind and not args.tier:
        reader.fault("--kind", "given without --tier", "with --tier: without tiers all failures are alike")
    if args.cost_s is None and not args.tier:
        reader.fault("--cost-s", "is missing", "the seconds that a checkpoint blocks training, or --tier")
    names = [tier.tier for tier in tiers]
    for name in sorted({name for name in names if names.count(name) > 1}):
        reader.fault("--tier", f"{name} is given more than once", "different names")
    if len(args.tier) > MAX_TIERS:
        reader.fault("--tier", f"given {len(args.tier)} times", f"at most {MAX_TIERS} tiers")
    if cost_s is not None:
        tiers.append(durable_tier(cost_s, upload_s or 0.0, kinds))
    elif len(reader.faults) == before:
        for kind in uncovered(tiers, kinds):
            allowed = f"a tier with survives={kind}, or --cost-s for a checkpoint that survives everything"
            reader.fault("--tier", f"no tier survives failures of kind {kind}, which would lose all work", allowed)
    return tiers, kinds


def _kinds(reader: _Reader, texts: Sequence[str]) -> Mapping[str, float]:
    """Return the share of each kind of failure; the default ones where something is wrong with them."""
    before = len(reader.faults)
    kinds: dict[str, float] = {}
    for text in texts:
        name, _, share_text = text.partition("=")
        if not _NAME.fullmatch(name) or name in kinds:
            reader.fault("--kind", _given(text), "KIND=SHARE, each kind once, as in node=0.6")
            continue
        kinds[name] = reader.number(f"--kind {name}", share_text, 1.0) or 0.0
    total = math.fsum(kinds.values())
    if len(kinds) > MAX_KINDS:
        reader.fault("--kind", f"given {len(kinds)} kinds", f"at most {MAX_KINDS}")
    if len(reader.faults) == before and abs(total - 1.0) > 1e-6:
        reader.fault("--kind", f"the shares sum to {total:g}", "shares that sum to 1")
    return kinds if len(reader.faults) == before else FAILURE_KINDS


def _tier(reader: _Reader, text: str, kinds: Mapping[str, float]) -> CheckpointTier | None:
    """Return one tier of its text; None where it is wrong."""
    before = len(reader.faults)
    name, _, rest = text.partition(":")
    parts = [part.partition("=")[::2] for part in rest.split(",")]
    fields, keys = dict(parts), {"cost_s", "survives"}
    known = keys <= set(fields) <= keys | {"upload_s"} and len(fields) == len(parts)
    if not _NAME.fullmatch(name) or name == "durable" or not known:
        reader.fault("--tier", _given(text), f"{_TIER}; the name durable is taken")
        return None
    cost_s = reader.number(f"--tier {name} cost_s", fields["cost_s"], _LONGEST_S)
    upload_s = reader.number(f"--tier {name} upload_s", fields.get("upload_s", "0"), _LONGEST_S, zero=True)
    survives = tuple(fields["survives"].split("+"))
    for kind in survives:
        if kind not in kinds:
            reader.fault(
                f"--tier {name} survives", _given(kind), f"{', '.join(kinds)}, joined by + (--kind names others)"
            )
    if len(reader.faults) > before or cost_s is None or upload_s is None:
        return None
    return CheckpointTier(name, cost_s, upload_s, survives)


def _node_mtbf(reader: _Reader, args: argparse.Namespace, gpus_per_node: int) -> tuple[MtbfEstimate, str, bool] | None:
    """Return the MTBF of a node, where it comes from, and whether failures that were seen are part of it."""
    before = len(reader.faults)
    stated_h = reader.number("--mtbf-node-h", args.mtbf_node_h, 1e9)
    failures = reader.whole("--failures", args.failures, 0, 10**9)
    node_h = reader.number("--node-hours", args.node_hours, _MOST_H)
    strength_h = reader.number("--prior-node-h", args.prior_node_h, _MOST_H)
    has_prior = args.mtbf_node_h is not None or args.preset is not None
    if args.preset is not None and args.preset not in PUBLISHED:
        reader.fault("--preset", _given(args.preset), ", ".join(PUBLISHED))
    if args.mtbf_node_h is not None and args.preset is not None:
        reader.fault("--preset", "given together with --mtbf-node-h", "one of the two")
    if (args.failures is None) != (args.node_hours is None):
        missing = "--node-hours" if args.node_hours is None else "--failures"
        reader.fault(missing, "is missing", "--failures and --node-hours together: how many were seen in what time")
    if args.prior_node_h is not None and (not has_prior or args.failures is None):
        allowed = "with --failures and either --mtbf-node-h or --preset, whose weight against what was seen it is"
        reader.fault("--prior-node-h", "has nothing to weigh", allowed)
    if not has_prior and args.failures is None and args.node_hours is None:
        reader.fault("--mtbf-node-h", "is missing", "a number of hours, or --preset, or --failures and --node-hours")
    if not has_prior and failures == 0:
        reader.fault("--failures", "given '0' and no prior", "at least 1, or with --mtbf-node-h or --preset")
    if len(reader.faults) > before:
        return None
    prior, origin = _prior(args.preset, stated_h, strength_h, gpus_per_node)
    if failures is None or node_h is None:
        return estimate_mtbf(prior), origin, False
    origin = f"{failures:,} failures seen in {number(node_h)} node-hours" + (
        f", and {origin} counting as {number(round(prior.strength_node_h))} node-hours" if prior else ""
    )
    return estimate_mtbf(prior, failures, node_h), origin, True


def _prior(
    preset: str | None, stated_h: float | None, strength_h: float | None, gpus_per_node: int
) -> tuple[Prior | None, str]:
    """Return what is believed without observations, and where it comes from."""
    if preset is not None:
        stated_h = PUBLISHED[preset].node_mtbf_h(gpus_per_node)
        origin = f"{number(round(stated_h))} h as published (preset {preset})"
    elif stated_h is not None:
        origin = f"{number(stated_h)} h as given"
    else:
        return None, ""
    return (weak_prior(stated_h) if strength_h is None else Prior(stated_h, strength_h)), origin
