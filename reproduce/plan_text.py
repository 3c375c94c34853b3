"""A plan as a terminal shows it: one table by batch size, and what the numbers rest on in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from reproduce.report.formatting import count, number, plural
from reproduce.report.goal_tables import aligned

if TYPE_CHECKING:
    from reproduce.report.summaries import Summary, Sweep
    from reproduce.sample_cost import SampleCost
    from reproduce.settings import Settings
    from reproduce.step_times import StepTimes
    from reproduce.sweep import SweepPlan
    from reproduce.sweep_cost import RunsCost, SweepCost
    from tasks.task import Task

HOUR, MINUTE = 3600, 60
BYTE_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Planned:
    """A plan with all that it was made of.

    Attributes:
        settings: of the sweep's first run. device: that was timed, or None where the throughput was given.
        summary: of an earlier sweep, where its steps were used. jobs: runs at once.
    """

    task: Task
    settings: Settings
    plan: SweepPlan
    kind: str
    sample: SampleCost
    times: StepTimes
    device: torch.device | None
    summary: Summary | None
    cost: SweepCost
    jobs: int


def format_plan(made: Planned) -> str:
    """The whole text."""
    return "\n\n".join([_heading(made), _table(made), "\n".join(f"- {line}" for line in _sentences(made))])


def size(quantity: float) -> str:
    """1.23 MB; powers of 1,000."""
    power = 0
    while quantity >= 1000 and power < len(BYTE_UNITS) - 1:
        quantity, power = quantity / 1000, power + 1
    return f"{number(quantity)} {BYTE_UNITS[power]}"


def time(seconds: float) -> str:
    """Three digits in seconds, minutes or hours."""
    name, length = ("h", HOUR) if seconds >= 2 * HOUR else ("min", MINUTE) if seconds >= 2 * MINUTE else ("s", 1)
    return f"{number(seconds / length)} {name}"


def _heading(made: Planned) -> str:
    plan, task, sample = made.plan, made.task, made.sample
    flops = f"{number(sample.flops / task.units_per_sample)} FLOPs" if sample.flops else "no FLOPs that are counted"
    return (
        f"{made.settings.task}/{made.settings.scale}, sweep={made.kind}: {plural(len(plan.batch_sizes), 'batch size')},"
        f" {plural(plan.goals, 'goal')}, {plural(plan.seeds, 'seed')}\n"
        f"model: {plural(sample.weights, 'weight')}, {flops} for each {task.unit}, forward and backward\n"
        f"rank: {_rank(made)}"
    )


def _rank(made: Planned) -> str:
    if made.device is None:
        return f"{number(made.task.units_per_sample / made.times.of_pass(1))} {made.task.unit}s/s, as given"
    units = made.times.samples[-1] * made.task.units_per_sample
    if made.device.type == "cuda":
        name = torch.cuda.get_device_name(made.device)
    else:
        name = f"{plural(made.settings.trainer.threads, 'thread')} of this machine"
    return (
        f"{name}, {number(units / made.times.pass_seconds[-1])} {made.task.unit}s/s in passes of "
        f"{plural(units, made.task.unit)}, measured on batches without data"
    )


def _table(made: Planned) -> str:
    ranks, cost = made.settings.trainer.ranks, made.cost
    header = (
        *("batch size", "runs", "steps of a run", f"{made.task.unit}s", "FLOPs", f"{made.task.unit}s/s of a run"),
        *("time of a run", "time of all ranks", "records"),
    )
    rows = [_row(row, ranks) for row in cost.rows]
    total = (
        *("total", number(cost.total("runs")), "", number(cost.total("examples")), number(cost.total("flops"))),
        *("", "", time(ranks * cost.total("rank_seconds")), size(cost.total("record_bytes"))),
    )
    return aligned(header, [*rows, total])


def _row(row: RunsCost, ranks: int) -> tuple[str, ...]:
    return (
        count(row.batch_size) + (" (B_noise)" if row.curvature else ""),
        number(row.runs),
        ("" if row.length.measured else "at most ") + number(row.length.steps),
        number(row.examples),
        number(row.flops),
        number(row.units_per_second),
        time(row.rank_seconds / row.runs),
        time(ranks * row.rank_seconds),
        size(row.record_bytes),
    )


def _sentences(made: Planned) -> list[str]:
    return [_hours(made), _steps(made), _runs(made), _disk(made), _flops(made), _left_out(made)]


def _hours(made: Planned) -> str:
    trainer, seconds = made.settings.trainer, made.cost.total("rank_seconds")
    of_ranks = seconds * trainer.ranks
    # What a rank is, the user knows who gave its throughput.
    spent = {
        None: f"{number(of_ranks / HOUR)} rank-hours",
        "cuda": f"{number(of_ranks / HOUR)} GPU-hours",
        "cpu": f"{number(of_ranks * trainer.threads / HOUR)} core-hours",
    }[made.device and made.device.type]
    return (
        f"{spent} in all. With {plural(made.jobs, 'run')} at once (hydra.launcher.n_jobs) of "
        f"{plural(trainer.ranks, 'rank')} each (trainer.ranks), all ranks as fast as this one, about "
        f"{time(seconds / made.jobs)}."
    )


def _steps(made: Planned) -> str:
    budget = "the whole budget, grid.budget.steps + grid.budget.examples / batch size, an upper bound"
    if made.summary is None:
        return f"Steps are {budget}: no earlier sweep to this last goal is in results/."
    took = _took(made.summary.sweep)
    text = f"Steps are those to the last goal at the best rate, from the earlier sweep in results/{took}."
    if all(row.length.measured for row in made.cost.rows):
        return text
    return f"{text} Where it did not get there, 'at most': {budget}."


def _took(sweep: Sweep) -> str:
    """What a sweep that has ended took, to hold the plan against."""
    parts = [f"{count(sweep.runs)} runs"] if sweep.runs is not None else []
    parts += [f"{number(sweep.examples)} examples"] if sweep.examples is not None else []
    parts += [f"{time(sweep.seconds)} of run time"] if sweep.seconds is not None else []
    kind = f"sweep={sweep.name}, " if sweep.name else ""
    return f" ({kind}which took {', '.join(parts)})" if parts else ""


def _runs(made: Planned) -> str:
    plan, cost = made.plan, made.cost
    text = "Runs are those of the plain grid, each to its end."
    if plan.search == "pruned":
        examples = sum(row.examples for row in cost.rows if not row.curvature)
        text = (
            "Runs are as many as searches usually take, each as long as the best one. The plain grid of App. A.2 would "
            f"take {count(cost.grid_runs)}, none of them shorter, and so at least {number(cost.grid_examples)} "
            f"{made.task.unit}s: the pruning is expected to save at least {1 - examples / cost.grid_examples:.0%}"
        )
        sweep = made.summary.sweep if made.summary else None
        if sweep and sweep.examples and sweep.examples_full_grid:
            text += f", as it saved the earlier sweep {1 - sweep.examples / sweep.examples_full_grid:.0%}"
        text += "."
    return text + (" Runs that measure B_noise probe as much as they train." if plan.curvature else "")


def _disk(made: Planned) -> str:
    checkpoint, records = made.sample.checkpoint_bytes, made.cost.total("record_bytes")
    # The new checkpoint is whole before the old one goes.
    peak = records + 2 * made.jobs * checkpoint
    return (
        f"Disk: at most {size(peak)}: {size(records)} of records, which stay, and a checkpoint of {size(checkpoint)} "
        "for each run under way, twice while it is replaced."
    )


def _flops(made: Planned) -> str:
    text = "FLOPs are those of matrix products, convolutions and attention, two to a multiply-add, an LSTM's included"
    if not made.sample.flops:
        return f"{text}: this model has none."
    return f"{text}; what is done element by element is left out."


def _left_out(made: Planned) -> str:
    acting = "acting in environments" if made.task.on_policy else "drawing batches"
    ranks = ", averaging over ranks" if made.settings.trainer.ranks > 1 else ""
    curvature = ", products with the Hessian" if made.plan.curvature else ""
    return f"Hours leave out {acting}, evaluations{ranks}{curvature}."
