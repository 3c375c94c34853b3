"""Shared by all tests: one thread, composed configs, and runs on several gloo ranks."""

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


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., DictConfig]:
    """compose(task, *overrides, batch_size=, learning_rate=) with outputs in the test's own folder."""

    def make(task: str, *overrides: str, **run: float) -> DictConfig:
        return composed(task, tmp_path / "outputs", *overrides, **run)

    return make
