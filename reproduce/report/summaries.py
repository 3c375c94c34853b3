"""What a sweep recorded, as values: the contents of results/<task>/<scale>/summary.json."""

from __future__ import annotations

from dataclasses import dataclass

from reproduce import published
from reproduce.published import PublishedValue
from reproduce.report.adaptive_batch import AdaptiveBatch
from reproduce.report.estimates import Estimate, LearningRateFit, SignedEstimate
from reproduce.report.linear_rule import LinearRule

SCALES = ("mini", "paper")


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
class BestStep:
    """The step along batches of one size that lowers the loss most.

    `drop` is only a bound, and `learning_rate` empty, where the drop cannot be told from 0 (censored).
    """

    batch_size: float
    batches: int
    drop: Estimate
    learning_rate: Estimate


@dataclass(frozen=True)
class SearchLaw:
    """limit / (1 + B_noise / B) through best steps (equations 2.6, 2.7).

    rms is that of the logarithm, weighted as in the fit; rms_noise is what noise alone would exceed once in twenty.
    """

    b_noise: Estimate
    limit: Estimate
    rms: float | None
    rms_noise: float | None
    reason: str


@dataclass(frozen=True)
class SearchPoint:
    """One point of training: soon after a run reached `goal`. The last two are from products with the Hessian."""

    goal: float
    step: float
    score: float
    drops: SearchLaw
    learning_rates: SearchLaw
    b_simple: Estimate
    b_noise_hessian: Estimate
    learning_rate_max_hessian: float | None
    best_steps: tuple[BestStep, ...]


@dataclass(frozen=True)
class LineSearch:
    """The contents of line_search.json: best steps at fixed weights along one run (Fig. 5)."""

    batch_size: float
    learning_rate: float
    seed: int
    from_summary: bool
    points: tuple[SearchPoint, ...]
    not_reached: tuple[float, ...]
    seconds: float | None
    command: str
    commit: str


@dataclass(frozen=True)
class NoiseAtScore:
    """The noise scale where runs of one kind pass a goal, and in how many steps they did."""

    goal: float
    b_simple: Estimate
    steps: tuple[float, ...]


@dataclass(frozen=True)
class ComparedRuns:
    """One kind of runs in a comparison; value: of the quantity in which kinds differ."""

    name: str
    value: float
    learning_rate: float
    goals: tuple[NoiseAtScore, ...]


@dataclass(frozen=True)
class Comparison:
    """The contents of comparison_<name>.json: noise scales of runs that differ in one quantity, at equal score.

    spread: largest over smallest noise scale, by goal; typical_spread: their geometric mean. exponent: of the noise
    scale as a power of the quantity at equal score.
    """

    name: str
    quantity: str
    unit: str
    score: str
    batch_size: float
    seeds: int
    runs: tuple[ComparedRuns, ...]
    spread: tuple[tuple[float, float | None], ...]
    typical_spread: float | None
    exponent: SignedEstimate | None
    command: str
    commit: str


@dataclass(frozen=True)
class LossLaw:
    """B_crit = b_star / L^(1 / alpha_b) (Kaplan et al. 2020); of tasks whose score is a loss in nats."""

    alpha_b: Estimate
    b_star: float
    goals: int
    rms: float


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
    score_unit: str = ""
    loss_law: LossLaw | None = None
    # In files of their own, since they are commands of their own.
    line_search: LineSearch | None = None
    comparisons: tuple[Comparison, ...] = ()
    linear_rule: LinearRule | None = None
    adaptive_batch: AdaptiveBatch | None = None

    @property
    def title(self) -> str:
        """The name that the paper gives the task, else the task's own in words: "atari_pong" is "Atari pong"."""
        row = published.TABLE_1.get(self.task)
        return row.name if row else self.task.replace("_", " ").capitalize()
