"""Derive a busy day of the Microsoft Philly cluster, as a trace: optsched/examples/philly-day.csv.gz.

    python benchmarks/philly_day.py FOLDER [OUTPUT]

FOLDER holds `philly2017_jobs.csv.gz`: the table that the artifact of Sia (SOSP'23) derived from the trace published
with Jeon et al., USENIX ATC 2019. Same input, same bytes.

Taken are all jobs of the 24 hours (starting at a half day of the trace) in which most gangs of 16 GPUs and more were
submitted: 428 jobs, 22 of them such gangs, from the middle of the trace's 99th day on. Their order, sizes, teams and
submit times are those of the trace. Durations above 12 hours are shortened to 12 hours, so that a simulation of the day
ends soon after it; that concerns 21 jobs. On the 160 GPUs of topologies/philly-160.yaml, a sixteenth of the real
cluster, they offer a load of 0.84.
"""

from __future__ import annotations

import gzip
import sys
from dataclasses import replace
from pathlib import Path

from optsched.files.traces import load_trace, to_csv
from optsched.sim.traces.facts import describe
from optsched.sim.traces.scale import cut

DAY_S = 86_400
LONGEST_S = 43_200.0
GANG = 16
OUTPUT = Path(__file__).resolve().parent.parent / "optsched" / "examples" / "philly-day.csv.gz"


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2:
        raise SystemExit(__doc__)
    whole, _ = load_trace([Path(arguments[0]) / "philly2017_jobs.csv.gz"])
    half_days = range(int(whole.jobs[-1].submit_s // (DAY_S / 2)))
    days = {half * 12: cut(whole, half * DAY_S / 2, half * DAY_S / 2 + DAY_S) for half in half_days}
    hour = max(days, key=lambda start: sum(job.gpus >= GANG for job in days[start].jobs))
    day = days[hour]
    long = sum((job.duration_s or 0) > LONGEST_S for job in day.jobs)
    day = replace(day, jobs=tuple(replace(job, duration_s=min(job.duration_s or 0, LONGEST_S)) for job in day.jobs))
    output = Path(arguments[1]) if len(arguments) == 2 else OUTPUT
    output.write_bytes(gzip.compress(to_csv(day).encode(), compresslevel=9, mtime=0))
    facts = describe(day, 160)
    assert facts.offered is not None
    assert facts.offered.load is not None
    gangs = sum(job.gpus >= GANG for job in day.jobs)
    print(
        f"{output.name}: {facts.jobs} jobs, {gangs} of at least {GANG} GPUs, {long} shortened, from hour {hour} on, "
        f"{facts.gpu_s / 3600:.0f} GPU-h, load {facts.offered.load:.2f} of 160 GPUs, {output.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
