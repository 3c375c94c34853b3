"""make bench: time of a training step against a bare PyTorch loop, of the noise scale's hook, of making or reading
batches beside training on them, and of games beside those of other packages, as ratios.

Both sides of a ratio take turns in one process, block by block, so that a machine that changes its speed changes
both. What is printed is the median of the blocks' ratios with their quartiles, and goes to results/benchmarks.json.
"""

import argparse
import itertools
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from hydra import compose, initialize_config_module
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch.nn.parallel import DistributedDataParallel

from reproduce.distributed import Ranks, run_on_ranks
from reproduce.results import write_json
from reproduce.run import commit, versions
from reproduce.settings import build_task, settings_from_config
from reproduce.trainer import Trainer
from tasks.billion_word import LENGTH, TokenSequences
from tasks.data.tokens import TokenFile
from tasks.dota_proxy.battle import Battle
from tasks.dota_proxy.constants import ACTIONS

# The trainer and the hook are timed on MNIST, since its steps are the shortest, and once on the LSTM.
TIMED = (*(("mnist/mini", batch_size) for batch_size in (16, 64, 256, 1024)), ("billion_word/mini", 1280))
DRAWN = ("svhn/mini", "svhn_autoencoder/mini", "svhn_vae/mini", "cifar10/mini", "imagenet/mini", "billion_word/mini")
READ_TOKENS = 102_400  # of a batch near the paper's critical batch size
FILE_TOKENS = 1_000_000_000  # about as many as the benchmark has; 2 GB
GPU_OPERATIONS_PER_SECOND = 989e12  # of an H200 in bfloat16, dense, as its data sheet says: never reached in training
BLOCK_SECONDS = 0.4  # long against the clock and short against changes of the machine's speed


def run_config(task: str, batch_size: int, ranks: int) -> dict:
    """The config of a run of `task`, resolved."""
    with initialize_config_module("conf", version_base="1.3"):
        config = compose(
            "config",
            [
                *(f"task={task}", f"name={task}", f"trainer.ranks={ranks}"),
                *(f"run.batch_size={batch_size}", "run.learning_rate=0.01"),
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


def seconds_per_step(take: Callable[[], None], steps: int) -> float:
    if dist.is_initialized():
        dist.barrier()
    began = time.perf_counter()
    for _ in range(steps):
        take()
    return (time.perf_counter() - began) / steps


def quartiles(ratios: np.ndarray) -> dict:
    low, median, high = np.percentile(ratios, [25, 50, 75])
    return {"ratio": round(float(median), 4), "ratio_quartiles": [round(float(low), 4), round(float(high), 4)]}


def compare(
    first: Callable[[], None],
    second: Callable[[], None],
    blocks: int,
    ranks: Ranks,
    units: tuple[int, int] = (1, 1),
) -> dict:
    """Times of both and the ratio first / second, over pairs of blocks in alternating order; per unit of each."""
    seconds_per_step(first, 1), seconds_per_step(second, 1)  # warm-up
    guess = torch.tensor(max(seconds_per_step(first, 5), seconds_per_step(second, 5)))
    if ranks.size > 1:
        dist.broadcast(guess, 0)  # the same number of steps on every rank
    steps = max(3, round(BLOCK_SECONDS / float(guess)))
    pairs = []
    for block in range(blocks):
        if block % 2:
            b, a = seconds_per_step(second, steps), seconds_per_step(first, steps)
        else:
            a, b = seconds_per_step(first, steps), seconds_per_step(second, steps)
        pairs.append((a, b))
    table = np.array(pairs) / units
    return {
        **quartiles(table[:, 0] / table[:, 1]),
        "milliseconds": round(float(np.median(table[:, 1])) * 1e3, 6),
        "blocks": blocks,
    }


def measure(ranks: Ranks, configs: dict[tuple[str, int], dict], blocks: int) -> list[dict]:
    """All comparisons on these ranks."""
    torch.set_num_threads(1)
    rows = []
    for (task, batch_size), config in configs.items():
        silent = trainer_for(config, ranks, log_noise_scale=False)
        about = {"task": task, "batch_size": batch_size, "ranks": ranks.size}
        pair = (trainer_step(silent), bare_step(silent, ranks))
        rows.append({"what": "trainer / bare loop", **about, **compare(*pair, blocks, ranks)})
        if ranks.size > 1:
            hooked = trainer_for(config, ranks, log_noise_scale=True)
            pair = (trainer_step(hooked), trainer_step(silent))
            rows.append({"what": "hook on / off", **about, **compare(*pair, blocks, ranks)})
    return rows


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


def measure_games(ranks: Ranks, blocks: int) -> list[dict]:
    """A step of Atari environments beside gymnasium's processes, and the share of a training step that play takes."""
    import gymnasium

    torch.set_num_threads(1)
    task, environments = "atari_breakout/mini", 32
    trainer = trainer_for(run_config(task, 5 * environments, 1), ranks, log_noise_scale=False)
    trainer.train_step()
    own, rng = trainer.sampler.environments, np.random.default_rng(0)

    def one() -> gymnasium.Env:
        return gymnasium.make("ale_py:ALE/Breakout-v5", obs_type="ram", frameskip=4, repeat_action_probability=0.0)

    about = {"task": task, "batch_size": 5 * environments, "ranks": 1}
    theirs = gymnasium.vector.AsyncVectorEnv([one] * environments, context="fork")
    try:
        theirs.reset(seed=0)
        pair = (
            lambda: own.step(rng.integers(own.actions, size=environments)),
            lambda: theirs.step(rng.integers(own.actions, size=environments)),
        )
        rows = [{"what": "play / AsyncVectorEnv", **about, **compare(*pair, blocks, ranks)}]
    finally:
        theirs.close()
    times = compare(drawing(trainer), trainer_step(trainer), blocks, ranks)
    return [*rows, {"what": "drawing / step", **about, **times}]


def random_ticks(heroes: int, games: int) -> Callable[[], None]:
    """Ticks of games of the Dota proxy whose heroes act at random."""
    battle = Battle(heroes, range(games))
    choices = itertools.cycle(list(np.random.default_rng(0).integers(ACTIONS, size=(16, games, 2, heroes))))
    return lambda: battle.step(next(choices))


def measure_battles(ranks: Ranks, blocks: int) -> list[dict]:
    """A hero's tick of the Dota proxy beside an agent's in MAgent2's battle, with random actions, on one core."""
    from magent2.environments import battle_v4

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    theirs = battle_v4.parallel_env(max_cycles=1_000_000)
    theirs.reset(seed=0)
    agents = len(theirs.agents)

    def their_tick() -> None:
        if len(theirs.agents) < agents // 2:  # the others have fallen
            theirs.reset()
        theirs.step({agent: int(action) for agent, action in zip(theirs.agents, rng.integers(21, size=agents))})

    rows = []
    for heroes, games in itertools.product((1, 5), (64, 8192)):
        hero_ticks = games * 2 * heroes
        times = compare(random_ticks(heroes, games), their_tick, blocks, ranks, (hero_ticks, agents))
        per_second = 1e3 / (times["ratio"] * times["milliseconds"])
        about = {"what": "battle / MAgent2", "task": f"dota_{heroes}v{heroes}", "batch_size": hero_ticks, "ranks": 1}
        rows.append({**about, **times, "hero_ticks_per_second": round(per_second)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Ratios of step times; see the module's text.")
    parser.add_argument("--blocks", type=int, default=21, help="pairs of blocks for each ratio (default 21)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder for benchmarks.json")
    arguments = parser.parse_args()
    # Fewer blocks where there are many rows, and what they show is far from the limit of what blocks can tell.
    fewer = max(3, arguments.blocks // 3)
    configs = {
        size: {(task, batch_size): run_config(task, batch_size, size) for task, batch_size in TIMED} for size in (1, 2)
    }
    parts = (
        *(partial(run_on_ranks, measure, size, "cpu", configs[size], arguments.blocks) for size in (1, 2)),
        *(partial(run_on_ranks, measure_drawing, 1, "cpu", task, fewer) for task in DRAWN),
        partial(measure_reading, arguments.blocks),
        partial(run_on_ranks, measure_games, 1, "cpu", fewer),
        partial(run_on_ranks, measure_battles, 1, "cpu", fewer),
    )
    print(f"{'what':<22}{'task':<24}{'ranks':>6}{'B':>7}{'ms/step':>10}{'ratio':>8}   quartiles")
    rows = []
    for part in parts:
        for row in part():
            low, high = row["ratio_quartiles"]
            print(
                f"{row['what']:<22}{row['task']:<24}{row['ranks']:>6}{row['batch_size']:>7}{row['milliseconds']:>10.3g}"
                f"{row['ratio']:>8.3f}   {low:.3f} to {high:.3f}",
                flush=True,
            )
            rows.append(row)
    summary = {
        "rows": rows,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": versions(),
        "commit": commit(),
    }
    write_json(arguments.results / "benchmarks.json", summary)


if __name__ == "__main__":
    main()
