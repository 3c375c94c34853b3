"""PPO's pieces against hand-worked answers."""

import numpy as np
import pytest
import torch
from torch import nn

from tasks.actions import sample_actions
from tasks.ppo import CLIP, DISCOUNT, LAMBDA, Policy, advantages_and_returns, losses, ppo_loss


def test_advantages_are_discounted_sums_of_errors_up_to_an_end():
    rewards = torch.tensor([[1.0, 0.0, 2.0]])[..., None]
    values = torch.tensor([[0.5, 1.0, -1.0]])[..., None]
    done = torch.tensor([[False, False, False]])[..., None]
    advantages, returns = advantages_and_returns(rewards, values, done, torch.tensor([[3.0]]))
    errors = [1 + DISCOUNT * 1.0 - 0.5, 0 + DISCOUNT * -1.0 - 1.0, 2 + DISCOUNT * 3.0 + 1.0]
    k = DISCOUNT * LAMBDA
    expected = [errors[0] + k * errors[1] + k**2 * errors[2], errors[1] + k * errors[2], errors[2]]
    assert advantages.flatten().tolist() == pytest.approx(expected, rel=1e-5)
    assert torch.allclose(returns, advantages + values)
    done[0, 1] = True
    advantages, _ = advantages_and_returns(rewards, values, done, torch.tensor([[3.0]]))
    assert advantages.flatten().tolist() == pytest.approx([errors[0] + k * (0 - 1.0), -1.0, errors[2]], rel=1e-5)


class Fixed(nn.Module):
    """Probabilities 1/4 and 3/4 of two legal actions of three, and a value of 1/2, everywhere."""

    def forward(self, observations, legal, state, done):
        shape = observations.shape[:-1]
        log_policy = torch.tensor([0.25, 0.75, 0.0]).log().expand(*shape, 3)
        return log_policy, torch.full(shape, 0.5)


def batch(old: float, advantage: float, weight: float = 1.0, games: int = 1):
    shape = (games, 1, 2, 1)
    legal = torch.tensor([True, True, False]).expand(*shape, 3)
    weights = torch.ones(shape)
    weights[:, :, 1] = weight
    actions = torch.ones(shape, dtype=torch.long)
    parts = (torch.full(shape, np.log(old)).float(), torch.full(shape, advantage), torch.ones(shape), weights)
    return (torch.zeros(*shape, 4), legal, torch.zeros(games, 2, 1, 0), torch.zeros(games, 1).bool(), actions, *parts)


def test_surrogate_is_clipped_on_the_side_that_would_gain():
    assert losses(Fixed(), batch(0.75, 2.0))[0].item() == pytest.approx(-2.0)
    assert losses(Fixed(), batch(0.5, 2.0))[0].item() == pytest.approx(-2.0 * (1 + CLIP))  # ratio 1.5, clipped
    assert losses(Fixed(), batch(0.5, -2.0))[0].item() == pytest.approx(2.0 * 1.5)
    assert losses(Fixed(), batch(0.9375, -2.0))[0].item() == pytest.approx(2.0 * 0.8)


def test_loss_adds_value_and_entropy_of_legal_actions():
    surrogate, value, entropy = losses(Fixed(), batch(0.75, 2.0))
    assert value.item() == pytest.approx(0.25)
    assert entropy.item() == pytest.approx(-(0.25 * np.log(0.25) + 0.75 * np.log(0.75)))
    total = ppo_loss(Fixed(), batch(0.75, 2.0)).item()
    assert total == pytest.approx(surrogate.item() + 0.5 * value.item() - 0.03 * entropy.item())


def test_what_a_past_policy_did_is_not_learnt_from_and_still_counts_as_frames():
    whole, half = (losses(Fixed(), batch(0.75, 2.0, weight)) for weight in (1.0, 0.0))
    assert [term.item() for term in half] == pytest.approx([term.item() / 2 for term in whole])


def test_sampled_actions_have_the_policys_shares_and_are_legal():
    log_policy = torch.tensor([0.0, 0.2, 0.0, 0.5, 0.3, 0.0]).log().expand(10_000, 6)
    uniforms = (torch.arange(10_000) + 0.5) / 10_000
    assert sample_actions(log_policy, uniforms).bincount(minlength=6).tolist() == [0, 2000, 0, 5000, 3000, 0]
    assert sample_actions(log_policy[:2], torch.tensor([0.0, 1.0])).tolist() == [1, 4]


@pytest.mark.parametrize("recurrent", [False, True])
def test_segments_are_ticks_one_after_the_other_and_memory_ends_with_the_game(recurrent):
    torch.manual_seed(0)
    policy = Policy(5, 4, 6, recurrent)
    nn.init.normal_(policy.policy.weight)
    observations = torch.randn(2, 7, 2, 3, 5)
    legal = torch.rand(2, 7, 2, 3, 4) < 0.7
    legal[..., 0] = True
    done = torch.zeros(2, 7, dtype=torch.bool)
    done[0, 3] = True
    state = policy.initial_state(2, 2, 3)
    log_policy, values = policy(observations, legal, state, done)
    for t in range(7):
        expected, value, state = policy.tick(observations[:, t], legal[:, t], state)
        torch.testing.assert_close(log_policy[:, t], expected)
        torch.testing.assert_close(values[:, t], value)
        state = torch.where(done[:, t, None, None, None], torch.zeros_like(state), state)
    assert log_policy.exp().sum(-1).allclose(torch.ones(2, 7, 2, 3))
    assert (log_policy.exp()[~legal] == 0).all()
    # Within its game a recurrent policy remembers what it saw, over a game's end nothing.
    other = observations.clone()
    other[:, 2] += 1
    changed = (policy(other, legal, policy.initial_state(2, 2, 3), done)[1] - values).abs().amax((2, 3)) > 1e-6
    assert changed[0].tolist() == [False, False, True, recurrent, False, False, False]
    assert changed[1].tolist() == [False, False, True, *[recurrent] * 4]


def test_loss_has_no_gradient_that_is_not_a_number_where_actions_are_illegal():
    policy = Policy(4, 3, 6, False)
    ppo_loss(policy, batch(0.75, 2.0, games=3)).backward()
    assert all(p.grad.isfinite().all() for p in policy.parameters())
