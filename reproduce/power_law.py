"""Power laws fitted in log space to estimates that come with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit


@dataclass(frozen=True)
class Estimated:
    """A positive number with its 95 % interval, at the place x. group: points of one group share a factor."""

    x: float
    value: float
    low: float
    high: float
    group: int = 0


@dataclass(frozen=True)
class PowerLaw:
    """value = scale * x^exponent within a group; low and high of the exponent, None where the points say nothing.

    scale: of the first group, at x = 1. points: that were used. rms: of ln(value / law).
    """

    exponent: float
    low: float | None
    high: float | None
    scale: float
    points: int
    rms: float


def estimated(x: float, value: float | None, low: float | None, high: float | None, group: int = 0) -> list[Estimated]:
    """The point as a list of one; empty unless value and both ends are there and positive."""
    if value is None or low is None or high is None or min(value, low) <= 0 or high <= low:
        return []
    return [Estimated(x, value, low, high, group)]


def fit_power_law(points: Sequence[Estimated], confidence: float = 0.95) -> PowerLaw | None:
    """Weighted least squares in ln(value), one exponent and a factor for each group.

    Where points scatter by more than their intervals say, the scatter counts; the interval is Student's. Points are
    taken as independent: goals of one sweep share its runs, so their law may be less certain than it says.

    Returns:
        None where x does not vary within any group.
    """
    groups = sorted({point.group for point in points})
    if not any(len({point.x for point in points if point.group == group}) > 1 for group in groups):
        return None
    logs = np.log([(point.x, point.value, point.low, point.high) for point in points])
    weights = 1 / ((logs[:, 3] - logs[:, 2]) / (2 * ndtri(0.975))) ** 2
    factors = np.array([[float(point.group == group) for group in groups] for point in points])
    design = np.concatenate([logs[:, :1], factors], axis=1)
    bread = np.linalg.inv(design.T @ (design * weights[:, None]))
    coefficients = bread @ design.T @ (weights * logs[:, 1])
    residuals = logs[:, 1] - design @ coefficients
    freedom = len(points) - design.shape[1]
    exponent, rms = float(coefficients[0]), float(np.sqrt(np.square(residuals).mean()))
    low = high = None
    if freedom > 0:
        scatter = max(1.0, float(weights @ np.square(residuals)) / freedom)
        reach = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(scatter * bread[0, 0])
        low, high = exponent - reach, exponent + reach
    return PowerLaw(exponent, low, high, math.exp(coefficients[1]), len(points), rms)


@dataclass(frozen=True)
class LossLaw:
    """B_crit = b_star / L^(1 / alpha_b), as Kaplan et al. 2020 (arXiv 2001.08361, eq. 1.4) write it; L in nats.

    alpha_b_high None beside a low: no limit above. Both None: too few goals for an interval.
    """

    alpha_b: float
    alpha_b_low: float | None
    alpha_b_high: float | None
    b_star: float
    goals: int
    rms: float


def fit_loss_law(points: Sequence[Estimated]) -> LossLaw | None:
    """The law through critical batch sizes at losses x; None unless B_crit rises as the loss falls."""
    law = fit_power_law(points)
    if law is None or law.exponent >= 0:
        return None
    low = -1 / law.low if law.low is not None else None
    high = -1 / law.high if law.high is not None and law.high < 0 else None
    return LossLaw(-1 / law.exponent, low, high, law.scale, law.points, law.rms)
