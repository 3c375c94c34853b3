"""The linear scaling rule beside tuned learning rates (claim 10; Goyal et al. 2017, arXiv 1706.02677).

    python -m reproduce -m task=svhn/mini comparison=linear_rule sweep=full

The learning rate that a sweep found best at its smallest batch size is scaled in proportion to the batch size. At each
batch size the steps that this takes to the last goal stand beside those of the sweep's best rate.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from omegaconf import DictConfig

from reproduce.experiment import FixedRuns, Key
from reproduce.launched_runs import Overrides
from reproduce.records import Record
from reproduce.report import format_linear_rule
from reproduce.report.summaries import Point
from reproduce.settings import ConfigError

PATIENCE = 4  # a run is given up at so many times the steps of the best rate
MIN_SCALED = 2  # batch sizes at which the rule is tried


class LinearRule(FixedRuns):
    """Runs at scaled rates, at every batch size of the sweep but the smallest."""

    file = "linear_rule.json"
    table = staticmethod(format_linear_rule)

    def __init__(self, launcher: Any, config: DictConfig, arguments: Sequence[str]) -> None:
        super().__init__(launcher, config, arguments)
        self.seeds = int(config.sweep.seeds)
        self.goal = self.sweep().goals[-1]
        reached = sorted(self.goal.reached, key=lambda point: point.batch_size)
        if len(reached) <= MIN_SCALED:
            raise ConfigError(
                f"The sweep of {self.task_name}/{self.scale} reached its last goal at {len(reached)} batch size(s), "
                f"and the rule needs {MIN_SCALED + 1}: run the sweep with more batch sizes or a larger grid.budget."
            )
        self.base, *self.scaled = reached

    def learning_rate(self, batch_size: float) -> float:
        return float(f"{self.base.learning_rate * batch_size / self.base.batch_size:.4g}")

    def wanted(self) -> dict[Key, Overrides]:
        seeds = range(self.seeds)
        return {(point.batch_size, seed): self.overrides(point, seed) for point in self.scaled for seed in seeds}

    def overrides(self, tuned: Point, seed: int) -> Overrides:
        """What the launcher adds to the user's own overrides."""
        limit = math.ceil(PATIENCE * tuned.steps)
        return (
            f"run.batch_size={tuned.batch_size:g}",
            f"run.learning_rate={self.learning_rate(tuned.batch_size)}",
            f"run.seed={seed}",
            f"run.limits=[{','.join([str(limit)] * len(self.task.goals))}]",
            f"grid.budget.steps={limit}",
        )

    def measured(self, records: Mapping[Key, Record]) -> dict:
        return {
            "goal": self.goal.goal,
            "seeds": self.seeds,
            "base": {"batch_size": self.base.batch_size, "learning_rate": self.base.learning_rate},
            "b_crit": self.goal.b_crit.value,
            "b_crit_low": self.goal.b_crit.low,
            "b_crit_high": self.goal.b_crit.high,
            "points": [
                self.point(tuned, [record for (size, _), record in records.items() if size == tuned.batch_size])
                for tuned in self.scaled
            ],
        }

    def point(self, tuned: Point, records: Sequence[Record]) -> dict:
        """One batch size. `steps` is the geometric mean over seeds, null unless all arrived."""
        crossings = [record.outcome["steps_to_goals"] for record in records]
        steps = [reached[-1] for reached in crossings if reached and reached[-1] is not None]
        mean = geometric_mean(steps) if steps and len(steps) == len(records) else None
        return {
            "batch_size": tuned.batch_size,
            "learning_rate": self.learning_rate(tuned.batch_size),
            "steps": mean,
            "seeds": len(records),
            "seeds_reached": len(steps),
            "tuned_learning_rate": tuned.learning_rate,
            "tuned_steps": tuned.steps,
            "ratio": mean / tuned.steps if mean else None,
        }
