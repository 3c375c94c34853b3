"""A sweep from start to summary: rounds through a Hydra launcher, with progress, resumed from records."""

import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobStatus
from omegaconf import DictConfig, OmegaConf, open_dict

from reproduce.mirror import check_mirror
from reproduce.progress import Progress
from reproduce.records import Record, RecordError, read_record, run_name
from reproduce.report import format_table, write_task_report
from reproduce.run import USER_ERRORS, failure_text, is_complete
from reproduce.settings import (
    CentralRate,
    ConfigError,
    Settings,
    SweepSettings,
    TrainerSettings,
    build_task,
    check_batch_size,
    run_folder,
    settings_from_config,
    task_and_scale,
)
from reproduce.summary import FinishedSweep, write_summary
from reproduce.sweep import PER_OCTAVE, Known, Outcome, SweepPlan, Trial, outcome_from_record, run_sweep
from reproduce.validation import parse, section
from tasks.task import Task

CHOSEN_BY_SWEEP = ("run.batch_size", "run.learning_rate", "run.seed", "run.limits")


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
        first = Trial(self.plan.batch_sizes[0], 0, 0, (None,) * self.plan.goals)
        check_mirror(self.settings(first))  # a wrong field is told before anything is written
        self.outputs = Path(str(config.outputs)).absolute()
        self.folder = run_folder(self.outputs, self.name, self.scale)
        self.results = Path(str(config.results)).absolute() / self.name / self.scale
        self.progress = Progress(f"{self.name}/{self.scale}", n_jobs(config))
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
            # Runs for this measurement alone: they may spend as much on it as on training.
            own += [f"noise_scale.curvature_samples={self.config.sweep.curvature_samples}", "noise_scale.probe_cost=1"]
        return own

    def settings(self, trial: Trial) -> Settings:
        """The settings of the trial's run, as they will be in its own process."""
        config = self.config.copy()
        with open_dict(config):
            for override in self.overrides(trial):
                key, _, value = override.partition("=")
                OmegaConf.update(config, key, OmegaConf.create(f"v: {value}").v)
        return settings_from_config(config, self.task)

    def record_path(self, trial: Trial) -> Path:
        return self.folder / f"{run_name(self.settings(trial).identity())}.jsonl"

    def complete_record(self, trial: Trial) -> Record | None:
        """The trial's record if it answers what the trial asks.

        Raises:
            RecordError: if the file cannot be read, or holds another run.
        """
        identity = self.settings(trial).identity()
        path = self.folder / f"{run_name(identity)}.jsonl"
        record = read_record(path, identity) if path.exists() else None
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
            ended = zip(missing, returns, strict=True)
            self.failures |= {t: failure_text(job._return_value) for t, job in ended if job.status == JobStatus.FAILED}
        outcomes: Known = {}
        for trial in trials:
            record = self.complete_record(trial)
            if record is None:
                outcomes[trial] = Outcome("failed", (), 0, float("-inf"))
                self.failures.setdefault(trial, "it ended without an outcome in its record; start the command again.")
                continue
            self.records[trial] = record
            outcomes[trial] = outcome_from_record(record, trial.limits, self.task.higher_is_better)
        if not self.records:
            raise ConfigError(f"Every run failed. The first one: {next(iter(self.failures.values()))}")
        return outcomes

    def finished(self, known: Known) -> FinishedSweep:
        return FinishedSweep(
            name=self.name,
            scale=self.scale,
            kind=self.config.sweep.kind,
            optimizer=str(self.config.optimizer["_target_"]).rsplit(".", 1)[-1],
            command=" ".join(["python -m reproduce -m", *self.arguments]),
            task=self.task,
            plan=self.plan,
            known=known,
            records=self.records,
        )

    def run(self) -> Path:
        """Runs what is missing, writes summary and figures, prints the table; returns the results folder."""
        self.task.prepare()
        check_writable(self.results)
        with only_sweep_in(self.folder):
            known = run_sweep(self.plan, self.run_round)
        if self.jobs == 0:
            print(f"{self.name}/{self.scale}: all {len(known)} runs are there already.")
        summary = write_summary(self.finished(known), self.results)
        print(format_table(summary))
        figures = write_task_report(self.results)
        print(
            "\nWritten:",
            *(f"  {relative(path)}" for path in [self.results / "summary.json", *figures]),
            sep="\n",
        )
        self._tell_failures()
        return self.results

    def _tell_failures(self) -> None:
        """Each kind of failure once, with the runs that it ended."""
        for text in dict.fromkeys(self.failures.values()):
            runs = [" ".join(self.overrides(t)[:3]) for t, other in self.failures.items() if other == text]
            print(f"\nfailed: {text}\nin {len(runs)} run(s):", *(f"  {run}" for run in runs), sep="\n", file=sys.stderr)


def relative(path: Path) -> str:
    """`path` as seen from where the user stands, if it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def n_jobs(config: DictConfig) -> int:
    """Runs at once, as far as the launcher tells; for the estimate of the time left."""
    jobs = OmegaConf.select(config, "hydra.launcher.n_jobs")
    if jobs == 0:
        raise ConfigError("hydra.launcher.n_jobs must be a number of runs at once, or -1 for one a core, got 0.")
    return jobs if isinstance(jobs, int) and jobs > 0 else (os.cpu_count() or 1)


def sweep_through(launcher: Any, config: DictConfig, arguments: Sequence[str]) -> Path:
    """The sweeper's body: errors that users can mend end it with one message."""
    HydraConfig.instance().set_config(config)  # as it is in jobs: the task's name is read from it
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
