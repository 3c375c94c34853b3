"""Runs of one task through a Hydra launcher, and the one result file that they give."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
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

Key = tuple[Hashable, ...]
"""What a run is called within its experiment: what kind of run it is, and last its seed."""


class Experiment(ABC):
    """One experiment on a task. `launcher`: a Hydra launcher. `config`: the composed one. `arguments`: the user's
    overrides."""

    file: str
    """Name of the result file."""
    table: Callable[[dict], str]
    """The result as a terminal shows it."""

    def __init__(self, launcher: Any, config: DictConfig, arguments: Sequence[str]) -> None:
        self.config, self.arguments = config, list(arguments)
        self.runs = LaunchedRuns(launcher, config, arguments)
        self.task = self.runs.task
        self.task_name, self.scale = task_and_scale(str(config.name))
        self.title = f"{self.task_name}/{self.scale}"
        if config.comparison is not None:
            self.title += f" {config.comparison}"
        self.folder = run_folder(Path(str(config.outputs)).absolute(), self.task_name, self.scale)
        self.results = Path(str(config.results)).absolute() / self.task_name / self.scale
        self.progress = Progress(self.title, n_jobs(config))

    @abstractmethod
    def launch(self) -> int:
        """Runs what is missing; returns how many runs there are."""

    @abstractmethod
    def write(self) -> dict:
        """Writes the result file, and returns what is in it."""

    def run(self) -> Path:
        """Runs what is missing, writes result and figures, prints a table; returns the results folder."""
        self.task.prepare()
        check_writable(self.results)
        with only_sweep_in(self.folder):
            runs = self.launch()
        if self.runs.launched == 0:
            print(f"{self.title}: all {runs} runs are there already.")
        print(self.table(self.write()))
        figures = write_task_report(self.results) if (self.results / "summary.json").exists() else []
        print("\nWritten:", *(f"  {relative(path)}" for path in [self.results / self.file, *figures]), sep="\n")
        self.runs.tell_failures()
        return self.results

    @property
    def command(self) -> str:
        return " ".join(["python -m reproduce -m", *self.arguments])


class FixedRuns(Experiment):
    """An experiment whose runs are known beforehand, beside or after the task's sweep."""

    def __init__(self, launcher: Any, config: DictConfig, arguments: Sequence[str]) -> None:
        super().__init__(launcher, config, arguments)
        self.name = str(config.comparison)
        self.records: dict[Key, Record] = {}

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

    def run(self) -> Path:
        for overrides in self.wanted().values():
            self.runs.settings(overrides)  # a wrong field is told before anything is run
        return super().run()

    def launch(self) -> int:
        wanted = self.wanted()
        records = self.runs.run(list(wanted.values()), self.progress, total=len(wanted), planned=len(wanted))
        self.records = {key: records[overrides] for key, overrides in wanted.items() if overrides in records}
        return len(wanted)

    def write(self) -> dict:
        result = rounded(self.as_dict())
        write_json(self.results / self.file, result)
        return result

    def as_dict(self) -> dict:
        """The contents of the result file."""
        return {
            "task": self.task_name,
            "scale": self.scale,
            "comparison": self.name,
            "unit": self.task.unit,
            "score": self.task.score,
            "higher_is_better": self.task.higher_is_better,
            **self.measured(self.records),
            "command": self.command,
            **origin(),
            "commit": commits_of(self.records.values()),
        }
