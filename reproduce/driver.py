"""A sweep from start to summary: rounds through a Hydra launcher, with progress, resumed from records."""

import sys
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from reproduce.adaptive_batch import AdaptiveBatchSizes
from reproduce.comparison import Comparison
from reproduce.distributed import RankKilled
from reproduce.experiment import Experiment
from reproduce.launched_runs import Overrides
from reproduce.linear_rule import LinearRule
from reproduce.mirror import check_mirror
from reproduce.progress import expected_runs
from reproduce.records import Record
from reproduce.report import format_table
from reproduce.run import USER_ERRORS
from reproduce.settings import (
    CentralRate,
    ConfigError,
    SweepSettings,
    TrainerSettings,
    check_batch_size,
)
from reproduce.summary import FinishedSweep, write_summary
from reproduce.sweep import PER_OCTAVE, Known, Outcome, SweepPlan, Trial, outcome_from_record, run_sweep
from reproduce.validation import parse, section
from tasks.task import Task

EXPERIMENTS = {"linear_rule": LinearRule, "adaptive_batch": AdaptiveBatchSizes}
"""What `comparison` may name besides the task's own comparisons."""


def sweep_plan(config: DictConfig, task: Task) -> SweepPlan:
    """The fixed choices of the sweep that `config` describes.

    Raises:
        ConfigError: naming the field that is wrong.
    """
    rate = parse(CentralRate, "grid.learning_rate", section(config, "grid.learning_rate"))
    sweep = parse(SweepSettings, "sweep", section(config, "sweep"))
    sizes = sweep.batch_sizes
    if len(set(sizes)) != len(sizes) or not sizes:
        raise ConfigError(f"sweep.batch_sizes must be distinct and not empty, got {list(sizes)}.")
    ranks = parse(TrainerSettings, "trainer", section(config, "trainer")).ranks
    for batch_size in sizes:
        check_batch_size(batch_size, task, ranks)
    return SweepPlan(
        batch_sizes=tuple(sorted(sizes)),
        goals=len(task.goals),
        seeds=sweep.seeds,
        search=sweep.search,
        spacings=spacings(sweep.spacings),
        octaves=sweep.octaves,
        eps=rate.eps,
        knee=rate.knee,
        alpha=rate.alpha,
        curvature=sweep.curvature_samples > 0,
    )


def spacings(octaves: Sequence[float]) -> tuple[int, ...]:
    """Spacings of learning rates in quarter octaves; ConfigError unless they go from coarse to fine."""
    steps = [PER_OCTAVE * spacing for spacing in octaves]
    if not steps or any(s < 1 or s != int(s) for s in steps) or steps != sorted(set(steps), reverse=True):
        raise ConfigError(
            f"sweep.spacings lists octaves from coarse to fine, multiples of 1/{PER_OCTAVE}, such as [1, 0.5]: "
            f"got {list(octaves)}."
        )
    return tuple(int(s) for s in steps)


class Sweep(Experiment):
    """The runs that a critical batch size is fitted to: which ones follows from those before them."""

    file = "summary.json"
    table = staticmethod(format_table)

    def __init__(self, launcher: Any, config: DictConfig, arguments: Sequence[str]) -> None:
        super().__init__(launcher, config, arguments)
        self.plan = sweep_plan(config, self.task)
        first = Trial(self.plan.batch_sizes[0], 0, 0, (None,) * self.plan.goals)
        check_mirror(self.runs.settings(self.overrides(first)))  # a wrong field is told before anything is written
        self.known: Known = {}
        self.records: dict[Trial, Record] = {}

    def overrides(self, trial: Trial) -> Overrides:
        """What the launcher adds to the user's own overrides for one trial."""
        limits = ",".join("null" if limit is None else repr(limit) for limit in trial.limits)
        own = (
            f"run.batch_size={trial.batch_size}",
            f"run.learning_rate={self.plan.learning_rate(trial.batch_size, trial.index)}",
            f"run.seed={trial.seed}",
            f"run.limits=[{limits}]",
        )
        if trial.curvature:
            # Runs for this measurement alone: they may spend as much on it as on training.
            samples = self.config.sweep.curvature_samples
            own += (f"noise_scale.curvature_samples={samples}", "noise_scale.probe_cost=1")
        return own

    def run_round(self, trials: Sequence[Trial], known: Known) -> Known:
        """Outcomes of all trials, of which those without a complete record are run."""
        overrides = {trial: self.overrides(trial) for trial in trials}
        records = self.runs.run(
            list(overrides.values()),
            self.progress,
            total=len(known.keys() | overrides.keys()),  # a trial may be asked for again, further
            planned=expected_runs(self.plan),
            given_up=sum(outcome.status == "given_up" for outcome in known.values()),
            seconds=sum(outcome.seconds for outcome in known.values()),
        )
        outcomes: Known = {}
        for trial in trials:
            record = records.get(overrides[trial])
            if record is None:
                outcomes[trial] = Outcome("failed", (), 0, float("-inf"))
                continue
            self.records[trial] = record
            outcomes[trial] = outcome_from_record(record, trial.limits, self.task.higher_is_better)
        return outcomes

    def launch(self) -> int:
        self.known = run_sweep(self.plan, self.run_round)
        return len(self.known)

    def write(self) -> dict:
        finished = FinishedSweep(
            name=self.task_name,
            scale=self.scale,
            kind=self.config.sweep.kind,
            optimizer=str(self.config.optimizer["_target_"]).rsplit(".", 1)[-1],
            command=self.command,
            task=self.task,
            plan=self.plan,
            known=self.known,
            records=self.records,
        )
        return write_summary(finished, self.results)


def sweep_through(launcher: Any, config: DictConfig, arguments: Sequence[str]) -> Path:
    """The sweeper's body, a sweep or a comparison: errors that users can mend end it with one message."""
    HydraConfig.instance().set_config(config)  # as it is in jobs: the task's name is read from it
    try:
        kind = Sweep if config.comparison is None else EXPERIMENTS.get(config.comparison, Comparison)
        experiment = kind(launcher, config, arguments)
        results = experiment.run()
    except (BrokenProcessPool, RankKilled):
        sys.exit(
            "error: a process in which runs were trained was killed, as happens when memory is short. All that was "
            "measured is kept: the same command goes on from here. If it happens again, train fewer at once: JOBS=1."
        )
    except USER_ERRORS as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print(
            "\nInterrupted. All that was measured is kept: the same command goes on from here.",
            file=sys.stderr,
        )
        sys.exit(130)
    if experiment.runs.failures:
        sys.exit(1)  # what could be measured is written; who called is to know that it is not all
    return results
