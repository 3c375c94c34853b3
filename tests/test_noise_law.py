"""The law of loss drops, from numbers whose answer is known."""

import math
from dataclasses import replace

import numpy as np
import pytest

from reproduce.noise_law import DropCurve, fit_line_search, fit_log_law, peak, tail

SIZES = tuple(2**octave for octave in range(11))
BLOCKS = 16
DROP_MAX, RATE_MAX = 0.2, 0.5


def curve(
    size: float, b_noise: float, rng: np.random.Generator | None = None, common: np.ndarray | None = None
) -> DropCurve:
    """Drops a eps - c eps^2 / 2, c going as 1 + B_noise / B, with noise in a: 1.5 / sqrt(B), and what blocks share."""
    bend = 1 + b_noise / size
    rates = RATE_MAX / bend * 2.0 ** np.array([-0.4, 0.1, 0.6])
    slope = 2 * DROP_MAX / RATE_MAX * np.ones(BLOCKS)
    if rng is not None:
        slope = slope * (1 + common + 1.5 / math.sqrt(size) * rng.standard_normal(BLOCKS))
    drops = slope[:, None] * rates - DROP_MAX / RATE_MAX**2 * bend * rates**2
    return DropCurve(size, BLOCKS, rates, drops)


def curves(b_noise: float, seed: int | None = None) -> list[DropCurve]:
    if seed is None:
        return [curve(size, b_noise) for size in SIZES]
    rng = np.random.default_rng(seed)
    common = 0.2 * rng.standard_normal(BLOCKS)
    return [curve(size, b_noise, rng, common) for size in SIZES]


def test_peak_of_a_parabola_is_exact_on_a_geometric_grid():
    rates = np.geomspace(0.1, 1.6, 5)
    for top in (0.13, 0.3, 0.9, 1.4):
        rate, drop = peak(rates, 3 * top * rates - 1.5 * rates**2)
        assert rate == pytest.approx(top)
        assert drop == pytest.approx(1.5 * top**2)


def test_peak_lies_at_most_a_neighbour_beyond_the_rates():
    rates = np.array([1.0, 2.0, 4.0])
    rate, _ = peak(rates, 100 * rates - rates**2)  # its top is at 50
    assert rate == 8


def test_peak_passes_by_what_is_not_finite_and_what_bends_upwards():
    rates = np.array([1.0, 2.0, 4.0, 8.0])
    assert peak(rates, np.array([1.0, 3.0, 2.0, np.nan]))[0] == pytest.approx(2.75, abs=0.5)
    assert [float(value) for value in peak(rates, np.array([1.0, 3.0, -np.inf, np.nan]))] == [2, 3]
    assert [float(value) for value in peak(rates, np.array([4.0, 1.0, 2.0, 3.5]))] == [1, 4]


def test_law_without_noise_is_found_exactly():
    sizes = np.array(SIZES, dtype=float)
    log_b, log_limit, residuals = fit_log_law(sizes, np.log(7 / (1 + 33 / sizes)), np.ones(len(sizes)))
    assert math.exp(log_b) == pytest.approx(33, rel=1e-3)
    assert math.exp(log_limit) == pytest.approx(7, rel=1e-3)
    assert np.abs(residuals).max() < 1e-3


def test_drops_and_rates_give_the_same_b_noise():
    found = fit_line_search(curves(33), resamples=50)
    for law, limit in ((found.drops, DROP_MAX), (found.learning_rates, RATE_MAX)):
        assert law.b_noise.value == pytest.approx(33, rel=1e-3)
        assert law.limit.value == pytest.approx(limit, rel=1e-3)
        assert law.rms < 1e-3
    for step in found.peaks:
        assert step.drop.value == pytest.approx(DROP_MAX / (1 + 33 / step.batch_size), rel=1e-6)
        assert step.learning_rate.value == pytest.approx(RATE_MAX / (1 + 33 / step.batch_size), rel=1e-6)


def test_intervals_cover():
    covered = {"drops": 0, "learning_rates": 0}
    widths, errors, runs = [], [], 60
    for seed in range(runs):
        found = fit_line_search(curves(33, seed), resamples=200)
        for name in covered:
            b_noise = getattr(found, name).b_noise
            covered[name] += b_noise.low <= 33 <= b_noise.high
        widths.append(math.log(found.drops.b_noise.high / found.drops.b_noise.low) / 4)
        errors.append(math.log(found.drops.b_noise.value / 33))
    assert min(covered.values()) >= 0.88 * runs
    # Not by being wide: the half width of two standard errors is what repeats scatter by.
    assert np.mean(widths) == pytest.approx(np.std(errors), rel=0.35)
    assert abs(np.mean(errors)) < 0.1


def test_what_blocks_share_does_not_widen_b_noise():
    """Evaluation samples that are special move dL_max, at all batch sizes alike."""
    shared, sizes = 0.4 * np.random.default_rng(0).standard_normal(BLOCKS), SIZES[2:]
    rngs = [np.random.default_rng(size) for size in sizes]
    alike = fit_line_search([curve(size, 33, rng, shared) for size, rng in zip(sizes, rngs)], resamples=200).drops
    rngs = [np.random.default_rng(size) for size in sizes]
    apart = fit_line_search(
        [curve(size, 33, rng, np.random.default_rng(size + 1).permutation(shared)) for size, rng in zip(sizes, rngs)],
        resamples=200,
    ).drops
    assert alike.limit.high / alike.limit.low > 1.3
    width, width_apart = (math.log(law.b_noise.high / law.b_noise.low) for law in (alike, apart))
    assert width < 0.7 * width_apart


def test_a_drop_that_cannot_be_told_from_zero_is_censored_and_kept_out_of_the_law():
    noise = np.random.default_rng(1).standard_normal((BLOCKS, 1)) * np.array([0.5, 1.0, 2.0])
    measured = curves(33)
    lost = DropCurve(0.5, BLOCKS, np.array([0.001, 0.002, 0.004]), noise - noise.mean(0) + [1e-6, 2e-6, 1e-6])
    found = fit_line_search([lost, *measured], resamples=200)
    assert [step.measured for step in found.peaks] == [False] + [True] * len(SIZES)
    assert found.peaks[0].drop.high > 0.1
    assert found.peaks[0].learning_rate.value is None
    assert found.drops.b_noise.value == pytest.approx(33, rel=1e-3)


def test_the_scale_of_the_loss_does_not_matter():
    noisy = curves(33, seed=5)
    found = fit_line_search(noisy, resamples=200)
    tiny = fit_line_search([replace(c, drops=1e-9 * c.drops) for c in noisy], resamples=200)
    for name in ("value", "low", "high"):
        assert getattr(tiny.drops.b_noise, name) == pytest.approx(getattr(found.drops.b_noise, name), rel=1e-6)
    assert tiny.drops.limit.value == pytest.approx(1e-9 * found.drops.limit.value, rel=1e-6)


@pytest.mark.parametrize(("b_noise", "reason"), [(1e7, "below"), (1e-6, "above")])
def test_batch_sizes_on_one_side_give_a_bound(b_noise, reason):
    law = fit_line_search(curves(b_noise), resamples=50).drops
    assert law.b_noise.value is None
    assert reason in law.reason
    assert (law.b_noise.low is None) == (reason == "above")
    assert law.rms < 0.01


def test_two_batch_sizes_are_too_few():
    law = fit_line_search(curves(33)[:2], resamples=50).drops
    assert law.b_noise.value is None
    assert "only 2 batch sizes" in law.reason


def test_noise_is_told_from_a_wrong_law():
    noisy = fit_line_search(curves(33, seed=3), resamples=200).drops
    assert 0.3 * noisy.rms_noise < noisy.rms < 1.2 * noisy.rms_noise
    powers = [DropCurve(c.batch_size, BLOCKS, c.learning_rates, c.drops) for c in curves(33, seed=3)]
    # B^0.3 instead of the law, with the same noise
    bent = [
        DropCurve(c.batch_size, BLOCKS, c.learning_rates, c.drops * c.batch_size**0.3 * (1 + 33 / c.batch_size))
        for c in powers
    ]
    wrong = fit_line_search(bent, resamples=200).drops
    assert wrong.rms > 1.5 * wrong.rms_noise


def test_few_blocks_widen_the_interval():
    assert tail(1000, 0.95) == pytest.approx(0.025, abs=2e-4)
    assert tail(4, 0.95) < 0.001


def test_blocks_must_match():
    with pytest.raises(ValueError, match="same number of blocks"):
        fit_line_search([])
    lone = DropCurve(1, 1, np.array([1.0, 2.0, 4.0]), np.ones((1, 3)))
    with pytest.raises(ValueError, match="at least 2"):
        fit_line_search([lone])
