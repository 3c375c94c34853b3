"""Waves, wins, points, and the loop over games. torch_backend/episodes.py is the twin."""

import numpy as np

from tasks.dota_proxy import constants as c
from tasks.dota_proxy.compiling import inlined, kernel
from tasks.dota_proxy.numba_backend.targets import find_fronts, home_lane, row_of
from tasks.dota_proxy.numba_backend.tick import aim_creeps, aim_heroes, aim_towers, harm, mixed, move, pay, recover


@inlined
def send_waves(clock, creep):
    """New creeps into the first free slots of every lane."""
    if clock[c.TICK] % c.WAVE_PERIOD > 0:
        return
    age = clock[c.TICK] // c.GROWTH_PERIOD
    for team in range(2):
        for lane in range(creep.shape[1]):
            left = c.WAVE_CREEPS
            for slot in range(c.CREEP_SLOTS):
                if left > 0 and creep[team, lane, slot, c.HEALTH] == 0:
                    creep[team, lane, slot, c.X] = c.CREEP_X
                    creep[team, lane, slot, c.AGE] = age
                    creep[team, lane, slot, c.HEALTH] = c.CREEP_HEALTH + c.CREEP_HEALTH_GROWTH * age
                    left -= 1


@inlined
def has_lost(hero, building, team):
    lanes = building.shape[1] - 1
    if hero.shape[1] > 1:
        return building[team, lanes] == 0
    return hero[team, 0, c.DEATHS] >= c.DEATHS_TO_LOSE or building[team, 0] == 0


@inlined
def merit(hero, building, team):
    """Orders teams when time is up: standing towers, then experience and gold."""
    towers, wealth = 0, 0
    for lane in range(building.shape[1] - 1):
        towers += building[team, lane] > 0
    for n in range(hero.shape[1]):
        wealth += hero[team, n, c.EXPERIENCE] + hero[team, n, c.GOLD]
    return towers * 2**30 + wealth


@inlined
def decide(clock, hero, building):
    """Whether the game is over, and who won: 1 team 0, -1 team 1, 0 neither."""
    lost_0, lost_1 = has_lost(hero, building, 0), has_lost(hero, building, 1)
    if lost_0 != lost_1:
        return True, 1 if lost_1 else -1
    if not lost_0 and clock[c.TICK] < c.TICK_LIMIT:
        return False, 0
    ours, theirs = merit(hero, building, 0), merit(hero, building, 1)
    return True, int(ours > theirs) - int(ours < theirs)


@inlined
def standing(hero, building, team, n):
    """What shaping rewards the growth of, in points."""
    health = 0
    for which in range(building.shape[1]):
        health += building[1 - team, which]
    return hero[team, n, c.EXPERIENCE] + hero[team, n, c.GOLD] - health // hero.shape[1]


@inlined
def begin(key, clock, side, hero, creep, building):
    """A new episode, whose hash is `key`."""
    heroes, lanes = hero.shape[1], creep.shape[1]
    clock[c.TICK] = 0
    hero[:] = 0
    creep[:] = 0
    building[:, :lanes] = c.TOWER_HEALTH * heroes
    building[:, lanes] = c.ANCIENT_HEALTH * heroes
    for team in range(2):
        for n in range(heroes):
            draw = mixed(mixed(key, 0), c.START_DRAWS + 8 * side[team] + n)
            hero[team, n, c.X] = draw % c.START_COLUMNS
            hero[team, n, c.Y] = row_of(home_lane(n, heroes, lanes)) + draw // c.START_COLUMNS % c.START_ROWS - 1
            hero[team, n, c.HEALTH] = c.HERO_HEALTH
    send_waves(clock, creep)


@kernel
def begin_games(seed, games, clock, side, hero, creep, building):
    for g in range(len(games)):
        key = mixed(mixed(seed, games[g]), clock[g, c.EPISODE])
        begin(key, clock[g], side[g], hero[g], creep[g], building[g])


@inlined
def play(key, clock, side, hero, creep, building, actions, front, plan_hero, plan_creep, plan_building):
    """One tick of one game: all but its end."""
    plan_hero[:] = 0
    plan_creep[:] = 0
    plan_building[:] = 0
    find_fronts(creep, front)
    aim_heroes(mixed(key, clock[c.TICK]), side, hero, creep, building, actions, plan_hero, plan_creep, plan_building)
    aim_creeps(hero, creep, building, front, plan_hero, plan_creep, plan_building)
    aim_towers(hero, creep, building, front, plan_hero, plan_creep)
    pay(hero, creep, building, plan_hero, plan_creep, plan_building)
    harm(hero, creep, building, plan_hero, plan_creep, plan_building)
    move(clock, hero, creep, plan_hero, plan_creep)
    recover(clock, hero, plan_hero, creep.shape[1])
    clock[c.TICK] += 1
    send_waves(clock, creep)


@inlined
def reward(hero, building, winner, weight, before, rewards):
    """Writes rewards; `before` (2, heroes) is what heroes' standing was, and becomes the points of the tick."""
    heroes = hero.shape[1]
    for team in range(2):
        for n in range(heroes):
            before[team, n] = standing(hero, building, team, n) - before[team, n]
    for team in range(2):
        for n in range(heroes):
            lead = heroes * before[team, n]
            for other in range(heroes):
                lead -= before[1 - team, other]
            rewards[team, n] = winner * (1 - 2 * team) + lead * weight


@kernel
def all_known(actions):
    """Whether there are such actions. NumPy's minimum and maximum take longer than a tick of a few games."""
    unknown = 0
    for action in actions.flat:
        unknown += action < 0 or action >= c.ACTIONS
    return unknown == 0


@kernel
def step_games(seed, games, clock, side, hero, creep, building, actions, weight, rewards, done, winner):
    """One tick of all games; those that end begin their next episode.

    Args:
        games: (games,) int64, global indices.
        actions: (games, 2, heroes) int64.
        weight: reward of a point.
        rewards: (games, 2, heroes) float32, written.
        done: (games,) bool, written.
        winner: (games,) int8, written.
    """
    heroes, lanes = hero.shape[2], creep.shape[2]
    front = np.zeros((2, lanes), np.int32)
    plan_hero = np.zeros((2, heroes, c.HERO_PLAN_FIELDS), np.int32)
    plan_creep = np.zeros((2, lanes, c.CREEP_SLOTS, c.CREEP_PLAN_FIELDS), np.int32)
    plan_building = np.zeros((2, lanes + 1), np.int32)
    before = np.zeros((2, heroes), np.int32)
    for g in range(len(games)):
        # Views of one game's rows, made once: each costs about as much as a unit's whole tick.
        clock_g, side_g, hero_g, creep_g, building_g = clock[g], side[g], hero[g], creep[g], building[g]
        game_key = mixed(seed, games[g])
        for team in range(2):
            for n in range(heroes):
                before[team, n] = standing(hero_g, building_g, team, n)
        key = mixed(game_key, clock_g[c.EPISODE])
        play(key, clock_g, side_g, hero_g, creep_g, building_g, actions[g], front, plan_hero, plan_creep, plan_building)
        done[g], winner[g] = decide(clock_g, hero_g, building_g)
        reward(hero_g, building_g, winner[g], weight, before, rewards[g])
        if done[g]:
            clock_g[c.EPISODE] += 1
            begin(mixed(game_key, clock_g[c.EPISODE]), clock_g, side_g, hero_g, creep_g, building_g)
