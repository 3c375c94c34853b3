"""B_simple from squared norms, against gradients whose noise is known."""

import math

import numpy as np
import pytest

from reproduce.estimator import NoiseScaleError, NoiseScaleEstimator, ratio_interval, unbiased_moments

SHARDS, SHARD = 8, 8  # eight shards of eight samples


def simulated_norms(rng, b_simple: float, updates: int, dimensions: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Squared norms (mean over shards, whole batch) of gradients with |G|^2 = 1 and tr Sigma = b_simple."""
    noise = rng.standard_normal((updates, SHARDS, dimensions)) * math.sqrt(b_simple / dimensions / SHARD)
    gradients = noise + np.eye(dimensions)[0]
    small = np.square(gradients).sum(-1).mean(1)
    whole = np.square(gradients.mean(1)).sum(-1)
    return small, whole


def estimate_once(rng, b_simple: float, updates: int):
    estimator = NoiseScaleEstimator()
    for small, whole in zip(*simulated_norms(rng, b_simple, updates), strict=True):
        estimator.update(small, whole, SHARD, SHARDS * SHARD)
    return estimator.estimate()


def test_moments_invert_the_expected_norms():
    grad_sq, trace = 0.7, 35.0  # E|G_B|^2 = |G|^2 + tr Sigma / B
    assert unbiased_moments(grad_sq + trace / 8, grad_sq + trace / 64, 8, 64) == pytest.approx((grad_sq, trace))


@pytest.mark.parametrize(("b_simple", "updates"), [(10, 100), (1_000, 400), (1_000, 3_000), (100_000, 1_000)])
def test_intervals_cover_the_truth(b_simple, updates):
    rng = np.random.default_rng(b_simple + updates)
    estimates = [estimate_once(rng, b_simple, updates) for _ in range(200)]
    covered = [e.low <= b_simple and (e.high is None or b_simple <= e.high) for e in estimates]
    assert np.mean(covered) >= 0.9
    assert all(e.value is None or e.value > 0 for e in estimates)
    assert all(e.low >= 0 for e in estimates)


def test_value_is_near_the_truth_where_the_gradient_is_measurable():
    rng = np.random.default_rng(0)
    values = [estimate_once(rng, 50, 400).value for _ in range(50)]
    assert np.median(values) == pytest.approx(50, rel=0.05)


def test_gradient_lost_in_noise_gives_a_lower_bound_and_no_number():
    estimate = estimate_once(np.random.default_rng(3), 1e6, 200)
    assert estimate.value is None
    assert estimate.high is None
    assert 0 < estimate.low < 1e6
    assert str(estimate).startswith("at least ")


def test_negative_measurements_enter_the_average_unclamped():
    estimator = NoiseScaleEstimator()
    for sq_big in (0.5, 2.5) * 20:  # |G|^2 estimates alternate around 1.14, the lower one negative
        estimator.update(4.0, sq_big, 8, 64)
    expected = np.mean([unbiased_moments(4.0, sq_big, 8, 64)[0] for sq_big in (0.5, 2.5)])
    assert min(unbiased_moments(4.0, sq_big, 8, 64)[0] for sq_big in (0.5, 2.5)) < 0.05
    assert estimator.estimate().grad_sq == pytest.approx(expected)


def test_fieller_interval_against_its_definition():
    covariance = np.array([[0.04, 0.01], [0.01, 0.02]])
    value, low, high = ratio_interval(3.0, 2.0, covariance, 20, 0.95)
    assert value == 1.5
    t = 2.0859634  # Student's t, 97.5 %, 20 degrees of freedom
    for end in (low, high):
        deviation = abs(3.0 - end * 2.0)
        spread = math.sqrt(0.04 - 2 * end * 0.01 + end**2 * 0.02)
        assert deviation / spread == pytest.approx(t, rel=1e-6)


def test_a_trace_lost_in_noise_gives_an_interval_from_0_and_nothing_negative():
    covariance = np.array([[0.25, 0.0], [0.0, 0.0001]])  # tr Sigma known to 0.5, |G|^2 to 0.01
    value, low, high = ratio_interval(0.3, 1.0, covariance, 20, 0.95)
    assert (value, low) == (pytest.approx(0.3), 0.0)
    assert high == pytest.approx(0.3 + 2.086 * 0.5, rel=0.01)
    value, low, high = ratio_interval(-0.3, 1.0, covariance, 20, 0.95)
    assert (value, low) == (0.0, 0.0)
    assert high == pytest.approx(-0.3 + 2.086 * 0.5, rel=0.01)


def test_non_finite_norms_are_counted_and_do_not_poison_the_average():
    estimator = NoiseScaleEstimator()
    for bad in (math.nan, math.inf):
        estimator.update(bad, 1.0, 8, 64)
        estimator.update(2.0, bad, 8, 64)
    estimator.update(2.0, 1.0, 8, 64)
    assert estimator.skipped == 4
    assert estimator.estimate().trace == pytest.approx(unbiased_moments(2.0, 1.0, 8, 64)[1])


def test_memory_is_bounded_and_merging_keeps_the_mean():
    rng = np.random.default_rng(1)
    estimator = NoiseScaleEstimator()
    small, whole = simulated_norms(rng, 20, 5_000)
    for pair in zip(small, whole, strict=True):
        estimator.update(*pair, SHARD, SHARDS * SHARD)
    assert len(estimator.blocks) <= NoiseScaleEstimator.MAX_BLOCKS
    grad_sq, trace = unbiased_moments(small.mean(), whole.mean(), SHARD, SHARDS * SHARD)
    assert estimator.estimate().value == pytest.approx(trace / grad_sq)


def test_horizon_forgets_the_past():
    rng = np.random.default_rng(2)
    estimator = NoiseScaleEstimator(horizon=200)
    for b_simple, updates in ((10, 2_000), (100, 2_000)):
        for pair in zip(*simulated_norms(rng, b_simple, updates), strict=True):
            estimator.update(*pair, SHARD, SHARDS * SHARD)
    estimate = estimator.estimate()
    assert estimate.value == pytest.approx(100, rel=0.15)
    assert estimate.low <= 100 <= estimate.high


def test_correlated_measurements_widen_the_interval():
    rng = np.random.default_rng(5)
    small, whole = simulated_norms(rng, 30, 200)
    once, repeated = NoiseScaleEstimator(), NoiseScaleEstimator()
    for pair in zip(small, whole, strict=True):
        once.update(*pair, SHARD, SHARDS * SHARD)
        for _ in range(16):  # the same news 16 times is no more news
            repeated.update(*pair, SHARD, SHARDS * SHARD)
    a, b = once.estimate(), repeated.estimate()
    assert b.value == pytest.approx(a.value)
    assert (b.high - b.low) == pytest.approx(a.high - a.low, rel=0.5)


def test_state_goes_on_exactly():
    rng = np.random.default_rng(7)
    pairs = list(zip(*simulated_norms(rng, 30, 300), strict=True))
    whole, first = NoiseScaleEstimator(), NoiseScaleEstimator()
    for pair in pairs:
        whole.update(*pair, 8, 64)
    for pair in pairs[:137]:
        first.update(*pair, 8, 64)
    second = NoiseScaleEstimator()
    second.load_state_dict(first.state_dict())
    for pair in pairs[137:]:
        second.update(*pair, 8, 64)
    assert second.estimate() == whole.estimate()


@pytest.mark.parametrize(("n_small", "n_big"), [(8, 8), (64, 8), (0, 8)])
def test_one_batch_size_is_refused(n_small, n_big):
    with pytest.raises(NoiseScaleError, match="two batch sizes"):
        NoiseScaleEstimator().update(1.0, 1.0, n_small, n_big)
