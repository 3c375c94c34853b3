"""A2C's pieces against hand-worked answers, and rollouts that do not depend on how environments are shared out."""

import numpy as np
import pytest
import torch
from torch import nn

from tasks.atari.a2c import (
    DISCOUNT,
    STEPS,
    ActorCritic,
    a2c_loss,
    discounted_returns,
    losses,
    sample_actions,
    screen_body,
)
from tasks.atari.console import Stepped
from tasks.atari.observation import RamObserver, ScreenObserver
from tasks.atari.starts import Starts, make_starts
from tasks.atari.task import Atari
from tasks.task import TaskError

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def few_starts() -> dict[str, Starts]:
    return {game: make_starts(game, 16) for game in ("breakout", "pong")}


@pytest.fixture
def task(few_starts):
    """atari(game, observation): the task with 16 start states that are made for the test."""

    def make(game: str = "breakout", observation: str = "ram", **settings) -> Atari:
        made = Atari(game, observation, [2.0], hidden=16, start_states=16, **settings)
        made.starts = few_starts[game]
        return made

    return make


def test_returns_are_discounted_sums_up_to_an_end_or_the_value_of_what_follows():
    rewards = torch.tensor([[1.0, 0.0, 2.0], [1.0, 1.0, 0.0]])
    ended = torch.tensor([[False, False, False], [False, True, False]])
    returns = discounted_returns(rewards, ended, torch.tensor([10.0, 5.0]))
    g = DISCOUNT
    expected = [[1 + 2 * g**2 + 10 * g**3, 2 * g + 10 * g**2, 2 + 10 * g], [1 + g, 1.0, 5 * g]]
    torch.testing.assert_close(returns, torch.tensor(expected))


def test_loss_is_policy_gradient_squared_error_and_entropy():
    class Fixed(nn.Module):
        def forward(self, observations):
            return observations[:, :2], observations[:, 2]

    observations = torch.tensor([[[0.0, np.log(3.0), 0.5], [0.0, 0.0, -1.0]]])
    actions, returns = torch.tensor([[1, 0]]), torch.tensor([[2.0, 1.0]])
    policy, value, entropy = losses(Fixed(), (observations, actions, returns))
    assert policy.item() == pytest.approx(-(np.log(0.75) * 1.5 + np.log(0.5) * 2.0) / 2)
    assert value.item() == pytest.approx((1.5**2 + 2.0**2) / 2)
    h = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert entropy.item() == pytest.approx((h + np.log(2)) / 2)
    total = a2c_loss(Fixed(), (observations, actions, returns))
    assert total.item() == pytest.approx(policy.item() + 0.5 * value.item() - 0.01 * entropy.item())


def test_values_get_no_gradient_from_the_policy():
    model = ActorCritic(nn.Identity(), 3, 2)
    batch = (torch.randn(2, STEPS, 3), torch.zeros(2, STEPS, dtype=torch.long), torch.randn(2, STEPS))
    losses(model, batch)[0].backward()
    assert model.value.weight.grad is None
    assert model.policy.weight.grad.abs().max() > 0


def test_actions_have_the_policys_shares():
    logits = torch.log(torch.tensor([[0.2, 0.5, 0.3]])).expand(10_000, 3)
    uniforms = (torch.arange(10_000) + 0.5) / 10_000
    assert sample_actions(logits, uniforms).bincount().tolist() == [2000, 5000, 3000]
    assert sample_actions(logits[:1], torch.ones(1)).item() == 2


def test_screen_network_takes_four_frames_and_is_convolutional():
    body = screen_body()
    assert body(torch.zeros(2, 4, 84, 84, dtype=torch.uint8)).shape == (2, 512)
    assert not any(isinstance(module, nn.Linear) for module in body.modules())


def test_rollouts_are_the_same_on_any_number_of_ranks(task):
    """Whole environments move between ranks; what each sees, does and earns stays the same."""
    atari = task()
    model = atari.build_model()
    alone = atari.sampler(0, 0, 1, CPU)
    shared = [atari.sampler(0, rank, 2, CPU) for rank in range(2)]
    for step in range(1, 31):
        batch = alone.draw(step, 4, model)
        halves = [sampler.draw(step, 4, model) for sampler in shared]
        for whole, parts in zip(batch, zip(*halves, strict=True), strict=True):
            torch.testing.assert_close(torch.cat(parts), whole)
    assert sorted(r for s in shared for r in s.recent) == sorted(alone.recent)
    assert atari.score_run(model, [s.report() for s in shared]) == atari.score_run(model, [alone.report()])


def test_cutting_a_batch_between_environments_changes_no_gradient_and_cutting_in_time_changes_the_noise(task):
    """Steps of one environment are correlated: shards of time would claim another tr Sigma from the same gradients."""
    atari = task("pong")
    torch.manual_seed(0)
    model = atari.build_model()
    sampler = atari.sampler(0, 0, 1, CPU)
    parameters = list(model.parameters())

    def flat(part):
        return torch.cat([g.flatten() for g in torch.autograd.grad(atari.loss(model, part), parameters)])

    ratios = []
    for step in range(1, 13):
        batch = sampler.draw(step, 10, model)
        whole = flat(batch)
        order = torch.randperm(10, generator=torch.Generator().manual_seed(step))
        shuffled = tuple(tensor[order] for tensor in batch)
        torch.testing.assert_close(flat(shuffled), whole, rtol=1e-4, atol=1e-6)
        between = [flat(tuple(t[i : i + 2] for t in batch)) for i in range(0, 10, 2)]
        in_time = [flat(tuple(t[:, i : i + 1] for t in batch)) for i in range(STEPS)]
        spread = [float(sum((g - whole).square().sum() for g in parts)) for parts in (between, in_time)]
        ratios.append(spread[0] / spread[1])
    # Both cut 50 frames into five shards of ten: alike, if frames were independent.
    assert np.median(ratios) > 1.3


def test_environments_of_a_batch_are_all_different_and_depend_on_the_seed(task):
    atari = task()
    model = atari.build_model()
    samplers = [atari.sampler(seed, 0, 1, CPU) for seed in (0, 0, 1)]
    first = [sampler.draw(1, 8, model)[0][:, 0] for sampler in samplers]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])
    assert len(torch.unique(first[0], dim=0)) == 8


def test_rollouts_go_on_from_a_saved_state(task):
    for observation in ("ram", "screen"):
        atari = task(observation=observation)
        model = atari.build_model()
        sampler = atari.sampler(0, 0, 1, CPU)
        for step in range(1, 21):
            sampler.draw(step, 2, model)
        again = atari.sampler(0, 0, 1, CPU)
        again.load_state_dict(sampler.state_dict())
        for step in range(21, 41):
            for a, b in zip(sampler.draw(step, 2, model), again.draw(step, 2, model), strict=True):
                assert torch.equal(a, b)
        assert again.report() == sampler.report()


def test_rewards_are_clipped_for_learning_and_whole_for_the_score(task, monkeypatch):
    atari = task()
    sampler = atari.sampler(0, 0, 1, CPU)
    model = atari.build_model()
    sampler.draw(1, 2, model)
    steps = Stepped(np.array([7.0, -4.0]), np.array([True, True]), np.array([True, False]), np.array([21.0, 0.0]))
    monkeypatch.setattr(sampler.environments, "step", lambda actions: steps)
    _, _, returns = sampler.draw(2, 2, model)
    assert torch.equal(returns, torch.tensor([[1.0] * STEPS, [-1.0] * STEPS]))
    assert [result for _, result in sampler.recent][-STEPS:] == [21.0] * STEPS
    assert task("pong", score="points").results(steps) == [1.0, 0.0]


def test_score_is_the_mean_of_the_latest_results_over_all_ranks(task):
    atari = task()
    reports = [
        {"environments": 2, "results": [(step, 1.0) for step in range(60)]},
        {"environments": 2, "results": [(59, 101.0)]},
    ]
    assert atari.score_run(None, reports) == pytest.approx((49 * 1 + 101) / 50)
    assert atari.score_run(None, [{"environments": 2, "results": []}]) == 0.0
    assert task("pong").score_run(None, [{"environments": 2, "results": []}]) == -21.0
    many = [{"environments": 100, "results": [(step, float(step)) for step in range(200)]}]
    assert atari.score_run(None, many) == np.mean(range(100, 200))


def test_results_that_are_missing_count_as_the_worst(task):
    one_win = [{"environments": 512, "results": [(1, 1.0)]}]
    assert task("pong", score="points").score_run(None, one_win) == 1 / 500
    assert task("breakout").score_run(None, [{"environments": 2, "results": [(1, 5.0)] * 20}]) == 5 * 20 / 50
    assert task("pong").score_run(None, [{"environments": 100, "results": [(1, 21.0)]}]) == (21 - 99 * 21) / 100


def test_screens_are_stacked_and_black_before_a_game_begins():
    class Environments:
        screens = np.zeros((2, 210, 160), np.uint8)

    observer = ScreenObserver()
    for value, begun in ((10, True), (20, False), (30, False)):
        Environments.screens = np.full((2, 210, 160), value, np.uint8)
        observer.update(Environments, np.array([begun, begun]))
    assert observer.current[:, :, 40, 40].tolist() == [[0, 10, 20, 30]] * 2
    Environments.screens = np.full((2, 210, 160), 40, np.uint8)
    observer.update(Environments, np.array([True, False]))
    assert observer.current[:, :, 40, 40].tolist() == [[0, 0, 0, 40], [10, 20, 30, 40]]
    assert observer.current.dtype == torch.uint8


def test_ram_is_whitened_and_cut_off(few_starts):
    starts = few_starts["pong"]

    class Environments:
        ram = np.full((1, 128), 255, np.uint8)
        previous_ram = np.full((1, 128), 255, np.uint8)

    observer = RamObserver(starts)
    observer.update(Environments, np.array([False]))
    expected = np.clip((255 - starts.mean[:128]) / np.maximum(starts.std[:128], 1), -5, 5)
    torch.testing.assert_close(observer.current[0, :128], torch.from_numpy(expected))


def test_wrong_settings_are_told(task):
    for settings, message in (
        ({"game": "chess", "observation": "ram"}, "one of alien"),
        ({"game": "pong", "observation": "sound"}, "'screen' or 'ram'"),
        ({"game": "pong", "observation": "ram", "score": "wins"}, "one of game, points"),
    ):
        with pytest.raises(TaskError, match=message):
            Atari(goals=[1.0], **settings)
    atari = task()
    with pytest.raises(TaskError, match="16 start states for 17 environments"):
        atari.sampler(0, 0, 1, CPU).draw(1, 17, atari.build_model())
    sampler = atari.sampler(0, 0, 1, CPU)
    sampler.draw(1, 4, atari.build_model())
    with pytest.raises(TaskError, match="4 environments are under way, but 2 samples"):
        sampler.draw(2, 2, atari.build_model())
