"""Samplers of reinforcement learning: environments in which the model acts, the same on any number of ranks."""

from abc import abstractmethod

import torch
from torch import nn

from tasks.task import Batch, Sampler, TaskError, rank_share


class Rollouts(Sampler):
    """Draws a few steps of every environment. The first draw begins them; each later one goes on with as many.

    One environment is one sample: batches are cut between environments, never in time. Environment i of the global
    batch has the same start and random numbers on whichever rank it lives.

    Attributes:
        samples: environments on all ranks, 0 before the first draw. share: of which this rank has these.
    """

    def __init__(self, seed: int, rank: int, world_size: int, device: torch.device) -> None:
        self.seed, self.rank, self.world_size, self.device = seed, rank, world_size, device
        self.samples = 0

    def draw(self, step: int, samples: int, model: nn.Module) -> Batch:
        if not self.samples:
            self._begin(samples)
        if samples != self.samples:
            raise TaskError(f"{self.samples} environments are under way, but {samples} samples are drawn of them.")
        return self.play(step, model)

    def _begin(self, samples: int) -> None:
        self.share = rank_share(samples, self.rank, self.world_size)
        self.samples = samples
        self.begin(range(samples)[self.share])

    @abstractmethod
    def begin(self, numbers: range) -> None:
        """Makes this rank's environments, from their numbers in the global batch."""

    @abstractmethod
    def play(self, step: int, model: nn.Module) -> Batch:
        """The next steps of this rank's environments, with the model's own actions."""

    @abstractmethod
    def kept(self) -> dict:
        """What `restore` needs, after `begin`, to go on exactly."""

    @abstractmethod
    def restore(self, kept: dict) -> None: ...

    def state_dict(self) -> dict:
        return {"samples": self.samples, **self.kept()} if self.samples else {}

    def load_state_dict(self, state: dict) -> None:
        if state:
            self._begin(state["samples"])
            self.restore(state)
