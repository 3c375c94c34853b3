"""Configs that tests in several processes share."""

from pathlib import Path

from conftest import composed
from omegaconf import DictConfig


def mnist_config(folder: Path, ranks: int) -> DictConfig:
    return composed("mnist/mini", folder, f"trainer.ranks={ranks}", batch_size=64, learning_rate=0.1)


def quadratic_config(folder: Path, ranks: int) -> DictConfig:
    """At a learning rate so small that it stays at its start."""
    return composed("noisy_quadratic/mini", folder, f"trainer.ranks={ranks}", batch_size=64, learning_rate=1e-7)
