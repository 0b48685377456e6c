"""How fast a store takes entries, and how large it becomes in 90 days.

    python benchmarks/measure_store.py append FOLDER [--seconds 10] [--url URL]
    python benchmarks/measure_store.py days FOLDER [--days 90] [--jobs 300] [--url URL]

A submit is one entry with an idempotency key, as the service stores it. FOLDER is on the disk to measure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from optsched.engine import events as ev
from optsched.engine.log import LogEntry
from optsched.engine.ports import RoundRecord, Store
from optsched.store import Retention, open_store
from optsched.values.ids import JobId, NodeId, TeamId, UserId
from optsched.values.job import Job
from optsched.values.plan import Bill, Plan, RoundInfo, Source, Start, Status, Waiting

BATCHES = (1, 16, 64)
DAY_S = 86_400.0
MIB = 2**20


def main(argv: list[str]) -> None:
    """Measure what was asked for, and print it as a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("append", "days"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--jobs", type=int, default=300, help="jobs a day")
    parser.add_argument("--url", help="a store to use instead of a new file in FOLDER")
    args = parser.parse_args(argv)
    store = open_store(args.url or f"sqlite:///{args.folder}/measured.db")
    print(disk_of(args.folder))
    if args.what == "append":
        append(store, args.seconds)
    else:
        days(store, args.folder / "measured.db", args.days, args.jobs)


def disk_of(folder: Path) -> str:
    """Return the device and the filesystem that a folder is on."""
    shown = subprocess.run(
        ["findmnt", "-n", "-o", "SOURCE,FSTYPE,OPTIONS", "-T", folder], capture_output=True, text=True, check=False
    )
    return f"{' '.join(shown.stdout.split()) or 'an unknown disk'}; {os.cpu_count()} CPUs"


def submit(number: int, at: float) -> LogEntry:
    """A job as a front end submits it."""
    job = Job(
        id=JobId(f"j-{number:08x}"),
        team=TeamId("vision"),
        user=UserId("ada"),
        gpus=64,
        gpus_per_node=8,
        priority=3000,
        priority_class="P1",
        estimated_runtime_s=86_400.0,
        command=("python", "train.py", "--config", "configs/large.yaml"),
        environment={"NCCL_DEBUG": "WARN", "RUN": str(number)},
        working_directory="/home/ada/runs",
        submitted_at=at,
    )
    return LogEntry(number, at, ev.Submit(job))


def append(store: Store, seconds: float) -> None:
    """Append batches of each size for a while."""
    found = store.open()
    last = found.sequence + len(found.entries)
    print("| entries in a batch | entries/s | median of an append, ms | 99 % within, ms |\n|---|---|---|---|")
    for size in BATCHES:
        took = []
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            batch = [submit(number, float(number)) for number in range(last + 1, last + size + 1)]
            keys = {f"front-end/{entry.sequence}": b'{"job_id": "j-%08x"}' % entry.sequence for entry in batch}
            before = time.perf_counter()
            store.append(batch, keys)
            took.append(1000.0 * (time.perf_counter() - before))
            last += size
        rate = size * len(took) / (time.perf_counter() - began)
        print(f"| {size} | {rate:,.0f} | {np.median(took):.1f} | {np.quantile(took, 0.99):.1f} |", flush=True)
    store.close()


def day_of(number: int, jobs: int, draw: np.random.Generator) -> Iterator[tuple[float, ev.Event]]:
    """Yield what happens to the jobs of a day: each is submitted, started, checkpoints, and ends."""
    info = RoundInfo(Source.CP_SAT, Status.OPTIMAL, 0.0, 0, 1.0, 1.0, 300, 300)
    waits = tuple(
        Waiting(JobId(f"w-{each}"), "no_domain_fits", f"{each % 9} of 10 racks have too few free GPUs")
        for each in range(300)
    )
    for each in range(jobs):
        at = number * DAY_S + each * DAY_S / jobs
        entry = submit(number * jobs + each, at)
        assert isinstance(entry.event, ev.Submit)
        job = entry.event.job.id
        nodes = [NodeId(f"node-{node:04}") for node in draw.integers(0, 1250, 8)]
        yield at, entry.event
        yield at, ev.Decided(Plan(info, (Start(job, dict.fromkeys(nodes, 8), "rack"),), queued=waits), 1)
        for outcome in (ev.Outcome.RESERVED, ev.Outcome.STARTED):
            for node in nodes:
                yield at, ev.Report(job, node, outcome, 1, epoch=1)
        for step in range(int(draw.integers(4, 40))):
            yield at, ev.Checkpointed(job, 1, f"step-{step * 1000}", "nvme", at)
        for node in nodes:
            yield at, ev.Report(job, node, ev.Outcome.OK, 1, epoch=1)
        yield at, ev.Tick()


def days(store: Store, file: Path, count: int, jobs: int) -> None:
    """Let days of events pass through a store: a state every hour, a round every minute."""
    store.open()
    draw = np.random.default_rng(1)
    state = json.dumps([submit(each, 0.0).event.__repr__() for each in range(2000)]).encode()  # type: ignore[operator]
    plan = json.dumps([f"job {each} waits for {each % 7} racks" for each in range(2000)]).encode()
    sequence = rounds = 0
    began = time.perf_counter()
    print("| day | entries so far | the file, MiB |\n|---|---|---|")
    for number in range(count):
        happened = list(day_of(number, jobs, draw))
        for first in range(0, len(happened), max(1, len(happened) // 24)):
            part = happened[first : first + max(1, len(happened) // 24)]
            batch = [LogEntry(sequence + each, *one) for each, one in enumerate(part, 1)]
            keys = {str(entry.sequence): b'{"job_id": "j"}' for entry in batch if isinstance(entry.event, ev.Submit)}
            store.append(batch, keys)
            sequence += len(batch)
            for minute in range(60):
                rounds += 1
                at = part[0][0] + 60.0 * minute
                # Every tenth round decides something, and only such are kept with a plan.
                store.add_round(
                    RoundRecord(rounds, at, Source.CP_SAT, 0.0, Bill(run_value=1e6), plan if minute % 10 == 0 else None)
                )
            store.save_state(sequence, state)
        if (number + 1) % 10 == 0:
            size = file.stat().st_size / MIB if file.exists() else float("nan")
            print(f"| {number + 1} | {sequence:,} | {size:.0f} |", flush=True)
    store.close()
    spent = time.perf_counter() - began
    print(f"\n{spent:.0f} s; with the retention {Retention()}")


if __name__ == "__main__":
    main(sys.argv[1:])
