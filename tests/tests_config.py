"""Configs that tests in several processes share, and what they do with them."""

from pathlib import Path

import torch
from conftest import composed
from omegaconf import DictConfig, OmegaConf

from reproduce.distributed import Ranks
from reproduce.settings import build_task, settings_from_config
from reproduce.trainer import Trainer


def mnist_config(folder: Path, ranks: int) -> DictConfig:
    return composed("mnist/mini", folder, f"trainer.ranks={ranks}", batch_size=64, learning_rate=0.1)


def quadratic_config(folder: Path, ranks: int) -> DictConfig:
    """At a learning rate so small that it stays at its start."""
    return composed("noisy_quadratic/mini", folder, f"trainer.ranks={ranks}", batch_size=64, learning_rate=1e-7)


def train_on(ranks: Ranks, plain: dict) -> list[dict] | None:
    """A whole run, on each rank; its evaluations on the first."""
    torch.set_num_threads(1)
    cfg = OmegaConf.create(plain)
    task = build_task(cfg)
    made = Trainer(task, settings_from_config(cfg, task), ranks, None)
    made.train()
    return made.evaluations if ranks.is_first else None
