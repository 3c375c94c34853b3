"""Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347) by self-play: policy, advantages, loss.

One optimiser step is made from each batch, so that steps and examples mean what the paper's law means by them; the
ratio of new to old probabilities is then 1 when the gradient is taken, and the clip inert.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks.task import Batch

DISCOUNT = 0.995  # games last some hundred ticks
LAMBDA = 0.95  # of generalised advantage estimation
CLIP = 0.2
VALUE_WEIGHT = 0.5
ENTROPY_WEIGHT = 0.03


class Policy(nn.Module):
    """Logits of a hero's actions and the value of what it sees, from two layers or from an LSTM between them.

    Args:
        features: of an observation. actions: of a hero. hidden: units of each layer. recurrent: an LSTM in the place of
            the second layer, whose state lasts as long as the game.
    """

    def __init__(self, features: int, actions: int, hidden: int, recurrent: bool) -> None:
        super().__init__()
        self.hidden, self.recurrent = hidden, recurrent
        self.first = nn.Linear(features, hidden)
        self.second = nn.LSTMCell(hidden, hidden) if recurrent else nn.Linear(hidden, hidden)
        self.policy = nn.Linear(hidden, actions)
        self.value = nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)  # the first policy is nearly uniform
        nn.init.zeros_(self.policy.bias)
        nn.init.zeros_(self.value.bias)

    def initial_state(self, *shape: int) -> Tensor:
        """The state before a game's first tick, (*shape, 2 hidden); (*shape, 0) for a policy without memory."""
        return torch.zeros(*shape, 2 * self.hidden if self.recurrent else 0)

    def tick(self, observations: Tensor, legal: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One tick: observations (..., features), legal (..., actions) bool, state (..., size).

        Returns:
            log-probabilities (..., actions), -inf where illegal; values (...); the next state.
        """
        x = F.relu(self.first(observations))
        if self.recurrent:
            flat = self.second(x.flatten(0, -2), tuple(s.flatten(0, -2) for s in state.chunk(2, -1)))
            x, state = flat[0].view(x.shape), torch.cat(flat, 1).view(state.shape)
        else:
            x = F.relu(self.second(x))
        logits = self.policy(x).masked_fill(~legal, -torch.inf)
        return F.log_softmax(logits, -1), self.value(x)[..., 0], state

    def forward(self, observations: Tensor, legal: Tensor, state: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        """Whole segments: observations (n, T, teams, heroes, features); state before the first tick.

        done: (n, T): the game ended at this tick, so that the state begins anew after it.
        """
        if not self.recurrent:
            log_policy, values, _ = self.tick(observations, legal, state)
            return log_policy, values
        parts = []
        for t in range(observations.shape[1]):
            log_policy, values, state = self.tick(observations[:, t], legal[:, t], state)
            state = state * ~done[:, t, None, None, None]
            parts.append((log_policy, values))
        log_policies, values = zip(*parts, strict=True)
        return torch.stack(log_policies, 1), torch.stack(values, 1)


def advantages_and_returns(rewards: Tensor, values: Tensor, done: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates (Schulman et al. 2016, arXiv 1506.02438) and what values should have been.

    Args:
        rewards, values: (n, T, ...). done: (n, T, 1, ...) bool: nothing follows. last: (n, ...) values after the end.
    """
    advantages = torch.empty_like(rewards)
    following, value = torch.zeros_like(last), last
    for t in reversed(range(rewards.shape[1])):
        goes_on = ~done[:, t]
        error = rewards[:, t] + DISCOUNT * value * goes_on - values[:, t]
        following = error + DISCOUNT * LAMBDA * following * goes_on
        advantages[:, t] = following
        value = values[:, t]
    return advantages, advantages + values


def losses(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Clipped surrogate, squared error of values, and entropy.

    Each is summed over what the learner did and divided by all frames of the batch: a side that a past policy played
    has weight 0, and still counts, so that a batch's loss is the mean of its games'.
    """
    observations, legal, state, done, actions, old, advantages, returns, weights = batch
    log_policy, values = model(observations, legal, state, done)
    chosen = log_policy.gather(-1, actions[..., None])[..., 0]
    ratio = (chosen - old).exp()
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    entropy = -(log_policy.exp() * log_policy.masked_fill(~legal, 0)).sum(-1)
    return tuple((weights * term).mean() for term in (-surrogate, (returns - values).square(), entropy))


def ppo_loss(model: nn.Module, batch: Batch) -> Tensor:
    surrogate, value, entropy = losses(model, batch)
    return surrogate + VALUE_WEIGHT * value - ENTROPY_WEIGHT * entropy
