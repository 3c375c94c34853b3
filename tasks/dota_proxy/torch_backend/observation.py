"""What each hero observes (features.py) and which actions it has. numba_backend/observation.py is the twin."""

import torch
from torch import Tensor

from tasks.dota_proxy import constants as c
from tasks.dota_proxy import features as f
from tasks.dota_proxy.torch_backend.targets import (
    ancient_is_open,
    at_slot,
    building_in_reach,
    damage_of,
    find_fronts,
    full_health,
    indices,
    level_of,
    near,
    row_of,
    weakest_creep,
    weakest_hero,
)


def scaled(number: Tensor, scale: float) -> Tensor:
    return number.float() * scale


def sees(hero: Tensor, creep: Tensor, building: Tensor, front: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Whether each team sees cells (x, y) of shape (games, 2, cells), given in its own frame."""
    x, y = x[..., None], y[..., None]
    living = (hero[..., c.RESPAWN] == 0)[:, :, None]
    by_hero = living & near(hero[:, :, None, :, c.X] - x, hero[:, :, None, :, c.Y] - y, c.SIGHT)
    beside = (row_of(indices(creep.shape[2], creep)) - y).abs() <= c.SIGHT
    by_tower = (building[..., :-1] > 0)[:, :, None] & ((c.TOWER_X - x).abs() <= c.SIGHT)
    by_creep = (front >= 0)[:, :, None] & ((at_slot(creep, front, c.X)[:, :, None] - x).abs() <= c.SIGHT)
    by_ancient = (building[..., -1] > 0)[..., None] & (x[..., 0] <= c.SIGHT)
    return by_ancient | by_hero.any(-1) | (beside & (by_tower | by_creep)).any(-1)


def summarise(hero: Tensor, creep: Tensor, building: Tensor, front: Tensor) -> tuple[Tensor, Tensor]:
    """Number of creeps in a lane and the foremost one's x and health: own, and seen ones of the enemy.

    Returns:
        Two of shape (games, 2, lanes, 3), zero in lanes without.
    """
    exists = (front >= 0).int()
    number = (creep[..., c.HEALTH] > 0).sum(-1, dtype=torch.int32)
    own = [number, exists * at_slot(creep, front, c.X), exists * at_slot(creep, front, c.HEALTH)]

    enemy = creep.flip(1)
    x = c.LAST - enemy[..., c.X]
    row = row_of(indices(creep.shape[2], creep))[:, None].expand_as(x)
    seen = sees(hero, creep, building, front, x.flatten(2), row.flatten(2)).view_as(x) & (enemy[..., c.HEALTH] > 0)
    slots = indices(c.CREEP_SLOTS, creep)
    slot = torch.where(seen, x * c.CREEP_SLOTS + slots, c.LENGTH * c.CREEP_SLOTS).amin(-1) % c.CREEP_SLOTS
    exists = seen.any(-1).int()
    theirs = [
        seen.sum(-1, dtype=torch.int32),
        exists * (c.LAST - at_slot(enemy, slot, c.X)),
        exists * at_slot(enemy, slot, c.HEALTH),
    ]
    return torch.stack(own, -1), torch.stack(theirs, -1)


def observe_self(hero: Tensor, creep: Tensor, building: Tensor, front: Tensor) -> Tensor:
    """(games, 2, heroes, features), as all that follow."""
    me = hero.unbind(-1)
    x, y = me[c.X], me[c.Y]
    lane = row_of(indices(creep.shape[2], creep))
    in_reach = near(c.LAST - c.TOWER_X - x[..., None], lane - y[..., None], c.TOWER_REACH)
    under = in_reach & (building.flip(1)[:, :, None, :-1] > 0)
    distance = (c.LAST - c.TOWER_X - at_slot(creep, front, c.X)).abs()
    busy = under & ((front >= 0) & (distance <= c.TOWER_REACH))[:, :, None]
    target = weakest_creep(creep, x, y, c.ATTACK_REACH)
    health = creep.flip(1)[..., c.HEALTH].flatten(2).gather(-1, target.clamp(min=0).long())
    weakest = torch.where(target >= 0, health, 0)
    damage = damage_of(me[c.EXPERIENCE], me[c.GOLD])
    columns = [
        (me[c.RESPAWN] == 0).float(),
        scaled(x, f.DISTANCE),
        scaled(y, f.DISTANCE),
        me[c.HEALTH].float() / full_health(me[c.EXPERIENCE]).float(),
        scaled(me[c.HEALTH], f.POINTS),
        scaled(level_of(me[c.EXPERIENCE]), f.LEVELS),
        scaled(damage, f.DAMAGE),
        scaled(me[c.COOLDOWN], f.COOLDOWN),
        me[c.STUN].float(),
        scaled(me[c.RESPAWN], f.RESPAWN),
        under.any(-1).float(),
        busy.any(-1).float(),
        scaled(weakest, f.CREEP_HEALTH),
        ((weakest > 0) & (weakest <= damage - c.DAMAGE_SPREAD)).float(),
    ]
    return torch.stack(columns, -1)


def observe_battle(clock: Tensor, hero: Tensor, building: Tensor) -> Tensor:
    deaths = hero[..., c.DEATHS].sum(-1)
    tick = clock[:, c.TICK, None].expand_as(deaths)
    ancient, is_open = building[..., -1], ancient_is_open(building)
    columns = [
        scaled(tick, f.TICKS),
        scaled(c.WAVE_PERIOD - tick % c.WAVE_PERIOD, f.WAVE_TICKS),
        scaled(deaths.flip(1), f.KILLS),
        scaled(deaths, f.KILLS),
        scaled(ancient, 1 / c.ANCIENT_HEALTH) / hero.shape[2],
        scaled(ancient.flip(1), 1 / c.ANCIENT_HEALTH) / hero.shape[2],
        is_open.float(),
        is_open.flip(1).float(),
    ]
    return torch.stack(columns, -1)[:, :, None].expand(-1, -1, hero.shape[2], -1)


def observe_ally(hero: Tensor) -> Tensor:
    heroes = hero.shape[2]
    me, other = hero[:, :, :, None].unbind(-1), hero[:, :, None].unbind(-1)
    columns = [
        scaled(other[c.X] - me[c.X], f.DISTANCE),
        scaled(other[c.Y] - me[c.Y], f.DISTANCE),
        other[c.HEALTH].float() / full_health(other[c.EXPERIENCE]).float(),
        scaled(level_of(other[c.EXPERIENCE]), f.LEVELS),
        scaled(other[c.RESPAWN], f.RESPAWN),
        scaled(other[c.COOLDOWN], f.COOLDOWN),
    ]
    pairs = torch.stack([column.expand(-1, -1, heroes, -1) for column in columns], -1)
    n = torch.arange(heroes, device=hero.device)
    others = torch.arange(heroes - 1, device=hero.device) + (torch.arange(heroes - 1, device=hero.device) >= n[:, None])
    return pairs[:, :, n[:, None], others].flatten(3)


def observe_enemy(hero: Tensor, seen: Tensor) -> Tensor:
    """`seen` (games, 2, heroes): which enemy heroes a team sees."""
    me, other = hero[:, :, :, None].unbind(-1), hero.flip(1)[:, :, None].unbind(-1)
    columns = [
        torch.ones_like(other[0], dtype=torch.float32),
        scaled(c.LAST - other[c.X] - me[c.X], f.DISTANCE),
        scaled(other[c.Y] - me[c.Y], f.DISTANCE),
        other[c.HEALTH].float() / full_health(other[c.EXPERIENCE]).float(),
        scaled(level_of(other[c.EXPERIENCE]), f.LEVELS),
    ]
    columns = [torch.where(seen[:, :, None], column, 0.0) for column in columns]
    columns.append(scaled(other[c.RESPAWN], f.RESPAWN))
    heroes = hero.shape[2]
    return torch.stack([column.expand(-1, -1, heroes, -1) for column in columns], -1).flatten(3)


def observe_lane(hero: Tensor, building: Tensor, summary: tuple[Tensor, Tensor]) -> Tensor:
    x, y = hero[..., c.X, None], hero[..., c.Y, None]
    lanes = building.shape[2] - 1
    tower = building[:, :, None, :-1]
    columns = [
        scaled(row_of(indices(lanes, building)) - y, f.DISTANCE),
        scaled(tower, 1 / c.TOWER_HEALTH) / hero.shape[2],
        scaled(tower.flip(1), 1 / c.TOWER_HEALTH) / hero.shape[2],
    ]
    for number, front_x, front_health in (part[:, :, None].unbind(-1) for part in summary):
        columns.append(scaled(number, f.CREEPS))
        columns.append(torch.where(number > 0, scaled(front_x - x, f.DISTANCE), 0.0))
        columns.append(scaled(front_health, f.CREEP_HEALTH))
    heroes = hero.shape[2]
    return torch.stack([column.expand(-1, -1, heroes, -1) for column in columns], -1).flatten(3)


def find_legal(hero: Tensor, creep: Tensor, building: Tensor) -> Tensor:
    """(games, 2, heroes, ACTIONS) bool. Staying is always legal, and all that the fallen and the stunned can do."""
    x, y = hero[..., c.X], hero[..., c.Y]
    direction = torch.tensor(c.DIRECTIONS, dtype=torch.int32, device=hero.device)
    to_x, to_y = x[..., None] + direction[:, 0], y[..., None] + direction[:, 1]
    inside = (to_x >= 0) & (to_x < c.LENGTH) & (to_y >= 0) & (to_y < c.ROWS_PER_LANE * creep.shape[2])
    hits = [
        weakest_hero(hero, x, y, c.ATTACK_REACH) >= 0,
        weakest_creep(creep, x, y, c.ATTACK_REACH) >= 0,
        building_in_reach(building, x, y) >= 0,
        (hero[..., c.COOLDOWN] == 0) & (weakest_hero(hero, x, y, c.NUKE_REACH) >= 0),
    ]
    able = (hero[..., c.RESPAWN] == 0) & (hero[..., c.STUN] == 0)
    stay = torch.ones_like(able)[..., None]
    return torch.cat([stay, torch.cat([inside, torch.stack(hits, -1)], -1) & able[..., None]], -1)


def observe_games(clock: Tensor, hero: Tensor, creep: Tensor, building: Tensor) -> tuple[Tensor, Tensor]:
    """Observations (games, 2, heroes, features) float32 and legal (games, 2, heroes, ACTIONS) bool."""
    heroes = hero.shape[2]
    front = find_fronts(creep)
    enemy = hero.flip(1)
    seen = sees(hero, creep, building, front, c.LAST - enemy[..., c.X], enemy[..., c.Y]) & (enemy[..., c.RESPAWN] == 0)
    summary = summarise(hero, creep, building, front)
    blocks = [observe_self(hero, creep, building, front), observe_battle(clock, hero, building)]
    if heroes > 1:
        blocks += [torch.eye(heroes, device=hero.device).expand(len(hero), 2, -1, -1), observe_ally(hero)]
    blocks += [observe_enemy(hero, seen), observe_lane(hero, building, summary)]
    return torch.cat(blocks, -1), find_legal(hero, creep, building)
