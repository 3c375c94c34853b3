"""How long an optimiser step takes on the present device, measured on fake batches: no data is needed."""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from hydra.utils import instantiate

from reproduce.settings import TrainerSettings
from reproduce.trainer import prepared
from tasks.task import Task

GROWTH = 4  # of the samples in a pass, from one measured size to the next
REPEATS, ENOUGH_SECONDS = 9, 0.5  # a size is timed so often, or for so long
SATURATED = 0.9  # of a sample's time in smaller passes: from there on time goes with samples


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one rank's forward and backward pass by its samples, and of the optimiser's update.

    samples: rising. Between them ln(seconds) is linear in ln(samples), beyond them seconds go with samples.
    """

    samples: tuple[int, ...]
    pass_seconds: tuple[float, ...]
    update_seconds: float = 0.0

    def of_pass(self, samples: float) -> float:
        first, last = self.samples[0], self.samples[-1]
        within = min(max(samples, first), last)
        seconds = math.exp(np.interp(math.log(within), np.log(self.samples), np.log(self.pass_seconds)))
        return seconds * samples / within

    def of_step(self, samples: float, micro_batches: int) -> float:
        """A step on `samples` of one rank, cut into so many micro-batches."""
        return micro_batches * self.of_pass(samples / micro_batches) + self.update_seconds


def given(samples_per_second: float) -> StepTimes:
    """The times of a device that trains on so many samples a second at every batch size."""
    return StepTimes((1,), (1 / samples_per_second,))


def measured(
    task: Task, trainer: TrainerSettings, optimizer_config: dict, device: torch.device, largest: int, seconds: float
) -> StepTimes:
    """Real training steps on `task.fake_batch`: passes of 1, 4, 16, ... samples, and updates.

    Growing ends at `largest` samples, where time begins to go with samples, where the device's memory is full, or when
    the next size would end after `seconds`. Drawing batches (and, in reinforcement learning, acting), evaluating and
    averaging over ranks are no part of it.
    """
    torch.set_num_threads(trainer.threads)
    began = time.monotonic()
    model = prepared(task.build_model(), trainer, device).train()
    optimizer = instantiate(optimizer_config)(model.parameters(), lr=1e-6)
    autocast = trainer.precision == "bfloat16"

    def take_pass(samples: int) -> Callable[[], None]:
        batch = tuple(tensor.to(device) for tensor in task.fake_batch(samples))

        def take() -> None:
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16) if autocast else nullcontext():
                loss = task.loss(model, batch)
            loss.backward()

        return take

    def update() -> None:
        if trainer.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), trainer.clip_norm)
        optimizer.step()

    sizes, times = [], []
    for size in [*itertools.takewhile(lambda n: n < largest, (GROWTH**k for k in itertools.count())), largest]:
        left = seconds - (time.monotonic() - began)
        if sizes and times[-1] * size / sizes[-1] > left:
            break
        try:
            took = seconds_of(take_pass(size), device, left / 2)
        except torch.OutOfMemoryError:
            if not sizes:
                raise
            break
        sizes.append(size)
        times.append(took)
        if saturated(sizes, times):
            break
    return StepTimes(tuple(sizes), tuple(times), seconds_of(update, device, seconds / 10))


def saturated(samples: Sequence[int], seconds: Sequence[float]) -> bool:
    """True if larger passes gained nothing on a sample twice in a row: once may be the machine's doing."""
    each = [s / n for s, n in zip(seconds, samples, strict=True)]
    return len(each) > 2 and min(each[-2:]) > SATURATED * each[-3]


def seconds_of(take: Callable[[], None], device: torch.device, most: float) -> float:
    """Median time of a call after a first one that warms up; the first one's own, where that took `most` already."""
    times = []
    while len(times) <= REPEATS and (len(times) < 2 or sum(times[1:]) < ENOUGH_SECONDS):
        began = time.perf_counter()
        take()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - began)
        if times[0] > most:
            break
    return float(np.median(times[1:] or times))
