"""Describing and scaling traces, with figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from optsched.sim.traces.facts import band_of, describe, label_of
from optsched.sim.traces.scale import cut, evenly, grow, sample, shrink, to_load, up_to
from optsched.values.trace import Trace, TraceJob


def trace(*jobs: tuple[float, float, float | None], **fields: Any) -> Trace:
    return Trace(
        "given",
        "x",
        tuple(TraceJob(f"j{i}", at, gpus, runs, **fields) for i, (at, gpus, runs) in enumerate(jobs)),
        "then",
    )


GIVEN = trace((0, 4, 100), (50, 2, 10), (100, 8, 100), (200, 1, None))


def test_figures_of_a_trace() -> None:
    facts = describe(GIVEN, gpus=10)
    # 400 + 20 + 800 GPU-seconds over 200 s.
    assert (facts.gpu_s, facts.span_s, facts.gpus_asked, facts.durations_known) == (1220, 200, 15, 3)
    assert facts.offered is not None
    assert facts.offered.load == pytest.approx(1220 / (10 * 200))
    # 4 until 100 s, 6 from 50 to 60 s, then 8: the job that ends at 100 s makes room for the one that starts then.
    assert (facts.offered.peak_gpus, facts.offered.over_share) == (8, 0)
    assert (facts.offered.run_s, facts.offered.mean_gpus) == (200, 1220 / 200)
    assert describe(GIVEN, gpus=5).offered.over_share == pytest.approx((10 + 100) / 200)  # type: ignore[union-attr]
    assert [(size.label, size.jobs) for size in facts.sizes] == [("1", 1), ("2", 1), ("3-4", 1), ("5-8", 1)]


@pytest.mark.parametrize(
    ("jobs", "gpus", "load", "run"),
    [
        # Both at once: no window for a load, and twice what there is for all of the 100 s.
        (((0, 8, 100), (0, 8, 100)), 8, None, (100, 16, 16, 1)),
        # 200 GPU-seconds in one second, but of one GPU in 101 s: 1, 2 for 99 s, 1.
        (((0, 1, 100), (1, 1, 100)), 1, 200, (101, 200 / 101, 2, 99 / 101)),
        # The job that nobody knows the length of holds nothing, but comes last.
        (((0, 2, 10), (40, 2, None)), 1, 0.5, (40, 0.5, 2, 0.25)),
        (((0, 0, 10), (5, 0, 10)), 4, 0, (15, 0, 0, 0)),
        (((0, 4, None), (5, 4, None)), 4, None, (5, None, None, None)),
        (((0, 1, 1e4), (1e-320, 1, 1e4)), 1, None, (1e4, 2, 2, 1)),
        (((1e12, 1, 1e-6),), 1, None, (1e-6, 1, 1, 0)),
        (((3, 4, 0),), 4, None, (0, None, 0, None)),
        ((), 4, None, (0, None, None, None)),
    ],
)
def test_the_load_is_of_the_submissions_and_the_rest_of_the_time_until_the_last_end(
    jobs: tuple[tuple[float, float, float | None], ...],
    gpus: int,
    load: float | None,
    run: tuple[float | None, ...],
) -> None:
    found = describe(trace(*jobs), gpus).offered
    assert found is not None
    assert found.load == load
    assert (found.run_s, found.mean_gpus, found.peak_gpus, found.over_share) == pytest.approx(run)


@pytest.mark.parametrize(
    ("gpus", "label"),
    [
        (0, "0"),
        (0.5, "under 1"),
        (1, "1"),
        (1.5, "2"),
        (2, "2"),
        (8, "5-8"),
        (9, "9-16"),
        (1024, "513-1,024"),
        (1025, "over 1,024"),
    ],
)
def test_bands_of_sizes(gpus: float, label: str) -> None:
    assert label_of(band_of(gpus)) == label


def test_an_empty_trace_has_figures_too() -> None:
    facts = describe(trace(), gpus=4)
    assert (facts.jobs, facts.span_s, facts.durations.p50_s) == (0, 0, None)


def test_a_slice_starts_at_zero_and_ends_before_its_end() -> None:
    part = cut(GIVEN, 50, 200)
    assert [(job.id, job.submit_s) for job in part.jobs] == [("j1", 0), ("j2", 50)]
    assert part.starts_at == ""


def test_grown_jobs_ask_for_more_of_everything_and_run_as_long() -> None:
    cut_up = trace((0, 4, 100), tasks=2, gpus_per_task=2.0, cpus=32.0, memory_gib=64.0)
    (job,) = grow(cut_up, 8).jobs
    assert (job.gpus, job.tasks, job.gpus_per_task, job.cpus, job.memory_gib) == (32, 16, 2, 256, 512)
    assert (job.submit_s, job.duration_s) == (0, 100)
    assert [(job.gpus, job.tasks) for job in grow(GIVEN, 3).jobs] == [(12, None), (6, None), (24, None), (3, None)]


def test_a_sample_is_drawn_by_its_seed() -> None:
    whole = trace(*((float(i), 1.0, 10.0) for i in range(2000)))
    assert sample(whole, 0.25, 7) == sample(whole, 0.25, 7)
    assert sample(whole, 0.25, 7) != sample(whole, 0.25, 8)
    assert len(sample(whole, 0.25, 7).jobs) == pytest.approx(500, abs=60)
    assert sample(whole, 1.0, 7).jobs == whole.jobs


def test_shrinking_divides_submit_times_and_keeps_durations() -> None:
    part = shrink(GIVEN, 4)
    assert [(job.submit_s, job.duration_s) for job in part.jobs] == [(0, 100), (12.5, 10), (25, 100), (50, None)]


@pytest.mark.parametrize("load", [0.1, 0.85, 3.0])
def test_a_load_is_met_exactly(load: float) -> None:
    scaled = to_load(GIVEN, load, 10)
    assert scaled is not None
    assert describe(scaled, 10).offered.load == pytest.approx(load)  # type: ignore[union-attr]


def test_no_load_can_be_met_without_work_or_time() -> None:
    assert to_load(trace((0, 1, None), (5, 1, None)), 0.5, 10) is None
    assert to_load(trace((0, 1, 5), (0, 1, 5)), 0.5, 10) is None


def test_jobs_spaced_anew_keep_the_load_at_every_moment() -> None:
    # 400 GPU-seconds at half of 10 GPUs take 80 s, 20 take 4 s, 800 take 160 s.
    spaced = evenly(GIVEN, 0.5, 10)
    assert spaced is not None
    assert [job.submit_s for job in spaced.jobs] == [0, 80, 84, 244]


def test_jobs_without_work_cannot_be_spaced() -> None:
    assert evenly(trace((0, 1, None), (5, 1, None)), 0.5, 10) is None
    assert evenly(trace((0, 1, 100)), 0.5, 10) is None


def test_large_jobs_can_be_left_out() -> None:
    assert [job.gpus for job in up_to(GIVEN, 4).jobs] == [4, 2, 1]
