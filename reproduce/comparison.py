"""Runs of one batch size that differ in one quantity: their noise scales at equal score, side by side.

    python -m reproduce -m task=billion_word/mini comparison=model_size

A task's config names its comparisons, each with the overrides of its runs (claims 6 and 9 of the paper: model size and
learning rate). The noise scale is taken at the task's goals, so that runs are held against each other at equal score.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean
from typing import Any

from omegaconf import DictConfig

from reproduce.experiment import FixedRuns, Key
from reproduce.launched_runs import Overrides
from reproduce.noise_at_goal import Crossing, NoiseAtGoal, noise_at_goal, probes_at_goal
from reproduce.power_law import PowerLaw, estimated, fit_power_law
from reproduce.records import Record
from reproduce.report import format_comparison
from reproduce.settings import ConfigError
from reproduce.validation import above, least, parse, section


@dataclass(frozen=True)
class Compared:
    """One of the runs that are compared. value: of the quantity in which they differ. overrides: that make it so."""

    value: float = above(0)
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparisonSettings:
    """quantity: as figures call it. batch_size, learning_rate: of every run, unless its overrides name another."""

    quantity: str
    batch_size: int = above(0)
    learning_rate: float = above(0)
    seeds: int = least(1)


def comparison_from_config(config: DictConfig) -> tuple[ComparisonSettings, dict[str, Compared]]:
    """The comparison that `config.comparison` names, and its runs by name.

    Raises:
        ConfigError: if the task has none of that name, or a field of it is wrong.
    """
    name = str(config.comparison)
    known = config.get("comparisons") or {}
    if name not in known:
        has = f"has {', '.join(known)}" if known else "has none"
        raise ConfigError(f"There is no comparison={name} for this task: its config's section 'comparisons' {has}.")
    values = section(config, f"comparisons.{name}")
    runs = values.pop("runs", None)
    if not isinstance(runs, dict) or len(runs) < 2:
        raise ConfigError(f"comparisons.{name}.runs must name at least two runs, each with its value and overrides.")
    compared = {str(key): parse(Compared, f"comparisons.{name}.runs.{key}", entry) for key, entry in runs.items()}
    return parse(ComparisonSettings, f"comparisons.{name}", values), compared


def exponent(values: Sequence[float], noise: Sequence[Sequence[NoiseAtGoal]]) -> PowerLaw | None:
    """noise scale = factor of the goal * value^exponent, over all goals; noise[i][g] is that of value i at goal g."""
    points = [
        point
        for value, at_goals in zip(values, noise, strict=True)
        for goal, n in enumerate(at_goals)
        for point in estimated(value, n.value, n.low, n.high, goal)
    ]
    return fit_power_law(points)


def spread(noise: Sequence[NoiseAtGoal]) -> float | None:
    """Largest over smallest noise scale at one goal; None unless two are measured."""
    measured = [n.value for n in noise if n.value is not None and n.value > 0]
    return max(measured) / min(measured) if len(measured) > 1 else None


class Comparison(FixedRuns):
    """One of the comparisons that the task's config names; see FixedRuns."""

    table = staticmethod(format_comparison)

    def __init__(self, launcher: Any, config: DictConfig, arguments: Sequence[str]) -> None:
        super().__init__(launcher, config, arguments)
        self.settings, self.compared = comparison_from_config(config)
        self.file = f"comparison_{self.name}.json"

    def wanted(self) -> dict[Key, Overrides]:
        seeds = range(self.settings.seeds)
        return {(name, seed): self.overrides(run, seed) for name, run in self.compared.items() for seed in seeds}

    def overrides(self, run: Compared, seed: int) -> Overrides:
        """What the launcher adds to the user's own overrides."""
        common = (f"run.batch_size={self.settings.batch_size}", f"run.learning_rate={self.settings.learning_rate}")
        named = {override.partition("=")[0] for override in run.overrides}
        kept = tuple(override for override in common if override.partition("=")[0] not in named)
        return (*kept, f"run.seed={seed}", *run.overrides)

    def measured(self, records: Mapping[Key, Record]) -> dict:
        goals = range(len(self.task.goals))
        noise = {
            name: [self.noise([r for (n, _), r in records.items() if n == name], goal) for goal in goals]
            for name in self.compared
        }
        law = exponent([run.value for run in self.compared.values()], list(noise.values()))
        spreads = [spread([noise[name][goal] for name in self.compared]) for goal in goals]
        known = [value for value in spreads if value is not None]
        return {
            "quantity": self.settings.quantity,
            "batch_size": self.settings.batch_size,
            "seeds": self.settings.seeds,
            "runs": [self.run_entry(name, records, noise[name]) for name in self.compared],
            "spread": [
                {"goal": goal, "largest_over_smallest": value}
                for goal, value in zip(self.task.goals, spreads, strict=True)
            ],
            "typical_spread": geometric_mean(known) if known else None,
            "exponent": {"value": law.exponent, "low": law.low, "high": law.high, "points": law.points}
            if law
            else None,
        }

    def run_entry(self, name: str, records: Mapping[Key, Record], noise: Sequence[NoiseAtGoal]) -> dict:
        """One compared run: what it is, and its noise scale and steps at each goal."""
        run = self.compared[name]
        own = [record for (n, _), record in records.items() if n == name]
        steps = list(itertools.zip_longest(*(record.outcome["steps_to_goals"] for record in own)))
        return {
            "name": name,
            "value": run.value,
            "overrides": list(run.overrides),
            "learning_rate": own[0].learning_rate if own else None,
            "goals": [
                {
                    "goal": goal,
                    **{f"b_simple{end}": value for end, value in zip(("", "_low", "_high"), asdict(n).values())},
                    "steps": [step for step in steps[index] if step is not None] if steps else [],
                }
                for index, (goal, n) in enumerate(zip(self.task.goals, noise, strict=True))
            ],
        }

    def noise(self, records: Sequence[Record], goal: int) -> NoiseAtGoal:
        """The noise scale where runs of one kind pass a goal."""
        steps = [(record, record.outcome["steps_to_goals"]) for record in records]
        crossings = [Crossing(record, reached[goal]) for record, reached in steps if reached and reached[goal]]
        return noise_at_goal(probes_at_goal(crossings, "probe"))
