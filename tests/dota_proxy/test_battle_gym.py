"""The gymnasium environments, the pictures, and the compilation cache."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from PIL import Image
from scenes import BLUE, RED, put_hero, scene

import tasks.dota_proxy.gym_env  # noqa: F401  registers the environments
from tasks.dota_proxy import animation, compiling
from tasks.dota_proxy import constants as c
from tasks.dota_proxy.rendering import draw_game

NAMES = ["DotaProxy-1v1-v0", "DotaProxy-5v5-v0"]


def vector(name: str, **settings) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(name, vectorization_mode="vector_entry_point", **settings)


@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_s_checker_has_nothing_to_say(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(name, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", NAMES)
def test_vector_environment(name):
    games = vector(name, num_envs=6, opponent=0.85, shaping=1.0)
    observations, info = games.reset(seed=5)
    assert games.observation_space.contains(observations)
    wins = []
    for _ in range(450):
        mask = info["action_mask"]
        actions = (np.random.default_rng(0).random(mask.shape) * mask).argmax(-1)
        observations, rewards, terminated, truncated, info = games.step(actions)
        assert games.observation_space.contains(observations)
        assert not truncated.any()
        assert info["action_mask"].shape == (6, *games.single_action_space.shape, c.ACTIONS)
        wins += info["winner"][terminated].tolist()
        for winner, reward in zip(info["winner"][terminated], rewards[terminated], strict=True):
            assert winner == 0 or np.sign(reward) == winner
    assert len(wins) >= 6


def test_a_seed_gives_the_same_games_and_a_reset_without_one_the_next():
    one, two = vector(NAMES[0], num_envs=4), vector(NAMES[0], num_envs=4)
    first, again = one.reset(seed=1)[0], two.reset(seed=1)[0]
    assert np.array_equal(first, again)
    assert not np.array_equal(one.reset()[0], first)
    assert np.array_equal(one.reset(seed=1)[0], first)
    assert not np.array_equal(one.reset(seed=2)[0], first)


def test_one_environment_plays_as_the_first_of_many():
    single, games = gymnasium.make(NAMES[1]), vector(NAMES[1], num_envs=3)
    a, b = single.reset(seed=3)[0], games.reset(seed=3)[0]
    for _ in range(50):
        assert np.array_equal(a, b[0])
        action = single.action_space.sample()
        a, b = single.step(action)[0], games.step(np.stack([action] * 3))[0]


def test_a_picture_shows_heroes_and_hides_the_unseen():
    battle = scene()
    put_hero(battle, RED, 0, 0, 2)
    whole, blue, red = (draw_game(battle.state, view=view) for view in (None, BLUE, RED))
    assert whole.dtype == np.uint8
    assert whole.shape == blue.shape == (whole.shape[0], 24 * c.LENGTH, 3)
    put_hero(battle, RED, 0, 3, 4)  # as unseen as before
    assert np.array_equal(draw_game(battle.state, view=BLUE), blue)
    assert not np.array_equal(draw_game(battle.state), whole)
    assert not np.array_equal(draw_game(battle.state, view=RED), red)


def test_the_command_writes_an_animation(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["animation", str(tmp_path / "game.gif"), "--seed", "1", "--view", "0"])
    animation.main()
    frames = int(capsys.readouterr().out.split(": ")[1].split()[0])
    with Image.open(tmp_path / "game.gif") as image:
        assert image.n_frames == frames > 50


def test_compiled_rules_are_kept_under_a_hash_of_the_whole_package(tmp_path):
    folder = tmp_path / "backend"
    folder.mkdir()
    (tmp_path / "constants.py").write_text("SIGHT = 6\n")
    (folder / "rules.py").write_text("")
    before = compiling.sources_digest(tmp_path)
    (tmp_path / "constants.py").write_text("SIGHT = 7\n")
    assert compiling.sources_digest(tmp_path) != before

    def twice(number):
        return 2 * number

    kernel = compiling.kernel(twice)
    assert kernel(21) == 42
    assert compiling.SOURCES in kernel.py_func.__qualname__
