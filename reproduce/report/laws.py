"""The two fitted laws, evaluated from a summary's parameters."""

from __future__ import annotations

import math

import numpy as np

from reproduce.report.estimates import LearningRateFit
from reproduce.report.summaries import Goal


def fitted_steps(goal: Goal, batch_sizes: np.ndarray) -> np.ndarray | None:
    """S = S_min (1 + B_crit / B) (equation 2.11); None for a goal whose fit gave only a bound."""
    if not goal.b_crit.measured or goal.s_min is None:
        return None
    return goal.s_min * (1 + goal.b_crit.value / batch_sizes)


def fitted_learning_rate(fit: LearningRateFit, batch_size: np.ndarray | float) -> np.ndarray | float:
    """eps / (1 + knee / B)^alpha (appendix A.2)."""
    return fit.eps / (1 + fit.knee / batch_size) ** fit.alpha


def learning_rate_rms(fit: LearningRateFit, goal: Goal) -> float | None:
    """Rms of ln(best learning rate / fit) over a goal's batch sizes; None below 4, for a fit of 3 parameters."""
    points = [point for point in goal.reached if point.learning_rate is not None]
    if len(points) < 4:
        return None
    errors = [math.log(point.learning_rate / fitted_learning_rate(fit, point.batch_size)) for point in points]
    return math.sqrt(sum(error**2 for error in errors) / len(errors))
