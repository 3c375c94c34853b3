"""A sweep from start to summary: rounds through a Hydra launcher, with progress, resumed from records."""

import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig, OmegaConf, open_dict

from reproduce.progress import Progress
from reproduce.records import Record, RecordError, read_record, run_name
from reproduce.report import format_table, write_task_report
from reproduce.run import USER_ERRORS, failure_text, is_complete
from reproduce.settings import (
    ConfigError,
    build_task,
    check_batch_size,
    run_folder,
    settings_from_config,
    task_and_scale,
)
from reproduce.summary import write_summary
from reproduce.sweep import Known, Outcome, SweepPlan, Trial, outcome_from_record, run_sweep
from tasks.task import Task

CHOSEN_BY_SWEEP = ("run.batch_size", "run.learning_rate", "run.seed", "run.limits")


def sweep_plan(config: DictConfig, task: Task) -> SweepPlan:
    """The fixed choices of the sweep that `config` describes.

    Raises:
        ConfigError: naming the field that is wrong.
    """
    sweep, grid = config.sweep, config.get("grid")
    if grid is None:
        raise ConfigError("The task's config has no section 'grid': see README, 'Add a task'.")
    if sweep.search not in ("pruned", "grid"):
        raise ConfigError(f"sweep.search is pruned or grid, got {sweep.search!r}.")
    sizes = [check_batch_size(b, task, int(config.trainer.ranks)) for b in sweep.batch_sizes]
    if len(set(sizes)) != len(sizes) or not sizes:
        raise ConfigError(f"sweep.batch_sizes must be distinct and not empty, got {sizes}.")
    if int(sweep.seeds) < 1:
        raise ConfigError(f"sweep.seeds must be at least 1, got {sweep.seeds}.")
    rate = grid.learning_rate
    if not (rate.eps > 0 and rate.knee >= 0 and rate.alpha >= 0):
        raise ConfigError(f"grid.learning_rate needs eps > 0, knee >= 0 and alpha >= 0, got {dict(rate)}.")
    return SweepPlan(
        batch_sizes=tuple(sorted(sizes)),
        goals=len(task.goals),
        seeds=int(sweep.seeds),
        search=sweep.search,
        refine=bool(sweep.refine),
        octaves=int(sweep.get("octaves", 0)),
        eps=float(rate.eps),
        knee=float(rate.knee),
        alpha=float(rate.alpha),
        curvature=int(sweep.curvature_samples) > 0,
    )


@contextmanager
def only_sweep_in(folder: Path) -> Iterator[None]:
    """Holds the folder's lock, which the system lets go of when the process dies.

    Raises:
        RecordError: if another sweep runs there, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "a+")  # noqa: SIM115 (held until the sweep ends)
    except OSError as error:
        raise RecordError(
            f"{folder} cannot be written: {error.strerror}. Name another folder with outputs=FOLDER."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            raise RecordError(
                f"Another sweep is running in {folder} (process {lock.read().strip() or 'unknown'}). Wait for it, or "
                "name another folder with outputs=FOLDER."
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def check_writable(folder: Path) -> None:
    """Raises RecordError unless results can be written to `folder`: told before the sweep, not after it."""
    probe = folder / ".writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RecordError(
            f"Results cannot be written to {folder}: {error.strerror}. Make it writable, or name another folder "
            "with results=FOLDER."
        ) from error


class Sweep:
    """One sweep. `launcher`: a Hydra launcher. `config`: the composed one. `arguments`: the user's overrides."""

    def __init__(self, launcher: Any, config: DictConfig, arguments: Sequence[str]) -> None:
        self.launcher, self.config, self.arguments = launcher, config, list(arguments)
        for override in OverridesParser.create().parse_overrides(self.arguments):
            if override.is_sweep_override() or override.key_or_group in CHOSEN_BY_SWEEP:
                raise ConfigError(
                    f"'{override.input_line}': a sweep chooses batch sizes, learning rates and seeds itself. Give it "
                    "sweep.batch_sizes=[...] or sweep.seeds=N, or leave out -m for a single run."
                )
        self.task = build_task(config)
        self.name, self.scale = task_and_scale(str(config.name))
        self.plan = sweep_plan(config, self.task)
        self.outputs = Path(str(config.outputs)).absolute()
        self.folder = run_folder(self.outputs, self.name, self.scale)
        self.results = Path(str(config.results)).absolute() / self.name / self.scale
        self.records: dict[Trial, Record] = {}
        self.failures: dict[Trial, str] = {}
        self.jobs = 0

    def overrides(self, trial: Trial) -> list[str]:
        """What the launcher adds to the user's own overrides for one trial."""
        limits = ",".join("null" if limit is None else repr(limit) for limit in trial.limits)
        own = [
            f"run.batch_size={trial.batch_size}",
            f"run.learning_rate={self.plan.learning_rate(trial.batch_size, trial.index)}",
            f"run.seed={trial.seed}",
            f"run.limits=[{limits}]",
        ]
        if trial.curvature:
            own.append(f"noise_scale.curvature_samples={self.config.sweep.curvature_samples}")
        return own

    def record_path(self, trial: Trial) -> Path:
        config = self.config.copy()
        with open_dict(config):
            for override in self.overrides(trial):
                key, _, value = override.partition("=")
                OmegaConf.update(config, key, OmegaConf.create(f"v: {value}").v)
        return self.folder / f"{run_name(settings_from_config(config, self.task).identity())}.jsonl"

    def complete_record(self, trial: Trial) -> Record | None:
        """The trial's record if it answers what the trial asks."""
        path = self.record_path(trial)
        record = read_record(path) if path.exists() else None
        return record if record and is_complete(record.outcome, trial.limits) else None

    def run_round(self, trials: Sequence[Trial], known: Known) -> Known:
        """Outcomes of all trials, of which those without a complete record are run."""
        missing = [trial for trial in trials if self.complete_record(trial) is None]
        if missing:
            self.progress.round(trials, {t: self.record_path(t) for t in missing}, self.plan, known)
            with self.progress:
                returns = self.launcher.launch(
                    [self.arguments + self.overrides(trial) for trial in missing], initial_job_idx=self.jobs
                )
            self.jobs += len(missing)
            self._note_failures(missing, returns)
        outcomes: Known = {}
        for trial in trials:
            record = self.complete_record(trial)
            if record is None:
                outcomes[trial] = Outcome("failed", (), 0, float("-inf"))
                continue
            self.records[trial] = record
            outcomes[trial] = outcome_from_record(record, self.task.higher_is_better)
        return outcomes

    def _note_failures(self, trials: Sequence[Trial], returns: Sequence[JobReturn]) -> None:
        for trial, job in zip(trials, returns, strict=True):
            if job.status == JobStatus.FAILED:
                self.failures[trial] = failure_text(job._return_value)
        if self.failures and not self.records and len(self.failures) >= len(trials):
            raise ConfigError(f"Every run failed. The first one: {next(iter(self.failures.values()))}")

    def run(self) -> Path:
        """Runs what is missing, writes summary and figures, prints the table; returns the results folder."""
        self.task.prepare()
        check_writable(self.results)
        with only_sweep_in(self.folder):
            self.progress = Progress(f"{self.name}/{self.scale}", n_jobs(self.config))
            known = run_sweep(self.plan, self.run_round)
        if self.jobs == 0:
            print(f"{self.name}/{self.scale}: all {len(known)} runs are there already.")
        summary = write_summary(self, known)
        figures = write_task_report(self.results)
        print(format_table(summary))
        print(
            "\nWritten:",
            *(f"  {relative(path)}" for path in [self.results / "summary.json", *figures]),
            sep="\n",
        )
        for trial, text in self.failures.items():
            print(f"\nfailed: {' '.join(self.overrides(trial)[:3])}: {text}", file=sys.stderr)
        return self.results


def relative(path: Path) -> str:
    """`path` as seen from where the user stands, if it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def n_jobs(config: DictConfig) -> int:
    """Runs at once, as far as the launcher tells; for the estimate of the time left."""
    jobs = OmegaConf.select(config, "hydra.launcher.n_jobs")
    return jobs if isinstance(jobs, int) and jobs > 0 else (os.cpu_count() or 1)


def sweep_through(launcher: Any, config: DictConfig, arguments: Sequence[str]) -> Path:
    """The sweeper's body: errors that users can mend end it with one message."""
    try:
        return Sweep(launcher, config, arguments).run()
    except USER_ERRORS as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print(
            "\nInterrupted. All that was measured is kept: the same command goes on from here.",
            file=sys.stderr,
        )
        sys.exit(130)
