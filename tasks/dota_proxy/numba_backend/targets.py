"""Who can be hit from where, and what heroes are worth. One game at a time; torch_backend/targets.py is the twin.

`hero`, `creep`, `building` are one game's rows of the state (state.py). `team` is 0 or 1, its enemy `1 - team`; where
positions of both teams meet, the enemy's x is turned into one's own frame: c.LAST - x.
"""

from tasks.dota_proxy import constants as c
from tasks.dota_proxy.compiling import inlined

NOBODY = 1 << 30  # more health than anyone has


@inlined
def row_of(lane):
    return c.LANE_ROW + c.ROWS_PER_LANE * lane


@inlined
def home_lane(n, heroes, lanes):
    """Heroes spread over the lanes: 2, 2, 1."""
    return n * lanes // heroes


@inlined
def level_of(experience):
    return min(experience // c.LEVEL_EXPERIENCE, c.MAX_LEVEL)


@inlined
def full_health(experience):
    return c.HERO_HEALTH + c.HEALTH_PER_LEVEL * level_of(experience)


@inlined
def damage_of(experience, gold):
    return c.HERO_DAMAGE + level_of(experience) + gold // c.GOLD_PER_DAMAGE


@inlined
def near(dx, dy, reach):
    return abs(dx) <= reach and abs(dy) <= reach


@inlined
def ancient_is_open(building, team):
    """Whether one of the team's towers has fallen."""
    lanes = building.shape[1] - 1
    fallen = 0
    for lane in range(lanes):
        fallen += building[team, lane] == 0
    return fallen > 0


@inlined
def find_fronts(creep, front):
    """The foremost living creep of each lane, the lowest slot among equals."""
    for team in range(2):
        for lane in range(creep.shape[1]):
            front[team, lane] = -1
            foremost = -1
            for slot in range(c.CREEP_SLOTS):
                if creep[team, lane, slot, c.HEALTH] > 0 and creep[team, lane, slot, c.X] > foremost:
                    foremost = creep[team, lane, slot, c.X]
                    front[team, lane] = slot


@inlined
def weakest_hero(hero, team, x, y, reach):
    """The hero of `team` with the least health within `reach` of the enemy's cell (x, y), or -1."""
    weakest, least = -1, NOBODY
    for n in range(hero.shape[1]):
        better = hero[team, n, c.RESPAWN] == 0 and hero[team, n, c.HEALTH] < least
        if better and near(c.LAST - hero[team, n, c.X] - x, hero[team, n, c.Y] - y, reach):
            weakest, least = n, hero[team, n, c.HEALTH]
    return weakest


@inlined
def weakest_creep(creep, team, x, y, reach):
    """Lane x CREEP_SLOTS + slot of the creep of `team` with the least health near the enemy's cell (x, y), or -1."""
    weakest, least = -1, NOBODY
    for lane in range(creep.shape[1]):
        if abs(row_of(lane) - y) <= reach:
            for slot in range(c.CREEP_SLOTS):
                health = creep[team, lane, slot, c.HEALTH]
                if 0 < health < least and abs(c.LAST - creep[team, lane, slot, c.X] - x) <= reach:
                    weakest, least = lane * c.CREEP_SLOTS + slot, health
    return weakest


@inlined
def building_in_reach(building, team, x, y):
    """The building of `team` that an enemy hero on its cell (x, y) can hit, or -1."""
    lanes = building.shape[1] - 1
    for lane in range(lanes):
        if building[team, lane] > 0 and near(c.LAST - c.TOWER_X - x, row_of(lane) - y, c.ATTACK_REACH):
            return lane
    if c.LAST - x <= c.ATTACK_REACH and ancient_is_open(building, team):
        return lanes
    return -1
