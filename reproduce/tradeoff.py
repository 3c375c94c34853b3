"""The trade-off S = S_min (1 + B_crit / B) fitted to steps-to-goal measurements (eq. 2.11, 2.12, App. A.3).

Least squares in ln S: for a given B_crit the best ln S_min is a weighted mean, which leaves a search in one dimension.
The interval holds every B_crit whose fit is not significantly worse than the best, by a bootstrapped F statistic.
Learning rates eps(B) (App. A.2) have the same shape and are fitted here too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

MIN_POINTS = 3  # two unknowns, and one more to tell how well the law fits
# Steps are interpolated between evaluations about 5 % apart, so no number of seeds makes ln S better than this.
LOG_STEPS_FLOOR = 0.02
LOG_STEPS_ROUNDING = 1e-5  # noise granted even to exact data: far above rounding, far below any measurement
# The variance of a few seeds is known to a factor of a few. The one pooled over all points is averaged in with this
# many degrees of freedom: a little more than a point of a sweep has, so that no point gains or loses all weight.
PRIOR_DOF = 4
GRID_MARGIN = 1000.0  # B_crit is searched from min(B) / 1000 to 1000 max(B)
GRID_SPACING = 0.25  # in ln B_crit; the law's bend spans about 4, so a minimum is not missed
ZOOMS = 10  # each makes the grid 4 times finer: 0.25 / 4^10 is 2e-7 in ln B_crit
ALPHA_RANGE = (0.3, 1.2)  # App. A.2 has 1 for SGD and 0.5 to 1 for Adam; with room for noise on both sides


@dataclass(frozen=True)
class Point:
    """Steps to a goal at one batch size, at its best learning rate.

    Attributes:
        batch_size: in units (images, tokens, frames).
        steps: optimiser steps to the goal, one entry per seed that reached it.
        censored: seeds that did not reach the goal: the steps after which they were stopped.
    """

    batch_size: float
    steps: tuple[float, ...]
    censored: tuple[float, ...] = ()


@dataclass(frozen=True)
class TradeoffFit:
    """S = S_min (1 + B_crit / B) as fitted, or what can be said where it cannot be.

    Attributes:
        identified: whether the points show both branches of the law. If not, b_crit, s_min and e_min are None.
        b_crit: critical batch size, in units.
        b_crit_low, b_crit_high: ends of the confidence interval; None where it is unbounded. Not identified, at most
            one of them is set: B_crit is at least b_crit_low, or at most b_crit_high.
        s_min: steps to the goal at an infinite batch size.
        e_min: examples to the goal, in units, at the smallest batch sizes: s_min * b_crit (eq. 2.12).
        rms: root mean square residual of ln S over the points that reached the goal; None without a fit.
        reason: "" when identified, else a sentence that says why not and what is known.
    """

    identified: bool
    b_crit: float | None = None
    b_crit_low: float | None = None
    b_crit_high: float | None = None
    s_min: float | None = None
    e_min: float | None = None
    rms: float | None = None
    reason: str = ""

    def steps(self, batch_size: float | np.ndarray) -> float | np.ndarray:
        """Predicted steps to the goal (eq. 2.11) at batch sizes in units; ValueError when not identified."""
        if not self.identified:
            raise ValueError(f"There is no fitted trade-off to predict steps from: {self.reason}.")
        return self.s_min * (1 + self.b_crit / np.asarray(batch_size, dtype=float))


@dataclass(frozen=True)
class _Measurements:
    """N points as the fit sees them; arrays have shape (N,) where nothing else is said.

    Attributes:
        log_sizes: ln B, rising.
        log_steps: ln S, mean over seeds. A lower bound where no seed reached the goal: there is_bound is True.
        variance: of log_steps; the best fit depends on its ratios only.
        seed_share: the part of `variance` that the spread of seeds explains, 0 to 1, mean over points.
        seed_dof: degrees of freedom behind that spread; 0 with one seed everywhere.
        seed_deviations: of seeds from their point's mean, scaled to variance 1; shape (seeds,).
    """

    log_sizes: np.ndarray
    log_steps: np.ndarray
    is_bound: np.ndarray
    variance: np.ndarray
    seed_share: float
    seed_dof: int
    seed_deviations: np.ndarray

    def solve(self, log_steps: np.ndarray, log_b_crit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Best ln S_min at given ln B_crit, shape (...); residuals of ln S, shape (..., N), 0 where bounds are kept.

        The shapes of log_steps, (..., N), and log_b_crit, (...), broadcast.
        """
        needed = log_steps - np.logaddexp(0, np.asarray(log_b_crit)[..., None] - self.log_sizes)
        active = np.ones(len(self.log_sizes), dtype=bool)
        # Bounds that are kept with room to spare drop out. That only raises ln S_min, so none has to come back.
        for _ in range(1 + np.count_nonzero(self.is_bound)):
            weights = active / self.variance
            log_s_min = (weights * needed).sum(-1) / weights.sum(-1)
            active = ~self.is_bound | (needed > log_s_min[..., None])
        return log_s_min, active * (needed - log_s_min[..., None])

    def cost(self, log_steps: np.ndarray, log_b_crit: np.ndarray) -> np.ndarray:
        """Weighted sum of squared residuals, shape (...)."""
        return (self.solve(log_steps, log_b_crit)[1] ** 2 / self.variance).sum(-1)

    def noise_level(self, cost: np.ndarray, seed_share: float | np.ndarray) -> np.ndarray:
        """Variance of residuals in units of `variance`; at least what seeds show, lest few points fit by luck."""
        dof = np.count_nonzero(~self.is_bound) - 2  # bounds are not counted: most do not touch the fit
        return np.maximum(np.maximum(cost / dof, seed_share), (LOG_STEPS_ROUNDING / LOG_STEPS_FLOOR) ** 2)


def fit_tradeoff(
    points: Sequence[Point], *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
) -> TradeoffFit:
    """Fits S = S_min (1 + B_crit / B) (eq. 2.11) to steps-to-goal measurements.

    Points weigh 1 / variance of their mean ln S over seeds. A batch size where no seed reached the goal counts only
    where the law predicts fewer steps than the runs were given (geometric mean). Where some seeds did, one that did
    not enters at its bound if that is beyond the mean of those that did, which makes S a lower estimate there;
    stopped earlier, it says nothing and is left out.

    Args:
        confidence: of b_crit_low to b_crit_high. They cover noise in S, not the choice of learning rates.
        resamples, seed: of the bootstrap behind the interval; the same seed gives the same answer.

    Raises:
        ValueError: no points, a point without seeds, a batch size twice, numbers that are not positive and finite.
    """
    _check(points)
    if not 0 < confidence < 1 or resamples < 1:
        raise ValueError(f"confidence lies between 0 and 1, resamples from 1: got {confidence} and {resamples}.")
    reached = [point.batch_size for point in points if point.steps]
    if len(reached) < MIN_POINTS:
        count = {0: "no batch size", 1: "only 1 batch size"}.get(len(reached), f"only {len(reached)} batch sizes")
        return TradeoffFit(False, reason=f"{count} reached the goal: B_crit needs at least {MIN_POINTS}")

    data = _measurements(points)
    grid = _log_grid(data.log_sizes)
    best = float(_minimise(lambda log_b_crit: data.cost(data.log_steps, log_b_crit), grid)[0])
    low, high = _interval(data, best, grid, _allowance(data, best, grid, confidence, resamples, seed))
    log_s_min, residuals = data.solve(data.log_steps, best)
    b_crit, s_min = math.exp(best), math.exp(log_s_min)
    rms = math.sqrt(np.mean(residuals[~data.is_bound] ** 2))

    # Outside the batch sizes only one branch was seen, and only the end of the interval on its side can be trusted.
    is_beyond, is_before = b_crit > max(reached), b_crit < min(reached)
    low, high = None if is_before else low, None if is_beyond else high
    if low is None and high is None:
        return TradeoffFit(False, rms=rms, reason="the steps scatter too much to say where B_crit lies")
    if is_beyond:
        lie = "lie" if low >= max(reached) else "seem to lie"
        reason = f"all batch sizes {lie} below B_crit: B_crit is at least {_three_digits(low)}"
        return TradeoffFit(False, b_crit_low=low, rms=rms, reason=reason)
    if is_before:
        lie = "lie" if high <= min(reached) else "seem to lie"
        reason = f"all batch sizes {lie} above B_crit: B_crit is at most {_three_digits(high)}"
        return TradeoffFit(False, b_crit_high=high, rms=rms, reason=reason)
    return TradeoffFit(True, b_crit, low, high, s_min, s_min * b_crit, rms)


def _three_digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.10g}"


def _check(points: Sequence[Point]) -> None:
    if not points:
        raise ValueError("There are no points to fit: give steps to the goal at three batch sizes or more.")
    sizes = [point.batch_size for point in points]
    for point in points:
        size, steps = point.batch_size, (*point.steps, *point.censored)
        if not 0 < size < math.inf:
            raise ValueError(f"Batch sizes must be positive and finite: got {size}.")
        if sizes.count(size) > 1:
            raise ValueError(f"Batch size {size:g} comes twice: put all of its seeds into one point.")
        if not steps:
            raise ValueError(f"Batch size {size:g} has no seeds: give its steps or censored, or leave it out.")
        if not all(0 < count < math.inf for count in steps):
            raise ValueError(
                f"Steps must be positive and finite: got {steps} at batch size {size:g}. Seeds that did not reach "
                "the goal belong into censored, with the steps that they were given."
            )


def _measurements(points: Sequence[Point]) -> _Measurements:
    """Means of ln S over seeds, with variances moderated towards the one pooled over batch sizes."""
    points = sorted(points, key=lambda point: point.batch_size)
    is_bound = np.array([not point.steps for point in points])
    seeds = [_log_steps_of_seeds(point) for point in points]
    counts, means = np.array([len(v) for v in seeds]), np.array([v.mean() for v in seeds])
    dof = np.where(is_bound, 0, counts - 1)  # where runs were stopped, the spread of stops is not one of steps
    squares = np.where(is_bound, 0, [np.sum((v - v.mean()) ** 2) for v in seeds])
    pooled = squares.sum() / max(dof.sum(), 1)
    seed_variance = (PRIOR_DOF * pooled + squares) / (PRIOR_DOF + dof) / counts
    variance = seed_variance + LOG_STEPS_FLOOR**2
    deviations = [(v - v.mean()) * math.sqrt(1 + 1 / k) for v, k in zip(seeds, dof) if k > 0]
    return _Measurements(
        log_sizes=np.log([point.batch_size for point in points]),
        log_steps=means,
        is_bound=is_bound,
        variance=variance,
        seed_share=float(np.mean((seed_variance / variance)[~is_bound])),
        seed_dof=int(dof.sum()),
        seed_deviations=_to_unit_variance(np.concatenate([np.empty(0), *deviations])),
    )


def _log_steps_of_seeds(point: Point) -> np.ndarray:
    """ln S of a point's seeds, censored ones at their bounds as fit_tradeoff says."""
    reached, bounds = np.log(point.steps), np.log(point.censored)
    return np.concatenate([reached, bounds[bounds > reached.mean()]]) if point.steps else bounds


def _to_unit_variance(values: np.ndarray) -> np.ndarray:
    return values / math.sqrt(np.mean(values**2)) if np.any(values) else values


def _log_grid(log_sizes: np.ndarray) -> np.ndarray:
    low, high = log_sizes.min() - math.log(GRID_MARGIN), log_sizes.max() + math.log(GRID_MARGIN)
    return np.linspace(low, high, math.ceil((high - low) / GRID_SPACING) + 1)


def _minimise(cost: Callable[[np.ndarray], np.ndarray], grid: np.ndarray) -> np.ndarray:
    """Where each row of `cost` is least: the best grid point, then ever finer grids around it; shape (rows,).

    `cost` takes places, shape (1 or rows, places), to costs, shape (rows, places).
    """
    best = grid[np.argmin(cost(grid[None]), axis=1)]
    offsets = (grid[1] - grid[0]) * np.linspace(-1, 1, 9)
    for zoom in range(ZOOMS):
        places = np.clip(best[:, None] + offsets / 4**zoom, grid[0], grid[-1])
        best = np.take_along_axis(places, np.argmin(cost(places), axis=1)[:, None], axis=1)[:, 0]
    return best


def _allowance(
    data: _Measurements, best: float, grid: np.ndarray, confidence: float, resamples: int, seed: int
) -> float:
    """By how much the cost at the true B_crit exceeds the least one, at most, with probability `confidence`.

    A smoothed bootstrap (Silverman and Young 1987): sweeps are simulated from the fitted law, with noise drawn from
    the residuals and the seeds' deviations; in each, the excess cost of the law's own B_crit is divided by the noise
    level found there. The division keeps the answer honest for few points: under normal noise the quantile is near
    that of F(1, N - 2), which is 10 for five points, where a known noise level would have 3.8.
    """
    rng = np.random.default_rng(seed)
    residuals = data.solve(data.log_steps, best)[1]
    level = data.noise_level(data.cost(data.log_steps, best), data.seed_share)
    scaled = _to_unit_variance((residuals / np.sqrt(data.variance))[~data.is_bound])
    pool = np.concatenate([scaled, data.seed_deviations])
    shape = (resamples, len(residuals))
    # Few residuals have few distinct resamples: a normal kernel of the usual width fills the gaps.
    width = len(pool) ** -0.2
    noise = (rng.choice(pool, shape) + width * rng.standard_normal(shape)) / math.sqrt(1 + width**2)
    simulated = data.log_steps - residuals + np.sqrt(level * data.variance) * noise
    # A run that was stopped at its bound is stopped there again, unless it ends before.
    simulated = np.where(data.is_bound, np.minimum(data.log_steps, simulated), simulated)
    least = data.cost(simulated, _minimise(lambda log_b_crit: data.cost(simulated[:, None], log_b_crit), grid))
    excess = np.maximum(data.cost(simulated, np.full(resamples, best)) - least, 0)  # below 0 by rounding only
    dof = max(data.seed_dof, 1)
    seed_share = data.seed_share * rng.chisquare(dof, resamples) / dof  # the seeds' spread is uncertain as well
    # Weibull: rank confidence * (resamples + 1), which has the right coverage on average at any number of resamples.
    return float(level * np.quantile(excess / data.noise_level(least, seed_share), confidence, method="weibull"))


def _interval(
    data: _Measurements, best: float, grid: np.ndarray, allowance: float
) -> tuple[float | None, float | None]:
    """Range of B_crit around the best one where the cost is within `allowance` of the least; None for no end."""
    limit = float(data.cost(data.log_steps, best)) + allowance

    def beyond(log_b_crit: float) -> float:
        return float(data.cost(data.log_steps, log_b_crit)) - limit

    def end(outwards: np.ndarray) -> float | None:
        outside = next((place for place in outwards if beyond(place) > 0), None)
        return None if outside is None else math.exp(brentq(beyond, best, outside, xtol=1e-10))

    return end(grid[grid < best][::-1]), end(grid[grid > best])


@dataclass(frozen=True)
class LearningRateFit:
    """eps(B) = eps / (1 + knee / B)^alpha (App. A.2); knee in units, rms the root mean square residual of ln eps(B).

    A knee near 1000 times the largest batch size means that no plateau was seen; then eps is an extrapolation.
    """

    eps: float
    knee: float
    alpha: float
    rms: float


def central_learning_rate(batch_size: float, eps: float, knee: float, alpha: float) -> float:
    """eps_central(B) = eps / (1 + knee / B)^alpha (App. A.2); batch_size and knee in the same unit."""
    return eps / (1 + knee / batch_size) ** alpha


def fit_learning_rate(
    batch_sizes: Sequence[float], learning_rates: Sequence[float], *, alpha: float | None = None
) -> LearningRateFit | None:
    """Fits eps(B) = eps / (1 + knee / B)^alpha (App. A.2) to the best learning rates, by least squares in ln eps.

    Args:
        batch_sizes, learning_rates: in units, and the best rate at each; shape (N,).
        alpha: 1 for SGD; None fits it, within ALPHA_RANGE.

    Returns:
        None with fewer batch sizes than parameters + 1.

    Raises:
        ValueError: unequal lengths, or numbers that are not positive and finite.
    """
    if len(batch_sizes) != len(learning_rates):
        raise ValueError(f"Give one learning rate per batch size: got {len(learning_rates)} for {len(batch_sizes)}.")
    if not all(0 < value < math.inf for value in (*batch_sizes, *learning_rates)):
        raise ValueError("Batch sizes and learning rates must be positive and finite.")
    if len(set(batch_sizes)) < (4 if alpha is None else 3):
        return None
    log_sizes, log_rates = np.log(batch_sizes), np.log(learning_rates)

    def line(log_knee: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Best alpha (...), ln eps (...) and residuals (..., N): ln eps(B) is straight in ln(1 + knee / B)."""
        run = np.logaddexp(0, np.asarray(log_knee)[..., None] - log_sizes)
        centred = run - run.mean(-1, keepdims=True)
        slope = -(centred * log_rates).sum(-1) / (centred**2).sum(-1)
        best_alpha = np.clip(slope, *ALPHA_RANGE) if alpha is None else np.full_like(slope, alpha)
        log_eps = log_rates.mean() + best_alpha * run.mean(-1)
        return best_alpha, log_eps, log_rates - log_eps[..., None] + best_alpha[..., None] * run

    log_knee = _minimise(lambda places: (line(places)[2] ** 2).sum(-1), _log_grid(log_sizes))[0]
    best_alpha, log_eps, residuals = line(log_knee)
    rms = math.sqrt(np.mean(residuals**2))
    return LearningRateFit(math.exp(log_eps), math.exp(log_knee), float(best_alpha), rms)
