"""What a task finds in its environment: what torchrun, plain PyTorch and JAX read, and what optsched adds."""

from __future__ import annotations

from collections.abc import Mapping

from optsched.agent.values import Key, StartSpec, Task

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
"""Of the agent's own environment; the rest is not the job's business."""

SEES = "OPTSCHED_VISIBLE_GPUS"
"""What a job may set: `task`, each task sees its own GPUs alone, or `node`, all that the job has on the node."""


def visible(task: Task, spec: StartSpec) -> tuple[int, ...]:
    """Return the GPUs that a task sees, in its own order.

    Programs with one process per GPU pick theirs by LOCAL_RANK, so where every task of a node has one GPU each sees all
    of them, in the order of local ranks. Otherwise a task sees its own.
    """
    wish = spec.environment.get(SEES, "")
    one_each = len(spec.tasks) > 1 and all(len(each.gpus) == 1 for each in spec.tasks)
    if wish == "node" or (one_each and wish != "task"):
        return tuple(gpu for each in spec.tasks for gpu in each.gpus)
    return task.gpus


def environment_of(
    key: Key, spec: StartSpec, task: Task, node: str, reports: str, outer: Mapping[str, str]
) -> dict[str, str]:
    """Return the whole environment of a task. `reports` is the file that it may write to, `outer` the agent's own."""
    seen = visible(task, spec)
    found = {name: outer[name] for name in PASSED_ON if name in outer}
    found |= {"USER": spec.user, "LOGNAME": spec.user} if spec.user else {}
    found |= spec.environment
    found |= {
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, seen)),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "RANK": str(task.rank),
        "WORLD_SIZE": str(spec.world_size),
        "LOCAL_RANK": str(task.local_rank),
        "LOCAL_WORLD_SIZE": str(len(spec.tasks)),
        "NODE_RANK": str(spec.node_rank),
        "GROUP_RANK": str(spec.node_rank),
        "NNODES": str(spec.node_count),
        "MASTER_ADDR": spec.master_address,
        "MASTER_PORT": str(spec.master_port),
        "JAX_COORDINATOR_ADDRESS": f"{spec.master_address}:{spec.master_port}",
    }
    if len(spec.tasks) == 1:
        # torchrun takes these for its own options: one launcher on each node, one process for each GPU.
        found |= {
            "PET_NNODES": str(spec.node_count),
            "PET_NODE_RANK": str(spec.node_rank),
            "PET_NPROC_PER_NODE": str(max(1, len(task.gpus))),
            "PET_MASTER_ADDR": spec.master_address,
            "PET_MASTER_PORT": str(spec.master_port),
        }
    elif len(seen) != len(task.gpus):
        found["JAX_CUDA_VISIBLE_DEVICES"] = str(task.local_rank)
    return found | _own(key, spec, task, node, reports)


def _own(key: Key, spec: StartSpec, task: Task, node: str, reports: str) -> dict[str, str]:
    found = {
        "OPTSCHED_JOB": key.job,
        "OPTSCHED_RUN": str(key.run),
        "OPTSCHED_NODE": node,
        "OPTSCHED_USER": spec.user,
        "OPTSCHED_TEAM": spec.team,
        "OPTSCHED_GPUS": ",".join(map(str, task.gpus)),
        "OPTSCHED_GANG_GPUS": str(spec.gang_gpus),
        "OPTSCHED_SLICE": ",".join(map(str, task.slice)),
        "OPTSCHED_RESTORE_VERSION": spec.restore_version,
        "OPTSCHED_CHECKPOINT_INTERVAL_S": f"{spec.interval_s:g}" if spec.interval_s else "",
        "OPTSCHED_CHECKPOINT_ON_SIGNAL": "1" if spec.on_signal else "0",
        "OPTSCHED_GRACE_PERIOD_S": f"{spec.grace_s:g}",
        "OPTSCHED_REPORTS": reports,
    }
    if spec.array_index is not None:
        found["OPTSCHED_ARRAY_INDEX"] = str(spec.array_index)
    return found
