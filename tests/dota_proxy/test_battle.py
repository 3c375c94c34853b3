"""What holds for any play: equal backends, exact zero sums, symmetry, determinism, games that do not touch another."""

import numpy as np
import pytest
import torch
from scenes import lively_actions, random_actions

from tasks.dota_proxy import Battle
from tasks.dota_proxy import constants as c
from tasks.dota_proxy.draws import mixed
from tasks.dota_proxy.features import features
from tasks.dota_proxy.script import Script
from tasks.dota_proxy.state import State


def same_state(one: Battle, other: Battle) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("heroes", [1, 5])
@pytest.mark.parametrize("actions_of", [random_actions, lively_actions])
def test_backends_agree_to_the_last_bit(heroes, actions_of):
    ours = Battle(heroes, range(6), seed=3, shaping=0.7)
    theirs = Battle(heroes, range(6), seed=3, backend="torch", shaping=0.7)
    ended = 0
    for tick in range(420):
        actions = actions_of(ours)
        a, b = ours.step(actions), theirs.step(torch.from_numpy(actions))
        assert same_state(ours, theirs), f"tick {tick}"
        for name in ("observations", "legal", "rewards", "done", "winner"):
            assert np.array_equal(getattr(a, name), getattr(b, name).numpy()), f"{name} at tick {tick}"
        ended += a.done.sum()
    assert ended >= 6


def test_shapes_and_types():
    for backend in ("numba", "torch"):
        for heroes in (1, 5):
            battle = Battle(heroes, range(3), backend=backend)
            result = battle.step(random_actions(battle))
            found = {name: torch.as_tensor(array) for name, array in vars(result).items()}
            assert {name: (tuple(t.shape), t.dtype) for name, t in found.items()} == {
                "observations": ((3, 2, heroes, features(heroes)), torch.float32),
                "legal": ((3, 2, heroes, c.ACTIONS), torch.bool),
                "rewards": ((3, 2, heroes), torch.float32),
                "done": ((3,), torch.bool),
                "winner": ((3,), torch.int8),
            }
            assert all(array.dtype == np.int32 for array in battle.state_dict().values())


@pytest.mark.parametrize("heroes", [1, 5])
def test_rewards_sum_to_exactly_zero_and_tell_the_winner(heroes):
    battle = Battle(heroes, range(64), seed=1, shaping=0.731)
    sparse = Battle(heroes, range(64), seed=1)
    outcomes = {-1: 0, 0: 0, 1: 0}
    for _ in range(450):
        actions = lively_actions(battle)
        result, bare = battle.step(actions), sparse.step(actions)
        # float32, in any order of summation
        assert not result.rewards.sum((1, 2)).any()
        assert not result.rewards.reshape(64, -1)[:, ::-1].cumsum(1)[:, -1].any()
        assert np.array_equal(bare.rewards, np.repeat(np.stack([bare.winner, -bare.winner], 1)[:, :, None], heroes, 2))
        assert not bare.winner[~bare.done].any()
        assert np.array_equal(bare.winner, result.winner)
        for winner in bare.winner[bare.done]:
            outcomes[int(winner)] += 1
    assert min(outcomes[1], outcomes[-1]) >= 10


@pytest.mark.parametrize("heroes", [1, 5])
def test_swapping_sides_swaps_everything(heroes):
    battle, mirrored = (Battle(heroes, range(8), seed=2, shaping=1.0) for _ in range(2))
    mirrored.load_state_dict(battle.state.swapped().arrays())
    for _ in range(420):
        actions = lively_actions(battle)
        result, swapped = battle.step(actions), mirrored.step(actions[:, ::-1])
        for name, array in State(**battle.state_dict()).swapped().arrays().items():
            assert np.array_equal(array, mirrored.state_dict()[name]), name
        for name in ("observations", "legal", "rewards"):
            assert np.array_equal(getattr(result, name)[:, ::-1], getattr(swapped, name)), name
        assert np.array_equal(result.winner, -swapped.winner)
    assert battle.state.clock[:, c.EPISODE].all()


@pytest.mark.parametrize("heroes", [1, 5])
def test_a_game_is_the_same_in_every_batch(heroes):
    many, few, some = Battle(heroes, range(32)), Battle(heroes, range(8)), Battle(heroes, [30, 5])
    for _ in range(410):
        whole = many.step(random_actions(many))
        for battle, games in ((few, list(range(8))), (some, [30, 5])):
            part = battle.step(random_actions(battle))
            assert np.array_equal(part.observations, whole.observations[games])
            assert np.array_equal(part.rewards, whole.rewards[games])
    state = many.state_dict()["hero"]
    assert len({game.tobytes() for game in state}) == 32  # and no two games are alike


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_a_restored_battle_goes_on_as_it_would_have(backend):
    battle = Battle(5, range(4), seed=7, backend=backend)
    for _ in range(60):
        battle.step(lively_actions(battle))
    saved = battle.state_dict()
    kept = {name: array.copy() for name, array in saved.items()}
    ahead = [battle.step(lively_actions(battle)) for _ in range(20)][-1]
    other = Battle(5, range(4), seed=7, backend=backend)
    other.load_state_dict(saved)
    again = [other.step(lively_actions(other)) for _ in range(20)][-1]
    assert np.array_equal(np.asarray(ahead.observations), np.asarray(again.observations))
    assert same_state(battle, other)
    assert all(np.array_equal(saved[name], kept[name]) for name in kept)  # the saved state itself stays as it was


def test_games_depend_on_seed_and_episode():
    first, again, other = Battle(1, range(50)), Battle(1, range(50)), Battle(1, range(50), seed=1)
    assert same_state(first, again)
    assert not np.array_equal(first.state.hero, other.state.hero)
    start = first.state.hero.copy()
    first.reset(episode=1)
    assert not np.array_equal(first.state.hero, start)
    first.reset()
    assert np.array_equal(first.state.hero, start)
    # Every start within reach of chance, blue's and red's drawn apart.
    cells = {tuple(cell) for cell in Battle(1, range(500)).state.hero[..., [c.X, c.Y]].reshape(-1, 2).tolist()}
    assert cells == {(x, c.LANE_ROW + dy) for x in range(4) for dy in (-1, 0, 1)}
    assert (start[:, 0] != start[:, 1]).any()


def test_a_game_that_ends_begins_its_next_episode_at_once():
    battle = Battle(1, range(16))
    for _ in range(410):
        before = battle.state_dict()
        result = battle.step(lively_actions(battle))
        clock = battle.state.clock
        assert np.array_equal(clock[:, c.EPISODE], before["clock"][:, c.EPISODE] + result.done)
        assert np.array_equal(clock[:, c.TICK], np.where(result.done, 0, before["clock"][:, c.TICK] + 1))
        fresh = Battle(1, range(16))
        for game in np.flatnonzero(result.done):
            fresh.reset(int(clock[game, c.EPISODE]))
            assert np.array_equal(fresh.observations[game], result.observations[game])
    assert clock[:, c.EPISODE].all()


@pytest.mark.parametrize("heroes", [1, 5])
def test_a_random_policy_scores_half_against_itself(heroes):
    games = 400
    battle, script = Battle(heroes, range(games), seed=11), Script(1.0, seed=12)
    first = np.zeros(games, np.int8)
    over = np.zeros(games, bool)
    while not over.all():
        result = battle.step(np.stack([script.act(battle, team) for team in range(2)], 1))
        first[result.done & ~over] = result.winner[result.done & ~over]
        over |= result.done
    assert abs(first.mean()) < 3 / np.sqrt(games)
    assert (first != 0).mean() > 0.9  # draws are rare


def test_illegal_actions_are_to_stay():
    battle, obedient = Battle(5, range(16)), Battle(5, range(16))
    rng = np.random.default_rng(0)
    for _ in range(200):
        actions = rng.integers(0, c.ACTIONS, (16, 2, 5))
        legal = np.take_along_axis(battle.legal(), actions[..., None], -1)[..., 0]
        battle.step(actions)
        obedient.step(np.where(legal, actions, c.STAY))
        assert same_state(battle, obedient)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("action", [-1, c.ACTIONS])
def test_unknown_actions_are_refused_before_anything_happens(backend, action):
    battle = Battle(1, range(2), backend=backend)
    before = battle.state_dict()
    with pytest.raises(ValueError, match="from 0 to 12"):
        battle.step(np.array([[[0], [0]], [[0], [action]]]))
    with pytest.raises(ValueError, match=r"\(2, 2, 1\)"):
        battle.step(np.zeros((2, 2), np.int64))
    assert all(np.array_equal(array, before[name]) for name, array in battle.state_dict().items())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heroes": 3}, "1 or 5"),
        ({"seed": -1}, "seed"),
        ({"games": [0.5]}, "whole numbers"),
        ({"games": [-1]}, "whole numbers"),
        ({"games": []}, "whole numbers"),
        ({"backend": "jax"}, "'numba' or 'torch'"),
        ({"device": "cuda"}, "backend='torch'"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Battle(**{"heroes": 1, "games": [0]} | settings)


def test_a_state_of_another_form_is_refused():
    with pytest.raises(ValueError, match="another battle"):
        Battle(1, range(2)).load_state_dict(Battle(1, range(3)).state_dict())


def test_the_hash_is_the_same_for_python_and_torch_and_spreads():
    numbers = torch.tensor([0, 1, 2**31, 2**32 - 1])
    assert mixed(5, numbers).tolist() == [mixed(5, number) for number in numbers.tolist()]
    values = mixed(mixed(1, torch.arange(1 << 16)), 3)
    assert len(values.unique()) == 1 << 16
    bits = (values[:, None] >> torch.arange(32)) & 1
    assert float((bits.float().mean(0) - 0.5).abs().max()) < 0.01
