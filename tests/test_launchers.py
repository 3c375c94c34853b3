"""Sweeps through the launchers of clusters, on this machine: the summary is that of Hydra's own launcher."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SMALL_QUADRATIC, reproduce
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from reproduce.launched_runs import n_jobs

ONE_ROUND = [
    "sweep=grid",
    "sweep.octaves=0",
    "sweep.spacings=[1]",
    "sweep.batch_sizes=[16,64]",
    "sweep.curvature_samples=0",
]


def arguments(folder: Path) -> list[str]:
    places = [f"outputs={folder}/outputs", f"results={folder}/results"]
    return ["-m", "task=noisy_quadratic/mini", *SMALL_QUADRATIC, *ONE_ROUND, *places]


def summary(folder: Path) -> dict:
    """What was measured, without what depends on place and time."""
    content = json.loads((folder / "results/noisy_quadratic/mini/summary.json").read_text())
    del content["command"], content["date"], content["sweep"]["seconds"]
    return content


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("basic")
    ended = reproduce(*arguments(folder), "hydra/launcher=basic")
    assert ended.code == 0, ended.stderr
    return summary(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ("hydra/launcher=submitit_local", "hydra.launcher.submitit_folder=${outputs}/.submitit/%j"),
        ("hydra/launcher=ray_cluster", "+hydra.launcher.ray.init.num_cpus=2"),
    ],
    ids=["submitit", "ray"],
)
def test_summary_does_not_depend_on_the_launcher(tmp_path, expected, overrides):
    assert expected["sweep"]["runs"] == 2
    ended = subprocess.run(
        [sys.executable, "-m", "reproduce", *arguments(tmp_path), *overrides],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=tmp_path,
        env=os.environ | {"RAY_AUTH_MODE": "disabled"},
    )
    assert ended.returncode == 0, ended.stderr
    assert summary(tmp_path) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outputs", "results"]


def test_slurm_jobs_ask_for_what_a_run_needs():
    """As Hydra composes it for submitit: a job a run, queued again when its time is over."""
    overrides = ["task=noisy_quadratic/mini", "hydra/launcher=slurm", "trainer.ranks=4", "outputs=there"]
    GlobalHydra.instance().clear()
    with initialize_config_module("conf", version_base="1.3"):
        config = compose("config", [*overrides, "hydra.launcher.partition=gpu"], return_hydra_config=True)
    HydraConfig.instance().set_config(config)
    launcher = OmegaConf.to_container(config.hydra.launcher, resolve=True)
    assert launcher["_target_"].endswith("SlurmLauncher")
    expected = {"submitit_folder": "there/.submitit/%j", "name": "noisy_quadratic/mini", "partition": "gpu"}
    expected |= {"nodes": 1, "tasks_per_node": 1, "cpus_per_task": 4, "max_num_timeout": 20}
    assert launcher.items() >= expected.items()
    assert n_jobs(config) == 64
