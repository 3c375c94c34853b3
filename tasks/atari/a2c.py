"""Advantage actor-critic (Mnih et al. 2016, arXiv 1602.01783) in synchronous form: networks, rollouts, loss."""

from collections import deque
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks.actions import sample_actions
from tasks.atari.console import Environments, Stepped
from tasks.atari.observation import Observer
from tasks.rollouts import Rollouts
from tasks.task import Batch, random_generator

STEPS = 5  # of a rollout (App. A.4)
DISCOUNT = 0.99
# Weights of the loss, as in Mnih et al. and the usual implementations; ours, since paper.md has no word on them.
VALUE_WEIGHT = 0.5
ENTROPY_WEIGHT = 0.01


class ActorCritic(nn.Module):
    """A body with two heads: logits of the actions and the value of the state."""

    def __init__(self, body: nn.Module, features: int, actions: int) -> None:
        super().__init__()
        self.body = body
        self.policy = nn.Linear(features, actions)
        self.value = nn.Linear(features, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)  # the first policy is nearly uniform
        nn.init.orthogonal_(self.value.weight, 1.0)
        nn.init.zeros_(self.policy.bias)
        nn.init.zeros_(self.value.bias)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Observations (n, ...); logits (n, actions) and values (n,)."""
        features = self.body(observations)
        return self.policy(features), self.value(features)[:, 0]


def ram_body(inputs: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())


def screen_body() -> nn.Module:
    """Convolutions alone (Mnih et al. 2015), the last one over all of the image: (n, 4, 84, 84) uint8 to (n, 512)."""
    return nn.Sequential(
        Brightness(),
        *(nn.Conv2d(4, 32, 8, 4), nn.ReLU()),
        *(nn.Conv2d(32, 64, 4, 2), nn.ReLU()),
        *(nn.Conv2d(64, 64, 3, 1), nn.ReLU()),
        *(nn.Conv2d(64, 512, 7), nn.ReLU(), nn.Flatten()),
    )


class Brightness(nn.Module):
    """Bytes as numbers in [0, 1]."""

    def forward(self, screens: Tensor) -> Tensor:
        return screens.float() / 255


def discounted_returns(rewards: Tensor, ended: Tensor, last_values: Tensor) -> Tensor:
    """R_t = r_t + DISCOUNT R_{t+1}, without what follows an end: rewards and ended (n, T), last_values (n,)."""
    returns = torch.empty_like(rewards)
    following = last_values
    for t in reversed(range(rewards.shape[1])):
        following = rewards[:, t] + DISCOUNT * following * ~ended[:, t]
        returns[:, t] = following
    return returns


def losses(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Means over all steps of the batch: policy gradient, squared error of the value, entropy."""
    observations, actions, returns = (tensor.flatten(0, 1) for tensor in batch)
    logits, values = model(observations)
    log_policy = F.log_softmax(logits, dim=1)
    advantages = returns - values.detach()  # not normalised over the batch, which would couple samples
    policy = -(log_policy.gather(1, actions[:, None])[:, 0] * advantages).mean()
    entropy = -(log_policy.exp() * log_policy).sum(1).mean()
    return policy, (returns - values).square().mean(), entropy


def a2c_loss(model: nn.Module, batch: Batch) -> Tensor:
    policy, value, entropy = losses(model, batch)
    return policy + VALUE_WEIGHT * value - ENTROPY_WEIGHT * entropy


class GameRollouts(Rollouts):
    """Five steps of every environment at each draw.

    Batch: observations (n, STEPS, ...), actions (n, STEPS) int64, returns (n, STEPS) float32.

    Args:
        make: environments and their observer, from their global numbers and the number of all.
        results: what the score is made of, from a step: one number for each result, such as the score of a game.
        window: how many results `report` keeps on each rank, given the number of all environments.
    """

    def __init__(
        self,
        make: Callable[[range, int], tuple[Environments, Observer]],
        results: Callable[[Stepped], list[float]],
        window: Callable[[int], int],
        seed: int,
        rank: int,
        world_size: int,
        device: torch.device,
    ) -> None:
        super().__init__(seed, rank, world_size, device)
        self.make, self.results, self.window = make, results, window
        self.recent: deque[tuple[int, float]] = deque()

    def begin(self, numbers: range) -> None:
        self.environments, self.observer = self.make(numbers, self.samples)
        self.observer.update(self.environments, np.ones(len(self.environments), bool))
        self.recent = deque(self.recent, maxlen=self.window(self.samples))

    def play(self, step: int, model: nn.Module) -> Batch:
        uniforms = torch.rand(self.samples, STEPS, generator=random_generator("atari", self.seed, step))[self.share]
        seen, chosen, rewards, ends = [], [], [], []
        with torch.no_grad():
            for t in range(STEPS):
                observations = self.observer.current.to(self.device)
                logits, _ = model(observations)
                actions = sample_actions(F.log_softmax(logits, 1), uniforms[:, t].to(self.device))
                stepped = self.environments.step(actions.cpu().numpy())
                self.observer.update(self.environments, stepped.over)
                self.recent.extend((step, result) for result in self.results(stepped))
                seen.append(observations)
                chosen.append(actions)
                rewards.append(torch.from_numpy(np.sign(stepped.points)).float())  # clipped for learning alone
                ends.append(torch.from_numpy(stepped.ended))
            _, last_values = model(self.observer.current.to(self.device))
        returns = discounted_returns(torch.stack(rewards, 1), torch.stack(ends, 1), last_values.cpu())
        return torch.stack(seen, 1), torch.stack(chosen, 1), returns.to(self.device)

    def report(self) -> dict:
        """The number of all environments and this rank's latest results, each with the draw it comes from."""
        return {"environments": self.samples, "results": list(self.recent)}

    def kept(self) -> dict:
        return {
            "environments": self.environments.state_dict(),
            "observer": self.observer.state_dict(),
            "recent": list(self.recent),
        }

    def restore(self, kept: dict) -> None:
        self.environments.load_state_dict(kept["environments"])
        self.observer.load_state_dict(kept["observer"])
        self.recent.extend(kept["recent"])
