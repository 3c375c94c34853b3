"""Self-play: the same games on any number of ranks and after a resume, past opponents, the ladder's score."""

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from tests_config import train_on

import tasks.dota
import tasks.self_play
from reproduce.distributed import run_on_ranks
from reproduce.records import read_record
from reproduce.run import run
from reproduce.settings import build_task, settings_from_config
from tasks.dota import DotaProxy
from tasks.dota_proxy.constants import TICK, TICK_LIMIT
from tasks.self_play import HORIZON, ITSELF, PAST_POLICIES, PAST_SHARE
from tasks.task import TaskError

CPU = torch.device("cpu")
SMALL = ("task.hidden=16", "task.goals=[0.99]", "task.evaluation_games=1", "grid.budget={steps: 6, examples: 0}")


def proxy(heroes: int = 1, **settings) -> DotaProxy:
    return DotaProxy(heroes, 16, [0.9], shaping=settings.pop("shaping", 16.0), **settings)


def changing(model: torch.nn.Module, step: int) -> None:
    """Other weights after each step, so that past policies differ from the current one."""
    generator = torch.Generator().manual_seed(step)
    with torch.no_grad():
        model.policy.weight.copy_(torch.randn(model.policy.weight.shape, generator=generator))


@pytest.mark.parametrize(("heroes", "recurrent"), [(1, False), (5, False), (1, True)])
def test_games_are_the_same_on_any_number_of_ranks(heroes, recurrent):
    task = proxy(heroes, recurrent=recurrent)
    model = task.build_model()
    alone = task.sampler(3, 0, 1, CPU)
    shared = [task.sampler(3, rank, 2, CPU) for rank in range(2)]
    for step in range(1, 16):
        changing(model, step)
        batch = alone.draw(step, 8, model)
        halves = [sampler.draw(step, 8, model) for sampler in shared]
        for sampler in shared:
            sampler.scale_sq = alone.scale_sq  # ranks in one process cannot average it
        for index, (whole, parts) in enumerate(zip(batch, zip(*halves, strict=True), strict=True)):
            if index != 6:  # advantages: over the running scale
                torch.testing.assert_close(torch.cat(parts), whole)
    assert len(alone.past) == PAST_POLICIES
    assert torch.equal(torch.cat([sampler.opponent for sampler in shared]), alone.opponent)


def test_games_go_on_from_a_saved_state():
    task = proxy(recurrent=True)
    model = task.build_model()
    sampler = task.sampler(0, 0, 1, CPU)
    for step in range(1, 21):
        changing(model, step)
        sampler.draw(step, 8, model)
    assert (sampler.opponent != ITSELF).any()
    again = task.sampler(0, 0, 1, CPU)
    again.load_state_dict(sampler.state_dict())
    for step in range(21, 31):
        changing(model, step)
        for a, b in zip(sampler.draw(step, 8, model), again.draw(step, 8, model), strict=True):
            assert torch.equal(a, b)


def test_another_number_of_games_is_refused():
    task = proxy()
    model = task.build_model()
    sampler = task.sampler(0, 0, 1, CPU)
    sampler.draw(1, 4, model)
    with pytest.raises(TaskError, match="4 environments are under way"):
        sampler.draw(2, 8, model)


def test_first_games_are_at_all_ticks():
    sampler = proxy().sampler(0, 0, 1, CPU)
    sampler._begin(256)
    ticks = sampler.battle.state.clock[:, TICK]
    quarters = np.histogram(ticks, bins=4, range=(0, TICK_LIMIT))[0]
    assert quarters.sum() == 256
    assert quarters.min() > 40  # 64 each, if uniform


def test_past_policies_have_their_share_of_games_on_either_side_and_no_weight_there():
    task = proxy()
    model = task.build_model()
    sampler = task.sampler(0, 0, 1, CPU)
    for step in range(1, 27):  # every game ends at least once in 400 ticks
        changing(model, step)
        before, side = None if step == 1 else sampler.opponent.clone(), sampler.past_side if step > 1 else None
        weights = sampler.draw(step, 200, model)[-1]
        if before is not None:
            expected = torch.ones(200, 2)
            past = before != ITSELF
            expected[past, side[past]] = 0
            assert torch.equal(weights, expected[:, None, :, None].expand_as(weights))
    past = sampler.opponent != ITSELF
    assert past.float().mean().item() == pytest.approx(PAST_SHARE, abs=0.12)  # four standard errors
    assert sampler.past_side[past].float().mean().item() == pytest.approx(0.5, abs=0.3)
    assert set(sampler.opponent[past].tolist()) == set(range(PAST_POLICIES))


def test_past_policies_play_as_they_did(monkeypatch):
    """A past policy that always stays and a current one that never does: who did what shows who played."""
    monkeypatch.setattr(tasks.self_play, "PAST_SHARE", 1.0)
    task = proxy()
    model = task.build_model()
    sampler = task.sampler(0, 0, 1, CPU)
    with torch.no_grad():
        model.policy.weight.zero_()
        model.policy.bias.copy_(torch.tensor([50.0] + [0.0] * 12))
    for step in range(1, 27):
        sampler.draw(step, 16, model)
        sampler.kept_at = [1_000_000]  # keep no other
    with torch.no_grad():
        model.policy.bias[0] = -50.0
    side = sampler.past_side.clone()
    batch = sampler.draw(27, 16, model)
    legal, actions = batch[1], batch[4]
    could_move = legal[..., 1:].any(-1)
    theirs = torch.zeros(16, 2, dtype=torch.bool)
    theirs[torch.arange(16), side] = True
    theirs = theirs[:, None, :, None].expand_as(actions)
    assert (actions[theirs] == 0).all()
    assert (actions[~theirs & could_move] != 0).all()


def test_rewards_reach_the_learner_and_sum_to_zero():
    """With a value of 0 everywhere, returns of a game's last tick are its rewards: opposite for both sides."""
    task = proxy(shaping=0.0)
    model = task.build_model()
    with torch.no_grad():
        model.value.weight.zero_()
    sampler = task.sampler(0, 0, 1, CPU)
    wins = 0
    for step in range(1, 15):
        _, _, _, done, _, _, _, returns, _ = sampler.draw(step, 16, model)
        last = returns[done]  # (ends, 2, 1)
        assert torch.equal(last[:, 0], -last[:, 1])
        wins += int((last[:, 0].abs() == 1).sum())
    assert wins > 10


def test_loss_of_a_batch_is_the_mean_of_its_games():
    task = proxy(5)
    torch.manual_seed(0)
    model = task.build_model()
    batch = task.sampler(0, 0, 1, CPU).draw(1, 4, model)
    singles = [task.loss(model, tuple(t[i : i + 1] for t in batch)) for i in range(4)]
    assert task.loss(model, batch).item() == pytest.approx(sum(loss.item() for loss in singles) / 4, rel=1e-5)


def test_advantages_are_over_a_running_scale_not_the_batchs_own():
    task = proxy()
    model = task.build_model()
    sampler = task.sampler(0, 0, 1, CPU)
    sampler.draw(1, 4, model)
    sampler.scale_sq = 4.0
    batch = sampler.draw(2, 4, model)
    raw = batch[6] * 2.0
    frames = 4 * HORIZON * 2
    share = frames / (frames + tasks.self_play.SCALE_FRAMES)
    assert sampler.scale_sq == pytest.approx(4 + share * (raw.square().mean().item() - 4), rel=1e-4)


def test_a_random_policy_scores_a_half_against_itself(monkeypatch):
    monkeypatch.setattr(tasks.dota, "LADDER", (1.0,))
    task = DotaProxy(1, 8, [0.9], evaluation_games=400)
    model = task.build_model()
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.zero_()
    assert task.evaluate(model) == pytest.approx(0.5, abs=0.075)  # three standard errors of 400 games


def test_score_is_the_mean_over_the_ladder_and_rungs_are_of_falling_strength():
    task = DotaProxy(1, 8, [0.9], evaluation_games=40)
    model = task.build_model()
    rungs = task.results(model).mean(1)
    assert task.evaluate(model) == pytest.approx(rungs.mean())
    assert list(rungs) == sorted(rungs)
    assert rungs[0] < 0.1  # the script hardly ever loses to a new policy


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"heroes": 3}, "1 or 5"), ({"hidden": 0}, "task.hidden"), ({"shaping": -1.0}, "task.shaping")],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(TaskError, match=message):
        DotaProxy(**{"heroes": 1, "hidden": 8, "goals": [0.5], **settings})


def test_a_run_records_the_noise_scale_of_games_and_of_the_losss_terms(config):
    cfg = config("dota_1v1/mini", *SMALL, "trainer.device=cpu", batch_size=256, learning_rate=0.001)
    outcome = run(cfg)
    assert (outcome["status"], outcome["step"], outcome["examples"]) == ("exhausted", 6, 6 * 256)
    path = settings_from_config(cfg, build_task(cfg)).record_path
    for entry in read_record(path).evaluations[1:]:
        for name in ("probe", "policy", "value"):
            assert entry[name]["trace"] > 0


@pytest.mark.slow
def test_two_ranks_play_and_learn_as_one(config):
    runs = {}
    for size in (1, 2):
        cfg = config("dota_1v1/mini", *SMALL, f"trainer.ranks={size}", batch_size=512, learning_rate=0.001)
        runs[size] = run_on_ranks(train_on, size, "cpu", OmegaConf.to_container(cfg, resolve=True))
    for alone, together in zip(runs[1], runs[2], strict=True):
        assert together["score"] == alone["score"]
        if alone["loss"] is not None:
            assert together["loss"] == pytest.approx(alone["loss"], rel=1e-3, abs=1e-5)
