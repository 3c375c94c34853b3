"""The law dL(B) = dL_max / (1 + B_noise / B) (eq. 2.7), and eps_opt(B) likewise (eq. 2.6), fitted to loss drops.

Numbers in, numbers out. What comes in is the mean loss drop at several learning rates and batch sizes, in independent
blocks (reproduce.loss_drop); what goes out are the best drop and the best rate at each batch size, B_noise and the
limits, with intervals from a bootstrap over blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtrit

MIN_SIZES = 3  # two unknowns, and one more to tell how well the law fits
MARGIN = 100.0  # B_noise is looked for from min(B) / 100 to 100 max(B); an interval that ends there has no end
GRID_SPACING = 0.1  # in ln B_noise; the law's bend spans about 4, so a minimum is not missed
ZOOMS = 5  # each makes the grid 4 times finer: 0.1 / 4^5 is 1e-4 in ln B_noise
LOG_FLOOR = 0.02  # error of ln dL granted at every batch size, so that none takes all the weight


@dataclass(frozen=True)
class DropCurve:
    """Loss drops at one batch size.

    Attributes:
        batch_size: in units. batches: over all blocks.
        learning_rates: tried, rising, at least 3; shape (N,).
        drops: L(theta) - L(theta - eps g), mean over a block's batches; shape (blocks, N).
    """

    batch_size: float
    batches: int
    learning_rates: np.ndarray
    drops: np.ndarray


@dataclass(frozen=True)
class Interval:
    """A number with its confidence interval; value None where there is only a bound, an end None where unbounded."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Peak:
    """The best step at one batch size.

    Attributes:
        batch_size: in units. batches: measured.
        drop: the largest expected loss drop over learning rates. learning_rate: where it is.
        measured: False where the drop cannot be told from 0: then `drop` has a value and an upper end that say no
            more than that, and `learning_rate` is empty.
    """

    batch_size: float
    batches: int
    drop: Interval
    learning_rate: Interval
    measured: bool


@dataclass(frozen=True)
class NoiseLaw:
    """A fit of limit / (1 + B_noise / B).

    Attributes:
        b_noise: in units. limit: at infinite batch size: dL_max, or eps_max.
        rms: root mean square residual of the logarithm over batch sizes, weighted as in the fit.
        rms_noise: what noise alone would exceed once in twenty times, if the law were exact.
        reason: "" with a fitted b_noise, else why there is none.
    """

    b_noise: Interval = Interval()
    limit: Interval = Interval()
    rms: float | None = None
    rms_noise: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class LineSearchFit:
    """All that loss drops at one point of training say."""

    peaks: tuple[Peak, ...]
    drops: NoiseLaw
    learning_rates: NoiseLaw


def peak(learning_rates: np.ndarray, drops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(best rate, drop there) by a parabola through the best rate tried and its neighbours.

    In eps, not in ln eps: the drop of a quadratic loss is a parabola in eps (eq. 2.4), and then this is exact.

    Args:
        learning_rates: rising, shape (N,), N >= 3. drops: shape (..., N); what is not finite counts as the worst.
    Returns:
        two arrays of shape (...). The best rate lies at most one neighbour's distance outside those tried.
    """
    drops = np.where(np.isfinite(drops), drops, -np.inf)
    highest = np.argmax(drops, axis=-1)
    centre = np.clip(highest, 1, len(learning_rates) - 2)
    x = [learning_rates[centre + shift] for shift in (-1, 0, 1)]
    y = [np.take_along_axis(drops, (centre + shift)[..., None], axis=-1)[..., 0] for shift in (-1, 0, 1)]
    with np.errstate(invalid="ignore", divide="ignore"):
        before, after = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
        bend = (after - before) / (x[2] - x[0])
        slope = before + bend * (x[1] - x[0])
        place = np.clip(x[1] - slope / (2 * bend), x[0] ** 2 / x[1], x[2] ** 2 / x[1])
        height = y[1] + slope * (place - x[1]) + bend * (place - x[1]) ** 2
    # Bent upwards, or with an infinite loss beside it: the best one tried.
    usable = np.isfinite(height) & (bend < 0)
    tried = np.take_along_axis(drops, highest[..., None], axis=-1)[..., 0]
    return np.where(usable, place, learning_rates[highest]), np.where(usable, height, tried)


def fit_line_search(
    curves: Sequence[DropCurve], *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
) -> LineSearchFit:
    """Best steps at each batch size and the laws through them.

    Blocks are resampled, the same ones at every batch size, since a block's evaluation samples are: what they have in
    common moves all drops alike, which is an error of dL_max and not of B_noise.

    Args:
        curves: one a batch size, with the same number of blocks each (at least 2).
    Raises:
        ValueError: if there are none, or their blocks differ in number.
    """
    blocks = {len(curve.drops) for curve in curves}
    if len(blocks) != 1 or min(blocks) < 2:
        raise ValueError(f"A line search needs batch sizes with the same number of blocks, at least 2: got {blocks}.")
    (count,) = blocks
    chosen = np.random.default_rng(seed).integers(count, size=(resamples, count))
    level = tail(count, confidence)
    peaks, kept = [], []
    for curve in curves:
        rate, drop = (float(value) for value in peak(curve.learning_rates, curve.drops.mean(0)))
        rates, drops = peak(curve.learning_rates, curve.drops[chosen].mean(1))
        low, high = np.quantile(drops, [level, 1 - level])
        measured = bool(low > 0)
        best_rate = Interval(rate, *(float(end) for end in np.quantile(rates, [level, 1 - level])))
        peaks.append(
            Peak(
                curve.batch_size,
                curve.batches,
                Interval(drop, float(low), float(high)),
                best_rate if measured else Interval(),
                measured,
            )
        )
        if measured:
            kept.append((curve.batch_size, (drop, drops), (rate, rates)))
    sizes = np.array([size for size, *_ in kept])
    laws = [
        _fit(sizes, [entry[which][0] for entry in kept], [entry[which][1] for entry in kept], level) for which in (1, 2)
    ]
    return LineSearchFit(tuple(peaks), *laws)


def tail(blocks: int, confidence: float) -> float:
    """Which quantile of the bootstrap is the interval's lower end.

    Few blocks have resamples that scatter too little: the percentile is taken further out, as Student's t would be
    (the expanded percentile interval of Hesterberg 2015).
    """
    return float(ndtr(np.sqrt(blocks / (blocks - 1)) * stdtrit(blocks - 1, (1 - confidence) / 2)))


def _fit(sizes: np.ndarray, values: Sequence[float], resampled: Sequence[np.ndarray], level: float) -> NoiseLaw:
    """The law through `values`, shape (N,); the same through each resample, shape (N, resamples), for the intervals."""
    if len(sizes) < MIN_SIZES:
        count = {0: "no batch size", 1: "only 1 batch size"}.get(len(sizes), f"only {len(sizes)} batch sizes")
        return NoiseLaw(reason=f"{count} lowered the loss by more than the noise: B_noise needs {MIN_SIZES}")
    values, resampled = np.array(values), np.array(resampled).T
    # A resample of a drop near zero may lie below it: there it says nothing.
    usable = resampled > 0
    logs = np.log(np.where(usable, resampled, 1.0))
    weights = 1 / (np.var(np.where(usable, logs, np.nan), axis=0, where=usable) + LOG_FLOOR**2)
    log_b, log_limit, residuals = fit_log_law(sizes, np.log(values), weights)
    log_bs, log_limits, scattered = fit_log_law(sizes, logs, weights * usable)
    error = {
        "rms": float(_rms(residuals, weights)),
        "rms_noise": float(np.quantile(_rms(scattered - residuals, weights * usable), 0.95)),
    }
    ends = np.log([sizes.min() / MARGIN, sizes.max() * MARGIN])
    low, high = np.quantile(log_bs, [level, 1 - level])
    low, high = (None if low <= ends[0] + GRID_SPACING else low), (None if high >= ends[1] - GRID_SPACING else high)
    if low is None and high is None:
        return NoiseLaw(**error, reason="the loss drops scatter too much to say where B_noise lies")
    if log_b <= ends[0] + GRID_SPACING:
        return NoiseLaw(Interval(high=_exp(high)), **error, reason="all batch sizes lie above B_noise")
    if log_b >= ends[1] - GRID_SPACING:
        return NoiseLaw(Interval(low=_exp(low)), **error, reason="all batch sizes lie below B_noise")
    limit = np.exp([log_limit, *np.quantile(log_limits, [level, 1 - level])])
    return NoiseLaw(Interval(_exp(log_b), _exp(low), _exp(high)), Interval(*map(float, limit)), **error)


def fit_log_law(
    sizes: np.ndarray, log_values: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted least squares of ln value = ln limit - ln(1 + B_noise / B).

    For a given B_noise the best ln limit is a weighted mean, which leaves a search in one dimension.

    Args:
        sizes: B, shape (N,). log_values, weights: shapes that broadcast to (..., N).
    Returns:
        ln B_noise (...), ln limit (...), residuals (..., N).
    """
    log_sizes = np.log(sizes)

    def solve(log_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        needed = log_values + np.logaddexp(0, np.asarray(log_b)[..., None] - log_sizes)
        log_limit = (weights * needed).sum(-1) / weights.sum(-1)
        return log_limit, needed - log_limit[..., None]

    def cost(log_b: np.ndarray) -> np.ndarray:
        return (weights * solve(log_b)[1] ** 2).sum(-1)

    low, high = log_sizes.min() - np.log(MARGIN), log_sizes.max() + np.log(MARGIN)
    shape = np.broadcast_shapes(log_values.shape, weights.shape)[:-1]
    best, spacing = np.full(shape, low), GRID_SPACING
    places = [np.full(shape, place) for place in np.arange(low, high + spacing, spacing)]
    for _ in range(1 + ZOOMS):
        costs = np.stack([cost(place) for place in places])
        best = np.take_along_axis(np.stack(places), np.argmin(costs, axis=0)[None], axis=0)[0]
        places = [np.clip(best + spacing * shift, low, high) for shift in np.linspace(-1, 1, 9)]
        spacing /= 4
    log_limit, residuals = solve(best)
    return best, log_limit, residuals


def _rms(residuals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.sqrt((weights * residuals**2).sum(-1) / weights.sum(-1))


def _exp(value: float | None) -> float | None:
    return None if value is None else float(np.exp(value))
