"""Making or reading batches, beside training on them."""

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from omegaconf import OmegaConf

from reproduce.bench.timing import compare, quartiles, seconds_per_step
from reproduce.bench.training import run_config, trainer_for, trainer_step
from reproduce.distributed import Ranks
from reproduce.settings import build_task
from reproduce.trainer import Trainer
from tasks.billion_word import LENGTH, TokenSequences
from tasks.data.tokens import TokenFile

DRAWN = ("svhn/mini", "svhn_autoencoder/mini", "svhn_vae/mini", "cifar10/mini", "imagenet/mini", "billion_word/mini")
READ_TOKENS = 102_400  # of a batch near the paper's critical batch size
FILE_TOKENS = 1_000_000_000  # about as many as the benchmark has; 2 GB
GPU_OPERATIONS_PER_SECOND = 989e12  # of an H200 in bfloat16, dense, as its data sheet says: never reached in training


def drawing(trainer: Trainer) -> Callable[[], None]:
    """Draws batches one after the other, as training does."""
    sampler = trainer.task.sampler(1, 0, 1, trainer.ranks.device)
    step = 0

    def take() -> None:
        nonlocal step
        step += 1
        sampler.draw(step, trainer.samples, trainer.model)

    return take


def measure_drawing(ranks: Ranks, task: str, blocks: int) -> list[dict]:
    """The share of a training step that goes into making or reading its batch, at every batch size."""
    torch.set_num_threads(1)
    rows = []
    for batch_size in run_config(task, 64, 1)["grid"]["batch_sizes"]:
        trainer = trainer_for(run_config(task, batch_size, 1), ranks, log_noise_scale=False)
        times = compare(drawing(trainer), trainer_step(trainer), blocks, ranks)
        rows.append({"what": "drawing / step", "task": task, "batch_size": batch_size, "ranks": 1, **times})
    return rows


def measure_reading(blocks: int) -> list[dict]:
    """Reading batches of the paper's language model on one core, beside the least time that a GPU takes to train on
    one: six operations a weight and token, all weights but the embedding's, at the GPU's greatest speed.
    """
    torch.set_num_threads(1)
    config = run_config("billion_word/paper", READ_TOKENS, 1)
    task = build_task(OmegaConf.create(config))
    with torch.device("meta"):
        model = task.build_model()
    weights = sum(p.numel() for p in model.parameters()) - model.embedding.weight.numel()
    step = 6 * weights * READ_TOKENS / GPU_OPERATIONS_PER_SECOND
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.u16"
        np.zeros(FILE_TOKENS, dtype=np.uint16).tofile(path)
        file = TokenFile.open(path, FILE_TOKENS)
        sampler = TokenSequences(file, ("bench",), 0, 1, torch.device("cpu"))
        steps = itertools.count(1)
        times = [
            seconds_per_step(lambda: sampler.draw(next(steps), READ_TOKENS // LENGTH, model), 50) for _ in range(blocks)
        ]
    row = {
        "what": "reading / GPU's step",
        "task": "billion_word/paper",
        "batch_size": READ_TOKENS,
        "ranks": 1,
        **quartiles(np.array(times) / step),
        "milliseconds": round(step * 1e3, 3),
        "blocks": blocks,
    }
    return [row]
