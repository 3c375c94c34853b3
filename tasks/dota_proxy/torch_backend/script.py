"""What the script does, from a hero's observation and legal actions. numba_backend/script.py is the twin."""

import torch
from torch import Tensor

from tasks.dota_proxy import constants as c
from tasks.dota_proxy import features as f
from tasks.dota_proxy.draws import mixed
from tasks.dota_proxy.torch_backend.targets import home_lane, indices

ACTION_TO = torch.zeros(3, 3, dtype=torch.int64)  # by the signs of dx and dy, plus 1
for action, (dx, dy) in enumerate(c.DIRECTIONS):
    ACTION_TO[dx + 1, dy + 1] = action + 1
BACK = ACTION_TO[0, 1].item()


def goal_lane(seen: Tensor, lane: Tensor) -> Tensor:
    """The hero's own lane at first, then that of the enemy's weakest tower; (games, heroes)."""
    heroes, lanes = lane.shape[1:3]
    home = home_lane(torch.arange(heroes, device=seen.device), heroes, lanes).expand(len(seen), heroes)
    tower = lane[..., f.ENEMY_TOWER]
    least = tower.amin(-1, keepdim=True)
    weakest = torch.where(tower == least, indices(lanes, seen), lanes).amin(-1)
    gathers = seen[..., f.BATTLE_TICK] >= c.GATHER_TICK * f.TICKS
    better = tower.gather(-1, home[..., None]) > least
    return torch.where(gathers & better[..., 0], weakest, home)


def walk(seen: Tensor, lane: Tensor) -> Tensor:
    """A step to the place behind the lane's foremost own creep, or to the tower that new creeps will come by."""
    goal = goal_lane(seen, lane)[..., None, None].expand(-1, -1, 1, lane.shape[-1])
    at = lane.gather(2, goal)[:, :, 0]
    waiting = torch.where(at[..., f.OWN_TOWER] > 0, float(c.TOWER_X), float(c.WAITING_X))
    dx = waiting * f.DISTANCE - seen[..., f.SELF_X]
    dx = torch.where(at[..., f.OWN_CREEPS] > 0, at[..., f.OWN_FRONT_DX] - f.DISTANCE, dx)
    return ACTION_TO.to(seen.device)[dx.sign().long() + 1, at[..., f.LANE_DY].sign().long() + 1]


def dares(seen: Tensor, enemy: Tensor) -> Tensor:
    """Whether the weakest enemy hero in reach is not much healthier than this hero."""
    reach = c.ATTACK_REACH * f.DISTANCE
    in_reach = (enemy[..., f.ENEMY_DX].abs() <= reach) & (enemy[..., f.ENEMY_DY].abs() <= reach)
    weak = enemy[..., f.ENEMY_HEALTH] <= seen[..., f.SELF_HEALTH, None] + c.BOLDNESS
    return ((enemy[..., f.ENEMY_SEEN] > 0) & in_reach & weak).any(-1)


def choose(seen: Tensor, legal: Tensor, enemy: Tensor, lane: Tensor) -> Tensor:
    at_home = seen[..., f.SELF_X] <= c.FOUNTAIN_X * f.DISTANCE
    health = seen[..., f.SELF_HEALTH]
    cases = [
        (legal[..., c.NUKE], c.NUKE),
        (at_home & (health < c.HEALED), c.STAY),
        ((health < c.FLEE) | (seen[..., f.UNDER_TOWER] > seen[..., f.TOWER_BUSY]), BACK),
        (legal[..., c.HIT_CREEP] & (seen[..., f.LAST_HIT] > 0), c.HIT_CREEP),
        (legal[..., c.HIT_HERO] & dares(seen, enemy), c.HIT_HERO),
        (legal[..., c.HIT_BUILDING], c.HIT_BUILDING),
        (legal[..., c.HIT_CREEP], c.HIT_CREEP),
    ]
    actions = walk(seen, lane)
    for holds, action in reversed(cases):
        actions = torch.where(holds, action, actions)
    return actions


def any_legal(legal: Tensor, draw: Tensor) -> Tensor:
    """A legal action, all equally likely."""
    return (legal.cumsum(-1) <= (draw % legal.sum(-1))[..., None]).sum(-1)


def act_games(
    seed: int,
    games: Tensor,
    clock: Tensor,
    side: Tensor,
    observations: Tensor,
    legal: Tensor,
    team: int,
    threshold: Tensor,
    at_enemy: int,
    at_lane: int,
    lanes: int,
) -> Tensor:
    """Actions (games, heroes) int64; a hero whose draw is below its game's `threshold` acts at random."""
    heroes = observations.shape[2]
    seen, options = observations[:, team], legal[:, team]
    key = mixed(mixed(mixed(seed, games), clock[:, c.EPISODE].long()), clock[:, c.TICK].long())
    draw = mixed(key[:, None], c.SCRIPT_DRAWS + 8 * side[:, team, None].long() + indices(heroes, seen))
    enemy = seen[..., at_enemy:at_lane].unflatten(-1, (heroes, len(f.ENEMY)))
    lane = seen[..., at_lane:].unflatten(-1, (lanes, len(f.LANE)))
    by_script = choose(seen, options, enemy, lane)
    return torch.where(draw < threshold[:, None], any_legal(options, mixed(draw, c.SCRIPT_DRAWS)), by_script)
