"""The generated fleet meets the published totals: sizes, durations, hours, models, organizations, types.

Tolerances are stated beside each; the tables are those of optsched/sim/traces/tables.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from optsched.sim.traces.fleet import HOURS, PREEXISTING, generate
from optsched.sim.traces.fleetfit import DURATIONS, LARGE, SIZES, fit
from optsched.sim.traces.tables import column, rows_of
from optsched.values.trace import Trace

TOTAL = 466_844
"""Jobs of the first 4,416 hours; three more hours of the table have 23."""


@pytest.fixture(scope="module")
def whole() -> Trace:
    return generate(seed=1, hours=HOURS)


def test_every_hour_gets_its_jobs(whole: Trace) -> None:
    """Exactly: hour by hour, as many jobs as were submitted."""
    assert len(whole.jobs) == TOTAL
    hours = np.bincount([int(job.submit_s // 3600) for job in whole.jobs], minlength=HOURS)
    assert hours.tolist() == column("fleet2026_hourly", "jobs")[:HOURS].astype(int).tolist()


def test_sizes_and_durations_meet_the_tables(whole: Trace) -> None:
    """Jobs per size within 4 % and per duration within 5 %; GPU-seconds of jobs up to a node within 25 %.

    Those of larger gangs hang on a few dozen jobs that run for weeks: the fit, below, is held to them instead.
    """
    gpus = np.array([job.gpus for job in whole.jobs])
    seconds = np.array([job.duration_s for job in whole.jobs], dtype=float)
    sizes = {row["bucket"]: row for row in rows_of("fleet2026_sizes")}
    bounds = [(0.0, 0.99), (1, 1), (2, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, 128), (129, 1e9)]
    for label, (low, high) in zip([name for name, _ in SIZES] + [LARGE], bounds, strict=True):
        inside = (gpus >= low) & (gpus <= high)
        assert inside.sum() == pytest.approx(int(sizes[label]["jobs"]), rel=0.04), label
        if high <= 8:
            work = float((gpus * seconds)[inside].sum())
            assert work == pytest.approx(float(sizes[label]["gpu_s"]), rel=0.25), label
    durations = {row["bucket"]: row for row in rows_of("fleet2026_durations")}
    for label, low, high in DURATIONS:
        inside = (seconds >= low) & (seconds < high)
        assert inside.sum() == pytest.approx(int(durations[label]["jobs"]), rel=0.05), label


def test_quantiles_of_durations(whole: Trace) -> None:
    """Not fitted but by the bands: the median within 10 %, p90, p95 and p99 within 35 %."""
    seconds = [job.duration_s for job in whole.jobs]
    for row, tolerance in zip(rows_of("fleet2026_quantiles"), (0.10, 0.35, 0.35, 0.35), strict=True):
        found = float(np.quantile(np.array(seconds, dtype=float), float(row["quantile"])))
        assert found == pytest.approx(float(row["duration_seconds"]), rel=tolerance), row


def test_demand_follows_the_hours(whole: Trace) -> None:
    """GPUs wanted: the mean within 5 %; daily means within 33 % on 90 % of the days, half of them within 16 %."""
    change = np.zeros(HOURS + 1)
    for job in whole.jobs:
        start = int(job.submit_s // 3600)
        end = min(int((job.submit_s + (job.duration_s or 0)) // 3600), HOURS - 1)
        change[start] += job.gpus
        change[end + 1] -= job.gpus
    held = np.cumsum(change)[:HOURS]
    wanted = column("fleet2026_hourly", "wanted")[:HOURS]
    assert held.mean() == pytest.approx(wanted.mean(), rel=0.05)
    off = np.abs(held.reshape(-1, 24).mean(axis=1) / wanted.reshape(-1, 24).mean(axis=1) - 1)
    assert np.quantile(off, 0.9) < 0.33
    assert np.quantile(off, 0.5) < 0.16
    assert np.corrcoef(held, wanted)[0, 1] > 0.4


def test_models_organizations_and_types_have_their_jobs(whole: Trace) -> None:
    """Jobs within 4 % for all with at least 2,000."""
    for table, key, found in (
        ("models", "gpu_model", Counter(job.gpu_types[0] for job in whole.jobs)),
        ("organizations", "organization", Counter(job.team.removeprefix("org") for job in whole.jobs)),
        ("types", "job_type", Counter(job.priority for job in whole.jobs)),
    ):
        for row in rows_of(f"fleet2026_{table}"):
            if float(row["jobs"]) >= 2000:
                assert found[row[key]] == pytest.approx(float(row["jobs"]), rel=0.04), row


def test_gpus_by_model(whole: Trace) -> None:
    """GPUs asked for, by model, within 6 %: large gangs are on H800 and A100, shares of GPUs on A10."""
    found: Counter[str] = Counter()
    for job in whole.jobs:
        found[job.gpu_types[0]] += job.gpus  # type: ignore[assignment]
    for row in rows_of("fleet2026_models"):
        assert found[row["gpu_model"]] == pytest.approx(float(row["gpus"]), rel=0.06), row


def test_no_job_outlives_the_trace(whole: Trace) -> None:
    assert max(job.submit_s + (job.duration_s or 0) for job in whole.jobs) <= HOURS * 3600


def test_the_fit_meets_its_totals_and_its_groups() -> None:
    """Before anything is drawn: jobs and GPU-seconds of every size and duration within 3 %, GPUs of every day 1 %."""
    found = fit()
    work = found.totals * found.mean_gpus[:, None] * found.mean_s
    for table, labels, axis in (
        ("sizes", [name for name, _ in SIZES] + [LARGE], 1),
        ("durations", [name for name, _, _ in DURATIONS], 0),
    ):
        rows = {row["bucket"]: row for row in rows_of(f"fleet2026_{table}")}
        jobs, gpu_s = ([float(rows[label][key]) for label in labels] for key in ("jobs", "gpu_s"))
        assert found.totals.sum(axis=axis) == pytest.approx(jobs, rel=0.03)
        assert work.sum(axis=axis) == pytest.approx(gpu_s, rel=0.03)
    assert found.cells.sum(axis=(1, 2)) == pytest.approx(1)
    mean = (found.cells.sum(axis=2) * found.mean_gpus).sum(axis=1)
    gpus = column("fleet2026_hourly", "gpus")
    asked = np.array([gpus[hours.start : hours.stop].sum() for hours in found.hours])
    assert mean * found.jobs == pytest.approx(asked, rel=0.01)


def test_a_window_shows_the_same_world(whole: Trace) -> None:
    """The jobs submitted in it are those of the whole; those that run on from before have the rest of their time."""
    window = generate(seed=1, from_hour=100, hours=6)
    at_s = 100 * 3600.0
    theirs = {job.id: job for job in whole.jobs}
    new = [job for job in window.jobs if job.status != PREEXISTING]
    assert {job.id for job in new} == {job.id for job in whole.jobs if at_s <= job.submit_s < at_s + 6 * 3600}
    assert all(theirs[job.id].submit_s == job.submit_s + at_s for job in new)
    for job in window.jobs:
        if job.status == PREEXISTING:
            before = theirs[job.id]
            assert job.submit_s == 0
            assert before.submit_s + (before.duration_s or 0) == at_s + (job.duration_s or 0)


def test_seeds_and_shares() -> None:
    first, again, other = (generate(seed=seed, hours=4) for seed in (1, 1, 2))
    assert first == again
    assert first.jobs != other.jobs
    part = generate(seed=1, hours=4, share=0.25)
    assert {job.id for job in part.jobs} < {job.id for job in first.jobs}
    assert len(part.jobs) == pytest.approx(len(first.jobs) / 4, rel=0.1)


def test_gangs_are_cut_for_the_nodes_of_their_model(whole: Trace) -> None:
    for job in whole.jobs[:20_000]:
        assert job.gpus_per_task is not None
        assert job.tasks is not None
        assert job.gpus == pytest.approx(job.tasks * job.gpus_per_task)
        assert job.gpus_per_task <= (1 if job.gpu_types == ("A10",) else 8)
