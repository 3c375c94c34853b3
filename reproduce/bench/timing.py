"""Two things timed against each other in one process."""

import time
from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist

from reproduce.distributed import Ranks

BLOCK_SECONDS = 0.4  # long against the clock and short against changes of the machine's speed


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
    ranks: Ranks | None = None,
    units: tuple[int, int] = (1, 1),
) -> dict:
    """Times of both and the ratio first / second, over pairs of blocks in alternating order; per unit of each."""
    seconds_per_step(first, 1), seconds_per_step(second, 1)  # warm-up
    guess = torch.tensor(max(seconds_per_step(first, 5), seconds_per_step(second, 5)))
    if ranks and ranks.size > 1:
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
