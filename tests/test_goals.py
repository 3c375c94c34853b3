"""Crossings of the smoothed score, and the evaluation schedule."""

import math

import numpy as np
import pytest

from reproduce.goals import next_evaluation, smooth, steps_to_goals


def test_schedule_is_geometric_and_never_stands_still():
    steps = [0]
    while steps[-1] < 10_000:
        steps.append(next_evaluation(steps[-1], 0.05))
    assert steps[:12] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    ratios = np.diff(np.log(steps[40:]))
    assert ratios.max() < math.log(1.065)
    assert len(steps) < 170


def test_smoothing_is_centred_and_unknown_at_the_ends():
    result = smooth([5, 4, 3, 2, 1, 0], 3)
    assert np.isnan(result[[0, -1]]).all()
    assert result[1:-1].tolist() == pytest.approx([4, 3, 2, 1])


def test_crossing_is_interpolated_in_log_steps():
    steps = [10, 20, 40, 80]
    scores = [0.8, 0.6, 0.4, 0.2]
    # Halfway between 0.6 at 20 and 0.4 at 40 in ln(steps).
    assert steps_to_goals(steps, scores, [0.5], False, 1) == [pytest.approx(math.sqrt(20 * 40))]


def test_centred_mean_does_not_delay_a_straight_line():
    steps = [2**k for k in range(1, 9)]
    scores = [1 - 0.1 * k for k in range(8)]
    plain = steps_to_goals(steps, scores, [0.75, 0.55], False, 1)
    assert steps_to_goals(steps, scores, [0.75, 0.55], False, 3) == pytest.approx(plain)


def test_a_lucky_evaluation_does_not_reach_the_goal():
    steps = [10, 20, 30, 40, 50, 60]
    scores = [0.6, 0.3, 0.6, 0.55, 0.35, 0.3]
    (crossing,) = steps_to_goals(steps, scores, [0.45], False, 3)
    assert 40 < crossing < 50


def test_scores_that_rise():
    assert steps_to_goals([1, 4], [0.0, 1.0], [0.5, 2.0], True, 1) == [pytest.approx(2.0), None]


def test_goals_not_reached_are_none_and_scores_that_are_not_finite_reach_nothing():
    assert steps_to_goals([1, 2, 3], [1.0, float("nan"), 0.9], [0.5], False, 1) == [None]
