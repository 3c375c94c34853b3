"""Runs of one config that differ in overrides, through a Hydra launcher, each resumed from its record."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobStatus
from omegaconf import DictConfig, OmegaConf, open_dict

from reproduce.distributed import RankKilled
from reproduce.progress import Progress
from reproduce.records import Record, read_record
from reproduce.run import failure_text, is_complete
from reproduce.settings import ConfigError, Settings, build_task, settings_from_config

CHOSEN = ("run.batch_size", "run.learning_rate", "run.seed", "run.limits")

Overrides = tuple[str, ...]
"""What sets one run apart, as on a command line: ("run.batch_size=64", "run.seed=1", ...)."""


class LaunchedRuns:
    """Args:
    launcher: a Hydra launcher. config: the composed one. arguments: the user's overrides, part of every run's.

    Raises:
        ConfigError: if the user's overrides choose what is to be chosen here.
    """

    def __init__(self, launcher: Any, config: DictConfig, arguments: Sequence[str]) -> None:
        self.launcher, self.config, self.arguments = launcher, config, list(arguments)
        for override in OverridesParser.create().parse_overrides(self.arguments):
            if override.is_sweep_override() or override.key_or_group in CHOSEN:
                raise ConfigError(
                    f"'{override.input_line}': a sweep chooses batch sizes, learning rates and seeds itself. Give it "
                    "sweep.batch_sizes=[...] or sweep.seeds=N, or leave out -m for a single run."
                )
        self.task = build_task(config)
        self.failures: dict[Overrides, str] = {}
        self.launched = 0
        self.any_complete = False

    def settings(self, overrides: Overrides) -> Settings:
        """The settings of a run, as they will be in its own process."""
        config = self.config.copy()
        with open_dict(config):
            for override in overrides:
                key, _, value = override.partition("=")
                OmegaConf.update(config, key, OmegaConf.create(f"v: {value}").v)
        own_task = any(override.startswith("task.") for override in overrides)
        return settings_from_config(config, build_task(config) if own_task else self.task)

    def complete_record(self, overrides: Overrides) -> Record | None:
        """The run's record if it answers all that the run would.

        Raises:
            RecordError: if the file cannot be read, or holds another run.
        """
        settings = self.settings(overrides)
        path = settings.record_path
        record = read_record(path, settings.identity()) if path.exists() else None
        return record if record and is_complete(record.outcome, settings.run.limits) else None

    def run(
        self, wanted: Sequence[Overrides], progress: Progress, total: int, planned: float, **so_far: float
    ) -> dict[Overrides, Record]:
        """Runs what is missing; returns the complete records of all wanted runs. What fails is kept in `failures`.

        Args:
            total: runs that will be complete after these. planned, so_far: see Progress.watch.

        Raises:
            ConfigError: if every run so far has failed.
            RankKilled: if a rank of one was killed, after the others: what comes next depends on what it would show.
        """
        found = {overrides: self.complete_record(overrides) for overrides in wanted}
        missing = [overrides for overrides, record in found.items() if record is None]
        if missing:
            paths = [self.settings(overrides).record_path for overrides in missing]
            progress.watch(paths, total - len(missing), planned, **so_far)
            with progress:
                returns = self.launcher.launch(
                    [[*self.arguments, *overrides] for overrides in missing], initial_job_idx=self.launched
                )
            self.launched += len(missing)
            found |= {overrides: self.complete_record(overrides) for overrides in missing}
            for overrides, job in zip(missing, returns, strict=True):
                if isinstance(job._return_value, RankKilled):
                    raise job._return_value
                if job.status == JobStatus.FAILED:
                    self.failures[overrides] = failure_text(job._return_value)
                elif found[overrides] is None:
                    self.failures[overrides] = "it ended without an outcome in its record; start the command again."
        complete = {overrides: record for overrides, record in found.items() if record is not None}
        self.any_complete = self.any_complete or bool(complete)
        if not self.any_complete:
            raise ConfigError(f"Every run failed. The first one: {next(iter(self.failures.values()))}")
        return complete

    def tell_failures(self) -> None:
        """Each kind of failure once, with the runs that it ended."""
        for text in dict.fromkeys(self.failures.values()):
            runs = [told(overrides) for overrides, other in self.failures.items() if other == text]
            print(f"\nfailed: {text}\nin {len(runs)} run(s):", *(f"  {run}" for run in runs), sep="\n", file=sys.stderr)


def told(overrides: Overrides) -> str:
    """What a user needs to start the run by itself."""
    return " ".join(override for override in overrides if not override.startswith("run.limits="))


def n_jobs(config: DictConfig) -> int:
    """Runs at once, as far as the launcher tells; for the estimate of the time left."""
    jobs = OmegaConf.select(config, "hydra.launcher.n_jobs")  # of joblib
    if jobs == 0:
        raise ConfigError("hydra.launcher.n_jobs must be a number of runs at once, or -1 for one a core, got 0.")
    if jobs is None:
        jobs = OmegaConf.select(config, "hydra.launcher.array_parallelism")  # of submitit
    return jobs if isinstance(jobs, int) and jobs > 0 else (os.cpu_count() or 1)
