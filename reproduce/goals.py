"""When a run reaches its goals: the smoothed score, its first crossings, and the evaluation schedule."""

import math
from collections.abc import Sequence

import numpy as np


def next_evaluation(step: int, spacing: float) -> int:
    """The step of the evaluation after the one at `step`: geometric, a factor 1 + spacing on, at least one step."""
    return max(step + 1, math.ceil(step * (1 + spacing)))


def smooth(scores: Sequence[float], window: int) -> np.ndarray:
    """Centred mean over `window` evaluations (odd); nan at the ends, where the window is not full."""
    values = np.asarray(scores, dtype=float)
    result = np.full(len(values), np.nan)
    if len(values) >= window:
        half = window // 2
        result[half : len(values) - half] = np.convolve(values, np.full(window, 1 / window), mode="valid")
    return result


def steps_to_goals(
    steps: Sequence[int], scores: Sequence[float], goals: Sequence[float], higher_is_better: bool, window: int
) -> list[float | None]:
    """Steps at which the smoothed score first reaches each goal; None where it does not.

    Linear in the score and in ln(steps) between the two evaluations around the crossing, so that the distance
    between evaluations does not round the answer. Evaluations at step 0 count as half a step in ln(steps).

    Args:
        steps, scores: of the evaluations, in order. window: evaluations in the centred mean, odd.
    """
    smoothed = smooth(scores, window)
    known = np.isfinite(smoothed)
    values = smoothed[known]
    log_steps = np.log(np.maximum(np.asarray(steps, dtype=float)[known], 0.5))
    crossings: list[float | None] = []
    for goal in goals:
        reached = values >= goal if higher_is_better else values <= goal
        first = int(np.argmax(reached)) if reached.any() else None
        if first is None:
            crossings.append(None)
        elif first == 0:
            crossings.append(float(np.exp(log_steps[0])))
        else:
            before, after = values[first - 1], values[first]
            share = (before - goal) / (before - after)
            log_step = log_steps[first - 1] + share * (log_steps[first] - log_steps[first - 1])
            crossings.append(float(np.exp(log_step)))
    return crossings
