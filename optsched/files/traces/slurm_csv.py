"""SenseTime Helios and Shanghai AI Lab's Acme (Seren, Kalos): CSV tables with the states of Slurm."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.files.report import known, show
from optsched.files.traces.rows import MAX_GPUS, MAX_SECONDS, Row, csv_rows
from optsched.files.traces.source import Options, Parsed, Source
from optsched.values.trace import TraceJob

SHARED = ("job_id", "user", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "start_time", "end_time")
STATES = {
    "COMPLETED": "completed",
    "CANCELLED": "cancelled",
    "FAILED": "failed",
    "TIMEOUT": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "BOOT_FAIL": "failed",
    "DEADLINE": "failed",
    "LAUNCH_FAILED": "failed",
    "PREEMPTED": "preempted",
    "REQUEUED": "requeued",
    "REVOKED": "revoked",
    "RUNNING": "running_at_end",
    "SUSPENDED": "running_at_end",
    "COMPLETING": "running_at_end",
    "STOPPED": "running_at_end",
    "RESIZING": "running_at_end",
    "PENDING": "pending",
    "CONFIGURING": "pending",
}
"""The states of Slurm, as this project names how a job ended. A time limit and a lost node are failures."""


def is_helios(source: Source) -> bool:
    """Whether it is a cluster_log.csv of Helios."""
    return source.has(*SHARED, "vc")


def is_acme(source: Source) -> bool:
    """Whether it is a trace_seren.csv or trace_kalos.csv of Acme."""
    return source.has(*SHARED, "type") and not source.has("vc")


def state(row: Row, column: str) -> str:
    """Return how the job ended; an unknown state is a fault."""
    text = row.text(column)
    word = text.upper().split(" ", 1)[0].rstrip("+")
    found = STATES.get(word)
    if found is None:
        row.fault(column, f"given {show(text)}", known(list(STATES), word, "states of Slurm"))
    return found or ""


def read_helios(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read Helios: the team is the virtual cluster; jobs of 0 GPUs are CPU jobs."""
    _read(sources, parsed, team="vc", memory="")


def read_acme(sources: Sequence[Source], options: Options, parsed: Parsed) -> None:
    """Read Acme: it has no teams; Kalos gives memory per pod, with a pod to a node."""
    _read(sources, parsed, team="", memory="mem_per_pod_GB")


def _read(sources: Sequence[Source], parsed: Parsed, team: str, memory: str) -> None:
    parsed.wall_clock = True
    for source in sources:
        faults = parsed.open(source)
        parsed.zoned = not team
        for row in csv_rows(source.text, faults):
            submit_s = row.instant("submit_time", unknown=())
            nodes = row.whole("node_num")
            per_pod = row.maybe(memory) if memory else None
            job_id, ending = row.needed("job_id"), state(row, "state")
            gpus, cpus = row.number("gpu_num", 0, MAX_GPUS), row.maybe("cpu_num")
            duration_s = row.maybe("duration", 0, MAX_SECONDS)
            if not row.sound or submit_s is None:
                continue
            job = TraceJob(
                id=job_id,
                submit_s=submit_s,
                gpus=gpus,
                duration_s=duration_s if ending not in ("pending", "running_at_end") else None,
                cpus=cpus,
                memory_gib=None if per_pod is None or nodes is None else per_pod * nodes,
                team=row.text(team) if team else "",
                user=row.text("user"),
                status=ending,
                tasks=nodes,
                gpus_per_task=gpus / nodes if nodes else None,
            )
            parsed.jobs.append((faults, row.line, job))
