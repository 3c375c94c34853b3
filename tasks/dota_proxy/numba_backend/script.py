"""What the script does, from a hero's observation and legal actions. torch_backend/script.py is the twin."""

import numpy as np

from tasks.dota_proxy import constants as c
from tasks.dota_proxy import features as f
from tasks.dota_proxy.compiling import inlined, kernel
from tasks.dota_proxy.numba_backend.observation import DISTANCE
from tasks.dota_proxy.numba_backend.targets import home_lane
from tasks.dota_proxy.numba_backend.tick import mixed

ACTION_TO = np.zeros((3, 3), np.int64)  # by the signs of dx and dy, plus 1
for action, (dx, dy) in enumerate(c.DIRECTIONS):
    ACTION_TO[dx + 1, dy + 1] = action + 1
BACK = ACTION_TO[0, 1]
GATHERING = np.float32(c.GATHER_TICK * f.TICKS)
FLEE, HEALED, BOLDNESS, REACH = np.float32([c.FLEE, c.HEALED, c.BOLDNESS, c.ATTACK_REACH * f.DISTANCE])


@inlined
def sign(value):
    return int(value > 0) - int(value < 0)


@inlined
def goal_lane(seen, n, heroes, lanes, at_lane):
    """The hero's own lane at first, then that of the enemy's weakest tower."""
    lane = home_lane(n, heroes, lanes)
    if seen[f.BATTLE_TICK] >= GATHERING:
        for other in range(lanes):
            towers = at_lane + f.ENEMY_TOWER
            if seen[towers + len(f.LANE) * other] < seen[towers + len(f.LANE) * lane]:
                lane = other
    return lane


@inlined
def walk(seen, n, heroes, lanes, at_lane):
    """A step to the place behind the lane's foremost own creep, or to the tower that new creeps will come by."""
    at = at_lane + len(f.LANE) * goal_lane(seen, n, heroes, lanes, at_lane)
    waiting = c.TOWER_X if seen[at + f.OWN_TOWER] > 0 else c.WAITING_X
    dx = np.float32(waiting) * DISTANCE - seen[f.SELF_X]
    if seen[at + f.OWN_CREEPS] > 0:
        dx = seen[at + f.OWN_FRONT_DX] - DISTANCE
    return ACTION_TO[sign(dx) + 1, sign(seen[at + f.LANE_DY]) + 1]


@inlined
def dares(seen, heroes, at_enemy):
    """Whether the weakest enemy hero in reach is not much healthier than this hero."""
    for enemy in range(heroes):
        at = at_enemy + len(f.ENEMY) * enemy
        in_reach = abs(seen[at + f.ENEMY_DX]) <= REACH and abs(seen[at + f.ENEMY_DY]) <= REACH
        if seen[at + f.ENEMY_SEEN] > 0 and in_reach and seen[at + f.ENEMY_HEALTH] <= seen[f.SELF_HEALTH] + BOLDNESS:
            return True
    return False


@inlined
def choose(seen, legal, n, heroes, lanes, at_enemy, at_lane):
    at_home = seen[f.SELF_X] <= np.float32(c.FOUNTAIN_X) * DISTANCE
    health = seen[f.SELF_HEALTH]
    if legal[c.NUKE]:
        return c.NUKE
    if at_home and health < HEALED:
        return c.STAY
    if health < FLEE or (seen[f.UNDER_TOWER] > seen[f.TOWER_BUSY]):
        return BACK
    if legal[c.HIT_CREEP] and seen[f.LAST_HIT] > 0:
        return c.HIT_CREEP
    if legal[c.HIT_HERO] and dares(seen, heroes, at_enemy):
        return c.HIT_HERO
    if legal[c.HIT_BUILDING]:
        return c.HIT_BUILDING
    if legal[c.HIT_CREEP]:
        return c.HIT_CREEP
    return walk(seen, n, heroes, lanes, at_lane)


@inlined
def any_legal(legal, draw):
    """A legal action, all equally likely."""
    number = 0
    for action in range(c.ACTIONS):
        number += legal[action]
    left = draw % number
    for action in range(c.ACTIONS):
        if legal[action]:
            if left == 0:
                return action
            left -= 1
    return c.STAY


@kernel
def act_games(seed, games, clock, side, observations, legal, team, threshold, at_enemy, at_lane, lanes, actions):
    """Writes actions (games, heroes) int64; a hero whose draw is below its game's `threshold` acts at random."""
    heroes = observations.shape[2]
    for g in range(len(games)):
        key = mixed(mixed(mixed(seed, games[g]), clock[g, c.EPISODE]), clock[g, c.TICK])
        for n in range(heroes):
            draw = mixed(key, c.SCRIPT_DRAWS + 8 * side[g, team] + n)
            options = legal[g, team, n]
            if draw < threshold[g]:
                actions[g, n] = any_legal(options, mixed(draw, c.SCRIPT_DRAWS))
            else:
                actions[g, n] = choose(observations[g, team, n], options, n, heroes, lanes, at_enemy, at_lane)
