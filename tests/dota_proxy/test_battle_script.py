"""The scripted opponent: strength, chance, equal backends."""

import numpy as np
import pytest
import torch
from scenes import BLUE, RED, put_creep, put_hero, scene

from tasks.dota_proxy import Battle
from tasks.dota_proxy import constants as c
from tasks.dota_proxy.script import LADDER, Script


def share_won(heroes: int, strong: float, weak: float | np.ndarray, games: int) -> np.ndarray:
    """1, 0.5 or 0 for each game's first episode; the strong side plays blue in even games, red in odd ones."""
    battle = Battle(heroes, range(games), seed=21)
    ours, theirs = Script(strong, seed=22), Script(weak, seed=23)
    is_blue = np.arange(games) % 2 == 0
    points, over = np.zeros(games), np.zeros(games, bool)
    while not over.all():
        blue = np.where(is_blue[:, None], ours.act(battle, BLUE), theirs.act(battle, BLUE))
        red = np.where(is_blue[:, None], theirs.act(battle, RED), ours.act(battle, RED))
        result = battle.step(np.stack([blue, red], 1))
        won = np.where(is_blue, result.winner, -result.winner)
        new = result.done & ~over
        points[new], over = (won[new] + 1) / 2, over | result.done
    return points


@pytest.mark.parametrize("heroes", [1, 5])
def test_the_script_beats_the_weakest_of_the_ladder(heroes):
    assert share_won(heroes, 0.0, LADDER[-1], 100).mean() > 0.95


@pytest.mark.parametrize("heroes", [1, 5])
def test_the_ladder_rises(heroes):
    """A rung a game: each is beaten by the script more often the more of its ticks are random."""
    rungs = np.tile(np.repeat(LADDER[1:], 2), 50)
    points = share_won(heroes, 0.0, rungs, len(rungs))
    means = [points[rungs == rung].mean() for rung in LADDER[1:]]
    assert means[0] > 0.6
    assert means == sorted(means)


@pytest.mark.parametrize("heroes", [1, 5])
def test_the_script_against_itself_is_even(heroes):
    points = share_won(heroes, 0.0, 0.0, 200)
    assert abs(points.mean() - 0.5) < 3 * 0.5 / np.sqrt(200)
    assert len({0.0, 1.0} & set(points)) == 2


@pytest.mark.parametrize("heroes", [1, 5])
def test_backends_choose_alike(heroes):
    shares = np.array([0.0, 0.3, 0.6, 0.85, 1.0, 0.5])
    numba, tensors = Battle(heroes, range(6)), Battle(heroes, range(6), backend="torch")
    script = Script(shares, seed=3)
    for _ in range(300):
        actions = np.stack([script.act(numba, team) for team in range(2)], 1)
        assert np.array_equal(actions, torch.stack([script.act(tensors, team) for team in range(2)], 1).numpy())
        numba.step(actions)
        tensors.load_state_dict(numba.state_dict())


def test_random_ticks_are_legal_uniform_and_each_hero_s_own():
    battle = Battle(5, range(2000))
    legal = battle.legal()[:, BLUE]
    actions = Script(1.0).act(battle, BLUE)
    assert np.take_along_axis(legal, actions[..., None], -1).all()
    inner = legal[..., 1:9].all(-1) & ~legal[..., 9:].any(-1)  # nine actions
    counts = np.bincount(actions[inner], minlength=9)
    expected = inner.sum() / 9
    assert ((counts - expected) ** 2 / expected).sum() < 26  # chi-square of 8 degrees, 0.1 %
    assert (actions[:, 0] != actions[:, 1]).mean() > 0.8
    half = Script(0.5).act(battle, BLUE) == Script(0.0).act(battle, BLUE)
    assert 0.5 < half.mean() < 0.65
    assert not np.array_equal(Script(1.0, seed=1).act(battle, BLUE), actions)


def test_it_takes_last_hits_flees_and_does_not_dive():
    battle = scene()
    script = Script()
    put_hero(battle, RED, 0, 0, 0)
    put_hero(battle, BLUE, 0, 12, c.LANE_ROW)
    put_creep(battle, RED, c.LAST - 14, health=6)
    assert script.act(battle, BLUE).item() == c.HIT_CREEP
    put_hero(battle, BLUE, 0, 12, c.LANE_ROW, health=20)
    west = 1 + c.DIRECTIONS.index((-1, 0))
    assert script.act(battle, BLUE).item() == west
    put_hero(battle, BLUE, 0, c.LAST - c.TOWER_X - 2, c.LANE_ROW, health=c.HERO_HEALTH)
    assert script.act(battle, BLUE).item() == west
    put_creep(battle, BLUE, c.LAST - c.TOWER_X - 1, health=30)
    put_creep(battle, RED, 0, health=0)
    assert script.act(battle, BLUE).item() == c.HIT_BUILDING
    put_hero(battle, RED, 0, c.LAST - 14, c.LANE_ROW)
    assert script.act(battle, BLUE).item() == c.NUKE


@pytest.mark.parametrize("share", [-0.1, 1.1, [[0.0]]])
def test_wrong_shares_are_refused(share):
    with pytest.raises(ValueError, match="from 0 to 1"):
        Script(share)
