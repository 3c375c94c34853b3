"""What a sweep recorded, as values: the contents of results/<task>/<scale>/summary.json."""

from __future__ import annotations

from dataclasses import dataclass

from reproduce import published
from reproduce.published import PublishedValue

SCALES = ("mini", "paper")


@dataclass(frozen=True)
class Estimate:
    """A measured number with its interval; or, where value is None, only a bound on it, or nothing."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def measured(self) -> bool:
        return self.value is not None

    @property
    def at_least(self) -> float | None:
        """The lower bound, where that is all there is."""
        return self.low if self.value is None and self.high is None else None

    @property
    def at_most(self) -> float | None:
        """The upper bound, where that is all there is."""
        return self.high if self.value is None and self.low is None else None


@dataclass(frozen=True)
class StartAndRun:
    """A batch size or noise scale at the first goal, and over the whole run."""

    start: Estimate
    run: Estimate


@dataclass(frozen=True)
class Point:
    """The fastest way to one goal at one batch size. `steps` is None where no run reached it (censored)."""

    batch_size: float
    learning_rate: float | None
    steps: float | None
    steps_low: float | None
    steps_high: float | None
    examples: float | None
    seeds: int | None


@dataclass(frozen=True)
class Exact:
    """The closed-form answers for a goal (noisy_quadratic only)."""

    b_crit: float | None
    b_simple: float | None
    b_noise: float | None
    s_min: float | None
    e_min: float | None


@dataclass(frozen=True)
class Goal:
    """One goal: its measured steps at each batch size, and the fit of equation 2.11 to them.

    fit_rms is the rms error of ln S, so 0.1 means 10 %.
    """

    goal: float
    identified: bool
    reason: str
    b_crit: Estimate
    b_simple: Estimate
    b_noise: Estimate
    s_min: float | None
    e_min: float | None
    fit_rms: float | None
    exact: Exact | None
    points: tuple[Point, ...]

    @property
    def reached(self) -> tuple[Point, ...]:
        return tuple(point for point in self.points if point.steps is not None)

    @property
    def censored(self) -> tuple[Point, ...]:
        return tuple(point for point in self.points if point.steps is None)


@dataclass(frozen=True)
class LearningRateFit:
    """Best learning rate = eps / (1 + knee / B)^alpha (appendix A.2)."""

    eps: float
    knee: float
    alpha: float


@dataclass(frozen=True)
class Sweep:
    """What the sweep cost, over all its runs; examples_full_grid is what a grid without pruning would have taken."""

    name: str
    runs: float | None
    seeds: float | None
    given_up: float | None
    diverged: float | None
    failed: float | None
    examples: float | None
    examples_full_grid: float | None
    seconds: float | None
    cores: float | None


@dataclass(frozen=True)
class PublishedValues:
    """What the paper has for this task; see reproduce.published."""

    b_crit_start: PublishedValue
    b_crit_average: PublishedValue
    b_simple_start: PublishedValue
    b_simple_average: PublishedValue


@dataclass(frozen=True)
class Summary:
    """One sweep: one task at one scale. Batch sizes, examples and noise scales are in `unit`s."""

    task: str
    scale: str
    unit: str
    score: str
    higher_is_better: bool
    data: str
    embedded: bool
    model: str
    optimizer: str
    machine: str
    date: str
    command: str
    commit: str
    goals: tuple[Goal, ...]
    b_crit: StartAndRun
    b_simple: StartAndRun
    b_noise: StartAndRun
    published: PublishedValues | None
    learning_rate_fit: LearningRateFit | None
    sweep: Sweep
    notes: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]

    @property
    def title(self) -> str:
        """The name that the paper gives the task, else the task's own; a game's own, since Atari is seven."""
        row = published.TABLE_1.get(self.task)
        return row.name if row else self.task
