"""Who can be hit from where, and what heroes are worth. All games at once; numba_backend/targets.py is the twin.

`hero`, `creep`, `building` are whole arrays of the state (state.py). Cells `x`, `y` of shape (games, 2, units) are in
the frame of the team that asks, the answer is about the enemy: a tensor's flip along the axis of teams is the enemy's.
Where several are equally good the lowest index is taken: it is a part of the number whose minimum is sought.
"""

import torch
from torch import Tensor

from tasks.dota_proxy import constants as c

NOBODY = 1 << 30  # more than any health times any index


def indices(count: int, like: Tensor) -> Tensor:
    return torch.arange(count, dtype=torch.int32, device=like.device)


def row_of(lane: int | Tensor) -> int | Tensor:
    return c.LANE_ROW + c.ROWS_PER_LANE * lane


def home_lane(n: int | Tensor, heroes: int, lanes: int) -> int | Tensor:
    """Heroes spread over the lanes: 2, 2, 1."""
    return n * lanes // heroes


def level_of(experience: Tensor) -> Tensor:
    return (experience // c.LEVEL_EXPERIENCE).clamp(max=c.MAX_LEVEL)


def full_health(experience: Tensor) -> Tensor:
    return c.HERO_HEALTH + c.HEALTH_PER_LEVEL * level_of(experience)


def damage_of(experience: Tensor, gold: Tensor) -> Tensor:
    return c.HERO_DAMAGE + level_of(experience) + gold // c.GOLD_PER_DAMAGE


def near(dx: Tensor, dy: Tensor, reach: int) -> Tensor:
    return (dx.abs() <= reach) & (dy.abs() <= reach)


def ancient_is_open(building: Tensor) -> Tensor:
    """Whether one of a team's towers has fallen, (games, 2)."""
    return (building[..., :-1] == 0).any(-1)


def find_fronts(creep: Tensor) -> Tensor:
    """Slot of the foremost living creep of each lane, the lowest among equals, or -1; (games, 2, lanes)."""
    order = c.CREEP_SLOTS - 1 - indices(c.CREEP_SLOTS, creep)
    foremost = torch.where(creep[..., c.HEALTH] > 0, creep[..., c.X] * c.CREEP_SLOTS + order, -1).amax(-1)
    return torch.where(foremost >= 0, c.CREEP_SLOTS - 1 - foremost % c.CREEP_SLOTS, -1)


def at_slot(creep: Tensor, slot: Tensor, field: int) -> Tensor:
    """A field of one creep of each lane, (games, 2, lanes); slot -1 reads slot 0."""
    return creep[..., field].gather(-1, slot.clamp(min=0).long()[..., None])[..., 0]


def weakest_hero(hero: Tensor, x: Tensor, y: Tensor, reach: int) -> Tensor:
    """The enemy hero with the least health within `reach` of each cell, or -1; (games, 2, units)."""
    enemy = hero.flip(1)[:, :, None]
    there = near(c.LAST - enemy[..., c.X] - x[..., None], enemy[..., c.Y] - y[..., None], reach)
    ranked = enemy[..., c.HEALTH] * 8 + indices(hero.shape[2], hero)
    least = torch.where(there & (enemy[..., c.RESPAWN] == 0), ranked, NOBODY).amin(-1)
    return torch.where(least < NOBODY, least % 8, -1)


def weakest_creep(creep: Tensor, x: Tensor, y: Tensor, reach: int) -> Tensor:
    """Lane x CREEP_SLOTS + slot of the enemy creep with the least health near each cell, or -1; (games, 2, units)."""
    lanes = creep.shape[2]
    enemy = creep.flip(1).flatten(2, 3)[:, :, None]
    row = row_of(indices(lanes * c.CREEP_SLOTS, creep) // c.CREEP_SLOTS)
    there = near(c.LAST - enemy[..., c.X] - x[..., None], row - y[..., None], reach)
    ranked = enemy[..., c.HEALTH] * 32 + indices(lanes * c.CREEP_SLOTS, creep)
    least = torch.where(there & (enemy[..., c.HEALTH] > 0), ranked, NOBODY).amin(-1)
    return torch.where(least < NOBODY, least % 32, -1)


def building_in_reach(building: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The enemy's building that a hero on each cell can hit, or -1; (games, 2, units)."""
    lanes = building.shape[2] - 1
    enemy = building.flip(1)
    lane = indices(lanes, building)
    there = near(c.LAST - c.TOWER_X - x[..., None], row_of(lane) - y[..., None], c.ATTACK_REACH)
    tower = torch.where(there & (enemy[:, :, None, :-1] > 0), lane, lanes).amin(-1)
    ancient = (c.LAST - x <= c.ATTACK_REACH) & ancient_is_open(enemy)[..., None]
    return torch.where((tower < lanes) | ancient, tower, -1)
