"""python -m reproduce.plan task=... sweep=...: what a sweep will cost, told before it is run; writes nothing.

    python -m reproduce.plan task=imagenet/paper sweep=full
    python -m reproduce.plan task=imagenet/paper sweep=full trainer.ranks=8 plan.throughput=2500

Overrides are those of the sweep itself. The task's data is not needed: its model is counted, and timed, on batches of
the right shapes.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import hydra
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from reproduce.__main__ import command
from reproduce.devices import devices_called
from reproduce.distributed import launched_from_outside
from reproduce.driver import sweep_plan
from reproduce.launched_runs import n_jobs
from reproduce.plan_text import Planned, format_plan
from reproduce.report.reading import SummaryError, load_summary
from reproduce.report.summaries import Summary
from reproduce.run import failure_text
from reproduce.sample_cost import sample_cost
from reproduce.settings import (
    Budget,
    ConfigError,
    Settings,
    build_task,
    settings_from_config,
    task_and_scale,
)
from reproduce.step_times import StepTimes, given, measured
from reproduce.sweep import SweepPlan
from reproduce.sweep_cost import measured_steps, sweep_cost
from reproduce.validation import above, parse, section
from tasks.task import Task


@dataclass(frozen=True)
class PlanSettings:
    """How a plan comes to its hours; see conf/plan/default.yaml. No part of a run."""

    throughput: float | None = above(0)
    seconds: float = above(0)


def planned(config: DictConfig, jobs: int = 1) -> Planned:
    """The plan of the sweep that `config` describes.

    Raises:
        ConfigError: naming the field that is wrong, or a summary in results/ that cannot be read.
    """
    if config.comparison is not None:
        raise ConfigError(f"A plan is of a sweep: leave out comparison={config.comparison}.")
    if launched_from_outside():
        raise ConfigError("A plan is made in one process: leave out torchrun, and name the ranks with trainer.ranks=N.")
    task = build_task(config)
    options = parse(PlanSettings, "plan", section(config, "plan"))
    plan = sweep_plan(config, task)
    settings = first_run(config, task, plan)
    if settings.adaptive_batch:
        raise ConfigError("A plan is of constant batch sizes: leave out trainer.batch_schedule=adaptive.")
    budget = parse(Budget, "grid.budget", section(config, "grid.budget"))
    summary = earlier_sweep(config, task)
    times, device = step_times(task, settings, options, plan)
    sample = sample_cost(task, settings.optimizer_config)
    cost = sweep_cost(plan, task, settings, budget, sample, times, summary)
    return Planned(task, settings, plan, str(config.sweep.kind), sample, times, device, summary, cost, jobs)


def first_run(config: DictConfig, task: Task, plan: SweepPlan) -> Settings:
    """Settings of the sweep's first run, so that whatever the sweep would refuse is refused here."""
    config = config.copy()
    with open_dict(config):
        config.run.batch_size, config.run.learning_rate = (
            plan.batch_sizes[0],
            plan.learning_rate(plan.batch_sizes[0], 0),
        )
    return settings_from_config(config, task)


def earlier_sweep(config: DictConfig, task: Task) -> Summary | None:
    """The summary of an earlier sweep to the same last goal, if there is one in results/.

    Raises:
        ConfigError: if it cannot be read.
    """
    try:
        summary = load_summary(Path(str(config.results), *task_and_scale(str(config.name))))
    except FileNotFoundError:
        return None
    except SummaryError as error:
        raise ConfigError(str(error)) from error
    return summary if measured_steps(summary, task) else None


def step_times(
    task: Task, settings: Settings, options: PlanSettings, plan: SweepPlan
) -> tuple[StepTimes, torch.device | None]:
    """The times of steps on a rank's device, with that; without, where the throughput was given."""
    trainer = settings.trainer
    if options.throughput is not None:
        return given(options.throughput / task.units_per_sample), None
    if trainer.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "trainer.device=cuda, but torch sees no GPU on this machine: name its throughput with plan.throughput="
            f"<{task.unit}s a second>, or use trainer.device=auto to measure here."
        )
    device = torch.device(devices_called(trainer.device)[0])
    largest = max(plan.batch_sizes) // task.units_per_sample // trainer.ranks
    times = measured(
        task, trainer, settings.optimizer_config, device, min(largest, trainer.max_samples), options.seconds
    )
    return times, device


@hydra.main(config_path="pkg://conf", config_name="config", version_base="1.3")
def main(config: DictConfig) -> None:
    try:
        launcher = {"n_jobs": OmegaConf.select(HydraConfig.get(), "launcher.n_jobs")}
        made = planned(config, n_jobs(OmegaConf.create({"hydra": {"launcher": launcher}})))
    except Exception as error:
        sys.exit(f"error: {failure_text(error)}")
    except KeyboardInterrupt:
        sys.exit(130)
    print(format_plan(made))


def from_command_line() -> None:
    if {"-m", "--multirun"} & set(sys.argv[1:]):
        sys.exit("error: a plan is made of a whole sweep at once: leave out -m.")
    command(main)


if __name__ == "__main__":
    from_command_line()
