"""Batch sizes that follow the noise scale: the schedule, the trainer on it, and gamma against known answers."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import composed, sweep_small_quadratic

from reproduce.adaptive_batch import (
    fitted,
    gamma,
    gamma_interval,
    pooled,
    predicted_gamma,
    schedule,
    steps_and_examples,
)
from reproduce.batch_schedule import AdaptiveBatch, recent_noise_scale
from reproduce.distributed import Ranks
from reproduce.records import Record, read_record
from reproduce.run import run
from reproduce.settings import ConfigError, build_task, settings_from_config
from reproduce.trainer import Trainer

SCHEDULE = AdaptiveBatch(r=400, knee=30, alpha=1, largest=1000)


def evaluation(step: int, trace: float, grad_sq: float, updates: int = 10) -> dict:
    return {"step": step, "training": {"trace": trace, "grad_sq": grad_sq, "updates": updates}}


def test_the_batch_size_is_the_root_of_r_times_the_noise_scale():
    assert SCHEDULE.batch_size([evaluation(10, 25, 1)], 7, 1) == 100  # sqrt(400 * 25)
    assert SCHEDULE.batch_size([evaluation(10, 25, 1)], 7, 30) == 90  # whole samples: 100 is 3.3 of them
    assert SCHEDULE.batch_size([evaluation(10, 1e6, 1)], 7, 1) == 1000
    assert SCHEDULE.batch_size([evaluation(10, 1e-6, 1)], 7, 1) == 2  # the fewest that show a noise scale
    assert SCHEDULE.learning_rate(0.4, 90) == pytest.approx(0.3)


def test_it_stays_what_it_was_while_the_noise_scale_cannot_be_told():
    assert SCHEDULE.batch_size([], 7, 1) == 7
    assert SCHEDULE.batch_size([{"step": 0}, evaluation(9, 25, 1, updates=9)], 7, 1) == 7
    known = evaluation(10, 25, 1)
    assert SCHEDULE.batch_size([known, evaluation(30, 25, -1)], 7, 1) == 100


def test_moments_are_averaged_over_the_last_half_of_the_run_before_they_are_divided():
    history = [evaluation(10, 1000, 1), evaluation(60, 30, 1, 50), evaluation(100, 10, 3, 40)]
    assert recent_noise_scale(history) == pytest.approx((30 * 50 + 10 * 40) / (1 * 50 + 3 * 40))


def adaptive_config(folder: Path, *overrides: str):
    return composed(
        "noisy_quadratic/mini",
        folder,
        "trainer.batch_schedule=adaptive",
        "adaptive_batch.r=40",
        "adaptive_batch.knee=22",
        "task.goals=[0.4,0.2]",
        *overrides,
        batch_size=8,
        learning_rate=2,
    )


def test_a_run_follows_its_noise_scale_and_counts_what_it_used(tmp_path):
    config = adaptive_config(tmp_path)
    task = build_task(config)
    trainer = Trainer(task, settings_from_config(config, task), Ranks(0, 1, torch.device("cpu")), None)
    drawn = []
    draw = trainer.sampler.draw
    trainer.sampler.draw = lambda step, samples, model: drawn.append(samples) or draw(step, samples, model)
    outcome = trainer.train()
    assert outcome["status"] == "reached"
    assert outcome["examples"] == sum(drawn) == trainer.evaluations[-1]["examples"]
    # B_simple of this task is 57 to 62 all along: sqrt(40 * 60) = 49
    assert np.median(drawn[len(drawn) // 2 :]) == pytest.approx(49, rel=0.25)
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(2 / (1 + 22 / drawn[-1]))


def test_a_run_that_was_cut_off_ends_bit_equal(tmp_path, monkeypatch):
    whole = run(adaptive_config(tmp_path / "whole"))
    config = adaptive_config(tmp_path / "cut", "trainer.checkpoint_seconds=0")
    steps = []
    train_step = Trainer.train_step

    def dies(self):
        steps.append(self.step)
        if len(steps) == 60:
            raise KeyboardInterrupt
        return train_step(self)

    monkeypatch.setattr(Trainer, "train_step", dies)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    monkeypatch.setattr(Trainer, "train_step", train_step)
    again = run(config)
    for key in ("steps_to_goals", "examples", "weights_sha256"):
        assert again[key] == whole[key]


def test_environments_under_way_are_refused(tmp_path):
    config = composed(
        "dota_1v1/mini", tmp_path, "trainer.batch_schedule=adaptive", "adaptive_batch.r=40", batch_size=256
    )
    with pytest.raises(ConfigError, match=r"batch_schedule=adaptive changes the number of samples"):
        settings_from_config(config, build_task(config))


S_MIN, E_MIN = 100.0, 8_000.0
SIZES = (20, 40, 80, 160, 320)


def on_hyperbola(factor: float, steps: float, scatter: float = 0.0) -> tuple[float, float]:
    return steps, E_MIN * (1 + factor / (steps / S_MIN - 1)) * math.exp(scatter)


def constant_runs(rng: np.random.Generator, scatter: float) -> dict:
    runs = {}
    for size in SIZES:
        steps = S_MIN * (1 + 80 / size) * np.exp(scatter * rng.standard_normal(6))
        runs[size] = [(s, s * size) for s in steps]
    return runs


def test_gamma_is_that_of_the_law_and_its_interval_covers_it():
    rng = np.random.default_rng(3)
    exact = constant_runs(rng, 0)
    assert gamma([on_hyperbola(0.8, 150), on_hyperbola(0.8, 300)], fitted(exact)) == pytest.approx(0.8, rel=1e-3)
    covered = 0
    for _ in range(20):
        adaptive = {
            r: [on_hyperbola(0.8, steps, 0.03 * rng.standard_normal()) for _ in range(6)]
            for r, steps in ((20, 250), (80, 200), (320, 150))
        }
        constant = constant_runs(rng, 0.03)
        value = gamma(pooled(adaptive), fitted(constant))
        low, high = gamma_interval(constant, adaptive)
        assert low < value < high
        assert high / low < 2
        covered += low <= 0.8 <= high
    assert covered >= 17


def test_gamma_says_nothing_beyond_an_asymptote_or_without_runs():
    fit = fitted(constant_runs(np.random.default_rng(0), 0))
    assert gamma([(90.0, 10_000.0)], fit) is None
    assert gamma([], fit) is None
    assert gamma([(150.0, 10_000.0)], None) is None


def test_predicted_gamma_of_a_noise_scale_that_grows_as_the_root_of_the_step():
    """App. D: B = 10 sqrt(s) gives 24/25, since (integral of s^(1/4))^2 = (4/5)^2 and that of s^(1/2) is 2/3."""
    steps = list(np.geomspace(0.001, 1000, 30))
    assert predicted_gamma(steps, [10 * math.sqrt(s) for s in steps]) == pytest.approx(24 / 25, rel=1e-3)
    assert predicted_gamma(steps, [5.0] * 30) == pytest.approx(1)
    assert predicted_gamma([10.0], [None]) is None


def test_examples_at_the_goal_lie_between_those_of_the_evaluations_around_it():
    evaluations = [{"step": s, "examples": e} for s, e in ((0, 0), (10, 100), (20, 300))]
    record = Record(Path("x"), {}, evaluations, {"steps_to_goals": [4.0, 15.0]})
    assert steps_and_examples(record) == (15.0, 200.0)
    assert schedule(record) == [(10, 10.0), (20, 20.0)]
    assert steps_and_examples(Record(Path("x"), {}, evaluations, {"steps_to_goals": [4.0, None]})) is None


def test_the_experiment_from_sweep_to_figure(tmp_path):
    """The quadratic's noise scale hardly varies: gamma is 1 within its interval."""
    assert "Run the sweep first" in sweep_small_quadratic(tmp_path, "comparison=adaptive_batch").stderr
    assert sweep_small_quadratic(tmp_path).code == 0
    ended = sweep_small_quadratic(tmp_path, "comparison=adaptive_batch")
    assert ended.code == 0, ended.stderr
    folder = tmp_path / "noisy_quadratic" / "mini"
    result = json.loads((folder / "adaptive_batch.json").read_text())
    assert result["gamma_low"] <= 1 <= result["gamma_high"]
    assert "A gain is not shown." in ended.stdout
    assert 0.9 < result["predicted_gamma"] <= 1
    assert [entry["seeds_reached"] for entry in result["adaptive"]] == [4, 4, 4]
    sizes = [np.median([size for _, size in entry["schedule"]]) for entry in result["adaptive"]]
    assert sizes == sorted(sizes)  # a larger r, larger batches
    assert (folder / "adaptive_batch.svg").exists()
    records = [read_record(path) for path in (folder / "runs").glob("*.jsonl")]
    assert sum("adaptive_batch" in record.header["identity"] for record in records) == 12
