"""What each hero observes (features.py) and which actions it has. torch_backend/observation.py is the twin."""

import numpy as np

from tasks.dota_proxy import constants as c
from tasks.dota_proxy import features as f
from tasks.dota_proxy.compiling import inlined, kernel
from tasks.dota_proxy.numba_backend.targets import (
    ancient_is_open,
    building_in_reach,
    damage_of,
    find_fronts,
    full_health,
    level_of,
    near,
    row_of,
    weakest_creep,
    weakest_hero,
)
from tasks.dota_proxy.numba_backend.tick import DIRECTIONS

# numba computes a Python float times an integer in float64: scales are float32.
DISTANCE, LEVELS, POINTS, DAMAGE = np.float32([f.DISTANCE, f.LEVELS, f.POINTS, f.DAMAGE])
COOLDOWN, RESPAWN, CREEP_HEALTH, CREEPS = np.float32([f.COOLDOWN, f.RESPAWN, f.CREEP_HEALTH, f.CREEPS])
KILLS, TICKS, WAVE_TICKS = np.float32([f.KILLS, f.TICKS, f.WAVE_TICKS])
TOWERS, ANCIENTS = np.float32([1 / c.TOWER_HEALTH, 1 / c.ANCIENT_HEALTH])
ONE = np.float32(1)
NUMBER, FRONT_X, FRONT_HEALTH = range(3)
OWN, THEIRS = 0, 3  # where these three stand in a lane's summary


@inlined
def scaled(number, scale):
    return np.float32(number) * scale


@inlined
def sees(hero, creep, building, front, team, x, y):
    """Whether `team` sees the enemy's cell (x, y), given in the team's own frame."""
    lanes = creep.shape[1]
    if building[team, lanes] > 0 and x <= c.SIGHT:
        return True
    for n in range(hero.shape[1]):
        if hero[team, n, c.RESPAWN] == 0 and near(hero[team, n, c.X] - x, hero[team, n, c.Y] - y, c.SIGHT):
            return True
    for lane in range(lanes):
        if abs(row_of(lane) - y) <= c.SIGHT:
            if building[team, lane] > 0 and abs(c.TOWER_X - x) <= c.SIGHT:
                return True
            slot = front[team, lane]
            if slot >= 0 and abs(creep[team, lane, slot, c.X] - x) <= c.SIGHT:
                return True
    return False


@inlined
def summarise(hero, creep, building, front, team, lane, summary):
    """Number of creeps in a lane and the foremost one's x and health, own and seen ones of the enemy."""
    for k in range(6):
        summary[lane, k] = 0
    for slot in range(c.CREEP_SLOTS):
        summary[lane, OWN + NUMBER] += creep[team, lane, slot, c.HEALTH] > 0
    slot = front[team, lane]
    if slot >= 0:
        summary[lane, OWN + FRONT_X] = creep[team, lane, slot, c.X]
        summary[lane, OWN + FRONT_HEALTH] = creep[team, lane, slot, c.HEALTH]
    foremost = c.LENGTH
    for slot in range(c.CREEP_SLOTS):
        health, x = creep[1 - team, lane, slot, c.HEALTH], c.LAST - creep[1 - team, lane, slot, c.X]
        if health > 0 and sees(hero, creep, building, front, team, x, row_of(lane)):
            summary[lane, THEIRS + NUMBER] += 1
            if x < foremost:
                foremost = x
                summary[lane, THEIRS + FRONT_X] = x
                summary[lane, THEIRS + FRONT_HEALTH] = health


@inlined
def observe_self(hero, creep, building, front, team, n, out):
    lanes = creep.shape[1]
    x, y = hero[team, n, c.X], hero[team, n, c.Y]
    experience = hero[team, n, c.EXPERIENCE]
    under, busy = False, False
    for lane in range(lanes):
        if building[1 - team, lane] > 0 and near(c.LAST - c.TOWER_X - x, row_of(lane) - y, c.TOWER_REACH):
            under = True
            slot = front[team, lane]
            busy = slot >= 0 and abs(c.LAST - c.TOWER_X - creep[team, lane, slot, c.X]) <= c.TOWER_REACH
    target = weakest_creep(creep, 1 - team, x, y, c.ATTACK_REACH)
    weakest = 0
    if target >= 0:
        weakest = creep[1 - team, target // c.CREEP_SLOTS, target % c.CREEP_SLOTS, c.HEALTH]
    damage = damage_of(experience, hero[team, n, c.GOLD])
    out[f.ALIVE] = hero[team, n, c.RESPAWN] == 0
    out[f.SELF_X] = scaled(x, DISTANCE)
    out[f.SELF_Y] = scaled(y, DISTANCE)
    out[f.SELF_HEALTH] = np.float32(hero[team, n, c.HEALTH]) / np.float32(full_health(experience))
    out[f.SELF_POINTS] = scaled(hero[team, n, c.HEALTH], POINTS)
    out[f.SELF_LEVEL] = scaled(level_of(experience), LEVELS)
    out[f.SELF_DAMAGE] = scaled(damage, DAMAGE)
    out[f.SELF_COOLDOWN] = scaled(hero[team, n, c.COOLDOWN], COOLDOWN)
    out[f.SELF_STUNNED] = hero[team, n, c.STUN]
    out[f.SELF_RESPAWN] = scaled(hero[team, n, c.RESPAWN], RESPAWN)
    out[f.UNDER_TOWER] = under
    out[f.TOWER_BUSY] = busy
    out[f.WEAKEST_CREEP] = scaled(weakest, CREEP_HEALTH)
    out[f.LAST_HIT] = 0 < weakest <= damage - c.DAMAGE_SPREAD


@inlined
def observe_battle(clock, hero, building, team, out, at):
    lanes = building.shape[1] - 1
    kills, deaths = 0, 0
    for n in range(hero.shape[1]):
        kills += hero[1 - team, n, c.DEATHS]
        deaths += hero[team, n, c.DEATHS]
    out[at] = scaled(clock[c.TICK], TICKS)
    out[at + 1] = scaled(c.WAVE_PERIOD - clock[c.TICK] % c.WAVE_PERIOD, WAVE_TICKS)
    out[at + 2] = scaled(kills, KILLS)
    out[at + 3] = scaled(deaths, KILLS)
    heroes = np.float32(hero.shape[1])
    out[at + 4] = scaled(building[team, lanes], ANCIENTS) / heroes
    out[at + 5] = scaled(building[1 - team, lanes], ANCIENTS) / heroes
    out[at + 6] = ancient_is_open(building, team)
    out[at + 7] = ancient_is_open(building, 1 - team)


@inlined
def observe_ally(hero, team, n, ally, out, at):
    out[at] = scaled(hero[team, ally, c.X] - hero[team, n, c.X], DISTANCE)
    out[at + 1] = scaled(hero[team, ally, c.Y] - hero[team, n, c.Y], DISTANCE)
    out[at + 2] = np.float32(hero[team, ally, c.HEALTH]) / np.float32(full_health(hero[team, ally, c.EXPERIENCE]))
    out[at + 3] = scaled(level_of(hero[team, ally, c.EXPERIENCE]), LEVELS)
    out[at + 4] = scaled(hero[team, ally, c.RESPAWN], RESPAWN)
    out[at + 5] = scaled(hero[team, ally, c.COOLDOWN], COOLDOWN)


@inlined
def observe_enemy(hero, team, n, enemy, seen, out, at):
    for k in range(at, at + 5):
        out[k] = 0
    if seen:
        experience = hero[1 - team, enemy, c.EXPERIENCE]
        out[at] = ONE
        out[at + 1] = scaled(c.LAST - hero[1 - team, enemy, c.X] - hero[team, n, c.X], DISTANCE)
        out[at + 2] = scaled(hero[1 - team, enemy, c.Y] - hero[team, n, c.Y], DISTANCE)
        out[at + 3] = np.float32(hero[1 - team, enemy, c.HEALTH]) / np.float32(full_health(experience))
        out[at + 4] = scaled(level_of(experience), LEVELS)
    out[at + 5] = scaled(hero[1 - team, enemy, c.RESPAWN], RESPAWN)


@inlined
def observe_lane(hero, building, team, n, lane, summary, out, at):
    x, y = hero[team, n, c.X], hero[team, n, c.Y]
    out[at] = scaled(row_of(lane) - y, DISTANCE)
    heroes = np.float32(hero.shape[1])
    out[at + 1] = scaled(building[team, lane], TOWERS) / heroes
    out[at + 2] = scaled(building[1 - team, lane], TOWERS) / heroes
    for which, to in ((OWN, at + 3), (THEIRS, at + 6)):
        number = summary[lane, which + NUMBER]
        out[to] = scaled(number, CREEPS)
        out[to + 1] = scaled(summary[lane, which + FRONT_X] - x, DISTANCE) if number > 0 else np.float32(0)
        out[to + 2] = scaled(summary[lane, which + FRONT_HEALTH], CREEP_HEALTH)


@inlined
def find_legal(hero, creep, building, team, n, out):
    """Writes which actions hero `n` has; staying is always one, and the only one for the fallen and the stunned."""
    for action in range(c.ACTIONS):
        out[action] = action == c.STAY
    if hero[team, n, c.RESPAWN] > 0 or hero[team, n, c.STUN] > 0:
        return
    x, y = hero[team, n, c.X], hero[team, n, c.Y]
    for k in range(len(DIRECTIONS)):
        to_x, to_y = x + DIRECTIONS[k, 0], y + DIRECTIONS[k, 1]
        out[k + 1] = 0 <= to_x < c.LENGTH and 0 <= to_y < c.ROWS_PER_LANE * creep.shape[1]
    out[c.HIT_HERO] = weakest_hero(hero, 1 - team, x, y, c.ATTACK_REACH) >= 0
    out[c.HIT_CREEP] = weakest_creep(creep, 1 - team, x, y, c.ATTACK_REACH) >= 0
    out[c.HIT_BUILDING] = building_in_reach(building, 1 - team, x, y) >= 0
    out[c.NUKE] = hero[team, n, c.COOLDOWN] == 0 and weakest_hero(hero, 1 - team, x, y, c.NUKE_REACH) >= 0


@inlined
def observe_game(clock, hero, creep, building, front, summary, seen, observations, legal):
    """All of one game. Scratch: front (2, lanes), summary (lanes, 6), seen (heroes,)."""
    heroes, lanes = hero.shape[1], creep.shape[1]
    find_fronts(creep, front)
    for team in range(2):
        for enemy in range(heroes):
            x, y = c.LAST - hero[1 - team, enemy, c.X], hero[1 - team, enemy, c.Y]
            living = hero[1 - team, enemy, c.RESPAWN] == 0
            seen[enemy] = living and sees(hero, creep, building, front, team, x, y)
        for lane in range(lanes):
            summarise(hero, creep, building, front, team, lane, summary)
        for n in range(heroes):
            out = observations[team, n]
            observe_self(hero, creep, building, front, team, n, out)
            at = len(f.SELF)
            observe_battle(clock, hero, building, team, out, at)
            at += len(f.BATTLE)
            if heroes > 1:
                for k in range(heroes):
                    out[at + k] = k == n
                at += heroes
            for ally in range(heroes):
                if ally != n:
                    observe_ally(hero, team, n, ally, out, at)
                    at += len(f.ALLY)
            for enemy in range(heroes):
                observe_enemy(hero, team, n, enemy, seen[enemy], out, at)
                at += len(f.ENEMY)
            for lane in range(lanes):
                observe_lane(hero, building, team, n, lane, summary, out, at)
                at += len(f.LANE)
            find_legal(hero, creep, building, team, n, legal[team, n])


@kernel
def observe_games(clock, hero, creep, building, observations, legal):
    """Writes observations (games, 2, heroes, features) float32 and legal (games, 2, heroes, ACTIONS) bool."""
    heroes, lanes = hero.shape[2], creep.shape[2]
    front = np.zeros((2, lanes), np.int32)
    summary = np.zeros((lanes, 6), np.int32)
    seen = np.zeros(heroes, np.bool_)
    for g in range(len(hero)):
        observe_game(clock[g], hero[g], creep[g], building[g], front, summary, seen, observations[g], legal[g])
