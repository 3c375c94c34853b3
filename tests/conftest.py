"""Shared by all tests: one thread, composed configs, and runs on several gloo ranks."""

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from reproduce.__main__ import command, main

torch.set_num_threads(1)

SCREEN = 15  # lines


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with slow tests first, so that no worker is left with one of them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@dataclass
class Ended:
    """A command that ended."""

    code: int | None
    stdout: str
    stderr: str

    def told(self, *parts: str) -> None:
        """Asserts that it failed with one message that fits a screen and holds all of `parts`."""
        assert self.code not in (0, None)
        assert self.stderr.startswith("error: "), self.stderr
        assert "Traceback" not in self.stderr
        assert len(self.stderr.splitlines()) <= SCREEN, self.stderr
        assert self.stdout == ""
        for part in parts:
            assert part in self.stderr


def reproduce(*arguments: str) -> Ended:
    """`python -m reproduce` with these arguments, in this process: a new one takes seconds to import torch."""
    GlobalHydra.instance().clear()
    hydra_config = HydraConfig.instance().cfg
    code = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as stdout,
        redirect_stderr(io.StringIO()) as stderr,
    ):
        patch.setenv("HYDRA_FULL_ERROR", "0")
        patch.setattr(sys, "argv", ["reproduce", *arguments])
        try:
            command(main)
        except SystemExit as end:
            code = 1 if isinstance(end.code, str) else end.code
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)  # as the interpreter does
        finally:
            HydraConfig.instance().cfg = hydra_config
    return Ended(code, stdout.getvalue(), stderr.getvalue())


def sweep_small_quadratic(folder: Path, *overrides: str) -> Ended:
    """A sweep or comparison of the small quadratic as a user starts it, outputs and results in `folder`."""
    places = (f"outputs={folder}", f"results={folder}")
    return reproduce("-m", "task=noisy_quadratic/mini", *SMALL_QUADRATIC, *overrides, "hydra/launcher=basic", *places)


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., DictConfig]:
    """compose(task, *overrides, batch_size=, learning_rate=) with outputs in the test's own folder."""

    def make(task: str, *overrides: str, **run: float) -> DictConfig:
        return composed(task, tmp_path / "outputs", *overrides, **run)

    return make
