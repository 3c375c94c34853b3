"""Ours / published for numbers, ranges and bounds on either side; r^2 of the logs."""

import math

import pytest

from reproduce.published import AtLeast, Range
from reproduce.report.estimates import Estimate
from reproduce.report.ratios import Ratio, log_r2, ratio_to_published, table_1_log_r2

UNDECIDED = Ratio(None, "undecided, two bounds")
NUMBER, LOWER, UPPER = Estimate(50.0, 45.0, 55.0), Estimate(low=50.0), Estimate(high=50.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (NUMBER, 100, Ratio(0.5)),
        (NUMBER, Range(100, 1_000), Ratio(0.5)),
        (NUMBER, Range(5, 25), Ratio(2.0)),
        (NUMBER, Range(50, 60), Ratio(None, "inside the range")),
        (NUMBER, AtLeast(50), Ratio(None, "agrees with the bound")),
        (NUMBER, AtLeast(200), Ratio(0.25, "at most")),
        (LOWER, 100, Ratio(0.5, "at least")),
        (LOWER, Range(5, 25), Ratio(2.0, "at least")),
        (LOWER, Range(100, 1_000), UNDECIDED),
        (LOWER, AtLeast(100), UNDECIDED),
        (UPPER, 100, Ratio(0.5, "at most")),
        (UPPER, Range(100, 1_000), Ratio(0.5, "at most")),
        (UPPER, Range(5, 25), UNDECIDED),
        (UPPER, AtLeast(200), Ratio(0.25, "at most")),
        (NUMBER, None, None),
        (Estimate(), 100, None),
        (Estimate(low=10.0, high=90.0), 100, None),
    ],
)
def test_ratio_to_published(ours, theirs, expected):
    assert ratio_to_published(ours, theirs) == expected


def test_log10_of_a_ratio():
    assert Ratio(0.1).log10 == pytest.approx(-1)
    assert Ratio(None, "inside the range").log10 is None


def test_r2_is_1_for_a_power_law_and_0_without_correlation():
    xs = [1, 10, 100, 1_000]
    assert log_r2(xs, [3 * x**0.7 for x in xs]) == pytest.approx(1)
    assert log_r2([1, 10, 100], [1, 10, 1]) == pytest.approx(0)


def test_r2_matches_a_hand_count():
    # logs x = 0, 1, 2 and y = 0, 2, 1 in decades: covariance sum 1, variance sums 2 and 2
    assert log_r2([1, 10, 100], [1, 100, 10]) == pytest.approx(0.25)


def test_no_r2_below_three_pairs_or_without_variation():
    assert log_r2([1, 2], [1, 2]) is None
    assert log_r2([5, 5, 5], [1, 2, 3]) is None


def test_r2_of_table_1_uses_the_eight_rows_that_are_numbers():
    r2, rows = table_1_log_r2()
    assert rows == 8
    assert 0 < r2 < 1
    assert not math.isnan(r2)
