"""Derive the small tables of optsched/sim/traces/tables from published data.

    python benchmarks/derive_tables.py FOLDER [OUTPUT]

FOLDER holds `philly2017_jobs.csv.gz` (see philly_snapshot.py) and in `aux/` the logs `walltime_sdsc_sp2.csv.gz` and
`walltime_kit_fh2.csv` and the tables `alibaba_spot2026_*.csv`. Same input, same bytes. Each table names its source.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

OUTPUT = Path(__file__).resolve().parent.parent / "optsched" / "sim" / "traces" / "tables"
STEPS = np.linspace(0, 1, 21)
RUN_BANDS = (60, 600, 3600, 6 * 3600, 24 * 3600, 10**10)
SIZE_BANDS = (1, 2, 4, 8, 10**6)

WALLTIME_SOURCE = (
    "used part of the requested walltime (run / requested), by how long the job ran; quantiles in steps of 5 %",
    "SDSC SP2 (67,620 jobs) and KIT FH2 (25,326 jobs) of the Parallel Workloads Archive, equal weight to each log",
)
DURATION_SOURCE = (
    "job durations in seconds, by GPUs; quantiles in steps of 5 %, the last the largest",
    "Microsoft Philly (Jeon et al., USENIX ATC 2019), 82,247 jobs as the artifact of Sia (SOSP'23) has them",
)
FLEET_SOURCE = (
    "Alibaba cluster-trace-v2026-spot-gpu (GFS, ASPLOS'26): totals of all its 466,867 jobs, as computed in "
    "GPU-Cluster-Spot-Resource-Dataset-Analysis"
)


def rows_of(path: Path) -> list[dict[str, str]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return list(csv.DictReader(text.splitlines()))


def write(path: Path, comments: Iterable[str], header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    lines = [f"# {text}" for text in comments] + [",".join(header)]
    lines += [",".join(str(cell) for cell in row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{path.name}: {len(lines)} lines")


def walltimes(folder: Path, output: Path) -> None:
    """Quantiles of the used fraction by run time: pooled with weights, so that each log counts the same."""
    logs = []
    for name in ("walltime_sdsc_sp2.csv.gz", "walltime_kit_fh2.csv"):
        pairs = [(float(row["run_s"]), float(row["requested_s"])) for row in rows_of(folder / "aux" / name)]
        logs.append(np.array([(run, min(run / asked, 1.0)) for run, asked in pairs if asked > 0 and run > 0]))
    rows = []
    low = 0
    for high in RUN_BANDS:
        inside = [log[(log[:, 0] >= low) & (log[:, 0] < high), 1] for log in logs]
        used = [part for part in inside if len(part) >= 100]
        rows.append([high, *(f"{sum(np.quantile(part, step) for part in used) / len(used):.4f}" for step in STEPS)])
        low = high
    write(output / "walltime_use.csv", WALLTIME_SOURCE, ["run_below_s", *_names()], rows)


def durations(folder: Path, output: Path) -> None:
    jobs = rows_of(folder / "philly2017_jobs.csv.gz")
    sizes = np.array([float(row["gpus"]) for row in jobs])
    seconds = np.array([float(row["duration_s"]) for row in jobs])
    rows, low = [], 0
    for high in SIZE_BANDS:
        inside = seconds[(sizes > low) & (sizes <= high)]
        rows.append([high, *(f"{value:.0f}" for value in np.quantile(inside, STEPS))])
        low = high
    write(output / "philly_durations.csv", DURATION_SOURCE, ["gpus_up_to", *_names()], rows)


def fleet(folder: Path, output: Path) -> None:
    """The tables that the generator of the 10,412-GPU fleet is calibrated to."""
    hourly = rows_of(folder / "aux" / "alibaba_spot2026_hourly.csv")
    keys = ("jobs_submitted", "gpus_submitted", "gpus_active")
    rows = [
        [row["hour"], *(round(float(row[key])) for key in keys), round(float(row["gpu_seconds_submitted"]) / 3600)]
        for row in hourly
    ]
    comment = "per hour: jobs and GPUs submitted, GPUs that jobs held or wanted, GPU-hours submitted"
    header = ["hour", "jobs", "gpus", "wanted", "gpu_h"]
    write(output / "fleet2026_hourly.csv", [comment, FLEET_SOURCE], header, rows)
    for name, key in (("gpu_demand", "gpu_demand_bucket"), ("duration", "duration_bucket")):
        table = rows_of(folder / "aux" / f"alibaba_spot2026_bucket_{name}.csv")
        rows = [[row[key].replace(",", ""), row["jobs"], round(float(row["gpu_seconds"]))] for row in table]
        comment = f"jobs and GPU-seconds by {'GPUs' if name == 'gpu_demand' else 'duration'}"
        short = "sizes" if name == "gpu_demand" else "durations"
        write(output / f"fleet2026_{short}.csv", [comment, FLEET_SOURCE], ["bucket", "jobs", "gpu_s"], rows)
    for name, short, keys in (
        ("demand_by_model", "models", ("gpu_model", "jobs", "gpu_demand", "gpu_seconds")),
        ("org_by_gpu_seconds", "organizations", ("organization", "jobs", "gpu_demand", "gpu_seconds")),
        ("job_type_summary", "types", ("job_type", "jobs", "gpu_seconds")),
        ("duration_quantiles", "quantiles", ("", "duration_seconds")),
    ):
        table = rows_of(folder / "aux" / f"alibaba_spot2026_{name}.csv")
        rows = [[_rounded(row[key]) for key in keys] for row in table]
        header = [{"": "quantile", "gpu_demand": "gpus", "gpu_seconds": "gpu_s"}.get(key, key) for key in keys]
        write(output / f"fleet2026_{short}.csv", [f"jobs by {keys[0] or 'duration'}", FLEET_SOURCE], header, rows)


def _rounded(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return text
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _names() -> list[str]:
    return [f"q{round(step * 100):02d}" for step in STEPS]


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2:
        raise SystemExit(__doc__)
    folder = Path(arguments[0])
    output = Path(arguments[1]) if len(arguments) == 2 else OUTPUT
    output.mkdir(parents=True, exist_ok=True)
    walltimes(folder, output)
    durations(folder, output)
    fleet(folder, output)


if __name__ == "__main__":
    main(sys.argv[1:])
