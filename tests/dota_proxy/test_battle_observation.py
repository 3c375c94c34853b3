"""What heroes see, and that they see no more."""

import numpy as np
import pytest
from scenes import BLUE, RED, lively_actions, put_creep, put_hero, scene

from tasks.dota_proxy import Battle
from tasks.dota_proxy import constants as c
from tasks.dota_proxy.features import feature_names, features

ROW = c.LANE_ROW


def within_sight(state: dict, game: int, team: int, x: int, y: int) -> bool:
    """Whether `team` sees (x, y) of its own frame: told from the rules' text, apart from the code that is tested."""
    hero, creep, building = (state[name][game, team] for name in ("hero", "creep", "building"))
    eyes = [(h[c.X], h[c.Y]) for h in hero if h[c.RESPAWN] == 0]
    for lane in range(len(creep)):
        row = ROW + 7 * lane
        living = [k[c.X] for k in creep[lane] if k[c.HEALTH] > 0]
        eyes += [(max(living), row)] if living else []
        eyes += [(c.TOWER_X, row)] if building[lane] > 0 else []
    return bool(building[-1] > 0 and x <= 6) or any(max(abs(x - ex), abs(y - ey)) <= 6 for ex, ey in eyes)


def lively_battles(heroes: int, moments: int) -> Battle:
    """Games in the middle of their play."""
    battle = Battle(heroes, range(moments), seed=4)
    for _ in range(130):
        battle.step(lively_actions(battle))
    return battle


def views(battle: Battle, team: int) -> tuple[np.ndarray, np.ndarray]:
    return battle.observations[:, team].copy(), battle.legal()[:, team].copy()


@pytest.mark.parametrize("heroes", [1, 5])
@pytest.mark.parametrize("team", [BLUE, RED])
def test_unseen_heroes_do_not_show_and_seen_ones_do(heroes, team):
    battle = lively_battles(heroes, 40)
    state = battle.state_dict()
    seen_count = unseen_count = 0
    for enemy in range(heroes):
        fields = state["hero"][:, 1 - team, enemy]
        living = np.flatnonzero(fields[:, c.RESPAWN] == 0)
        seen = [within_sight(state, g, team, c.LAST - fields[g, c.X], fields[g, c.Y]) for g in living]
        before = views(battle, team)
        for field, change in ((c.HEALTH, 3), (c.EXPERIENCE, c.LEVEL_EXPERIENCE), (c.GOLD, 400), (c.COOLDOWN, 3)):
            battle.load_state_dict(state)
            battle.state.hero[living, 1 - team, enemy, field] += change
            battle.observe()
            after = views(battle, team)
            for game, is_seen in zip(living, seen, strict=True):
                hidden = field in (c.GOLD, c.COOLDOWN)  # nobody sees into the enemy's purse or mind
                top = field == c.EXPERIENCE and fields[game, field] >= c.LEVEL_EXPERIENCE * c.MAX_LEVEL
                changed = not np.array_equal(before[0][game], after[0][game])
                assert changed == (is_seen and not hidden and not top)
                assert is_seen or np.array_equal(before[1][game], after[1][game])
        battle.load_state_dict(state)
        seen_count, unseen_count = seen_count + sum(seen), unseen_count + len(seen) - sum(seen)
    assert min(seen_count, unseen_count) >= 5


@pytest.mark.parametrize("heroes", [1, 5])
def test_an_unseen_hero_can_be_anywhere_unseen(heroes):
    battle = lively_battles(heroes, 40)
    state = battle.state_dict()
    before = views(battle, BLUE)
    moved = 0
    for game in range(40):
        for enemy in range(heroes):
            x, y, respawn = state["hero"][game, RED, enemy, [c.X, c.Y, c.RESPAWN]]
            unseen = not within_sight(state, game, BLUE, c.LAST - x, y)
            if respawn == 0 and unseen and not within_sight(state, game, BLUE, c.LAST, 0):
                battle.state.hero[game, RED, enemy, [c.X, c.Y]] = 0
                moved += (x, y) != (0, 0)
    battle.observe()
    assert moved >= 5
    assert all(np.array_equal(a, b) for a, b in zip(before, views(battle, BLUE), strict=True))


@pytest.mark.parametrize("heroes", [1, 5])
def test_unseen_creeps_do_not_show_and_the_foremost_seen_one_does(heroes):
    battle = lively_battles(heroes, 40)
    state = battle.state_dict()
    before = views(battle, BLUE)
    seen_count = unseen_count = 0
    for game in range(40):
        for lane in range(state["creep"].shape[2]):
            creeps = state["creep"][game, RED, lane]
            living = [slot for slot in range(c.CREEP_SLOTS) if creeps[slot, c.HEALTH] > 0]
            seen = [s for s in living if within_sight(state, game, BLUE, c.LAST - creeps[s, c.X], ROW + 7 * lane)]
            for slot in set(living) - set(seen):
                battle.state.creep[game, RED, lane, slot, c.HEALTH] += 7
                unseen_count += 1
            name = f"lane {lane}: enemy creeps"
            number = before[0][game, :, feature_names(heroes).index(name)] * c.CREEP_SLOTS
            assert number.round().tolist() == [len(seen)] * heroes
            seen_count += len(seen)
    battle.observe()
    assert min(seen_count, unseen_count) >= 20
    assert all(np.array_equal(a, b) for a, b in zip(before, views(battle, BLUE), strict=True))
    battle = scene()
    put_creep(battle, RED, c.LAST - 10, health=20)
    put_creep(battle, RED, c.LAST - 12, health=30, slot=1)
    (dx, health) = (feature_names(1).index(f"lane 0: enemy front {what}") for what in ("dx", "health"))
    assert battle.observations[0, BLUE, 0, [dx, health]].tolist() == pytest.approx([5 / 12, 20 / 40])


def test_features_say_what_their_names_say():
    battle = scene(heroes=5, tick=44)
    put_hero(battle, BLUE, 2, 12, 11, health=50, experience=125, gold=80, cooldown=6, deaths=2)
    put_hero(battle, BLUE, 4, 14, 9)
    put_hero(battle, RED, 1, c.LAST - 15, 8, health=40, deaths=1)
    put_hero(battle, RED, 3, 0, 0, health=40, deaths=2)
    put_hero(battle, RED, 0, 0, 0, health=0, respawn=9)
    put_creep(battle, RED, c.LAST - 13, health=7, lane=1)
    battle.state.building[0, RED] = [450, 900, 0, 1000]
    battle.observe()
    seen = dict(zip(feature_names(5), battle.observations[0, BLUE, 2].tolist(), strict=True))
    expected = {
        "alive": 1,
        "x": 12 / 12,
        "y": 11 / 12,
        "health": 50 / 130,
        "level": 2 / 9,
        "damage": (8 + 2 + 2) / 20,
        "cooldown": 6 / 15,
        "weakest creep": 7 / 40,
        "last hit": 1,
        "under tower": 0,
        "tick": 44 / 400,
        "next wave": 16 / 20,
        "kills": 3 / 20,
        "deaths": 2 / 20,
        "enemy ancient": 0.5,
        "own is open": 0,
        "enemy is open": 1,
        "is hero 2": 1,
        "is hero 3": 0,
        "ally 3: dx": 2 / 12,  # hero 4: the fourth of the others
        "ally 3: dy": -2 / 12,
        "enemy 1: seen": 1,
        "enemy 1: dx": 3 / 12,
        "enemy 1: dy": -3 / 12,
        "enemy 1: health": 0.4,
        "enemy 3: seen": 0,
        "enemy 3: health": 0,
        "enemy 0: respawn": 9 / 30,
        "lane 0: enemy tower": 0.5,
        "lane 2: enemy tower": 0,
        "lane 1: dy": -1 / 12,
        "lane 1: enemy creeps": 1 / 6,
        "lane 1: enemy front dx": 1 / 12,
    }
    assert {name: seen[name] for name in expected} == pytest.approx(expected)
    put_hero(battle, BLUE, 2, c.LAST - c.TOWER_X - 3, ROW)
    put_creep(battle, BLUE, c.LAST - c.TOWER_X - 3, health=9)
    seen = dict(zip(feature_names(5), battle.observations[0, BLUE, 2].tolist(), strict=True))
    assert (seen["under tower"], seen["tower is busy"]) == (1, 1)


@pytest.mark.parametrize("heroes", [1, 5])
def test_there_is_a_name_for_every_feature(heroes):
    names = feature_names(heroes)
    assert len(names) == len(set(names)) == features(heroes)
    assert np.isfinite(lively_battles(heroes, 8).observations).all()


def test_a_reset_hero_sees_the_same_from_either_side():
    battle = Battle(1, range(8))
    battle.state.hero[:, RED] = battle.state.hero[:, BLUE]
    battle.observe()
    assert np.array_equal(battle.observations[:, BLUE], battle.observations[:, RED])
