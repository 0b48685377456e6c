"""Generate a round of the family that the nearest published CP-SAT scheduler is measured on, as a snapshot file.

    python benchmarks/priority_matters.py NODES SEED FILE.json[.gz]

The family follows "Priority Matters: Optimising Kubernetes Clusters Usage with Constraint-Based Pod Packing"
(Christensen, Giallorenzo, Mauro, arXiv 2511.08373, 2025), carried over from CPUs and memory to GPUs. As published:
equal nodes; every pod on one node; priorities; pods that ask together for as much as there is; a scheduler that places
pods one by one leaves some of them pending although there is room in pieces; every running pod may be moved to another
node or evicted, and each that is moved counts the same whatever its size.

Ours: 8 GPUs a node; pods of 1, 2, 4 and 8 GPUs in the shares of SHARES (3.4 GPUs a pod on average); four priorities,
drawn evenly; demand equal to capacity to the GPU; pods placed in the order in which they were drawn, each on the
emptiest node that it fits on (what Kubernetes' default scorer favours), the first in the list if several are. As sizes
divide each other and the node, a plan that runs every pod always exists: the search is for that packing, then for the
fewest moves that lead to it.

The profile switches off what the published model does not know: reservations, tokens, minimum run times, limits on
what a preemption may lose, prices on broken domains. A pod's restart is so long that every move costs MOVE_GPU_S.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NODE_GPUS = 8
SIZES = (1, 2, 4, 8)
SHARES = (0.3, 0.25, 0.25, 0.2)
"""Chance of each size, by pods."""

PRIORITIES = ("P0", "P1", "P2", "P3")
MOVE_GPU_S = 480
"""What a move costs, in GPU-seconds: restart times GPUs."""

PROFILE = {
    "base": "default",
    "name": "priority-matters",
    "max_reservations": 0,
    "preempt_tokens": None,
    "min_runtime_s": 0,
    "max_loss_ratio": None,
    "domain_price": {},
}


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod: its GPUs, its class, and the node that it runs on; None where it is pending."""

    gpus: int
    priority: str
    node: int | None


def draw_pods(nodes: int, seed: int) -> list[Pod]:
    """Return pods that ask for all GPUs of `nodes` nodes together, in order of arrival, placed as a queue would be.

    Sizes are drawn until the demand is met; one that would exceed it is replaced by the largest sizes that do not.
    """
    rng = np.random.default_rng(seed)
    sizes: list[int] = []
    left = nodes * NODE_GPUS
    while left:
        size = int(rng.choice(SIZES, p=SHARES))
        size = max(each for each in SIZES if each <= min(size, left))
        sizes.append(size)
        left -= size
    classes = rng.choice(PRIORITIES, size=len(sizes))
    free = [NODE_GPUS] * nodes
    pods = []
    for size, priority in zip(sizes, classes.tolist(), strict=True):
        emptiest = free.index(max(free))
        where = emptiest if free[emptiest] >= size else None
        if where is not None:
            free[where] -= size
        pods.append(Pod(size, priority, where))
    return pods


def family_round(nodes: int, seed: int) -> dict[str, object]:
    """Return a round of the family as the document of a snapshot."""
    if nodes < 1 or seed < 0:
        raise ValueError(f"{nodes} nodes, seed {seed}; allowed: at least 1 node, and a seed from 0 on")
    jobs = [_job(number, pod) for number, pod in enumerate(draw_pods(nodes, seed))]
    cluster = {
        "name": f"family-{nodes}",
        "levels": [],
        "nodes": [{"id": _node(n), "gpus": NODE_GPUS} for n in range(nodes)],
    }
    about = {
        "what": "a round in the manner of Priority Matters (arXiv 2511.08373), on GPUs",
        "derived": f"benchmarks/priority_matters.py {nodes} {seed}",
    }
    return {"about": about, "now": 0, "profile": PROFILE, "cluster": cluster, "teams": [{"id": "all"}], "jobs": jobs}


def _node(n: int) -> str:
    return f"n{n:04d}"


def _job(number: int, pod: Pod) -> dict[str, object]:
    job: dict[str, object] = {
        "id": f"pod{number:05d}",
        "team": "all",
        "priority": pod.priority,
        "gpus": pod.gpus,
        "checkpoint": {"cost_s": 0, "on_signal": True, "restart_s": MOVE_GPU_S // pod.gpus},
        "submitted_at": -3600,
    }
    if pod.node is not None:
        job |= {"state": "running", "started_at": -3600, "run": 1, "placement": {_node(pod.node): pod.gpus}}
    return job


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 3:
        raise SystemExit(__doc__)
    document = family_round(int(arguments[0]), int(arguments[1]))
    path = Path(arguments[2])
    text = json.dumps(document, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


if __name__ == "__main__":
    main(sys.argv[1:])
