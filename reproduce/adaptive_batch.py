"""Batch sizes that follow the noise scale, beside constant ones on the same law of learning rates (App. D, Fig. 16).

    python -m reproduce -m task=svhn/mini comparison=adaptive_batch sweep=full

With B(s) = sqrt(r B_simple(s)) the steps S and examples E to a goal keep (S / S_min - 1)(E / E_min - 1) = gamma, where
constant batch sizes have 1. gamma = (integral of sqrt(B_noise) ds)^2 / (S_min E_min) over noiseless steps s is below 1
where the noise scale varies. It is measured here, and beside it stands what the sweep's noise scales predict.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import geometric_mean
from typing import Any

import numpy as np
from omegaconf import DictConfig

from reproduce.batch_schedule import whole_samples
from reproduce.experiment import FixedRuns, Key
from reproduce.launched_runs import Overrides
from reproduce.noise_at_goal import noise_scale_along
from reproduce.records import Record
from reproduce.report import format_adaptive_batch
from reproduce.settings import ConfigError
from reproduce.tradeoff import Point, TradeoffFit, central_learning_rate, fit_tradeoff

CONSTANT, ADAPTIVE = "constant", "adaptive"
CONSTANT_MULTIPLES = (0.25, 0.5, 1, 2, 4)  # batch sizes in B_crit: where the hyperbola bends
R_MULTIPLES = (0.25, 1, 4)  # r in B_crit: batch sizes of about half of it, it and twice it
SEEDS = 4  # gamma is near 1: runs for each seed of a sweep
LARGEST = 16  # batch size, in B_crit
RESAMPLES = 500

Spent = Mapping[float, Sequence[tuple[float, float]]]
"""(steps, examples) of the runs that arrived, by constant batch size or by r."""


class AdaptiveBatchSizes(FixedRuns):
    """Runs at constant batch sizes and runs whose batch size adapts, to the sweep's last goal."""

    file = "adaptive_batch.json"
    table = staticmethod(format_adaptive_batch)

    def __init__(self, launcher: Any, config: DictConfig, arguments: Sequence[str]) -> None:
        super().__init__(launcher, config, arguments)
        self.swept = self.sweep()
        self.goal, self.law = self.swept.goals[-1], self.swept.learning_rate_fit
        if not self.goal.b_crit.measured or self.law is None:
            raise ConfigError(
                f"The sweep of {self.task_name}/{self.scale} has no B_crit of its last goal, or no law of its learning "
                "rates, to choose batch sizes by: run it with more batch sizes."
            )
        self.seeds = range(SEEDS * int(config.sweep.seeds))
        b_crit = self.goal.b_crit.value
        self.batch_sizes = [self.whole(multiple * b_crit) for multiple in CONSTANT_MULTIPLES]
        self.rs = [float(f"{multiple * b_crit:.3g}") for multiple in R_MULTIPLES]

    def whole(self, batch_size: float) -> int:
        """Rounded to whole samples on every rank, as the schedule rounds."""
        return whole_samples(batch_size, self.task.units_per_sample * int(self.config.trainer.ranks))

    def wanted(self) -> dict[Key, Overrides]:
        kinds = [(CONSTANT, size) for size in self.batch_sizes] + [(ADAPTIVE, r) for r in self.rs]
        return {(*kind, seed): self.overrides(*kind, seed) for kind in kinds for seed in self.seeds}

    def overrides(self, kind: str, value: float, seed: int) -> Overrides:
        """What the launcher adds to the user's own overrides."""
        law = self.law
        if kind == CONSTANT:
            rate = central_learning_rate(value, law.eps, law.knee, law.alpha)
            return (f"run.batch_size={value}", f"run.learning_rate={rate:.6g}", f"run.seed={seed}")
        first = self.swept.goals[0].b_crit.value or self.goal.b_crit.value
        return (
            f"run.batch_size={self.whole(math.sqrt(value * first))}",
            f"run.learning_rate={law.eps:.6g}",
            f"run.seed={seed}",
            "trainer.batch_schedule=adaptive",
            f"adaptive_batch.r={value}",
            f"adaptive_batch.knee={law.knee}",
            f"adaptive_batch.alpha={law.alpha}",
            f"adaptive_batch.largest={self.whole(LARGEST * self.goal.b_crit.value)}",
        )

    def measured(self, records: Mapping[Key, Record]) -> dict:
        arrived: dict[tuple[str, float], list[tuple[float, float]]] = {}
        for (kind, value, _), record in records.items():
            spent = steps_and_examples(record)
            arrived.setdefault((kind, value), []).extend([spent] if spent else [])
        constant = {size: arrived.get((CONSTANT, size), []) for size in self.batch_sizes}
        adaptive = {r: arrived.get((ADAPTIVE, r), []) for r in self.rs}
        fit = fitted(constant)
        value = gamma(pooled(adaptive), fit)
        low, high = gamma_interval(constant, adaptive) if value is not None else (None, None)
        return {
            "goal": self.goal.goal,
            "seeds": len(self.seeds),
            "learning_rate": {"eps": self.law.eps, "knee": self.law.knee, "alpha": self.law.alpha},
            "b_crit": fit and fit.b_crit,
            "b_crit_low": fit and fit.b_crit_low,
            "b_crit_high": fit and fit.b_crit_high,
            "s_min": fit and fit.s_min,
            "e_min": fit and fit.e_min,
            "constant": [
                {"batch_size": size, **self.spent(points), "gamma": gamma(points, fit)}
                for size, points in constant.items()
            ],
            "adaptive": [
                {"r": r, **self.spent(points), "gamma": gamma(points, fit), "schedule": schedule(records[key])}
                for r, points in adaptive.items()
                if (key := (ADAPTIVE, r, 0)) in records
            ],
            "gamma": value,
            "gamma_low": low,
            "gamma_high": high,
            "predicted_gamma": predicted_gamma(
                [goal.s_min for goal in self.swept.goals], [goal.b_simple.value for goal in self.swept.goals]
            ),
        }

    def spent(self, points: Sequence[tuple[float, float]]) -> dict:
        """Geometric means over the seeds that arrived."""
        steps, examples = map(geometric_mean, zip(*points, strict=True)) if points else (None, None)
        return {"steps": steps, "examples": examples, "seeds": len(self.seeds), "seeds_reached": len(points)}


def steps_and_examples(record: Record) -> tuple[float, float] | None:
    """What the run took to its last goal; None if it did not arrive."""
    reached = record.outcome["steps_to_goals"]
    if not reached or reached[-1] is None:
        return None
    steps, examples = zip(*((entry["step"], entry["examples"]) for entry in record.evaluations), strict=True)
    return reached[-1], float(np.interp(reached[-1], steps, examples))


def schedule(record: Record) -> list[tuple[int, float]]:
    """(step, batch size until then) of each evaluation of a run."""
    pairs = zip(record.evaluations, record.evaluations[1:])
    return [
        (after["step"], (after["examples"] - before["examples"]) / (after["step"] - before["step"]))
        for before, after in pairs
    ]


def fitted(constant: Spent, resamples: int = 1000) -> TradeoffFit | None:
    """The hyperbola through the constant batch sizes at which a seed arrived; None where it is not identified."""
    points = [Point(size, tuple(steps for steps, _ in points)) for size, points in constant.items() if points]
    fit = fit_tradeoff(points, resamples=resamples) if points else None
    return fit if fit and fit.identified else None


def gamma(points: Sequence[tuple[float, float]], fit: TradeoffFit | None) -> float | None:
    """(S / S_min - 1)(E / E_min - 1), geometric mean over runs; None without runs, or one beyond an asymptote."""
    if fit is None or not points:
        return None
    products = [(steps / fit.s_min - 1, examples / fit.e_min - 1) for steps, examples in points]
    if min(min(pair) for pair in products) <= 0:
        return None
    return geometric_mean(a * b for a, b in products)


def pooled(runs: Spent) -> list[tuple[float, float]]:
    return [point for points in runs.values() for point in points]


def gamma_interval(constant: Spent, adaptive: Spent) -> tuple[float | None, float | None]:
    """Ends of a 95 % interval of gamma over all adaptive runs, from a bootstrap over the seeds of both kinds."""
    rng = np.random.default_rng(0)

    def resampled(runs: Spent) -> Spent:
        return {k: [points[i] for i in rng.integers(len(points), size=len(points))] for k, points in runs.items()}

    draws = [gamma(pooled(resampled(adaptive)), fitted(resampled(constant), resamples=1)) for _ in range(RESAMPLES)]
    known = [draw for draw in draws if draw is not None]
    if len(known) < 0.95 * RESAMPLES:
        return None, None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


def predicted_gamma(noiseless_steps: Sequence[float | None], noise_scales: Sequence[float | None]) -> float | None:
    """gamma of a run whose noise scale is known at some noiseless steps (S_min of the goals); None without any.

    A constant factor between B_simple and B_noise drops out.
    """
    along = noise_scale_along(noiseless_steps, noise_scales)
    if along is None:
        return None
    noise = along[1]
    return float(np.mean(np.sqrt(noise)) ** 2 / np.mean(noise))
