"""From a composed Hydra config to validated settings of one run."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tasks.task import Task, TaskError, check_goals

# Where data lies does not change a run, so it does not name one.
LOCATION_KEYS = ("data_dir", "download")


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the field and what it should be."""


@dataclass(frozen=True)
class RunSettings:
    """One training run.

    Attributes:
        batch_size: units in a step over all ranks. learning_rate: constant. seed: of weights and samples.
        limits: per goal, the steps within which the run is of interest; None is without limit. A run ends when no
            goal that it has left can still be reached within its limit.
    """

    batch_size: int
    learning_rate: float
    seed: int
    limits: tuple[float | None, ...]


@dataclass(frozen=True)
class TrainerSettings:
    """How runs are trained; see conf/trainer/default.yaml for each field's meaning."""

    ranks: int
    device: str
    threads: int
    max_samples: int
    precision: str
    compile: bool
    clip_norm: float | None
    evaluation_spacing: float
    divergence_patience: int
    checkpoint_seconds: float
    log_noise_scale: bool


@dataclass(frozen=True)
class NoiseScaleSettings:
    """How the noise scale is probed; see conf/noise_scale/default.yaml."""

    probe_cost: float
    probe_groups: int
    max_probe_samples: int
    curvature_samples: int


@dataclass(frozen=True)
class Settings:
    task: str
    scale: str
    run: RunSettings
    trainer: TrainerSettings
    noise_scale: NoiseScaleSettings
    task_config: dict
    optimizer_config: dict
    max_steps: int
    outputs: Path
    logger: dict

    @property
    def folder(self) -> Path:
        return run_folder(self.outputs, self.task, self.scale)

    def identity(self) -> dict:
        """Everything that determines the run: ranks, threads and places are left out, since they do not."""
        trainer = asdict(self.trainer)
        for key in ("ranks", "device", "threads", "max_samples", "checkpoint_seconds", "log_noise_scale"):
            del trainer[key]
        run = asdict(self.run)
        del run["limits"]
        return {
            "task": self.task,
            "scale": self.scale,
            "task_config": {k: v for k, v in self.task_config.items() if k not in LOCATION_KEYS},
            "optimizer": self.optimizer_config,
            "run": run,
            "max_steps": self.max_steps,
            "trainer": trainer,
            "noise_scale": asdict(self.noise_scale),
        }


def run_folder(outputs: Path, task: str, scale: str) -> Path:
    return outputs / task / scale / "runs"


def task_and_scale(choice: str) -> tuple[str, str]:
    """("mnist", "mini") of the config choice "mnist/mini"; a task without scales has the scale "default"."""
    task, _, scale = choice.partition("/")
    return task, scale or "default"


def _number(value: Any, name: str, *, above: float = -math.inf, least: float = -math.inf) -> float:
    """`value` as a finite number within bounds, or a ConfigError that names the field."""
    bound = f" above {above:g}" if above > -math.inf else f" of at least {least:g}" if least > -math.inf else ""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{name} must be a finite number{bound}, got {value!r}.")
    if value <= above or value < least:
        raise ConfigError(f"{name} must be a finite number{bound}, got {value!r}.")
    return value


def _section(config: DictConfig, name: str) -> dict:
    try:
        section = OmegaConf.to_container(config[name], resolve=True) if config.get(name) is not None else None
    except OmegaConfBaseException as error:
        raise ConfigError(f"The config's section '{name}' cannot be resolved: {error}") from error
    if not isinstance(section, dict):
        raise ConfigError(
            f"The config has no section '{name}'. A task's file sets task, optimizer and grid, and begins with the "
            "line '# @package _global_' (see README, 'Add a task')."
        )
    return section


def build_task(config: DictConfig) -> Task:
    """The task that the config names, with its goals checked.

    Raises:
        ConfigError: if it cannot be built.
    """
    section = _section(config, "task")
    if "_target_" not in section:
        raise ConfigError("task._target_ is missing: it names the task's class, for example tasks.mnist.MNIST.")
    try:
        task = instantiate(section, _convert_="all")
    except InstantiationException as error:
        cause = error.__cause__
        detail = str(cause) if isinstance(cause, TaskError) else f"{cause or error}"
        raise ConfigError(f"The task {section['_target_']} cannot be built: {detail}") from error
    if not isinstance(task, Task):
        raise ConfigError(f"task._target_={section['_target_']} is not a tasks.task.Task.")
    try:
        check_goals(task)
    except TaskError as error:
        raise ConfigError(str(error)) from error
    return task


def max_steps(grid: dict, batch_size: float) -> int:
    """Budget of a run in steps: grid.budget.steps + grid.budget.examples / batch size, the law 2.11's own form."""
    budget = grid.get("budget") or {}
    steps = _number(budget.get("steps"), "grid.budget.steps", least=0)
    examples = _number(budget.get("examples"), "grid.budget.examples", least=0)
    return max(1, math.ceil(steps + examples / batch_size))


def check_batch_size(batch_size: Any, task: Task, ranks: int) -> int:
    """`batch_size` in units, if it can be cut into samples and these into ranks; else a ConfigError."""
    _number(batch_size, "run.batch_size", above=0)
    if batch_size != int(batch_size) or int(batch_size) % (task.units_per_sample * ranks):
        raise ConfigError(
            f"A batch size of {batch_size:g} {task.unit}s does not divide into whole samples of "
            f"{task.units_per_sample} {task.unit}(s) on {ranks} rank(s): choose a multiple of "
            f"{task.units_per_sample * ranks}, or change trainer.ranks."
        )
    return int(batch_size)


def settings_from_config(config: DictConfig, task: Task) -> Settings:
    """Validated settings of the run that `config` describes.

    Raises:
        ConfigError: naming the field that is wrong.
    """
    run, trainer, grid = _section(config, "run"), _section(config, "trainer"), _section(config, "grid")
    noise, optimizer = _section(config, "noise_scale"), _section(config, "optimizer")
    name, scale = task_and_scale(str(config.name))
    trainer_settings = TrainerSettings(**trainer)
    ranks = int(_number(trainer_settings.ranks, "trainer.ranks", least=1))
    batch_size = check_batch_size(run["batch_size"], task, ranks)
    _number(trainer_settings.max_samples, "trainer.max_samples", least=1)
    _number(trainer_settings.evaluation_spacing, "trainer.evaluation_spacing", above=0)
    if trainer_settings.precision not in ("float32", "bfloat16"):
        raise ConfigError(f"trainer.precision is float32 or bfloat16, got {trainer_settings.precision!r}.")
    _number(noise["probe_cost"], "noise_scale.probe_cost", least=0)
    if _number(noise["probe_groups"], "noise_scale.probe_groups", least=2) > noise["max_probe_samples"]:
        raise ConfigError("noise_scale.max_probe_samples must be at least noise_scale.probe_groups.")
    limits = tuple(run.get("limits") or [None] * len(task.goals))
    if len(limits) != len(task.goals):
        raise ConfigError(f"run.limits holds {len(limits)} steps for {len(task.goals)} goals: one each, or null.")
    return Settings(
        task=name,
        scale=scale,
        run=RunSettings(
            batch_size=batch_size,
            learning_rate=float(_number(run["learning_rate"], "run.learning_rate", above=0)),
            seed=int(_number(run["seed"], "run.seed", least=0)),
            limits=limits,
        ),
        trainer=trainer_settings,
        noise_scale=NoiseScaleSettings(**noise),
        task_config=_section(config, "task"),
        optimizer_config=optimizer,
        max_steps=max_steps(grid, batch_size),
        outputs=Path(str(config.outputs)).absolute(),
        logger=_section(config, "logger"),
    )
