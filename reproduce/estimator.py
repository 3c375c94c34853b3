"""B_simple from squared gradient norms, with an interval: numbers in, numbers out (App. A.1 of arXiv 1812.06162)."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit


class NoiseScaleError(RuntimeError):
    """The norms that came in cannot hold a noise scale; the message says why and what to change."""


@dataclass(frozen=True)
class NoiseScaleEstimate:
    """B_simple = tr Sigma / G'G with an interval, in the unit of the batch sizes that went in.

    Attributes:
        value: None where G'G cannot be told from 0: then the noise scale is at least `low`.
        low, high: ends of the confidence interval; `high` is None where it is unbounded. Both None with fewer
            than two measurements.
        grad_sq: mean of the unbiased estimates of |G|^2; may be negative by chance.
        trace: mean of the unbiased estimates of tr Sigma.
        updates: measurements used.
    """

    value: float | None
    low: float | None
    high: float | None
    grad_sq: float
    trace: float
    updates: int

    def __str__(self) -> str:
        if self.value is not None:
            high = "?" if self.high is None else f"{self.high:.4g}"
            return f"{self.value:.4g} [{self.low:.4g}, {high}]"
        return "not measured" if self.low is None else f"at least {self.low:.4g}"


def unbiased_moments(sq_small: float, sq_big: float, n_small: float, n_big: float) -> tuple[float, float]:
    """(|G|^2, tr Sigma) from squared gradient norms at two batch sizes (App. A.1).

    Args:
        sq_small: mean squared norm of gradients over n_small samples.
        sq_big: squared norm of the gradient over n_big > n_small samples.
    """
    grad_sq = (n_big * sq_big - n_small * sq_small) / (n_big - n_small)
    trace = (sq_small - sq_big) / (1 / n_small - 1 / n_big)
    return grad_sq, trace


def ratio_interval(
    numerator: float, denominator: float, covariance: np.ndarray, dof: float, confidence: float
) -> tuple[float | None, float | None, float | None]:
    """Fieller's interval of a ratio of two means; (value, low, high).

    Args:
        covariance: of the two means, shape (2, 2), numerator first.
        dof: degrees of freedom of the covariance.
    Returns:
        value None where the denominator cannot be told from 0 (then the ratio is at least `low`, with no upper end).
    """
    t_sq = float(stdtrit(dof, 0.5 + confidence / 2)) ** 2
    var_n, cov, var_d = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    # |G|^2 cannot be negative: an average below 0 bounds the ratio no tighter than one of 0.
    denominator = max(denominator, 0.0)
    # (numerator - x denominator)^2 <= t^2 var(numerator - x denominator) is a quadratic in x.
    a = denominator**2 - t_sq * var_d
    b = numerator * denominator - t_sq * cov
    c = numerator**2 - t_sq * var_n
    root = math.sqrt(max(b * b - a * c, 0.0))
    if a > 0:
        # Nor can tr Sigma: an average below 0, or its interval, reaches down to 0 and no further.
        return max(numerator / denominator, 0.0), max((b - root) / a, 0.0), max((b + root) / a, 0.0)
    if c <= 0 or a == 0:  # the numerator cannot be told from 0 either
        return None, 0.0, None
    # a < 0 < c: one root is negative and one positive; the set runs from the positive one through infinity.
    return None, (b - root) / a, None


class NoiseScaleEstimator:
    """Running estimate of B_simple (or of B_noise, fed with curvature norms) from squared norms at two batch sizes.

    |G|^2 and tr Sigma are averaged apart and divided last; nothing is clamped. Measurements are kept as sums over
    blocks, merged in pairs as they grow, so memory stays bounded and the spread of block means includes the
    correlation between neighbouring steps (batch means).

    Args:
        horizon: measurements over which older ones fade by 1/e; None weighs all alike.
    """

    MAX_BLOCKS = 64

    def __init__(self, horizon: float | None = None) -> None:
        if horizon is not None and horizon <= 1:
            raise ValueError(f"horizon counts measurements and must be above 1, got {horizon}")
        self.horizon = horizon
        self.reset()

    def reset(self) -> None:
        self.blocks: list[list[float]] = []  # [weight, weight * tr Sigma, weight * |G|^2, measurements]
        self.block_length = 1
        self.updates = 0
        self.skipped = 0

    def update(self, sq_small: float, sq_big: float, n_small: float, n_big: float, weight: float = 1.0) -> None:
        """Adds one measurement.

        Args:
            sq_small: squared norm of the gradient over n_small samples (the mean over several such gradients).
            sq_big: squared norm of the gradient over n_big samples, which contain the small ones.
            weight: how much this measurement counts against the others.

        A non-finite norm is counted in `skipped` and otherwise ignored.

        Raises:
            NoiseScaleError: unless 0 < n_small < n_big.
        """
        if not 0 < n_small < n_big:
            raise NoiseScaleError(
                f"A noise scale needs gradients at two batch sizes, a small and a big one: got {n_small} and {n_big}."
            )
        if not (math.isfinite(sq_small) and math.isfinite(sq_big)):
            self.skipped += 1
            return
        grad_sq, trace = unbiased_moments(sq_small, sq_big, n_small, n_big)
        if self.horizon is not None:
            fade = math.exp(-1 / self.horizon)
            for block in self.blocks:
                block[0:3] = [fade * entry for entry in block[0:3]]
        if not self.blocks or self.blocks[-1][3] >= self.block_length:
            self.blocks.append([0.0, 0.0, 0.0, 0])
        block = self.blocks[-1]
        block[0] += weight
        block[1] += weight * trace
        block[2] += weight * grad_sq
        block[3] += 1
        self.updates += 1
        if len(self.blocks) > self.MAX_BLOCKS:
            if self.horizon is not None and self.block_length >= self.horizon / 8:
                del self.blocks[0]  # faded: blocks of an eighth of the horizon go back eight horizons
            else:
                self._merge_pairs()

    def _merge_pairs(self) -> None:
        pairs = zip(self.blocks[0::2], [*self.blocks[1::2], [0.0, 0.0, 0.0, 0]], strict=False)
        self.blocks = [[x + y for x, y in zip(first, second, strict=True)] for first, second in pairs]
        self.block_length *= 2

    def estimate(self, confidence: float = 0.95) -> NoiseScaleEstimate:
        """The estimate from all measurements so far."""
        weight, trace, grad_sq = np.sum([block[:3] for block in self.blocks], axis=0) if self.blocks else (0, 0, 0)
        if weight <= 0:
            return NoiseScaleEstimate(None, None, None, 0.0, 0.0, self.updates)
        means = np.array([trace, grad_sq]) / weight
        if len(self.blocks) < 2:
            return NoiseScaleEstimate(None, None, None, float(means[1]), float(means[0]), self.updates)
        table = np.array(self.blocks)
        shares = table[:, 0] / weight
        deviations = table[:, 1:3] / table[:, :1] - means
        # Covariance of a weighted mean of blocks that are taken as independent of each other.
        count = 1 / np.square(shares).sum()
        covariance = (deviations * np.square(shares)[:, None]).T @ deviations * count / (count - 1)
        value, low, high = ratio_interval(means[0], means[1], covariance, max(count - 1, 1.0), confidence)
        return NoiseScaleEstimate(value, low, high, float(means[1]), float(means[0]), self.updates)

    def state_dict(self) -> dict:
        return {
            "blocks": [list(block) for block in self.blocks],
            "block_length": self.block_length,
            "updates": self.updates,
            "skipped": self.skipped,
        }

    def load_state_dict(self, state: dict) -> None:
        self.blocks = [list(block) for block in state["blocks"]]
        self.block_length = state["block_length"]
        self.updates, self.skipped = state["updates"], state["skipped"]
