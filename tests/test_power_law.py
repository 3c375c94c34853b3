"""Power laws with known exponents, and how often their intervals hold the truth."""

import math

import numpy as np
import pytest

from reproduce.power_law import Estimated, estimated, fit_loss_law, fit_power_law


def points_of(exponent: float, scales: tuple[float, ...], sd: float = 0.0, seed: int = 0, stated: float = 0.1):
    """Points at x = 1, 2, 4, 8 in one group a scale, scattered by sd, whose intervals state another deviation."""
    rng = np.random.default_rng(seed)
    reach = math.exp(1.96 * stated)
    points = []
    for group, scale in enumerate(scales):
        for x in (1.0, 2.0, 4.0, 8.0):
            value = scale * x**exponent * math.exp(sd * rng.standard_normal())
            points.append(Estimated(x, value, value / reach, value * reach, group))
    return points


def test_exact_law_is_found_with_the_interval_that_its_points_state():
    law = fit_power_law(points_of(-0.7, (5.0,)))
    assert (law.exponent, law.scale, law.rms) == pytest.approx((-0.7, 5.0, 0.0), abs=1e-9)
    deviation = 0.1 / math.log(2) / math.sqrt(5)  # ln x is -1.5, -0.5, 0.5, 1.5 times ln 2 around its mean
    assert law.high - law.exponent == pytest.approx(4.3027 * deviation, rel=1e-3)  # Student's t at 2 degrees


def test_groups_share_the_exponent_and_have_factors_of_their_own():
    law = fit_power_law(points_of(0.5, (1.0, 100.0, 3.0)))
    assert law.exponent == pytest.approx(0.5)
    assert law.scale == pytest.approx(1.0)
    assert law.points == 12


def test_points_count_by_their_precision():
    sure = points_of(1.0, (1.0,), stated=0.01)
    off = Estimated(16.0, 1.0, 1 / 50, 50.0)
    assert fit_power_law([*sure, off]).exponent == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("stated", [0.05, 0.2])
def test_interval_holds_the_truth_as_often_as_it_says(stated):
    """Also where points scatter by more than they state; where they state more than they scatter, more often."""
    laws = [fit_power_law(points_of(0.3, (1.0, 2.0), 0.2, seed, stated)) for seed in range(300)]
    covered = np.mean([law.low <= 0.3 <= law.high for law in laws])
    assert 0.9 <= covered <= 1.0 - 0.005 * (stated == 0.05)


def test_too_few_points_have_no_interval_or_no_law():
    two = points_of(1.0, (1.0,))[:2]
    assert (fit_power_law(two).low, fit_power_law(two).high) == (None, None)
    assert fit_power_law(two[:1]) is None
    assert fit_power_law([two[0], Estimated(2.0, 1.0, 0.9, 1.1, group=1)]) is None  # each group at one x alone
    assert fit_power_law([]) is None


def test_bounds_and_missing_ends_are_no_points():
    assert estimated(1.0, None, 2.0, None) == []
    assert estimated(1.0, 3.0, 2.0, None) == []
    assert estimated(1.0, 3.0, 0.0, 4.0) == []
    assert estimated(1.0, 3.0, 2.0, 4.0, 7) == [Estimated(1.0, 3.0, 2.0, 4.0, 7)]


def losses(alpha: float, sd: float = 0.0) -> list[Estimated]:
    rng = np.random.default_rng(1)
    points = []
    for loss in (6.0, 5.5, 5.0, 4.5, 4.0):
        value = 2e8 * loss ** (-1 / alpha) * math.exp(sd * rng.standard_normal())
        points.append(Estimated(loss, value, value / 1.2, value * 1.2))
    return points


def test_loss_law_finds_the_published_exponent():
    law = fit_loss_law(losses(0.21))
    assert (law.alpha_b, law.b_star, law.goals) == pytest.approx((0.21, 2e8, 5), rel=1e-6)
    assert law.alpha_b_low < 0.21 < law.alpha_b_high
    exponent = fit_power_law(losses(0.21))
    assert (law.alpha_b_low, law.alpha_b_high) == pytest.approx((-1 / exponent.low, -1 / exponent.high))


def test_loss_law_whose_slope_may_be_flat_has_no_upper_limit():
    law = fit_loss_law(losses(0.4, sd=0.8))
    assert law.alpha_b_low > 0
    assert law.alpha_b_high is None
    assert fit_loss_law([Estimated(x, x, x / 2, x * 2) for x in (4.0, 5.0, 6.0)]) is None  # rises with the loss
