"""Runs that are fixed beforehand, through a Hydra launcher, and the one result file that they give."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from reproduce.launched_runs import LaunchedRuns, Overrides, n_jobs
from reproduce.places import check_writable, only_sweep_in, relative
from reproduce.progress import Progress
from reproduce.records import Record
from reproduce.report import write_task_report
from reproduce.report.reading import SummaryError, load_summary
from reproduce.report.summaries import Summary
from reproduce.results import rounded, write_json
from reproduce.run import origin
from reproduce.settings import ConfigError, run_folder, task_and_scale
from reproduce.summary import commits_of

Key = tuple
"""What a run is called within its experiment: (kind of run, seed)."""


class Experiment(ABC):
    """One experiment. `launcher`: a Hydra launcher. `config`: the composed one. `arguments`: the user's overrides."""

    def __init__(self, launcher: Any, config: DictConfig, arguments: Sequence[str]) -> None:
        self.config, self.arguments = config, list(arguments)
        self.runs = LaunchedRuns(launcher, config, arguments)
        self.task = self.runs.task
        self.name = str(config.comparison)
        self.task_name, self.scale = task_and_scale(str(config.name))
        self.folder = run_folder(Path(str(config.outputs)).absolute(), self.task_name, self.scale)
        self.results = Path(str(config.results)).absolute() / self.task_name / self.scale
        self.progress = Progress(f"{self.task_name}/{self.scale} {self.name}", n_jobs(config))

    file: str
    """Name of the result file."""

    def sweep(self) -> Summary:
        """The task's own sweep, for what begins from its results.

        Raises:
            ConfigError: if there is none, or its summary cannot be read.
        """
        try:
            return load_summary(self.results)
        except FileNotFoundError as error:
            raise ConfigError(
                f"There is no {relative(self.results / 'summary.json')}, whose best learning rates "
                f"comparison={self.name} begins from. Run the sweep first: make reproduce-{self.task_name}."
            ) from error
        except SummaryError as error:
            raise ConfigError(str(error)) from error

    @abstractmethod
    def wanted(self) -> dict[Key, Overrides]:
        """All runs."""

    @abstractmethod
    def measured(self, records: Mapping[Key, Record]) -> dict:
        """The result, from the records of the runs that have one."""

    @abstractmethod
    def table(self, result: dict) -> str:
        """The result as a terminal shows it."""

    def run(self) -> Path:
        """Runs what is missing, writes the result, prints a table; returns the results folder."""
        wanted = self.wanted()
        for overrides in wanted.values():
            self.runs.settings(overrides)  # a wrong field is told before anything is run
        self.task.prepare()
        check_writable(self.results)
        with only_sweep_in(self.folder):
            records = self.runs.run(list(wanted.values()), self.progress, total=len(wanted), planned=len(wanted))
        if self.runs.launched == 0:
            print(f"{self.task_name}/{self.scale} {self.name}: all {len(wanted)} runs are there already.")
        result = rounded(self.as_dict({key: records[over] for key, over in wanted.items() if over in records}))
        path = self.results / self.file
        write_json(path, result)
        print(self.table(result))
        figures = write_task_report(self.results) if (self.results / "summary.json").exists() else []
        print("\nWritten:", *(f"  {relative(p)}" for p in [path, *figures]), sep="\n")
        self.runs.tell_failures()
        return self.results

    def as_dict(self, records: Mapping[Key, Record]) -> dict:
        """The contents of the result file."""
        return {
            "task": self.task_name,
            "scale": self.scale,
            "comparison": self.name,
            "unit": self.task.unit,
            "score": self.task.score,
            "higher_is_better": self.task.higher_is_better,
            **self.measured(records),
            "command": " ".join(["python -m reproduce -m", *self.arguments]),
            **origin(),
            "commit": commits_of(records.values()),
        }
