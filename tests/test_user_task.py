"""A task of one's own: a module and a config outside the repository, swept, interrupted and swept on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reproduce.__main__ import leave_interrupts_to_the_sweep
from reproduce.records import read_record
from reproduce.report.reading import load_summary

MODULE = """
import os
import time

import torch
from torch import nn

from tasks.task import Sampler, Task, random_generator, rank_share


class Draws(Sampler):
    def __init__(self, seed, rank, world_size, weights, scales):
        self.seed, self.rank, self.world_size, self.weights, self.scales = seed, rank, world_size, weights, scales

    def draw(self, step, samples, model):
        generator = random_generator("linear regression", self.seed, step)
        inputs = torch.randn(samples, len(self.weights), generator=generator) * self.scales
        targets = inputs @ self.weights + torch.randn(samples, generator=generator)
        share = rank_share(samples, self.rank, self.world_size)
        return inputs[share], targets[share]


class LinearRegression(Task):
    unit, score, data, embedded = "example", "test loss", "generated", True

    def __init__(self, dimensions, goals):
        self.goals = tuple(goals)
        self.scales = torch.logspace(0, -1, dimensions)
        self.weights = 1 / self.scales
        self.test_set = Draws("test", 0, 1, self.weights, self.scales).draw(0, 1000, None)

    def build_model(self):
        model = nn.Linear(len(self.weights), 1, bias=False)
        nn.init.zeros_(model.weight)
        return model

    def sampler(self, seed, rank, world_size, device):
        return Draws(seed, rank, world_size, self.weights, self.scales)

    def loss(self, model, batch):
        inputs, targets = batch
        return 0.5 * (model(inputs).squeeze(1) - targets).square().mean()

    @torch.no_grad()
    def evaluate(self, model):
        time.sleep(float(os.environ.get("SLOW_BY", "0")))
        return float(self.loss(model, self.test_set))

    def fake_batch(self, samples):
        return torch.zeros(samples, len(self.weights)), torch.zeros(samples)
"""

CONFIG = """# @package _global_
task:
  _target_: my_package.my_task.LinearRegression
  dimensions: 10
  goals: [2, 1.5, 1.1]
optimizer:
  _target_: torch.optim.SGD
  _partial_: true
grid:
  batch_sizes: [1, 2, 4, 8, 16, 32, 64, 128]
  learning_rate: {eps: 1, knee: 10, alpha: 1}
  budget: {steps: 400, examples: 8000}
"""

CHECKPOINTS = "trainer.checkpoint_seconds=0.05"
SWEEP = ("-m", "--config-dir", "my_conf", "task=mine/mini", "sweep=quick", "sweep.batch_sizes=[4,16,64]", CHECKPOINTS)
RECORDS = "outputs/mine/mini/runs/*.jsonl"


def own_folder(folder: Path) -> Path:
    """A folder with my_package/my_task.py, and the config under a name of two levels and of one."""
    for path, text in {
        "my_package/my_task.py": MODULE,
        "my_conf/task/mine/mini.yaml": CONFIG,
        "my_conf/task/mine.yaml": CONFIG,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def start(folder: Path, *arguments: str, jobs: int = 1, slow_by: float = 0) -> subprocess.Popen:
    """`python -m reproduce` in the folder, as the leader of a process group. `slow_by`: seconds an evaluation."""
    return subprocess.Popen(
        [sys.executable, "-m", "reproduce", *arguments, f"hydra.launcher.n_jobs={jobs}"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "SLOW_BY": str(slow_by)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen) -> str:
    """What it printed, once it has ended well."""
    stdout, stderr = process.communicate(timeout=250)
    assert process.returncode == 0, stderr
    return stdout


def summary(folder: Path, scale: str = "mini") -> dict:
    return json.loads((folder / f"results/mine/{scale}/summary.json").read_text())


def lasting(numbers: dict) -> dict:
    """A summary without what may differ between two sweeps of the same runs."""
    cost = {key: value for key, value in numbers["sweep"].items() if key != "seconds"}
    return {key: value for key, value in numbers.items() if key not in ("date", "commit")} | {"sweep": cost}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of an undisturbed sweep, and what it printed."""
    folder = own_folder(tmp_path_factory.mktemp("own"))
    return folder, finish(start(folder, *SWEEP))


@pytest.mark.slow
def test_sweep_of_an_own_task_ends_with_a_summary(swept):
    folder, printed = swept
    assert "B_crit" in printed
    assert "results/mine/mini/summary.json" in printed
    found = summary(folder)
    assert (found["task"], found["scale"], found["unit"], found["score"]) == ("mine", "mini", "example", "test loss")
    assert found["data"] == {"name": "generated", "embedded": True}
    assert found["published"] is None
    assert found["optimizer"] == "SGD"
    for goal in found["goals"]:
        assert [point["batch_size"] for point in goal["points"]] == [4, 16, 64]
        steps = [point["steps"] for point in goal["points"]]
        assert steps == sorted(steps, reverse=True)
        assert goal["identified"] == (goal["b_crit"] is not None)
        assert goal["identified"] or goal["reason"]
    # 10 weights and noise of variance 1: tr Sigma / |G|^2 goes from about 10 to 30 on the way to the last goal.
    assert 2 < found["b_crit"]["run"] < 60
    assert found["b_crit"]["run_low"] < found["b_crit"]["run"] < found["b_crit"]["run_high"]
    assert 3 < found["b_simple"]["run"] < 100
    assert load_summary(folder / "results/mine/mini").task == "mine"
    assert {path.suffix for path in (folder / "results/mine/mini").iterdir()} == {".json", ".csv", ".png", ".svg"}


@pytest.mark.slow
def test_same_sweep_again_finds_all_runs_there(swept):
    folder, _ = swept
    before = {path: path.read_bytes() for path in folder.glob(RECORDS)}
    numbers = summary(folder)
    printed = finish(start(folder, *SWEEP))
    assert f"mine/mini: all {len(before)} runs are there already." in printed
    assert {path: path.read_bytes() for path in folder.glob(RECORDS)} == before
    assert lasting(summary(folder)) == lasting(numbers)


def ended_runs(folder: Path) -> dict[Path, bytes]:
    records = {path: read_record(path) for path in folder.glob(RECORDS)}
    return {path: path.read_bytes() for path, record in records.items() if record and record.outcome}


def interrupt(folder: Path, how: signal.Signals, after: int) -> tuple[dict[Path, bytes], int, str]:
    """Starts the sweep and signals all its processes once `after` runs have ended.

    Returns:
        Records of the runs that had ended, the exit status, and what it said.
    """
    process = start(folder, *SWEEP, jobs=2, slow_by=0.02)
    deadline = time.monotonic() + 200
    while len(ended_runs(folder)) < after and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    os.killpg(process.pid, how)
    _, stderr = process.communicate(timeout=60)
    assert not list(folder.glob("results/*/*/summary.json"))
    return ended_runs(folder), process.returncode, stderr


@pytest.mark.slow
def test_sweep_interrupted_and_killed_goes_on_and_ends_with_the_same_numbers(swept, tmp_path):
    undisturbed, _ = swept
    total = len(list(undisturbed.glob(RECORDS)))
    folder = own_folder(tmp_path)

    kept, status, said = interrupt(folder, signal.SIGINT, after=2)
    assert status == 130
    assert "Interrupted. All that was measured is kept: the same command goes on from here." in said
    assert "Traceback" not in said
    assert 2 <= len(kept) < total

    kept_too, status, _ = interrupt(folder, signal.SIGKILL, after=len(kept) + 3)
    assert status == -signal.SIGKILL
    assert len(kept) + 3 <= len(kept_too) < total

    printed = finish(start(folder, *SWEEP))
    assert "already" not in printed
    ended = ended_runs(folder)
    assert kept.items() <= kept_too.items() <= ended.items()
    assert len(ended) == total
    assert {path.suffix for path in (folder / RECORDS).parent.iterdir()} == {"", ".jsonl"}  # the lock and the records
    assert lasting(summary(folder)) == lasting(summary(undisturbed))
    curves = "results/mine/mini/curves.csv"
    assert (folder / curves).read_bytes() == (undisturbed / curves).read_bytes()


def test_worker_leaves_interrupts_to_the_sweep_and_its_own_processes_do_not():
    """Else one that is cut off while it hands back a result leaves the sweep waiting for ever."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        leave_interrupts_to_the_sweep()
        os.kill(os.getpid(), signal.SIGINT)
        code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert child.stdout == "True\n"


@pytest.mark.slow
def test_task_of_one_level_has_the_scale_default(swept):
    folder, _ = swept
    one_level = [argument.replace("mine/mini", "mine") for argument in SWEEP]
    printed = finish(start(folder, *one_level, "sweep.curvature_samples=0"))
    assert "results/mine/default/summary.json" in printed
    found = summary(folder, "default")
    assert (found["task"], found["scale"], found["published"]) == ("mine", "default", None)
    assert [goal["b_crit"] for goal in found["goals"]] == [goal["b_crit"] for goal in summary(folder)["goals"]]
    assert load_summary(folder / "results/mine/default").scale == "default"
