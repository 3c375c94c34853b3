"""Training steps: the trainer's against a bare PyTorch loop's, and with the noise scale's hook against without."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from hydra import compose, initialize_config_module
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch.nn.parallel import DistributedDataParallel

from reproduce.bench.timing import compare
from reproduce.distributed import Ranks
from reproduce.settings import build_task, settings_from_config
from reproduce.trainer import Trainer

# (task, batch size, overrides): the trainer is timed on MNIST, since its steps are the shortest, and once on the LSTM,
TIMED = (*(("mnist/mini", batch_size) for batch_size in (16, 64, 256, 1024)), ("billion_word/mini", 1280))
# the hook on LSTMs of 0.2, 1.2 and 12.6 million weights.
HOOKED = (
    ("billion_word/mini", 1280, "task.hidden=64"),
    ("billion_word/mini", 640, "task.hidden=256"),
    ("billion_word/mini", 160, "task.hidden=1024"),
)


def run_config(task: str, batch_size: int, ranks: int, *overrides: str) -> dict:
    """The config of a run of `task`, resolved."""
    with initialize_config_module("conf", version_base="1.3"):
        config = compose(
            "config",
            [
                *(f"task={task}", f"name={task}", f"trainer.ranks={ranks}"),
                *(f"run.batch_size={batch_size}", "run.learning_rate=0.01", *overrides),
            ],
        )
    return OmegaConf.to_container(config, resolve=True)


def trainer_for(config: dict, ranks: Ranks, log_noise_scale: bool) -> Trainer:
    composed = OmegaConf.create(config)
    task = build_task(composed)
    task.prepare()
    settings = settings_from_config(composed, task)
    settings = replace(settings, trainer=replace(settings.trainer, log_noise_scale=log_noise_scale))
    return Trainer(task, settings, ranks, None)


def bare_step(trainer: Trainer, ranks: Ranks) -> Callable[[], None]:
    """A step as a plain loop would write it, on the same kind of model, batches and optimiser."""
    task, samples = trainer.task, trainer.samples
    model = task.build_model()
    wrapped = DistributedDataParallel(model) if ranks.size > 1 else model
    optimizer = instantiate(trainer.settings.optimizer_config)(model.parameters(), lr=trainer.run.learning_rate)
    clip_norm = trainer.options.clip_norm
    sampler = task.sampler(0, ranks.rank, ranks.size, ranks.device)
    step = 0

    def take() -> None:
        nonlocal step
        step += 1
        batch = sampler.draw(step, samples, model)
        optimizer.zero_grad()
        loss = task.loss(wrapped, batch)
        loss.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()

    return take


def trainer_step(trainer: Trainer) -> Callable[[], None]:
    def take() -> None:
        trainer.train_step()
        if trainer.noise.scale and len(trainer.noise.scale.pending) >= 50:
            trainer.noise.scale.flush()  # as at an evaluation

    return take


def measure_trainer(ranks: Ranks, configs: Sequence[dict], blocks: int) -> list[dict]:
    """Steps of the trainer against those of a bare loop."""
    torch.set_num_threads(1)
    rows = []
    for config in configs:
        trainer = trainer_for(config, ranks, log_noise_scale=False)
        times = compare(trainer_step(trainer), bare_step(trainer, ranks), blocks, ranks)
        rows.append({"what": "trainer / bare loop", **about(config), **times})
    return rows


def measure_hook(ranks: Ranks, configs: Sequence[dict], blocks: int) -> list[dict]:
    """Steps with the noise scale's hook against steps without."""
    torch.set_num_threads(1)
    rows = []
    for config in configs:
        silent, hooked = (trainer_for(config, ranks, log_noise_scale=on) for on in (False, True))
        times = compare(trainer_step(hooked), trainer_step(silent), blocks, ranks)
        weights = sum(p.numel() for p in hooked.task.build_model().parameters())
        rows.append({"what": "hook on / off", **about(config), "weights": weights, **times})
    return rows


def about(config: dict) -> dict:
    return {
        "task": config["name"],
        "batch_size": config["run"]["batch_size"],
        "ranks": config["trainer"]["ranks"],
    }
