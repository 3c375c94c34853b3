"""What line_search.json says of one point of training."""

from dataclasses import dataclass

from reproduce.estimator import NoiseScaleEstimate
from reproduce.noise_law import DropCurve, Interval, NoiseLaw, Peak, fit_line_search
from reproduce.points_of_training import TrainedPoint


@dataclass(frozen=True)
class MeasuredPoint:
    """All that was measured at one point of training; noise scales from probes of fresh samples."""

    trained: TrainedPoint
    curves: tuple[DropCurve, ...]
    b_simple: NoiseScaleEstimate
    b_noise: NoiseScaleEstimate
    seconds: float
    commit: str | None


def point_entry(point: MeasuredPoint, goal: float) -> dict:
    """One point's part of line_search.json: the fitted laws, what stands beside them, and each batch size."""
    fit = fit_line_search(point.curves)
    return {
        "goal": goal,
        "step": point.trained.step,
        "score": point.trained.score,
        "drop_law": _law(fit.drops, "drop_max"),
        "learning_rate_law": _law(fit.learning_rates, "learning_rate_max"),
        **_with_ends("b_noise_hessian", point.b_noise),
        "learning_rate_max_hessian": learning_rate_max(point.b_simple, point.b_noise),
        **_with_ends("b_simple", point.b_simple),
        "batch_sizes": [_size(peak) for peak in fit.peaks],
        "seconds": point.seconds,
    }


def learning_rate_max(simple: NoiseScaleEstimate, curvature: NoiseScaleEstimate) -> float | None:
    """eps_max = G'G / G'HG (eq. 2.6), None unless both came out positive."""
    positive = simple.grad_sq > 0 and curvature.grad_sq > 0
    return simple.grad_sq / curvature.grad_sq if positive else None


def _law(law: NoiseLaw, limit: str) -> dict:
    return {
        **_with_ends("b_noise", law.b_noise),
        **_with_ends(limit, law.limit),
        "rms": law.rms,
        "rms_noise": law.rms_noise,
        "reason": law.reason,
    }


def _size(peak: Peak) -> dict:
    """A drop that cannot be told from 0 is only an upper bound."""
    drop = peak.drop if peak.measured else Interval(high=peak.drop.high if peak.drop.high > 0 else None)
    return {
        "batch_size": peak.batch_size,
        "batches": peak.batches,
        "measured": peak.measured,
        **_with_ends("drop", drop),
        **_with_ends("learning_rate", peak.learning_rate),
    }


def _with_ends(name: str, value: Interval | NoiseScaleEstimate) -> dict:
    return {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
