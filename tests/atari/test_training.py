"""Whole runs of A2C: what is recorded, on one rank and on two, and after an interruption."""

from pathlib import Path

import pytest
import torch
from conftest import composed
from omegaconf import OmegaConf
from tests_config import train_on

from reproduce.distributed import Ranks, run_on_ranks
from reproduce.estimator import unbiased_moments
from reproduce.records import read_record
from reproduce.run import _train, run
from reproduce.settings import build_task, settings_from_config
from reproduce.trainer import Trainer, weights_hash

SMALL = ("task.start_states=16", "task.hidden=16", "task.goals=[1000]", "grid.budget={steps: 12, examples: 0}")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Start states, made once for all runs here."""
    folder = tmp_path_factory.mktemp("data")
    build_task(composed("atari_breakout/mini", folder, *SMALL, f"task.data_dir={folder}")).prepare()
    return folder


def config(data: Path, outputs: Path, *overrides: str, environments: int = 8):
    given = (*SMALL, f"task.data_dir={data}", "trainer.device=cpu", *overrides)
    return composed("atari_breakout/mini", outputs, *given, batch_size=5 * environments, learning_rate=0.002)


def trainer(cfg) -> Trainer:
    task = build_task(cfg)
    return Trainer(task, settings_from_config(cfg, task), Ranks(0, 1, torch.device("cpu")), None)


def recorded(outputs: Path) -> list[dict]:
    (path,) = outputs.rglob("*.jsonl")
    return read_record(path).evaluations


def test_run_counts_frames_and_records_noise_scales_of_the_loss_and_of_its_terms(data, tmp_path):
    outcome = run(config(data, tmp_path))
    assert (outcome["status"], outcome["step"], outcome["examples"]) == ("exhausted", 12, 12 * 40)
    assert outcome["probed_examples"] == 0  # the training batch is its own probe
    entries = recorded(tmp_path)[1:]
    assert sum(entry["probe"]["updates"] for entry in entries) == 12
    for entry in entries:
        assert entry["probe"]["examples"] == entry["probe"]["updates"] * 40
        for name in ("probe", "policy", "value"):
            assert entry[name]["trace"] > 0


def test_noise_scale_is_that_of_groups_of_environments(data, tmp_path):
    """Eight groups of one environment, at the first step: from their gradients, by the definition."""
    made = trainer(config(data, tmp_path))
    batch = made.task.sampler(0, 0, 1, torch.device("cpu")).draw(1, 8, made.model)
    parameters = list(made.model.parameters())

    def squared(part) -> float:
        return sum(
            float(g.double().square().sum()) for g in torch.autograd.grad(made.task.loss(made.model, part), parameters)
        )

    singles = sum(squared(tuple(t[i : i + 1] for t in batch)) for i in range(8)) / 8
    grad_sq, trace = unbiased_moments(singles, squared(batch), 5, 40)  # in frames
    made.train_step()
    noise = made.noise._training()
    assert (noise["grad_sq"], noise["trace"]) == pytest.approx((grad_sq, trace), rel=1e-4)


def test_interrupted_run_ends_bit_equal(data, tmp_path):
    whole = run(config(data, tmp_path / "whole"))
    cfg = config(data, tmp_path / "cut", "trainer.checkpoint_seconds=0")
    task = build_task(cfg)
    evaluate, seen = task.score_run, []

    def interrupting(model, reports):
        seen.append(reports)
        if len(seen) == 7:
            raise KeyboardInterrupt
        return evaluate(model, reports)

    task.score_run = interrupting
    with pytest.raises(KeyboardInterrupt):
        _train(Ranks(0, 1, torch.device("cpu")), task, settings_from_config(cfg, task))
    assert list((tmp_path / "cut").rglob("*.checkpoint"))
    assert run(cfg)["weights_sha256"] == whole["weights_sha256"]
    scores = [[entry["score"] for entry in recorded(tmp_path / name)] for name in ("whole", "cut")]
    assert scores[0] == scores[1]


@pytest.mark.slow
def test_two_ranks_play_and_learn_as_one(data, tmp_path):
    runs = {}
    for size in (1, 2):
        cfg = config(data, tmp_path / str(size), f"trainer.ranks={size}")
        runs[size] = run_on_ranks(train_on, size, "cpu", OmegaConf.to_container(cfg, resolve=True))
    for alone, together in zip(runs[1], runs[2], strict=True):
        assert together["score"] == alone["score"]
        if alone["loss"] is not None:
            assert together["loss"] == pytest.approx(alone["loss"], rel=1e-3, abs=1e-5)
            assert together["probe"]["examples"] == alone["probe"]["examples"]


def test_screens_train_too(data, tmp_path):
    overrides = ("task.game=pong", "task.score=points", "task.observation=screen", f"task.data_dir={tmp_path}")
    made = trainer(config(tmp_path, tmp_path, *overrides, "task.start_states=4", environments=2))
    made.task.prepare()
    before = weights_hash(made.model)
    made.train_step()
    assert weights_hash(made.model) != before


@pytest.mark.parametrize("scale", ["mini", "paper"])
@pytest.mark.parametrize("game", ["alien", "beam_rider", "breakout", "pong", "qbert", "seaquest", "space_invaders"])
def test_every_config_builds(tmp_path, game, scale):
    if scale == "mini" and game not in ("breakout", "pong", "space_invaders"):
        pytest.skip("at mini scale three games")
    task = build_task(composed(f"atari_{game}/{scale}", tmp_path, batch_size=40))
    logits, values = task.build_model()(task.fake_batch(2)[0].flatten(0, 1))
    assert logits.shape == (10, task.actions)
    assert values.shape == (10,)
    assert task.loss(task.build_model(), task.fake_batch(2)).isfinite()
