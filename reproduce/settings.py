"""From a composed Hydra config to validated settings of one run."""

import functools
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from reproduce.batch_schedule import AdaptiveBatch
from reproduce.records import run_name
from reproduce.validation import ConfigError, above, checked_value, least, one_of, parse, section
from tasks.task import Task, TaskError, check_goals

# Where data lies does not change a run, so it does not name one.
LOCATION_KEYS = ("data_dir", "download")


@dataclass(frozen=True)
class RunSettings:
    """One training run.

    Attributes:
        batch_size: units in a step over all ranks. learning_rate: constant. seed: of weights and samples.
        limits: per goal, the steps within which the run is of interest; None is without limit. A run ends when no
            goal that it has left can still be reached within its limit.
    """

    batch_size: int = above(0)
    learning_rate: float = above(0)
    seed: int = least(0)
    limits: tuple[float | None, ...] = least(0)


@dataclass(frozen=True)
class TrainerSettings:
    """How runs are trained; see conf/trainer/default.yaml for each field's meaning."""

    ranks: int = least(1)
    device: str = one_of("auto", "cpu", "cuda")
    threads: int = least(1)
    max_samples: int = least(1)
    precision: str = one_of("float32", "bfloat16")
    compile: bool
    channels_last: bool
    batch_schedule: str = one_of("constant", "adaptive")
    clip_norm: float | None = above(0)
    evaluation_spacing: float = above(0)
    divergence_patience: int = least(1)
    divergence_share: float = least(0)
    checkpoint_seconds: float = least(0)
    log_noise_scale: bool


@dataclass(frozen=True)
class NoiseScaleSettings:
    """How the noise scale is probed; see conf/noise_scale/default.yaml."""

    probe_cost: float = least(0)
    probe_groups: int = least(2)
    max_probe_samples: int = least(1)
    curvature_samples: int = least(0)
    curvature_every: int = least(1)


@dataclass(frozen=True)
class LoggerSettings:
    """Where else evaluations go; see conf/logger."""

    kind: str = one_of("none", "wandb")
    project: str = "critical-batch"
    mode: str = one_of("offline", "online", default="offline")
    dir: str = "outputs"


@dataclass(frozen=True)
class Budget:
    """A run may take steps + examples / batch size steps."""

    steps: float = least(0)
    examples: float = least(0)


@dataclass(frozen=True)
class CentralRate:
    """eps_central(B) = eps / (1 + knee / B)^alpha, where searches begin (App. A.2)."""

    eps: float = above(0)
    knee: float = least(0)
    alpha: float = least(0)


@dataclass(frozen=True)
class SweepSettings:
    """What a sweep tries; see conf/sweep for each field's meaning."""

    kind: str
    search: str = one_of("pruned", "grid")
    batch_sizes: tuple[int, ...] = above(0)
    seeds: int = least(1)
    spacings: tuple[float, ...] = above(0)
    curvature_samples: int = least(0)
    octaves: int = least(0, default=0)  # of the grid alone


@dataclass(frozen=True)
class LineSearchSettings:
    """What a line search measures; see conf/line_search/default.yaml. No part of a run, and so not of its identity."""

    points: int = least(1)
    batch_sizes: tuple[int, ...] | None = above(0)
    blocks: int = least(2)
    batches: int = least(1)
    block_samples: int = least(1)
    evaluation_samples: int = least(1)
    probe_samples: int = least(1)
    curvature_samples: int = least(1)


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
    logger: LoggerSettings
    adaptive_batch: AdaptiveBatch | None = None

    @property
    def folder(self) -> Path:
        return run_folder(self.outputs, self.task, self.scale)

    @property
    def record_path(self) -> Path:
        return self.folder / f"{run_name(self.identity())}.jsonl"

    def identity(self) -> dict:
        """Everything that determines the run: ranks, threads and places are left out, since they do not."""
        trainer = asdict(self.trainer)
        for key in (
            "ranks",
            "device",
            "threads",
            "max_samples",
            "channels_last",
            "checkpoint_seconds",
            "log_noise_scale",
            "batch_schedule",
        ):
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
        } | ({"adaptive_batch": asdict(self.adaptive_batch)} if self.adaptive_batch else {})


def run_folder(outputs: Path, task: str, scale: str) -> Path:
    return outputs / task / scale / "runs"


def task_and_scale(choice: str) -> tuple[str, str]:
    """("mnist", "mini") of the config choice "mnist/mini"; a task without scales has the scale "default"."""
    task, _, scale = choice.partition("/")
    return task, scale or "default"


def _build(values: dict, name: str, advice: str) -> Any:
    """What the section `name` describes with its _target_; ConfigError with the cause if it cannot be built."""
    if "_target_" not in values:
        raise ConfigError(f"{name}._target_ is missing. {advice}")
    try:
        return instantiate(values, _convert_="all")
    except InstantiationException as error:
        cause = error.__cause__ or error
        if isinstance(cause, TaskError):
            raise ConfigError(str(cause)) from error
        text = str(cause).splitlines() or [""]
        raise ConfigError(
            f"{name}._target_={values['_target_']} cannot be built: {type(cause).__name__}: {' '.join(text)}\n{advice}"
        ) from error


def build_task(config: DictConfig) -> Task:
    """The task that the config names, with its goals checked.

    Raises:
        ConfigError: if it cannot be built.
    """
    values = section(config, "task")
    task = _build(
        values,
        "task",
        "It names a class such as tasks.mnist.MNIST, and the fields beside it are its arguments. A module of your own "
        "must be on PYTHONPATH, and a task's file begins with the line '# @package _global_' (see README, 'Add a "
        "task').",
    )
    if not isinstance(task, Task):
        raise ConfigError(f"task._target_={values['_target_']} is not a tasks.task.Task.")
    unset = [name for name in Task.__annotations__ if not hasattr(task, name)]
    if unset:
        raise ConfigError(f"{values['_target_']} does not set {', '.join(unset)}: see tasks.task.Task.")
    goals = list(task.goals) if isinstance(task.goals, tuple) else task.goals
    checked_value(goals, "task.goals", tuple[float, ...], {})
    try:
        check_goals(task)
    except TaskError as error:
        raise ConfigError(str(error)) from error
    return task


def check_optimizer(values: dict) -> None:
    """Raises ConfigError unless the section describes an optimiser that the trainer can call."""
    advice = "It names a class such as torch.optim.SGD, beside _partial_: true and the class's arguments but for lr."
    make = _build(values, "optimizer", advice)
    try:
        if not isinstance(make, functools.partial):
            raise TypeError("it is not partial")
        make([torch.zeros(1, requires_grad=True)], lr=0.1)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"optimizer._target_={values['_target_']} cannot be used: {error}. {advice}") from error


def max_steps(budget: Budget, batch_size: float) -> int:
    """Budget of a run in steps: grid.budget.steps + grid.budget.examples / batch size, the law 2.11's own form."""
    return max(1, math.ceil(budget.steps + budget.examples / batch_size))


def check_batch_size(batch_size: int, task: Task, ranks: int) -> None:
    """Raises ConfigError unless `batch_size` units can be cut into samples and these into ranks."""
    if batch_size % (task.units_per_sample * ranks):
        raise ConfigError(
            f"A batch size of {batch_size} {task.unit}s does not divide into whole samples of "
            f"{task.units_per_sample} {task.unit}(s) on {ranks} rank(s): choose a multiple of "
            f"{task.units_per_sample * ranks}, or change trainer.ranks."
        )


def settings_from_config(config: DictConfig, task: Task) -> Settings:
    """Validated settings of the run that `config` describes.

    Raises:
        ConfigError: naming the field that is wrong.
    """
    unset = sorted(OmegaConf.missing_keys(config.run)) if OmegaConf.is_dict(config.get("run")) else []
    if unset:
        raise ConfigError(
            f"A run needs {' and '.join(f'{key}=...' for key in unset)}. A sweep chooses them itself: add -m."
        )
    name, scale = task_and_scale(str(config.name))
    optimizer = section(config, "optimizer")
    check_optimizer(optimizer)
    trainer = parse(TrainerSettings, "trainer", section(config, "trainer"))
    noise_scale = parse(NoiseScaleSettings, "noise_scale", section(config, "noise_scale"))
    if noise_scale.probe_groups > noise_scale.max_probe_samples:
        raise ConfigError("noise_scale.max_probe_samples must be at least noise_scale.probe_groups.")
    run = section(config, "run")
    if run.get("limits") is None:
        run["limits"] = [None] * len(task.goals)
    run = parse(RunSettings, "run", run)
    if len(run.limits) != len(task.goals):
        raise ConfigError(f"run.limits holds {len(run.limits)} steps for {len(task.goals)} goals: one each, or null.")
    check_batch_size(run.batch_size, task, trainer.ranks)
    adaptive = trainer.batch_schedule == "adaptive"
    if adaptive and task.on_policy:
        raise ConfigError(
            "trainer.batch_schedule=adaptive changes the number of samples between steps, but this task's samples are "
            "environments under way: use trainer.batch_schedule=constant."
        )
    return Settings(
        task=name,
        scale=scale,
        run=run,
        trainer=trainer,
        noise_scale=noise_scale,
        task_config=section(config, "task"),
        optimizer_config=optimizer,
        max_steps=max_steps(parse(Budget, "grid.budget", section(config, "grid.budget")), run.batch_size),
        outputs=Path(str(config.outputs)).absolute(),
        logger=parse(LoggerSettings, "logger", section(config, "logger")),
        adaptive_batch=parse(AdaptiveBatch, "adaptive_batch", section(config, "adaptive_batch")) if adaptive else None,
    )
