"""Many environments on one emulator against emulators of their own, and what ale-py's traps would break."""

import pickle

import numpy as np
import pytest
from ale_py import ALEInterface, roms

from tasks.atari.console import FRAMES, INEXACT, LONGEST_GAME, Console, Environments
from tasks.atari.starts import make_starts, ram_features
from tasks.atari.task import GAMES

STEPS = 60


def fresh(game: str):
    """The state in which a game begins."""
    console = Console(game)
    console.begin(0)
    return console.ale.cloneState()


def own_emulator(game: str) -> ALEInterface:
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("random_seed", 1)
    ale.loadROM(roms.get_rom_path(game))
    ale.reset_game()
    return ale


@pytest.mark.parametrize("game", sorted(set(GAMES) - INEXACT))
def test_environments_of_one_emulator_play_as_on_emulators_of_their_own(game):
    environments = Environments(game, [fresh(game)] * 3, seeds=[0, 1, 2], screens=True)
    emulators = [own_emulator(game) for _ in range(3)]
    legal = emulators[0].getMinimalActionSet()
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        actions = rng.integers(len(legal), size=3)
        lives = [ale.lives() for ale in emulators]
        stepped = environments.step(actions)
        for i, ale in enumerate(emulators):
            points, screens = 0, []
            for _ in range(FRAMES):
                points += ale.act(legal[actions[i]])
                screens.append(ale.getScreenGrayscale())
            assert stepped.points[i] == points
            assert stepped.ended[i] == (ale.lives() < lives[i])
            assert np.array_equal(environments.ram[i], ale.getRAM())
            assert np.array_equal(environments.screens[i], np.maximum(screens[-2], screens[-1]))
    assert game == "beam_rider" or not np.array_equal(environments.ram[0], environments.ram[1])  # it waits at first


@pytest.mark.parametrize("game", sorted(INEXACT))
def test_games_whose_states_cannot_be_restored_have_a_console_each(game):
    environments = Environments(game, [fresh(game)] * 2, seeds=[0, 1], screens=False)
    assert len(environments.consoles) == 2
    emulators = [own_emulator(game) for _ in range(2)]
    for console in environments.consoles:
        console.begin(0)  # restoring the first state is not exact either
    legal = emulators[0].getMinimalActionSet()
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        actions = rng.integers(len(legal), size=2)
        environments.step(actions)
        for i, ale in enumerate(emulators):
            for _ in range(FRAMES):
                ale.act(legal[actions[i]])
            assert np.array_equal(environments.ram[i], ale.getRAM())


def test_scores_are_whole_games_across_lost_lives_and_games_begin_anew():
    environments = Environments("breakout", [fresh("breakout")] * 2, seeds=[3, 4], screens=False)
    rng = np.random.default_rng(1)
    points, lives_lost, games = np.zeros(2), np.zeros(2), 0
    for _ in range(700):
        stepped = environments.step(rng.integers(environments.actions, size=2))
        points += stepped.points
        lives_lost += stepped.ended
        for i in np.flatnonzero(stepped.over):
            assert stepped.scores[i] == points[i]
            assert lives_lost[i] == 5
            assert np.array_equal(environments.ram[i], environments.previous_ram[i])  # no change that is none
            points[i] = lives_lost[i] = 0
            games += 1
        assert np.array_equal(environments.scores, points)
    assert games >= 4


def test_a_game_that_does_not_end_is_cut_off(monkeypatch):
    monkeypatch.setattr("tasks.atari.console.LONGEST_GAME", 20)
    environments = Environments("pong", [fresh("pong")], seeds=[0], screens=False)
    over = [bool(environments.step(np.zeros(1, np.int64)).over[0]) for _ in range(45)]
    assert [step + 1 for step, ended in enumerate(over) if ended] == [20, 40]
    assert LONGEST_GAME * FRAMES == 108_000


@pytest.mark.parametrize("game", ["breakout", "space_invaders"])
def test_environments_go_on_from_their_saved_state(game):
    environments = Environments(game, [fresh(game)] * 2, seeds=[5, 6], screens=True)
    rng = np.random.default_rng(2)
    for _ in range(150):
        environments.step(rng.integers(environments.actions, size=2))
    saved = pickle.dumps(environments.state_dict())
    actions = rng.integers(environments.actions, size=(200, 2))
    expected = [environments.step(pair) for pair in actions]
    again = Environments(game, [fresh(game)] * 2, seeds=[5, 6], screens=True)
    again.load_state_dict(pickle.loads(saved))
    for pair, before in zip(actions, expected, strict=True):
        after = again.step(pair)
        assert all(np.array_equal(getattr(after, name), getattr(before, name)) for name in vars(before))
    assert np.array_equal(again.ram, environments.ram)
    assert game != "breakout" or any(stepped.over.any() for stepped in expected)


def test_starts_are_many_different_moments_of_random_play():
    starts = make_starts("pong", 8)
    frames = [state.getEpisodeFrameNumber() for state in starts.states]
    assert len(set(frames)) == 8
    assert max(frames) > 1000
    again = make_starts("pong", 8)
    assert [state.getEpisodeFrameNumber() for state in again.states] == frames
    assert np.array_equal(again.mean, starts.mean)
    assert starts.mean.shape == starts.std.shape == (256,)
    assert np.abs(starts.mean[128:]).max() < 5  # changes average out, the RAM itself does not
    assert starts.mean[:128].max() > 100


def test_ram_features_are_the_bytes_and_their_signed_change():
    features = ram_features(np.array([[3, 250]], np.uint8), np.array([[5, 0]], np.uint8))
    assert features.tolist() == [[3, 250, -2, 250]]
