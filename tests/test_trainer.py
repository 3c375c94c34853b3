"""One run: its schedule, its outcomes, its records, and its continuation after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from reproduce.checkpoint import checkpoint_path
from reproduce.distributed import Ranks
from reproduce.records import read_record
from reproduce.run import is_complete, run
from reproduce.settings import build_task, settings_from_config
from reproduce.trainer import Trainer

ONE = Ranks(0, 1, torch.device("cpu"))


def record_of(cfg):
    (path,) = Path(cfg.outputs).glob("*/*/runs/*.jsonl")
    return read_record(path)


def test_sgd_on_the_quadratic_follows_its_closed_form(config):
    """Mean loss over seeds at every evaluation within the spread of its mean."""
    curves = []
    for seed in range(6):
        cfg = config("noisy_quadratic/mini", f"run.seed={seed}", "grid.budget={steps: 200, examples: 0}", batch_size=16)
        cfg.outputs += str(seed)
        run(cfg)
        curves.append([(e["step"], e["score"]) for e in record_of(cfg).evaluations])
    task = build_task(cfg)
    for points in zip(*curves, strict=True):
        step, measured = points[0][0], sum(score for _, score in points) / len(points)
        assert measured == pytest.approx(task.expected_loss_terms(16, 0.3, step).sum(), rel=0.03)


def test_examples_steps_and_probe_cost_are_counted(config):
    overrides = ["grid.budget={steps: 300, examples: 0}", "noise_scale.probe_cost=0.1"]
    cfg = config("noisy_quadratic/mini", *overrides, batch_size=16, learning_rate=0.01)
    outcome = run(cfg)
    record = record_of(cfg)
    assert outcome["status"] == "exhausted"
    assert (outcome["step"], outcome["examples"]) == (300, 4800)
    assert [e["examples"] for e in record.evaluations] == [16 * e["step"] for e in record.evaluations]
    assert record.evaluations[0]["step"] == 0
    probed = sum(e["probe"]["examples"] for e in record.evaluations if "probe" in e)
    assert probed == outcome["probed_examples"]
    assert 0.08 * 4800 <= probed <= 0.1 * 4800


def test_run_ends_at_its_last_goal_and_reports_all_crossings(config):
    outcome = run(config("noisy_quadratic/mini", batch_size=256, learning_rate=1.0))
    assert outcome["status"] == "reached"
    steps = outcome["steps_to_goals"]
    assert steps == sorted(steps)
    assert outcome["step"] == pytest.approx(steps[-1], rel=0.2)


def test_run_is_given_up_once_it_cannot_win_any_goal(config):
    free = run(config("noisy_quadratic/mini", batch_size=256, learning_rate=1.0))
    limits = [step * 0.6 for step in free["steps_to_goals"]]
    cfg = config("noisy_quadratic/mini", f"run.limits={limits}", batch_size=256, learning_rate=1.0)
    cfg.outputs += "limited"
    outcome = run(cfg)
    assert outcome["status"] == "given_up"
    assert outcome["step"] < 0.75 * free["step"]
    # Up to there it is the same run.
    for limited, unlimited in zip(outcome["steps_to_goals"], free["steps_to_goals"], strict=True):
        assert limited is None or limited == unlimited


def test_given_up_answers_only_for_limits_no_wider():
    outcome = {"status": "given_up", "steps_to_goals": [3.0, None], "limits": [5.0, 10.0]}
    assert is_complete(outcome, (9.0, 10.0))
    assert is_complete(outcome, (None, 8.0))
    assert not is_complete(outcome, (5.0, 12.0))
    assert not is_complete(outcome, (5.0, None))
    assert not is_complete({"status": "failed"}, (None,))
    assert is_complete({"status": "diverged"}, (None,))


@pytest.mark.parametrize("learning_rate", [2.5, 1e30])
def test_divergence_is_an_outcome(config, learning_rate):
    cfg = config("noisy_quadratic/mini", batch_size=64, learning_rate=learning_rate)
    outcome = run(cfg)
    assert outcome["status"] == "diverged"
    json.dumps(outcome, allow_nan=False)
    assert all("NaN" not in line for line in record_of(cfg).path.read_text().splitlines())


def test_worse_than_untrained_counts_only_after_a_share_of_the_budget(config, monkeypatch):
    """At small batch sizes the first evaluations, a step apart, are noise around the untrained score."""
    scores = iter([1.0] + [1.1] * 30 + [0.9] * 1000)
    monkeypatch.setattr("tasks.noisy_quadratic.NoisyQuadratic.evaluate", lambda self, model: next(scores))
    cfg = config("noisy_quadratic/mini", "grid.budget={steps: 1000, examples: 0}", batch_size=16, learning_rate=1e-3)
    assert run(cfg)["status"] == "exhausted"
    scores = iter([1.0] + [1.1] * 1000)
    cfg.outputs += "2"
    outcome = run(cfg)
    assert (outcome["status"], outcome["step"]) == ("diverged", 50)


def test_complete_run_is_not_run_again(config):
    cfg = config("noisy_quadratic/mini", "grid.budget={steps: 50, examples: 0}")
    first = run(cfg)
    before = record_of(cfg).path.read_bytes()
    assert run(cfg) == {"kind": "outcome"} | first
    assert record_of(cfg).path.read_bytes() == before


def test_failure_is_recorded_with_its_error_and_tried_again(config, monkeypatch):
    cfg = config("noisy_quadratic/mini", "grid.budget={steps: 50, examples: 0}")
    with monkeypatch.context() as patch:
        patch.setattr("tasks.noisy_quadratic.NoisyQuadratic.evaluate", lambda self, model: 1 / 0)
        with pytest.raises(ZeroDivisionError) as failure:
            run(cfg)
    assert failure.traceback  # held on to, as launchers do: the record's lock must be free all the same
    assert record_of(cfg).outcome == {
        "kind": "outcome",
        "status": "failed",
        "error": "ZeroDivisionError: division by zero",
    }
    assert run(cfg)["status"] == "exhausted"
    assert record_of(cfg).status == "exhausted"


def fail_at(monkeypatch, step: int, error: type[Exception]):
    """The next runs fail when they have taken `step` steps."""
    train_step = Trainer.train_step

    def failing(self) -> torch.Tensor:
        if self.step == step:
            raise error
        return train_step(self)

    monkeypatch.setattr(Trainer, "train_step", failing)


def test_failed_run_goes_on_from_its_checkpoint(config, monkeypatch):
    """As a rank does whose neighbour was killed: it fails at the next all-reduce."""
    cfg = config("noisy_quadratic/mini", "grid.budget={steps: 60, examples: 0}", "trainer.checkpoint_seconds=0")
    reference = run(OmegaConf.merge(cfg, {"outputs": cfg.outputs + "2"}))
    with monkeypatch.context() as patch:
        fail_at(patch, 40, ConnectionError)
        with pytest.raises(ConnectionError):
            run(cfg)
    assert record_of(cfg).status == "failed"
    with monkeypatch.context() as patch:
        fail_at(patch, 0, AssertionError)  # the beginning is not trained again
        assert run(cfg)["weights_sha256"] == reference["weights_sha256"]
    steps = [e["step"] for e in record_of(cfg).evaluations]
    assert steps == sorted(set(steps))


def test_checkpoint_that_does_not_fit_the_code_is_given_up(config, monkeypatch):
    cfg = config("noisy_quadratic/mini", "grid.budget={steps: 60, examples: 0}", "trainer.checkpoint_seconds=0")
    with monkeypatch.context() as patch:
        fail_at(patch, 40, ConnectionError)
        with pytest.raises(ConnectionError):
            run(cfg)
    path = checkpoint_path(record_of(cfg).path)
    torch.save(torch.load(path, weights_only=False) | {"model": {"other": torch.zeros(1)}}, path)
    with pytest.raises(RuntimeError, match="other"):
        run(cfg)
    assert run(cfg)["status"] == "exhausted"


def test_clipping_acts_after_measuring(config):
    cfg = config("noisy_quadratic/mini", "trainer.clip_norm=1e-6", "trainer.max_samples=8", batch_size=32)
    task = build_task(cfg)
    trainer = Trainer(task, settings_from_config(cfg, task), ONE, None)
    start = trainer.model.theta.detach().clone()
    trainer.train_step()
    moved = (trainer.model.theta.detach() - start).norm()
    assert float(moved) <= 0.3 * 1e-6 * 1.01
    assert float(trainer.noise.scale.pending[0][1]) > 1e-3


def test_bfloat16_autocast_trains(config):
    cfg = config("mnist/mini", "trainer.precision=bfloat16", "grid.budget={steps: 3, examples: 0}", batch_size=16)
    assert run(cfg)["status"] == "exhausted"


def test_channels_last_changes_the_layout_and_not_the_run(config):
    """One identity: the record of either answers for both."""
    weights, identities = [], []
    for layout in ("false", "true"):
        cfg = config("mnist/mini", f"trainer.channels_last={layout}", batch_size=16)
        task = build_task(cfg)
        settings = settings_from_config(cfg, task)
        trainer = Trainer(task, settings, ONE, None)
        for _ in range(3):
            trainer.train_step()
        weights.append(torch.cat([p.detach().flatten() for p in trainer.model.parameters()]))
        identities.append(settings.identity())
    filters = next(p for p in trainer.model.parameters() if p.dim() == 4 and p.shape[1] > 1)
    assert filters.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-6)
    assert identities[0] == identities[1]


def start_run(folder: Path, *overrides: str) -> subprocess.Popen:
    command = [
        *(sys.executable, "-m", "reproduce", "task=mnist/mini", "run.batch_size=16", "run.learning_rate=0.07"),
        *(f"outputs={folder}", "task.evaluation_images=100", "task.goals=[0.01]"),
        *("grid.budget={steps: 260, examples: 0}", "noise_scale.curvature_samples=0", *overrides),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_run_killed_three_times_ends_bit_equal_to_an_undisturbed_one(tmp_path):
    undisturbed = start_run(tmp_path / "a")
    assert undisturbed.wait(timeout=120) == 0
    (reference,) = (tmp_path / "a").glob("*/*/runs/*.jsonl")
    for step in (20, 90, 200):
        process = start_run(tmp_path / "b", "trainer.checkpoint_seconds=0.05")
        wait_for_step(tmp_path / "b", step, process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert start_run(tmp_path / "b", "trainer.checkpoint_seconds=0.05").wait(timeout=120) == 0
    killed = read_record(tmp_path / "b" / reference.relative_to(tmp_path / "a"))
    undisturbed = read_record(reference)
    assert killed.outcome["weights_sha256"] == undisturbed.outcome["weights_sha256"]
    assert [strip(e) for e in killed.evaluations] == [strip(e) for e in undisturbed.evaluations]
    assert not checkpoint_path(killed.path).exists()


def strip(evaluation: dict) -> dict:
    return {key: value for key, value in evaluation.items() if key != "seconds"}


def wait_for_step(folder: Path, step: int, process: subprocess.Popen) -> None:
    """Until the run has recorded `step`."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        records = [read_record(path) for path in folder.glob("*/*/runs/*.jsonl")]
        if records and records[0] and records[0].last_step >= step:
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    raise AssertionError(f"step {step} was not reached")


def test_resume_restores_the_step_without_repeating_it(config):
    """A checkpoint in the middle of a run holds all that the rest depends on."""
    cfg = config("mnist/mini", "grid.budget={steps: 40, examples: 0}", "trainer.checkpoint_seconds=0", batch_size=8)
    cfg.task.evaluation_images = 50
    task = build_task(cfg)
    reference = run(OmegaConf.merge(cfg, {"outputs": cfg.outputs + "2"}))
    from reproduce.records import RecordWriter

    settings = settings_from_config(cfg, task)
    writer = RecordWriter(settings.folder, settings.identity(), {})

    class Stop(Exception):
        pass

    def stop_at_20(entry: dict) -> None:
        if entry["step"] >= 20:
            raise Stop

    with pytest.raises(Stop):
        Trainer(task, settings, ONE, writer, stop_at_20).train()
    writer.close()
    assert checkpoint_path(writer.path).exists()
    assert run(cfg)["weights_sha256"] == reference["weights_sha256"]
    steps = [e["step"] for e in record_of(cfg).evaluations]
    assert steps == sorted(set(steps))
