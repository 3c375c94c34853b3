"""Shared by all tests: one thread, composed configs, and runs on several gloo ranks."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

torch.set_num_threads(1)


def composed(task: str, outputs: Path, *overrides: str, batch_size: int = 32, learning_rate: float = 0.3) -> DictConfig:
    """The config of one run, as the command line would compose it."""
    GlobalHydra.instance().clear()
    with initialize_config_module("conf", version_base="1.3"):
        return compose(
            "config",
            [
                f"task={task}",
                f"name={task}",
                f"outputs={outputs}",
                f"results={outputs}/results",
                f"run.batch_size={batch_size}",
                f"run.learning_rate={learning_rate}",
                *overrides,
            ],
        )


SMALL_QUADRATIC = [
    "task.dimensions=64",
    "task.condition_number=100",
    "task.goals=[0.5,0.3]",
    "grid.budget={steps: 400, examples: 4000}",
    "sweep.batch_sizes=[4,16,64,256]",
]
"""Of noisy_quadratic: a sweep takes seconds."""


def sweep_small_quadratic(folder: Path, *overrides: str) -> subprocess.CompletedProcess:
    """A sweep or comparison of the small quadratic as a user starts it, outputs and results in `folder`."""
    command = [sys.executable, "-m", "reproduce", "-m", "task=noisy_quadratic/mini", *SMALL_QUADRATIC, *overrides]
    command += ["hydra/launcher=basic", f"outputs={folder}", f"results={folder}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., DictConfig]:
    """compose(task, *overrides, batch_size=, learning_rate=) with outputs in the test's own folder."""

    def make(task: str, *overrides: str, **run: float) -> DictConfig:
        return composed(task, tmp_path / "outputs", *overrides, **run)

    return make
