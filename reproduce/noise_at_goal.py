"""B_simple and B_noise where runs pass a goal, pooled over runs, and their average over a run (App. D.1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reproduce.estimator import ratio_interval
from reproduce.records import Record

WINDOWS = (1.5, 2.0, 3.0)
"""Factors in steps around a goal within which probes are used: the smallest that holds enough of them."""
ENOUGH = 8


@dataclass(frozen=True)
class NoiseAtGoal:
    """A noise scale with its interval, in units. value None with low set: at least `low`. All None: not measured."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Crossing:
    """A run and the step at which it reached the goal."""

    record: Record
    step: float


@dataclass(frozen=True)
class Probe:
    """One probe near a goal: where, ln(step / step at the goal); weight; tr Sigma; |G|^2; its run and step."""

    where: float
    weight: float
    trace: float
    grad_sq: float
    record: Record
    step: int


def probes_at_goal(crossings: Sequence[Crossing], kind: str) -> list[Probe]:
    """The probes of all runs around the moment of reaching a goal, in the smallest window that holds enough.

    Args:
        kind: "probe" for B_simple, "curvature" for B_noise.
    """
    found = [
        Probe(math.log(entry["step"] / c.step), p["examples"], p["trace"], p["grad_sq"], c.record, entry["step"])
        for c in crossings
        for entry in c.record.evaluations
        if (p := entry.get(kind)) and p["grad_sq"] is not None and p["trace"] is not None
    ]
    near: list[Probe] = []
    for window in WINDOWS:
        near = [probe for probe in found if abs(probe.where) <= math.log(window)]
        if len(near) >= ENOUGH:
            break
    return near


def noise_at_goal(probes: Sequence[Probe], confidence: float = 0.95) -> NoiseAtGoal:
    """The noise scale at the moment of reaching a goal, from probes around it.

    tr Sigma and |G|^2 are each a straight line in ln(step / step at the goal), fitted by weighted least squares
    (a probe of n examples counts n), and divided at the goal: unbiased in both, also at a run's last goal, where
    there are probes on one side only. The interval is Fieller's, with the scatter around the lines as the noise.
    """
    if len(probes) < 5:
        return NoiseAtGoal()
    table = np.array([(p.where, p.weight, p.trace, p.grad_sq) for p in probes])
    design = np.stack([np.ones(len(table)), table[:, 0]], axis=1)
    weights = table[:, 1] / table[:, 1].sum()
    bread = np.linalg.pinv(design.T @ (design * weights[:, None]))
    coefficients = bread @ design.T @ (weights[:, None] * table[:, 2:])
    residuals = table[:, 2:] - design @ coefficients
    influence = (bread @ design.T)[0] * weights  # of each row on the values at the goal
    effective = 1 / np.square(weights).sum()
    covariance = (residuals * influence[:, None] ** 2).T @ residuals * effective / max(effective - 2, 1)
    trace, grad_sq = coefficients[0]
    value, low, high = ratio_interval(trace, grad_sq, covariance, max(effective - 2, 1), confidence)
    return NoiseAtGoal(value, low, high)


def noise_scale_along(
    steps_to_goals: Sequence[float | None], noise_scales: Sequence[float | None]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Midpoints of equal pieces of a run up to its last measured goal, and the noise scale there; None without one.

    Between goals the noise scale is a power of the step; before the first measured goal it is taken as constant.
    """
    nodes = [
        (math.log(step), math.log(noise))
        for step, noise in zip(steps_to_goals, noise_scales, strict=True)
        if step is not None and noise is not None and noise > 0
    ]
    if not nodes:
        return None
    last = math.exp(nodes[-1][0])
    # So many that averages move by less than a tenth of a percent.
    steps = (np.arange(2000) + 0.5) / 2000 * last
    return steps, np.exp(np.interp(np.log(steps), *zip(*nodes, strict=True)))


def run_average(
    steps_to_goals: Sequence[float | None], noise_scales: Sequence[float | None], batch_size: float
) -> float | None:
    """Mean noise scale of a run over its noiseless steps s (App. D.1): a real step is 1 / (1 + B_noise / B) of one."""
    along = noise_scale_along(steps_to_goals, noise_scales)
    if along is None:
        return None
    noise = along[1]
    noiseless = 1 / (1 + noise / batch_size)
    return float((noise * noiseless).sum() / noiseless.sum())
