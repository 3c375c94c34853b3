"""Waves, wins, points, and the tick of all games. numba_backend/episodes.py is the twin."""

import torch
from torch import Tensor

from tasks.dota_proxy import constants as c
from tasks.dota_proxy.draws import mixed
from tasks.dota_proxy.torch_backend.targets import find_fronts, home_lane, indices, row_of
from tasks.dota_proxy.torch_backend.tick import aim_creeps, aim_heroes, aim_towers, harm, move, pay, recover


def send_waves(clock: Tensor, creep: Tensor, which: Tensor) -> None:
    """New creeps into the first free slots of every lane, in those games of `which`, (games,) bool, that are due."""
    due = which & (clock[:, c.TICK] % c.WAVE_PERIOD == 0)
    free = creep[..., c.HEALTH] == 0
    new = free & (free.cumsum(-1) <= c.WAVE_CREEPS) & due[:, None, None, None]
    age = (clock[:, c.TICK] // c.GROWTH_PERIOD)[:, None, None, None]
    creep[..., c.X] = torch.where(new, c.CREEP_X, creep[..., c.X])
    creep[..., c.AGE] = torch.where(new, age, creep[..., c.AGE])
    creep[..., c.HEALTH] = torch.where(new, c.CREEP_HEALTH + c.CREEP_HEALTH_GROWTH * age, creep[..., c.HEALTH])


def has_lost(hero: Tensor, building: Tensor) -> Tensor:
    """(games, 2) bool."""
    if hero.shape[2] > 1:
        return building[..., -1] == 0
    return (hero[..., 0, c.DEATHS] >= c.DEATHS_TO_LOSE) | (building[..., 0] == 0)


def merit(hero: Tensor, building: Tensor) -> Tensor:
    """Orders teams when time is up, (games, 2): standing towers, then experience and gold."""
    towers = (building[..., :-1] > 0).sum(-1)
    wealth = (hero[..., c.EXPERIENCE] + hero[..., c.GOLD]).sum(-1)
    return towers * 2**30 + wealth


def decide(clock: Tensor, hero: Tensor, building: Tensor) -> tuple[Tensor, Tensor]:
    """Whether the game is over, and who won: 1 team 0, -1 team 1, 0 neither; (games,)."""
    lost = has_lost(hero, building)
    one, both = lost[:, 0] != lost[:, 1], lost[:, 0] & lost[:, 1]
    up = both | (clock[:, c.TICK] >= c.TICK_LIMIT)
    merits = merit(hero, building)
    by_merit = (merits[:, 0] - merits[:, 1]).sign()
    winner = torch.where(one, lost[:, 1].long() - lost[:, 0].long(), torch.where(up, by_merit, 0))
    return one | up, winner.to(torch.int8)


def standing(hero: Tensor, building: Tensor) -> Tensor:
    """What shaping rewards the growth of, in points; (games, 2, heroes)."""
    own = hero[..., c.EXPERIENCE] + hero[..., c.GOLD]
    return own - building.sum(-1, dtype=torch.int32).flip(1)[..., None] // hero.shape[2]


def begin(
    key: Tensor, which: Tensor, clock: Tensor, side: Tensor, hero: Tensor, creep: Tensor, building: Tensor
) -> None:
    """A new episode, whose hash is `key` (games,), in the games of `which`, (games,) bool."""
    heroes, lanes = hero.shape[2], creep.shape[2]
    n = indices(heroes, hero)
    draw = mixed(mixed(key, 0)[:, None, None], c.START_DRAWS + 8 * side[..., None].long() + n)
    new = torch.zeros_like(hero)
    new[..., c.X] = (draw % c.START_COLUMNS).int()
    row = (draw // c.START_COLUMNS % c.START_ROWS).int() - 1
    new[..., c.Y] = row_of(home_lane(n, heroes, lanes)) + row
    new[..., c.HEALTH] = c.HERO_HEALTH
    hero.copy_(torch.where(which[:, None, None, None], new, hero))
    clock[:, c.TICK] = torch.where(which, 0, clock[:, c.TICK])
    creep.copy_(torch.where(which[:, None, None, None, None], 0, creep))
    building[..., :-1] = torch.where(which[:, None, None], c.TOWER_HEALTH * heroes, building[..., :-1])
    building[..., -1] = torch.where(which[:, None], c.ANCIENT_HEALTH * heroes, building[..., -1])
    send_waves(clock, creep, which)


def play(key: Tensor, clock: Tensor, side: Tensor, hero: Tensor, creep: Tensor, building: Tensor, actions: Tensor):
    """One tick of all games: all but their ends."""
    plan_hero = hero.new_zeros((*hero.shape[:-1], c.HERO_PLAN_FIELDS))
    plan_creep = creep.new_zeros((*creep.shape[:-1], c.CREEP_PLAN_FIELDS))
    plan_building = torch.zeros_like(building)
    front = find_fronts(creep)
    tick_key = mixed(key, clock[:, c.TICK].long())
    aim_heroes(tick_key, side, hero, creep, building, actions, plan_hero, plan_creep, plan_building)
    aim_creeps(hero, creep, building, front, plan_hero, plan_creep, plan_building)
    aim_towers(hero, creep, building, front, plan_hero, plan_creep)
    pay(hero, creep, building, plan_hero, plan_creep, plan_building)
    harm(hero, creep, building, plan_hero, plan_creep, plan_building)
    move(clock, hero, creep, plan_hero, plan_creep)
    recover(clock, hero, plan_hero, creep.shape[2])
    clock[:, c.TICK] += 1
    send_waves(clock, creep, torch.ones_like(clock[:, 0], dtype=torch.bool))


def reward(hero: Tensor, building: Tensor, winner: Tensor, weight: float, before: Tensor) -> Tensor:
    """Rewards (games, 2, heroes); `before`, of that shape, is what heroes' standing was."""
    points = standing(hero, building) - before
    lead = hero.shape[2] * points - points.sum(-1, keepdim=True, dtype=torch.int32).flip(1)
    return torch.stack([winner, -winner], 1)[..., None].float() + lead.float() * weight


def begin_games(
    seed: int, games: Tensor, clock: Tensor, side: Tensor, hero: Tensor, creep: Tensor, building: Tensor
) -> None:
    key = mixed(mixed(seed, games), clock[:, c.EPISODE].long())
    begin(key, torch.ones_like(games, dtype=torch.bool), clock, side, hero, creep, building)


def step_games(
    seed: int,
    games: Tensor,
    clock: Tensor,
    side: Tensor,
    hero: Tensor,
    creep: Tensor,
    building: Tensor,
    actions: Tensor,
    weight: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """One tick of all games; those that end begin their next episode.

    Args:
        games: (games,) int64, global indices.
        actions: (games, 2, heroes) int64.
        weight: reward of a point.

    Returns:
        Rewards (games, 2, heroes) float32, done (games,) bool, winner (games,) int8.
    """
    game_key = mixed(seed, games)
    before = standing(hero, building)
    play(mixed(game_key, clock[:, c.EPISODE].long()), clock, side, hero, creep, building, actions)
    done, winner = decide(clock, hero, building)
    rewards = reward(hero, building, winner, weight, before)
    clock[:, c.EPISODE] += done
    begin(mixed(game_key, clock[:, c.EPISODE].long()), done, clock, side, hero, creep, building)
    return rewards, done, winner
