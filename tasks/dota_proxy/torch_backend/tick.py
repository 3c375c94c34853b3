"""What a tick does to all games, from aim to recovery (constants.py). numba_backend/tick.py is the twin.

The arrays are the state's (state.py), changed in place. `plan_hero` (games, 2, heroes, HERO_PLAN_FIELDS), `plan_creep`
(games, 2, lanes, CREEP_SLOTS, CREEP_PLAN_FIELDS) and `plan_building` (games, 2, lanes + 1: harm) are the tick's plan,
zero before it; `front` (games, 2, lanes) is the slot of each lane's foremost creep, -1 without one.
"""

import torch
from torch import Tensor

from tasks.dota_proxy import constants as c
from tasks.dota_proxy.draws import mixed
from tasks.dota_proxy.torch_backend.targets import (
    at_slot,
    building_in_reach,
    damage_of,
    full_health,
    home_lane,
    indices,
    level_of,
    near,
    row_of,
    weakest_creep,
    weakest_hero,
)

STEPS = ((0, 0), *c.DIRECTIONS, *((0, 0),) * (c.ACTIONS - 1 - len(c.DIRECTIONS)))  # of every action


def gathered(acts: Tensor, target: Tensor, amount: int | Tensor, targets: int) -> Tensor:
    """What units do to each of the enemy's `targets`, summed: (games, 2, targets), in the enemy's place.

    Args:
        acts, target: (games, 2, units): which units act, and on whom.
        amount: of each, of that shape or a number.
    """
    each = torch.where(acts, amount, 0)[..., None] * (target[..., None] == indices(targets, target))
    return each.sum(2, dtype=torch.int32).flip(1)


def aim_heroes(
    key: Tensor,
    side: Tensor,
    hero: Tensor,
    creep: Tensor,
    building: Tensor,
    actions: Tensor,
    plan_hero: Tensor,
    plan_creep: Tensor,
    plan_building: Tensor,
) -> None:
    """Heroes' actions into the plan; an action that is not legal stays."""
    heroes, lanes = hero.shape[2], creep.shape[2]
    able = (hero[..., c.RESPAWN] == 0) & (hero[..., c.STUN] == 0)
    x, y = hero[..., c.X], hero[..., c.Y]

    step = torch.tensor(STEPS, dtype=torch.int32, device=hero.device)[actions]
    to_x, to_y = x + step[..., 0], y + step[..., 1]
    inside = (to_x >= 0) & (to_x < c.LENGTH) & (to_y >= 0) & (to_y < c.ROWS_PER_LANE * lanes)
    plan_hero[..., c.STEP_X] = torch.where(able & inside, step[..., 0], 0)
    plan_hero[..., c.STEP_Y] = torch.where(able & inside, step[..., 1], 0)

    target = weakest_hero(hero, x, y, c.NUKE_REACH)
    casts = able & (actions == c.NUKE) & (target >= 0) & (hero[..., c.COOLDOWN] == 0)
    nuke = c.NUKE_DAMAGE + c.NUKE_DAMAGE_PER_LEVEL * level_of(hero[..., c.EXPERIENCE])
    plan_hero[..., c.HURT] += gathered(casts, target, nuke, heroes)
    plan_hero[..., c.STUNNED] = gathered(casts, target, 1, heroes) > 0
    plan_hero[..., c.CASTS] = casts

    draw = mixed(key[:, None, None], c.DAMAGE_DRAWS + 8 * side[..., None].long() + indices(heroes, hero))
    damage = damage_of(hero[..., c.EXPERIENCE], hero[..., c.GOLD])
    damage = damage + (draw % (2 * c.DAMAGE_SPREAD + 1)).int() - c.DAMAGE_SPREAD

    target = weakest_hero(hero, x, y, c.ATTACK_REACH)
    plan_hero[..., c.HURT] += gathered(able & (actions == c.HIT_HERO), target, damage, heroes)

    target = weakest_creep(creep, x, y, c.ATTACK_REACH)
    strikes = able & (actions == c.HIT_CREEP)
    form = creep.shape[:-1]
    plan_creep[..., c.HURT_BY_HEROES] += gathered(strikes, target, damage, lanes * c.CREEP_SLOTS).view(form)
    plan_creep[..., c.STRIKERS] += gathered(strikes, target, 1, lanes * c.CREEP_SLOTS).view(form)
    plan_hero[..., c.STRUCK] = torch.where(strikes, target + 1, 0)

    target = building_in_reach(building, x, y)
    plan_building += gathered(able & (actions == c.HIT_BUILDING), target, damage, lanes + 1)


def aim_creeps(
    hero: Tensor,
    creep: Tensor,
    building: Tensor,
    front: Tensor,
    plan_hero: Tensor,
    plan_creep: Tensor,
    plan_building: Tensor,
) -> None:
    lanes = creep.shape[2]
    living, x = creep[..., c.HEALTH] > 0, creep[..., c.X]
    damage = c.CREEP_DAMAGE + c.CREEP_DAMAGE_GROWTH * creep[..., c.AGE]

    facing = front.flip(1)
    facing_x = c.LAST - at_slot(creep.flip(1), facing, c.X)
    hits = living & (facing >= 0)[..., None] & ((facing_x[..., None] - x).abs() <= c.CREEP_REACH)
    force = torch.where(hits, damage, 0).sum(-1, dtype=torch.int32)[..., None]
    plan_creep[..., c.HURT] += (force * (facing[..., None] == indices(c.CREEP_SLOTS, creep))).flip(1)
    engaged = hits

    row = row_of(indices(lanes, creep))[:, None].expand_as(x)
    beside = weakest_hero(hero, x.flatten(2), row.flatten(2), c.CREEP_REACH).view_as(x)
    hits = living & ~engaged & (beside >= 0)
    hurt = gathered(hits.flatten(2), beside.flatten(2), damage.flatten(2), hero.shape[2])
    plan_hero[..., c.HURT] += hurt
    engaged = engaged | hits

    tower = building.flip(1)[..., :-1, None]
    hits = living & ~engaged & (tower > 0) & ((c.LAST - c.TOWER_X - x).abs() <= c.CREEP_REACH)
    plan_building[..., :-1] += torch.where(hits, damage, 0).sum(-1, dtype=torch.int32).flip(1)
    engaged = engaged | hits

    hits = living & ~engaged & (tower == 0) & (c.LAST - x <= c.CREEP_REACH)
    plan_building[..., -1] += torch.where(hits, damage, 0).sum((-2, -1), dtype=torch.int32).flip(1)
    plan_creep[..., c.ENGAGED] = engaged | hits


def aim_towers(
    hero: Tensor, creep: Tensor, building: Tensor, front: Tensor, plan_hero: Tensor, plan_creep: Tensor
) -> None:
    stands = building[..., :-1] > 0
    facing = front.flip(1)
    facing_x = c.LAST - at_slot(creep.flip(1), facing, c.X)
    busy = stands & (facing >= 0) & ((facing_x - c.TOWER_X).abs() <= c.TOWER_REACH)
    hits = busy[..., None] & (facing[..., None] == indices(c.CREEP_SLOTS, creep))
    plan_creep[..., c.HURT] += c.TOWER_DAMAGE * hits.flip(1)

    row = row_of(indices(creep.shape[2], creep)).expand_as(front)
    target = weakest_hero(hero, torch.full_like(front, c.TOWER_X), row, c.TOWER_REACH)
    plan_hero[..., c.HURT] += gathered(stands & ~busy, target, c.TOWER_DAMAGE, hero.shape[2])


def share(hero: Tensor, x: Tensor, y: Tensor, falls: Tensor, experience: int, gold: int) -> None:
    """Pays for each unit of (games, 2, units) that falls on (x, y) the living enemy heroes within REWARD_REACH."""
    enemy = hero.flip(1)[:, :, None]
    there = near(c.LAST - enemy[..., c.X] - x[..., None], enemy[..., c.Y] - y[..., None], c.REWARD_REACH)
    there = there & (enemy[..., c.RESPAWN] == 0) & falls[..., None]
    sharers = there.sum(-1, keepdim=True, dtype=torch.int32).clamp(min=1)
    hero[..., c.EXPERIENCE] += (there * (experience // sharers)).sum(2, dtype=torch.int32).flip(1)
    hero[..., c.GOLD] += (there * (gold // sharers)).sum(2, dtype=torch.int32).flip(1)


def pay(
    hero: Tensor, creep: Tensor, building: Tensor, plan_hero: Tensor, plan_creep: Tensor, plan_building: Tensor
) -> None:
    """Experience and gold for all that falls in this tick. Health is still that of its start."""
    left = creep[..., c.HEALTH] - plan_creep[..., c.HURT]
    falls = (creep[..., c.HEALTH] > 0) & (left <= plan_creep[..., c.HURT_BY_HEROES])
    row = row_of(indices(creep.shape[2], creep))[:, None].expand_as(falls)
    share(hero, creep[..., c.X].flatten(2), row.flatten(2), falls.flatten(2), c.CREEP_EXPERIENCE, 0)

    last_hit = (falls & (left > 0)).flatten(2).flip(1)
    gold = c.LAST_HIT_GOLD // plan_creep[..., c.STRIKERS].flatten(2).flip(1).clamp(min=1)
    struck = plan_hero[..., c.STRUCK, None] == 1 + indices(last_hit.shape[2], hero)
    struck = struck & last_hit[:, :, None]
    hero[..., c.GOLD] += (struck * gold[:, :, None]).sum(-1, dtype=torch.int32)
    hero[..., c.LAST_HITS] += struck.sum(-1, dtype=torch.int32)

    fallen = (building > 0) & (building <= plan_building)
    hero[..., c.GOLD] += c.TOWER_GOLD * fallen[..., :-1].sum(-1, dtype=torch.int32).flip(1)[..., None]

    falls = (hero[..., c.RESPAWN] == 0) & (hero[..., c.HEALTH] <= plan_hero[..., c.HURT])
    share(hero, hero[..., c.X], hero[..., c.Y], falls, c.KILL_EXPERIENCE, c.KILL_GOLD)


def harm(
    hero: Tensor, creep: Tensor, building: Tensor, plan_hero: Tensor, plan_creep: Tensor, plan_building: Tensor
) -> None:
    hurt = plan_creep[..., c.HURT] + plan_creep[..., c.HURT_BY_HEROES]
    hero[..., c.HEALTH] = (hero[..., c.HEALTH] - plan_hero[..., c.HURT]).clamp(min=0)
    creep[..., c.HEALTH] = (creep[..., c.HEALTH] - hurt).clamp(min=0)
    building.copy_((building - plan_building).clamp(min=0))


def move(clock: Tensor, hero: Tensor, creep: Tensor, plan_hero: Tensor, plan_creep: Tensor) -> None:
    hero[..., c.X] += plan_hero[..., c.STEP_X]
    hero[..., c.Y] += plan_hero[..., c.STEP_Y]
    walking = (clock[:, c.TICK] % c.WALK_PERIOD == 0)[:, None, None, None]
    walks = walking & (creep[..., c.HEALTH] > 0) & (plan_creep[..., c.ENGAGED] == 0) & (creep[..., c.X] < c.LAST)
    creep[..., c.X] += walks


def recover(clock: Tensor, hero: Tensor, plan_hero: Tensor, lanes: int) -> None:
    """Deaths, returns, healing, cooldowns."""
    heroes = hero.shape[2]
    full = full_health(hero[..., c.EXPERIENCE])
    absent = hero[..., c.RESPAWN] > 0
    returns = hero[..., c.RESPAWN] == 1
    dies = ~absent & (hero[..., c.HEALTH] == 0)

    respawn = c.RESPAWN_TICKS + c.RESPAWN_PER_LEVEL * level_of(hero[..., c.EXPERIENCE])
    hero[..., c.RESPAWN] = torch.where(dies, respawn, hero[..., c.RESPAWN] - absent.int())
    hero[..., c.DEATHS] += dies
    hero[..., c.X] = torch.where(dies, 0, hero[..., c.X])
    hero[..., c.Y] = torch.where(dies, row_of(home_lane(indices(heroes, hero), heroes, lanes)), hero[..., c.Y])

    heal = (clock[:, c.TICK] % c.HEAL_PERIOD == 0).int()[:, None, None]
    heal = torch.where(hero[..., c.X] <= c.FOUNTAIN_X, full // c.FOUNTAIN_PARTS, heal)
    healed = torch.minimum(hero[..., c.HEALTH] + heal, full)
    hero[..., c.HEALTH] = torch.where(returns, full, torch.where(absent | dies, hero[..., c.HEALTH], healed))

    cooldown = (hero[..., c.COOLDOWN] - 1).clamp(min=0)
    hero[..., c.COOLDOWN] = torch.where(plan_hero[..., c.CASTS] > 0, c.NUKE_COOLDOWN, cooldown)
    stun = torch.where(plan_hero[..., c.STUNNED] > 0, c.STUN_TICKS, (hero[..., c.STUN] - 1).clamp(min=0))
    hero[..., c.STUN] = torch.where(hero[..., c.RESPAWN] > 0, 0, stun)
