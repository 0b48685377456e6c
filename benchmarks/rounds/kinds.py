"""Which rounds there are: machines, what jobs ask for, how long the queue is.

Where the numbers come from is said in benchmarks/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

SIZES: Mapping[int, float] = {
    1: 0.50, 2: 0.14, 4: 0.10, 8: 0.15, 16: 0.05, 32: 0.028, 64: 0.0125, 128: 0.008, 256: 0.004, 512: 0.004,
    1024: 0.0015, 2048: 0.001,
}  # fmt: skip
"""How often a running job has how many GPUs: 89 % of the jobs, with 19 % of the GPUs, are inside a node of eight."""

LARGE_SIZES = {**SIZES, 128: 0.010, 256: 0.006, 512: 0.006, 1024: 0.003, 4096: 0.0012}
NVLINK_SIZES = {**SIZES, 36: 0.006, 72: 0.008, 144: 0.004, 288: 0.002}
FLEET_SIZES = {1: 0.55, 2: 0.20, 4: 0.12, 8: 0.09, 16: 0.02, 32: 0.01, 64: 0.004, 128: 0.002, 256: 0.001, 512: 0.0006}
SINGLE_SIZES = {1: 0.80, 2: 0.06, 4: 0.06, 8: 0.05, 16: 0.03}


@dataclass(frozen=True, slots=True)
class Pool:
    """Machines of one make.

    Either `counts` says how many children each domain has, widest level first, then nodes; or `ragged` says how many
    nodes there are, in racks of 1 to `rack_nodes` and blocks of 8 racks, and `rackless` which share is in no rack.
    """

    gpu_type: str
    gpus: int
    cpus: int
    memory_gb: int
    counts: tuple[int, ...] = ()
    ragged: int = 0
    rack_nodes: int = 8
    rackless: float = 0.0
    sizes: tuple[tuple[int, float], ...] = tuple(SIZES.items())

    def smaller(self, share: float) -> Pool:
        """Return about this share of the pool, 0 < share <= 1, cut from the widest level down."""
        counts = []
        left = share
        for count in self.counts:
            counts.append(max(1, round(count * left)) if left < 0.75 else count)
            left = min(1.0, left * count / counts[-1])
        return replace(self, counts=tuple(counts), ragged=max(4, round(self.ragged * share)) if self.ragged else 0)


@dataclass(frozen=True, slots=True)
class Habits:
    """Shares of the jobs, 0 to 1, that ask for something, where it makes sense for their size."""

    elastic: float = 0.10
    slices: float = 0.0
    per_task: float = 0.0
    no_estimate: float = 0.0
    hidden: float = 0.0
    hungry: float = 0.0
    two_types: float = 0.0
    selective: float = 0.0


PLAIN = Habits()
RICH = Habits(
    elastic=0.25, slices=0.25, per_task=0.30, no_estimate=0.19, hidden=0.23, hungry=0.08, two_types=0.10, selective=0.04
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of round.

    `in_use` is the share of the open GPUs (on nodes that are neither down nor spare) that run something; `asked` what
    is queued, as a share of all GPUs. `speeds` are the relative speeds of the second type of jobs that take two. A
    `rich` round has every feature of the schema at least once. The life before the round lasts `rounds` times `step_s`.
    """

    name: str
    about: str
    levels: tuple[str, ...]
    pools: tuple[Pool, ...]
    queued: int = 600
    teams: int = 40
    in_use: float = 0.955
    asked: float = 0.95
    habits: Habits = PLAIN
    speeds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    rich: bool = False
    giant: int = 0
    rounds: int = 120
    step_s: int = 300

    def smaller(self, share: float) -> Kind:
        """Return a round of the same kind with about this share of the nodes, jobs and teams, 0 < share <= 1."""
        return replace(
            self,
            pools=tuple(pool.smaller(share) for pool in self.pools),
            queued=max(40, round(self.queued * share)),
            teams=max(12, round(self.teams * share)),
            giant=0 if share < 1 else self.giant,
            rounds=max(40, round(self.rounds * share)),
        )


def _h100(*counts: int, sizes: Mapping[int, float] = SIZES) -> Pool:
    return Pool("h100", 8, 192, 2048, counts=counts, sizes=tuple(sizes.items()))


def _boxes(gpu_type: str, gpus: int, cpus: int, memory_gb: int, nodes: int) -> Pool:
    return Pool(gpu_type, gpus, cpus, memory_gb, ragged=nodes, sizes=tuple(FLEET_SIZES.items()))


_FLEET = (
    _boxes("a100", 8, 128, 1024, 432),
    _boxes("h800", 8, 192, 1536, 219),
    _boxes("gpu2", 8, 192, 1536, 122),
    _boxes("a800", 8, 128, 1024, 22),
    _boxes("gpu1", 8, 192, 1536, 77),
    _boxes("gpu1", 4, 192, 1536, 10),
    Pool("gpu1", 1, 192, 512, ragged=902, rack_nodes=16, rackless=0.2, sizes=tuple(SINGLE_SIZES.items())),
    Pool("a10", 1, 128, 512, ragged=2494, rack_nodes=16, rackless=0.2, sizes=tuple(SINGLE_SIZES.items())),
)
_FLEET_SPEEDS = {("h800", "a100"): 0.6, ("a800", "a100"): 0.95, ("a100", "a800"): 0.95, ("gpu2", "a100"): 0.8}
_TWO_SPEEDS = {("h100", "a100"): 0.45, ("a100", "h100"): 1.6}
_BOX_LEVELS = ("pod", "block", "rack")

_ALL = (
    Kind("h100-1k", "128 nodes of 8 H100 in 4 blocks", _BOX_LEVELS, (_h100(1, 4, 8, 4),), queued=60, rounds=160),
    Kind("h100-10k", "1,280 nodes of 8 H100 in 5 pods", _BOX_LEVELS, (_h100(5, 8, 8, 4),)),
    Kind(
        "h100-100k", "12,800 nodes of 8 H100 in 50 pods", _BOX_LEVELS, (_h100(50, 8, 8, 4, sizes=LARGE_SIZES),),
        queued=3000, rounds=50, step_s=900,
    ),
    Kind(
        "nvl72-10k", "2,592 nodes of 4 GB200 in 144 NVL72 racks", ("block", "nvlink"),
        (Pool("gb200", 4, 144, 960, counts=(8, 18, 18), sizes=tuple(NVLINK_SIZES.items())),),
        habits=replace(PLAIN, slices=0.10),
    ),
    Kind(
        "mixed-10k", "4,278 nodes, six GPU types, ragged racks, thousands of 1-GPU nodes", ("block", "rack"), _FLEET,
        habits=replace(PLAIN, two_types=0.08), speeds=_FLEET_SPEEDS, rounds=60,
    ),
    Kind(
        "rich-10k", "as h100-10k, with every feature and a queued gang of 4,096 GPUs", _BOX_LEVELS,
        (_h100(5, 8, 8, 4),), habits=RICH, rich=True, giant=4096,
    ),
    Kind(
        "rich-mixed-10k", "2,294 nodes of four GPU types with every feature", ("block", "rack"),
        (
            _h100(20, 8, 4),
            Pool("a100", 8, 128, 1024, ragged=432),
            Pool("a800", 8, 128, 1024, ragged=22),
            Pool("a10", 1, 64, 256, ragged=1200, rack_nodes=16, rackless=0.2, sizes=tuple(SINGLE_SIZES.items())),
        ),
        habits=RICH, speeds={**_TWO_SPEEDS, **_FLEET_SPEEDS}, rich=True,
    ),
    Kind(
        "rich-40", "42 nodes of two GPU types with every feature", ("block", "rack"),
        (_h100(2, 4, 4), Pool("a100", 8, 128, 1024, ragged=10, rack_nodes=4, rackless=0.2)),
        queued=40, teams=12, habits=RICH, speeds=_TWO_SPEEDS, rich=True, rounds=120,
    ),
)  # fmt: skip

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
"""Every kind by its name."""
