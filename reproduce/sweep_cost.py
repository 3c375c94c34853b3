"""What a sweep will cost, by batch size: runs, examples, operations, hours and bytes. Arithmetic alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reproduce.goals import next_evaluation
from reproduce.progress import expected_runs
from reproduce.report.summaries import Summary
from reproduce.sample_cost import SampleCost
from reproduce.settings import Budget, NoiseScaleSettings, Settings, max_steps
from reproduce.step_times import StepTimes
from reproduce.summary import GRID_OCTAVES
from reproduce.sweep import SweepPlan
from tasks.task import Task

# Of a record, from those of the suite's own tasks: the header and the outcome, and an evaluation with its probe.
HEADER_BYTES, EVALUATION_BYTES = 1500, 200


@dataclass(frozen=True)
class RunLength:
    """Steps of a run. measured: by an earlier sweep; else those of the whole budget, which is an upper bound."""

    steps: float
    measured: bool


@dataclass(frozen=True)
class RunsCost:
    """Runs of one batch size.

    Attributes:
        batch_size: in units. curvature: these runs measure B_noise (one row of a plan does).
        runs: expected number. examples: units trained on and probed, over all runs.
        flops: of these, forward and backward. rank_seconds: of one rank, over all runs, one after the other.
        record_bytes: of all runs.
    """

    batch_size: int
    curvature: bool
    runs: float
    length: RunLength
    examples: float
    flops: float
    rank_seconds: float
    record_bytes: float

    @property
    def units_per_second(self) -> float:
        """What one run trains on, over all its ranks."""
        return self.examples / self.rank_seconds


@dataclass(frozen=True)
class SweepCost:
    """rows: runs by batch size. grid_*: of the plain grid (App. A.2) at the same spacing, each of whose runs takes at
    least the steps of the best one."""

    rows: tuple[RunsCost, ...]
    grid_runs: float
    grid_examples: float

    def total(self, quantity: str) -> float:
        """Sum over the rows of `quantity`, a field of RunsCost: "runs", "examples", ..."""
        return sum(getattr(row, quantity) for row in self.rows)


def run_length(batch_size: int, budget: Budget, points: dict[float, float]) -> RunLength:
    """points: {batch size: steps} of an earlier sweep."""
    if batch_size in points:
        return RunLength(points[batch_size], True)
    return RunLength(max_steps(budget, batch_size), False)


def measured_steps(summary: Summary | None, task: Task) -> dict[float, float]:
    """{batch size: steps} to the last goal at the best learning rate; empty for a sweep to another last goal."""
    if summary is None or summary.goals[-1].goal != task.goals[-1]:
        return {}
    return {point.batch_size: point.steps for point in summary.goals[-1].reached}


def evaluations(steps: float, spacing: float) -> Sequence[int]:
    """The steps at which a run of so many is evaluated, step 0 among them; the trainer's own schedule."""
    at, last = [0], math.ceil(steps)
    while at[-1] < last:
        at.append(min(next_evaluation(at[-1], spacing), last))
    return at


def probed_units(at: Sequence[int], batch_size: int, unit: int, options: NoiseScaleSettings) -> int:
    """Units that a run's probes take, evaluated at these steps: the trainer's own rule."""
    probed = 0
    for step in at[1:]:
        allowed = options.probe_cost * step * batch_size - probed
        groups = min(int(allowed / unit), options.max_probe_samples) // options.probe_groups
        probed += max(groups, 0) * options.probe_groups * unit
    return probed


def micro_batches(settings: Settings, task: Task, share: int) -> int:
    """Parts of one rank's share of a step, in samples: the trainer's own rule."""
    parts = math.ceil(share / settings.trainer.max_samples)
    if task.on_policy:
        parts = max(parts, min(share, math.ceil(settings.noise_scale.probe_groups / settings.trainer.ranks)))
    return parts


def runs_cost(
    runs: float,
    batch_size: int,
    length: RunLength,
    task: Task,
    settings: Settings,
    sample: SampleCost,
    times: StepTimes,
    curvature: bool = False,
) -> RunsCost:
    """The cost of `runs` runs alike. Probes take as long as training on as many samples."""
    unit, ranks = task.units_per_sample, settings.trainer.ranks
    probes = replace(settings.noise_scale, probe_cost=1.0) if curvature else settings.noise_scale
    at = evaluations(length.steps, settings.trainer.evaluation_spacing)
    trained = length.steps * batch_size
    examples = trained + (0 if task.on_policy else probed_units(at, batch_size, unit, probes))
    share = batch_size // unit // ranks
    step_seconds = times.of_step(share, micro_batches(settings, task, share))
    return RunsCost(
        batch_size=batch_size,
        curvature=curvature,
        runs=runs,
        length=length,
        examples=runs * examples,
        flops=runs * examples / unit * sample.flops,
        rank_seconds=runs * examples / batch_size * step_seconds,
        record_bytes=runs * (HEADER_BYTES + EVALUATION_BYTES * len(at)),
    )


def curvature_batch_size(plan: SweepPlan, budget: Budget, b_crit: float | None) -> int:
    """The batch size nearest to B_crit, where B_noise is measured; unless it is known, to the budget's own B_crit."""
    if b_crit is None:
        b_crit = budget.examples / budget.steps if budget.steps and budget.examples else None
    if b_crit is None:
        return plan.batch_sizes[len(plan.batch_sizes) // 2]
    return min(plan.batch_sizes, key=lambda size: abs(math.log(size / b_crit)))


def sweep_cost(
    plan: SweepPlan,
    task: Task,
    settings: Settings,
    budget: Budget,
    sample: SampleCost,
    times: StepTimes,
    summary: Summary | None = None,
) -> SweepCost:
    """The whole sweep.

    A search's runs number as searches usually do (reproduce.progress), and all of them are counted as long as the best
    one: in the sweeps of results/ it took 0.9 to 1.2 times the examples that this gives with their own runs and steps.

    Args:
        settings: of any run of the sweep. summary: of an earlier sweep of the task, whose steps to the last goal take
            the place of the budget's.
    """
    points = measured_steps(summary, task)

    def rows(of: SweepPlan) -> list[RunsCost]:
        runs = expected_runs(of) / len(of.batch_sizes)
        return [
            runs_cost(runs, size, run_length(size, budget, points), task, settings, sample, times)
            for size in of.batch_sizes
        ]

    # As reproduce.summary counts it for a sweep that has ended.
    grid = rows(replace(plan, search="grid", octaves=GRID_OCTAVES))
    planned = rows(plan)
    if plan.curvature:
        size = curvature_batch_size(plan, budget, summary.b_crit.run.value if points else None)
        length = run_length(size, budget, points)
        planned.append(runs_cost(plan.seeds, size, length, task, settings, sample, times, curvature=True))
    return SweepCost(tuple(planned), sum(row.runs for row in grid), sum(row.examples for row in grid))
