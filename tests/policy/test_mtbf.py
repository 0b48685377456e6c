"""How often nodes fail: published rates, a prior, and what observation makes of it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optsched.errors import InternalError
from optsched.policy.mtbf import PUBLISHED, Prior, estimate_mtbf, gamma_quantile, job_mtbf_s, job_nodes, weak_prior


@pytest.mark.parametrize(
    ("preset", "gpus", "hours", "tolerance"),
    [
        ("llama3", 16_384, 3.09, 0.005),  # 54 d · 24 h / 419
        ("llama3", 10_240, 4.95, 0.005),  # 50,677 GPU-h / 10,240
        ("rsc1", 16_384, 1.8, 0.05),  # the paper's own projections
        ("rsc1", 131_072, 0.23, 0.005),
        ("rsc1", 10_240, 2.88, 0.005),  # 29,538 GPU-h / 10,240
        ("rsc1-small-jobs", 1_024, 7.9, 0.005),  # measured
        ("rsc1-small-jobs", 8, 47.7 * 24, 150),  # measured as well: 1,145 h, where 7.9 h · 128 says 1,011
        ("rsc1-small-jobs", 10_240, 0.79, 0.005),
    ],
)
def test_published_rates_give_the_published_times_between_failures(preset, gpus, hours, tolerance) -> None:
    """On nodes of 8 GPUs, in hours."""
    node_mtbf_h = PUBLISHED[preset].node_mtbf_h(8)
    assert job_mtbf_s(node_mtbf_h, job_nodes(gpus, 8)) / 3600 == pytest.approx(hours, abs=tolerance)


def test_a_published_rate_says_where_it_is_from() -> None:
    """By the name of the paper."""
    assert "Llama 3 (2024)" in PUBLISHED["llama3"].source
    assert all("RSC-1" in PUBLISHED[name].source for name in ("rsc1", "rsc1-small-jobs"))
    assert PUBLISHED["llama3"].gpu_h / PUBLISHED["llama3"].failures == pytest.approx(50_677, abs=0.5)


def test_smaller_nodes_fail_less_often() -> None:
    """In proportion to their GPUs: so a job's M does not depend on how its GPUs are boxed."""
    small, large = (job_mtbf_s(PUBLISHED["rsc1"].node_mtbf_h(per), job_nodes(4096, per)) for per in (4, 8))
    assert small == pytest.approx(large)


def test_a_gang_fails_with_any_of_its_nodes() -> None:
    """A part of a node counts as a node: 9 GPUs on nodes of 8 stand on 2."""
    assert [job_nodes(gpus, 8) for gpus in (1, 8, 9, 4096)] == [1, 1, 2, 512]
    assert job_mtbf_s(1200, 512) == 1200 * 3600 / 512  # 8,437.5 s


def test_a_prior_counts_as_node_hours_that_were_observed() -> None:
    """1,200 h worth 6,000 node-hours is 5 failures in 6,000; 10 more in 9,000 make 15 in 15,000."""
    assert estimate_mtbf(Prior(1200, 6000)).mtbf_h == 1200
    assert estimate_mtbf(Prior(1200, 6000), 10, 9000).mtbf_h == 1000
    assert estimate_mtbf(None, 10, 9000).mtbf_h == 900


def test_time_without_failures_is_evidence_too() -> None:
    """One failure's worth of prior: (1,000 + 4,000) / 1."""
    assert estimate_mtbf(weak_prior(1000), 0, 4000).mtbf_h == 5000


def test_a_weak_prior_spreads_as_published_rates_do() -> None:
    """A gamma distribution with their mean and standard deviation has the shape (mean/sd)² = 1.1: one failure."""
    rates = [rate.failures / rate.gpu_h for rate in PUBLISHED.values()]
    assert (np.mean(rates) / np.std(rates, ddof=1)) ** 2 == pytest.approx(1.1, abs=0.05)
    assert weak_prior(1000) == Prior(1000, 1000)


@given(failures=st.integers(1, 10_000), mtbf_h=st.floats(10, 1e5), strength=st.floats(0.1, 100))
def test_many_observations_outweigh_any_prior(failures, mtbf_h, strength) -> None:
    """The estimate lies between the prior and what was seen, and nears the latter as more is seen."""
    prior, seen_h = Prior(mtbf_h, strength * mtbf_h), 500.0
    few, many = (estimate_mtbf(prior, failures * more, failures * more * seen_h) for more in (1, 1000))
    assert min(mtbf_h, seen_h) * (1 - 1e-9) <= few.mtbf_h <= max(mtbf_h, seen_h) * (1 + 1e-9)
    assert abs(many.mtbf_h - seen_h) <= abs(few.mtbf_h - seen_h) + 1e-9
    assert few.low_h < few.mtbf_h < few.high_h
    assert many.high_h / many.low_h < few.high_h / few.low_h


def test_nine_of_ten_ranges_hold_the_truth() -> None:
    """At 1,000 h 20 failures are expected in 20,000 node-hours; 2,000 draws, seed 3, no prior."""
    draws = np.random.default_rng(3).poisson(20, 2000)
    held = [(estimate := estimate_mtbf(None, int(n), 20_000)).low_h <= 1000 <= estimate.high_h for n in draws]
    assert 0.88 <= np.mean(held) <= 0.92


def test_nothing_known_is_refused() -> None:
    """No prior and no failure."""
    with pytest.raises(InternalError, match="prior"):
        estimate_mtbf(None, 0, 1000)


@pytest.mark.parametrize(
    ("probability", "degrees", "chi_square"),
    [
        (0.05, 1, 0.00393),
        (0.95, 1, 3.841),
        (0.05, 2, 0.1026),  # −2·ln 0.95
        (0.95, 20, 31.41),
        (0.05, 100, 77.93),
        (0.95, 100, 124.34),
        (0.05, 1000, 927.59),
        (0.95, 1000, 1074.68),
    ],
)
def test_gamma_quantiles_are_those_of_chi_square_tables(probability, degrees, chi_square) -> None:
    """Chi-square of n degrees is twice a gamma variable of shape n/2; from printed tables."""
    assert 2 * gamma_quantile(probability, degrees / 2) == pytest.approx(chi_square, rel=1e-3)


@given(shape=st.floats(0.01, 1e6))
def test_quantiles_are_in_order_for_any_shape(shape) -> None:
    """And finite, and above 0."""
    low, high = gamma_quantile(0.05, shape), gamma_quantile(0.95, shape)
    assert 0 < low < high
    assert math.isfinite(1 / low)
