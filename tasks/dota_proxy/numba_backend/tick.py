"""What a tick does to one game, from aim to recovery (constants.py). torch_backend/tick.py is the twin.

`clock`, `side`, `hero`, `creep`, `building` are one game's rows of the state (state.py). `plan_hero` (2, heroes,
HERO_PLAN_FIELDS), `plan_creep` (2, lanes, CREEP_SLOTS, CREEP_PLAN_FIELDS) and `plan_building` (2, lanes + 1: harm) are
the tick's plan, zero before it; `front` (2, lanes) is the slot of each lane's foremost creep, -1 without one.
"""

import numpy as np

from tasks.dota_proxy import constants as c
from tasks.dota_proxy import draws
from tasks.dota_proxy.compiling import inlined
from tasks.dota_proxy.numba_backend.targets import (
    building_in_reach,
    damage_of,
    full_health,
    home_lane,
    level_of,
    near,
    row_of,
    weakest_creep,
    weakest_hero,
)

mixed = inlined(draws.mixed)
DIRECTIONS = np.array(c.DIRECTIONS)


@inlined
def aim_heroes(key, side, hero, creep, building, actions, plan_hero, plan_creep, plan_building):
    """Heroes' actions into the plan; an action that is not legal stays."""
    heroes, lanes = hero.shape[1], creep.shape[1]
    for team in range(2):
        for n in range(heroes):
            action = actions[team, n]
            if action == c.STAY or hero[team, n, c.RESPAWN] > 0 or hero[team, n, c.STUN] > 0:
                continue
            x, y = hero[team, n, c.X], hero[team, n, c.Y]
            if action < c.HIT_HERO:
                to_x, to_y = x + DIRECTIONS[action - 1, 0], y + DIRECTIONS[action - 1, 1]
                if 0 <= to_x < c.LENGTH and 0 <= to_y < c.ROWS_PER_LANE * lanes:
                    plan_hero[team, n, c.STEP_X] = to_x - x
                    plan_hero[team, n, c.STEP_Y] = to_y - y
                continue
            if action == c.NUKE:
                target = weakest_hero(hero, 1 - team, x, y, c.NUKE_REACH)
                if target >= 0 and hero[team, n, c.COOLDOWN] == 0:
                    level = level_of(hero[team, n, c.EXPERIENCE])
                    plan_hero[1 - team, target, c.HURT] += c.NUKE_DAMAGE + c.NUKE_DAMAGE_PER_LEVEL * level
                    plan_hero[1 - team, target, c.STUNNED] = 1
                    plan_hero[team, n, c.CASTS] = 1
                continue
            draw = mixed(key, c.DAMAGE_DRAWS + 8 * side[team] + n)
            damage = damage_of(hero[team, n, c.EXPERIENCE], hero[team, n, c.GOLD])
            damage += draw % (2 * c.DAMAGE_SPREAD + 1) - c.DAMAGE_SPREAD
            if action == c.HIT_HERO:
                target = weakest_hero(hero, 1 - team, x, y, c.ATTACK_REACH)
                if target >= 0:
                    plan_hero[1 - team, target, c.HURT] += damage
            elif action == c.HIT_CREEP:
                target = weakest_creep(creep, 1 - team, x, y, c.ATTACK_REACH)
                if target >= 0:
                    lane, slot = target // c.CREEP_SLOTS, target % c.CREEP_SLOTS
                    plan_creep[1 - team, lane, slot, c.HURT_BY_HEROES] += damage
                    plan_creep[1 - team, lane, slot, c.STRIKERS] += 1
                    plan_hero[team, n, c.STRUCK] = target + 1
            elif action == c.HIT_BUILDING:
                target = building_in_reach(building, 1 - team, x, y)
                if target >= 0:
                    plan_building[1 - team, target] += damage


@inlined
def aim_creeps(hero, creep, building, front, plan_hero, plan_creep, plan_building):
    lanes = creep.shape[1]
    for team in range(2):
        for lane in range(lanes):
            facing = front[1 - team, lane]
            facing_x = c.LAST - creep[1 - team, lane, facing, c.X] if facing >= 0 else 2 * c.LENGTH
            for slot in range(c.CREEP_SLOTS):
                if creep[team, lane, slot, c.HEALTH] == 0:
                    continue
                x = creep[team, lane, slot, c.X]
                damage = c.CREEP_DAMAGE + c.CREEP_DAMAGE_GROWTH * creep[team, lane, slot, c.AGE]
                plan_creep[team, lane, slot, c.ENGAGED] = 1
                if abs(facing_x - x) <= c.CREEP_REACH:
                    plan_creep[1 - team, lane, facing, c.HURT] += damage
                    continue
                beside = weakest_hero(hero, 1 - team, x, row_of(lane), c.CREEP_REACH)
                if beside >= 0:
                    plan_hero[1 - team, beside, c.HURT] += damage
                elif building[1 - team, lane] > 0 and abs(c.LAST - c.TOWER_X - x) <= c.CREEP_REACH:
                    plan_building[1 - team, lane] += damage
                elif building[1 - team, lane] == 0 and c.LAST - x <= c.CREEP_REACH:
                    plan_building[1 - team, lanes] += damage
                else:
                    plan_creep[team, lane, slot, c.ENGAGED] = 0


@inlined
def aim_towers(hero, creep, building, front, plan_hero, plan_creep):
    for team in range(2):
        for lane in range(creep.shape[1]):
            if building[team, lane] == 0:
                continue
            facing = front[1 - team, lane]
            if facing >= 0 and abs(c.LAST - creep[1 - team, lane, facing, c.X] - c.TOWER_X) <= c.TOWER_REACH:
                plan_creep[1 - team, lane, facing, c.HURT] += c.TOWER_DAMAGE
            else:
                target = weakest_hero(hero, 1 - team, c.TOWER_X, row_of(lane), c.TOWER_REACH)
                if target >= 0:
                    plan_hero[1 - team, target, c.HURT] += c.TOWER_DAMAGE


@inlined
def shares(hero, team, n, x, y):
    there = near(c.LAST - hero[team, n, c.X] - x, hero[team, n, c.Y] - y, c.REWARD_REACH)
    return there and hero[team, n, c.RESPAWN] == 0


@inlined
def share(hero, team, x, y, experience, gold):
    """Pays the living heroes of `team` within REWARD_REACH of the enemy's cell (x, y)."""
    sharers = 0
    for n in range(hero.shape[1]):
        sharers += shares(hero, team, n, x, y)
    for n in range(hero.shape[1]):
        if shares(hero, team, n, x, y):
            hero[team, n, c.EXPERIENCE] += experience // sharers
            hero[team, n, c.GOLD] += gold // sharers


@inlined
def pay(hero, creep, building, plan_hero, plan_creep, plan_building):
    """Experience and gold for all that falls in this tick. Health is still that of its start."""
    heroes, lanes = hero.shape[1], creep.shape[1]
    for team in range(2):
        for lane in range(lanes):
            for slot in range(c.CREEP_SLOTS):
                left = creep[team, lane, slot, c.HEALTH] - plan_creep[team, lane, slot, c.HURT]
                by_heroes = plan_creep[team, lane, slot, c.HURT_BY_HEROES]
                if creep[team, lane, slot, c.HEALTH] == 0 or left > by_heroes:
                    continue
                share(hero, 1 - team, creep[team, lane, slot, c.X], row_of(lane), c.CREEP_EXPERIENCE, 0)
                if left > 0:
                    for n in range(heroes):
                        if plan_hero[1 - team, n, c.STRUCK] == 1 + lane * c.CREEP_SLOTS + slot:
                            hero[1 - team, n, c.GOLD] += c.LAST_HIT_GOLD // plan_creep[team, lane, slot, c.STRIKERS]
                            hero[1 - team, n, c.LAST_HITS] += 1
            if 0 < building[team, lane] <= plan_building[team, lane]:
                for n in range(heroes):
                    hero[1 - team, n, c.GOLD] += c.TOWER_GOLD
        for n in range(heroes):
            if hero[team, n, c.RESPAWN] == 0 and hero[team, n, c.HEALTH] <= plan_hero[team, n, c.HURT]:
                share(hero, 1 - team, hero[team, n, c.X], hero[team, n, c.Y], c.KILL_EXPERIENCE, c.KILL_GOLD)


@inlined
def harm(hero, creep, building, plan_hero, plan_creep, plan_building):
    for team in range(2):
        for n in range(hero.shape[1]):
            hero[team, n, c.HEALTH] = max(hero[team, n, c.HEALTH] - plan_hero[team, n, c.HURT], 0)
        for lane in range(creep.shape[1]):
            for slot in range(c.CREEP_SLOTS):
                hurt = plan_creep[team, lane, slot, c.HURT] + plan_creep[team, lane, slot, c.HURT_BY_HEROES]
                creep[team, lane, slot, c.HEALTH] = max(creep[team, lane, slot, c.HEALTH] - hurt, 0)
        for which in range(building.shape[1]):
            building[team, which] = max(building[team, which] - plan_building[team, which], 0)


@inlined
def move(clock, hero, creep, plan_hero, plan_creep):
    for team in range(2):
        for n in range(hero.shape[1]):
            hero[team, n, c.X] += plan_hero[team, n, c.STEP_X]
            hero[team, n, c.Y] += plan_hero[team, n, c.STEP_Y]
        if clock[c.TICK] % c.WALK_PERIOD == 0:
            for lane in range(creep.shape[1]):
                for slot in range(c.CREEP_SLOTS):
                    walks = creep[team, lane, slot, c.HEALTH] > 0 and plan_creep[team, lane, slot, c.ENGAGED] == 0
                    if walks and creep[team, lane, slot, c.X] < c.LAST:
                        creep[team, lane, slot, c.X] += 1


@inlined
def recover(clock, hero, plan_hero, lanes):
    """Deaths, returns, healing, cooldowns."""
    heroes = hero.shape[1]
    for team in range(2):
        for n in range(heroes):
            full = full_health(hero[team, n, c.EXPERIENCE])
            if hero[team, n, c.RESPAWN] > 0:
                hero[team, n, c.RESPAWN] -= 1
                if hero[team, n, c.RESPAWN] == 0:
                    hero[team, n, c.HEALTH] = full
            elif hero[team, n, c.HEALTH] == 0:
                hero[team, n, c.DEATHS] += 1
                level = level_of(hero[team, n, c.EXPERIENCE])
                hero[team, n, c.RESPAWN] = c.RESPAWN_TICKS + c.RESPAWN_PER_LEVEL * level
                hero[team, n, c.X] = 0
                hero[team, n, c.Y] = row_of(home_lane(n, heroes, lanes))
            else:
                heal = 1 if clock[c.TICK] % c.HEAL_PERIOD == 0 else 0
                if hero[team, n, c.X] <= c.FOUNTAIN_X:
                    heal = full // c.FOUNTAIN_PARTS
                hero[team, n, c.HEALTH] = min(hero[team, n, c.HEALTH] + heal, full)
            hero[team, n, c.COOLDOWN] = max(hero[team, n, c.COOLDOWN] - 1, 0)
            if plan_hero[team, n, c.CASTS] > 0:
                hero[team, n, c.COOLDOWN] = c.NUKE_COOLDOWN
            hero[team, n, c.STUN] = max(hero[team, n, c.STUN] - 1, 0)
            if plan_hero[team, n, c.STUNNED] > 0:
                hero[team, n, c.STUN] = c.STUN_TICKS
            if hero[team, n, c.RESPAWN] > 0:
                hero[team, n, c.STUN] = 0
