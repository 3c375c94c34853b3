"""The trade-off fit against known laws: exact data, simulated sweeps, one-sided and censored ones."""

import math
import time

import numpy as np
import pytest
from scipy.optimize import curve_fit, minimize

from reproduce.tradeoff import LearningRateFit, Point, central_learning_rate, fit_learning_rate, fit_tradeoff

BATCH_SIZES = tuple(2.0**k for k in range(1, 9))  # 2 to 256
S_MIN, B_CRIT = 100.0, 30.0


def law(batch_size, b_crit=B_CRIT):
    return S_MIN * (1 + b_crit / batch_size)


def exact_points(batch_sizes=BATCH_SIZES, b_crit=B_CRIT):
    return [Point(b, (law(b, b_crit),)) for b in batch_sizes]


def noisy_points(rng, sd, seeds=1, batch_sizes=BATCH_SIZES, b_crit=B_CRIT):
    """A simulated sweep with lognormal noise; `seeds` per batch size, or one count for each."""
    counts = np.broadcast_to(seeds, len(batch_sizes))
    return [
        Point(b, tuple(law(b, b_crit) * np.exp(sd * rng.standard_normal(n))))
        for b, n in zip(batch_sizes, counts, strict=True)
    ]


def sweep_fits(sd, seeds, sweeps=200, batch_sizes=BATCH_SIZES):
    rng = np.random.default_rng(0)
    # Each sweep has its own bootstrap: with one for all, the error of its quantile would be in every interval.
    return [fit_tradeoff(noisy_points(rng, sd, seeds, batch_sizes), resamples=150, seed=k) for k in range(sweeps)]


def covers(fit, b_crit=B_CRIT):
    return (fit.b_crit_low or 0) <= b_crit <= (fit.b_crit_high or math.inf)


def median_half_width(fits):
    """As a factor: the interval runs from B_crit / factor to B_crit * factor."""
    return np.median([math.sqrt((f.b_crit_high or math.inf) / (f.b_crit_low or 1e-300)) for f in fits])


# Exact data


@pytest.mark.parametrize("b_crit", [3.0, 30.0, 200.0])
def test_exact_law_is_recovered(b_crit):
    fit = fit_tradeoff(exact_points(b_crit=b_crit))
    assert fit.identified
    assert fit.reason == ""
    assert fit.b_crit == pytest.approx(b_crit, rel=1e-5)
    assert fit.s_min == pytest.approx(S_MIN, rel=1e-5)
    assert fit.e_min == pytest.approx(S_MIN * b_crit, rel=1e-5)
    assert fit.rms < 1e-6
    assert b_crit * 0.999 < fit.b_crit_low < b_crit < fit.b_crit_high < b_crit * 1.001


def test_predicted_steps_follow_the_law_at_any_shape():
    fit = fit_tradeoff(exact_points())
    assert fit.steps(B_CRIT) == pytest.approx(2 * S_MIN, rel=1e-4)
    sizes = np.array([[1.0, 10.0], [100.0, 1000.0]])
    np.testing.assert_allclose(fit.steps(sizes), law(sizes), rtol=1e-4)


def test_answer_depends_on_the_seed_of_the_bootstrap_and_not_on_the_order_of_points():
    points = noisy_points(np.random.default_rng(3), 0.1)
    assert fit_tradeoff(points, seed=1) == fit_tradeoff(points[::-1], seed=1)
    assert fit_tradeoff(points, seed=1).b_crit_low != fit_tradeoff(points, seed=2).b_crit_low


def test_units_of_batch_size_and_steps_scale_through():
    points = noisy_points(np.random.default_rng(4), 0.1, seeds=(1, 2, 3, 3, 1, 2, 3, 2))
    scaled = [Point(20 * p.batch_size, tuple(7 * s for s in p.steps)) for p in points]
    fit, fit_scaled = fit_tradeoff(points), fit_tradeoff(scaled)
    assert fit_scaled.b_crit == pytest.approx(20 * fit.b_crit, rel=1e-5)
    assert fit_scaled.b_crit_low == pytest.approx(20 * fit.b_crit_low, rel=1e-5)
    assert fit_scaled.b_crit_high == pytest.approx(20 * fit.b_crit_high, rel=1e-5)
    assert fit_scaled.s_min == pytest.approx(7 * fit.s_min, rel=1e-5)
    assert fit_scaled.rms == pytest.approx(fit.rms, rel=1e-5)


def test_one_seed_each_is_ordinary_least_squares_in_log_steps():
    points = noisy_points(np.random.default_rng(5), 0.2)
    sizes, log_steps = np.array(BATCH_SIZES), np.log([p.steps[0] for p in points])
    (log_s_min, log_b_crit), _ = curve_fit(lambda b, a, k: a + np.log1p(np.exp(k) / b), sizes, log_steps, p0=(4, 3))
    fit = fit_tradeoff(points)
    assert fit.b_crit == pytest.approx(math.exp(log_b_crit), rel=1e-4)
    assert fit.s_min == pytest.approx(math.exp(log_s_min), rel=1e-4)
    residuals = log_steps - log_s_min - np.log1p(np.exp(log_b_crit) / sizes)
    assert fit.rms == pytest.approx(np.sqrt(np.mean(residuals**2)), rel=1e-4)


# Intervals. Half-widths are factors, measured: 1.15 and 1.32 with one seed, 1.07 and 1.16 with three.


@pytest.mark.parametrize(
    ("sd", "seeds", "widest"), [(0.05, 1, 1.2), (0.1, 1, 1.4), (0.05, 3, 1.1), (0.1, 3, 1.2)], ids=str
)
def test_interval_covers_the_truth_nine_times_in_ten_and_is_narrow(sd, seeds, widest):
    fits = sweep_fits(sd, seeds)
    assert all(f.identified for f in fits)
    assert 0.90 <= np.mean([covers(f) for f in fits]) <= 0.99
    assert 1 + (widest - 1) / 3 < median_half_width(fits) < widest


@pytest.mark.parametrize(("sizes", "widest"), [((4.0, 32.0, 256.0), 3.0), ((2.0, 8.0, 32.0, 128.0, 512.0), 1.3)])
def test_interval_stays_honest_with_three_and_with_five_points(sizes, widest):
    fits = sweep_fits(0.05, 1, batch_sizes=sizes)
    assert np.mean([covers(f) for f in fits]) >= 0.90
    assert median_half_width(fits) < widest


def test_interval_stays_honest_with_unequal_seed_counts():
    fits = sweep_fits(0.1, (1, 4, 2, 5, 3, 1, 4, 2), sweeps=100)
    assert np.mean([covers(f) for f in fits]) >= 0.90
    assert median_half_width(fits) < 1.25


def test_interval_grows_with_confidence():
    points = noisy_points(np.random.default_rng(6), 0.1)
    narrow, wide = fit_tradeoff(points, confidence=0.5), fit_tradeoff(points, confidence=0.99)
    assert wide.b_crit_low < narrow.b_crit_low < narrow.b_crit < narrow.b_crit_high < wide.b_crit_high


def test_few_points_on_the_law_by_luck_do_not_hide_the_spread_of_seeds():
    spread = (0.8, 1.0, 1.25)  # geometric mean 1
    fit = fit_tradeoff([Point(b, tuple(law(b) * f for f in spread)) for b in (4.0, 16.0, 64.0, 256.0)])
    assert fit.rms < 1e-6
    assert fit.b_crit_high / fit.b_crit_low > 1.3


def test_default_fit_takes_well_under_a_second():
    points = noisy_points(np.random.default_rng(7), 0.1, seeds=3)
    start = time.perf_counter()
    fit_tradeoff(points)
    assert time.perf_counter() - start < 1  # 0.03 s on an idle core


# Weights


def test_point_with_scattered_seeds_counts_less():
    points = [Point(b, (law(b) * 0.98, law(b), law(b) * 1.02)) for b in BATCH_SIZES]
    outlier = Point(2.0, tuple(law(2.0) * 2 * f for f in (0.5, 1.0, 2.0)))  # a factor 2 off
    same_mean = Point(2.0, (law(2.0) * 2,) * 3)
    off_by = abs(math.log(fit_tradeoff([outlier, *points[1:]]).b_crit / B_CRIT))
    off_by_with_tight_seeds = abs(math.log(fit_tradeoff([same_mean, *points[1:]]).b_crit / B_CRIT))
    assert off_by < 0.6 * off_by_with_tight_seeds


def test_point_with_more_seeds_counts_more():
    rng = np.random.default_rng(8)
    points = noisy_points(rng, 0.1, seeds=3)[1:]
    high = law(2.0) * 1.5
    few = fit_tradeoff([Point(2.0, (high,)), *points])
    many = fit_tradeoff([Point(2.0, (high,) * 12), *points])
    assert many.b_crit > 1.03 * few.b_crit > 1.03 * fit_tradeoff(points).b_crit


# One branch only


def test_batch_sizes_below_b_crit_give_a_lower_bound():
    fit = fit_tradeoff(noisy_points(np.random.default_rng(10), 0.02, b_crit=20_000.0))
    assert not fit.identified
    assert fit.b_crit is fit.b_crit_high is fit.s_min is fit.e_min is None
    assert 256 < fit.b_crit_low < 20_000
    assert fit.reason.startswith("all batch sizes lie below B_crit: B_crit is at least ")
    assert fit.rms < 0.05


def test_batch_sizes_above_b_crit_give_an_upper_bound():
    fit = fit_tradeoff(noisy_points(np.random.default_rng(11), 0.02, b_crit=0.05))
    assert not fit.identified
    assert fit.b_crit is fit.b_crit_low is None
    assert 0.05 < fit.b_crit_high < 2
    assert fit.reason.startswith("all batch sizes lie above B_crit: B_crit is at most ")


def test_bound_in_the_reason_is_the_bound_in_three_digits():
    fit = fit_tradeoff(exact_points(b_crit=2000.0))
    assert fit.reason == "all batch sizes lie below B_crit: B_crit is at least 2,000"
    assert fit.b_crit_low == pytest.approx(2000, rel=1e-3)
    assert fit.b_crit_high is None


def test_estimate_beyond_the_batch_sizes_with_an_interval_that_reaches_in_only_seems():
    fit = fit_tradeoff(noisy_points(np.random.default_rng(0), 0.1, b_crit=400.0))
    assert not fit.identified
    assert fit.b_crit_low < 256
    assert fit.reason.startswith("all batch sizes seem to lie below B_crit: B_crit is at least ")


def test_bounds_hold_nine_times_in_ten():
    rng = np.random.default_rng(12)
    fits = [fit_tradeoff(noisy_points(rng, 0.1, b_crit=1000.0), resamples=150, seed=k) for k in range(100)]
    assert all(f.b_crit_high is None for f in fits)
    assert np.mean([covers(f, 1000.0) for f in fits]) >= 0.90


def test_perfect_powers_of_the_batch_size_run_to_the_ends_of_the_grid():
    falling = fit_tradeoff([Point(b, (1e4 / b,)) for b in BATCH_SIZES])
    assert falling.b_crit_low > 100 * 256
    assert falling.b_crit_high is None
    constant = fit_tradeoff([Point(b, (100.0,)) for b in BATCH_SIZES])
    assert constant.b_crit_high < 2 / 100
    assert constant.b_crit_low is None


def test_wide_interval_inside_the_batch_sizes_stays_identified():
    fit = fit_tradeoff([Point(4.0, (900.0,)), Point(32.0, (160.0,)), Point(64.0, (190.0,)), Point(128.0, (100.0,))])
    assert fit.identified
    assert 4 < fit.b_crit < 128
    assert fit.b_crit_high is None


def test_steps_that_follow_no_law_are_not_identified():
    fit = fit_tradeoff([Point(b, (s,)) for b, s in zip((4.0, 32.0, 256.0), (100.0, 900.0, 90.0), strict=True)])
    assert not fit.identified
    assert fit.b_crit_low is fit.b_crit_high is None
    assert "scatter too much" in fit.reason


@pytest.mark.parametrize(
    ("reached", "text"), [(0, "no batch size reached"), (1, "only 1 batch size reached"), (2, "only 2 batch sizes")]
)
def test_fewer_than_three_batch_sizes_are_not_enough(reached, text):
    points = [*exact_points((4.0, 64.0))[:reached], Point(1.0, (), (500.0,))]
    fit = fit_tradeoff(points)
    assert not fit.identified
    assert text in fit.reason
    assert fit.rms is fit.b_crit_low is fit.b_crit_high is None
    with pytest.raises(ValueError, match=text):
        fit.steps(8.0)


# Censored seeds

LARGE = (32.0, 64.0, 128.0, 256.0)


def test_bound_above_the_law_raises_b_crit_to_the_constrained_optimum():
    reached = exact_points(LARGE, b_crit=35.0)
    bound = 3000.0  # the law has 1850 at batch size 2
    fit = fit_tradeoff([Point(2.0, (), (bound,)), *reached])

    def cost(parameters):
        residuals = [
            math.log(p.steps[0]) - parameters[0] - np.log1p(np.exp(parameters[1]) / p.batch_size) for p in reached
        ]
        missing = math.log(bound) - parameters[0] - np.log1p(np.exp(parameters[1]) / 2.0)
        return sum(np.square(residuals)) + max(missing, 0) ** 2

    expected = minimize(cost, (4.6, 3.5), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-14}).x
    assert fit.b_crit == pytest.approx(math.exp(expected[1]), rel=1e-4)
    assert fit.b_crit > 1.3 * fit_tradeoff(reached).b_crit
    assert fit.rms > 0.01


def test_bound_that_the_law_keeps_changes_no_estimate():
    reached = noisy_points(np.random.default_rng(13), 0.05, batch_sizes=LARGE)
    fit = fit_tradeoff([Point(2.0, (), (500.0, 900.0)), *reached])
    alone = fit_tradeoff(reached)
    assert fit.b_crit == pytest.approx(alone.b_crit, rel=1e-5)
    assert fit.rms == pytest.approx(alone.rms, rel=1e-5)


def test_several_kept_bounds_leave_the_fit_one_after_another():
    far_below = [Point(1.0, (), (5.0,)), Point(2.0, (), (300.0,))]
    just_below = Point(16.0, (), (0.97 * law(16.0, 40.0),))  # out of the fit only after the others are
    fit = fit_tradeoff([*far_below, just_below, *exact_points(LARGE, b_crit=40.0)])
    assert fit.b_crit == pytest.approx(40.0, rel=1e-4)


def test_bound_at_a_small_batch_size_raises_the_upper_bound_of_a_flat_branch():
    flat = [Point(64.0, (104.0,)), Point(128.0, (99.0,)), Point(256.0, (103.0,)), Point(512.0, (98.0,))]
    dropped = fit_tradeoff(flat)
    kept = fit_tradeoff([Point(2.0, (), (1000.0,)), *flat])  # at batch size 2 it took at least ten times as long
    assert kept.b_crit_high > 18 > dropped.b_crit_high  # 100 (1 + 18 / 2) = 1000
    assert "at most" in kept.reason


def test_seed_censored_beyond_the_mean_raises_steps_against_dropping_it():
    points = noisy_points(np.random.default_rng(14), 0.1, seeds=3)
    slow = points[0]
    dropped = fit_tradeoff([Point(2.0, slow.steps[:2]), *points[1:]])
    censored = fit_tradeoff([Point(2.0, slow.steps[:2], (2 * max(slow.steps),)), *points[1:]])
    assert censored.steps(2.0) > 1.02 * dropped.steps(2.0)
    assert censored.b_crit > dropped.b_crit


def test_seed_stopped_before_the_mean_says_nothing():
    points = noisy_points(np.random.default_rng(15), 0.1, seeds=2)
    early = [Point(p.batch_size, p.steps, (0.3 * min(p.steps),)) for p in points]
    assert fit_tradeoff(early) == fit_tradeoff(points)


def test_interval_stays_honest_when_the_budget_ends_in_the_middle_of_the_seeds():
    rng, budget, fits = np.random.default_rng(16), law(4.0), []
    for k in range(100):
        points = [
            Point(p.batch_size, tuple(s for s in p.steps if s <= budget), tuple(budget for s in p.steps if s > budget))
            for p in noisy_points(rng, 0.1, seeds=3)
        ]
        fits.append(fit_tradeoff(points, resamples=150, seed=k))
    assert np.mean([covers(f) for f in fits]) >= 0.90


# Bad input


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "no points to fit"),
        ([Point(0.0, (1.0,))], "Batch sizes must be positive and finite: got 0"),
        ([Point(math.inf, (1.0,))], "Batch sizes must be positive and finite: got inf"),
        ([Point(math.nan, (1.0,))], "Batch sizes must be positive and finite: got nan"),
        ([Point(8.0, (1.0, -2.0))], r"Steps must be positive and finite: got .*-2.* at batch size 8"),
        ([Point(8.0, (math.nan,))], "belong into censored"),
        ([Point(8.0, (), (0.0,))], "Steps must be positive"),
        ([Point(8.0, (1.0,)), Point(8.0, (2.0,))], "Batch size 8 comes twice: put all of its seeds into one point"),
        ([Point(8.0, ())], "Batch size 8 has no seeds"),
    ],
)
def test_bad_points_are_refused_with_what_to_do(points, message):
    with pytest.raises(ValueError, match=message):
        fit_tradeoff(points)


@pytest.mark.parametrize("options", [{"confidence": 95}, {"confidence": 0}, {"resamples": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match="confidence lies between 0 and 1"):
        fit_tradeoff(exact_points(), **options)


# Learning rates


@pytest.mark.parametrize(("eps", "knee", "alpha"), [(0.27, 96.0, 1.0), (3e-3, 20.0, 0.5), (1.0, 400.0, 0.8)])
def test_learning_rate_law_is_recovered(eps, knee, alpha):
    sizes = [4.0**k for k in range(6)]
    rates = [central_learning_rate(b, eps, knee, alpha) for b in sizes]
    for fit in (fit_learning_rate(sizes, rates), fit_learning_rate(sizes, rates, alpha=alpha)):
        assert fit.eps == pytest.approx(eps, rel=1e-4)
        assert fit.knee == pytest.approx(knee, rel=1e-4)
        assert fit.alpha == pytest.approx(alpha, rel=1e-4)
        assert fit.rms < 1e-6


def test_central_learning_rate_of_svhn_is_the_papers():
    assert central_learning_rate(96, 0.27, 96, 1.0) == pytest.approx(0.135)  # eps(B) = 0.27 B / (96 + B), App. A.4
    assert central_learning_rate(32, 0.27, 96, 1.0) == pytest.approx(0.27 * 32 / 128)


def test_noisy_learning_rates_of_a_grid_of_half_octaves_give_the_knee_within_a_factor_two():
    rng = np.random.default_rng(17)
    sizes = np.array(BATCH_SIZES)
    rates = central_learning_rate(sizes, 0.27, 30.0, 1.0) * 2 ** (rng.integers(-1, 2, len(sizes)) / 2)
    fit = fit_learning_rate(sizes, rates, alpha=1.0)
    assert 15 < fit.knee < 60
    assert 0.1 < fit.rms < 0.35


def test_fitted_exponent_stays_in_its_range():
    sizes = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
    assert fit_learning_rate(sizes, sizes**2).alpha == 1.2
    assert fit_learning_rate(sizes, 1 / sizes).alpha == 0.3


def test_learning_rates_need_one_point_more_than_parameters():
    sizes, rates = [1.0, 8.0, 64.0], [0.1, 0.5, 0.8]
    assert isinstance(fit_learning_rate(sizes, rates, alpha=1.0), LearningRateFit)
    assert fit_learning_rate(sizes, rates) is None
    assert fit_learning_rate(sizes[:2], rates[:2], alpha=1.0) is None
    assert fit_learning_rate([], [], alpha=1.0) is None


def test_bad_learning_rates_are_refused():
    with pytest.raises(ValueError, match="one learning rate per batch size: got 1 for 2"):
        fit_learning_rate([1.0, 2.0], [0.1])
    with pytest.raises(ValueError, match="positive and finite"):
        fit_learning_rate([1.0, 2.0, 3.0], [0.1, 0.0, 0.1])
