"""What a hero observes: a vector of float32, in its team's frame, in this order. The index of each part and its names.

Everything is a whole number times a scale of float32, or a ratio of two, so that both backends agree to the last bit.
What the team does not see (constants.py) is 0: `seen` tells an unseen hero, `enemy creeps` an empty or unseen lane.
"""

from functools import cache

from tasks.dota_proxy.constants import LANES

SELF = (
    *("alive", "x", "y", "health", "health points", "level", "damage", "cooldown", "stunned", "respawn"),
    "under tower",  # within reach of a standing enemy tower
    "tower is busy",  # and it would shoot at a creep
    "weakest creep",  # health of the weakest enemy creep within reach, 0 without one
    "last hit",  # it falls to the least damage of one blow
)
ALIVE, SELF_X, SELF_Y, SELF_HEALTH, SELF_POINTS, SELF_LEVEL, SELF_DAMAGE = range(7)
SELF_COOLDOWN, SELF_STUNNED, SELF_RESPAWN, UNDER_TOWER, TOWER_BUSY, WEAKEST_CREEP, LAST_HIT = range(7, 14)
BATTLE = ("tick", "next wave", "kills", "deaths", "own ancient", "enemy ancient", "own is open", "enemy is open")
BATTLE_TICK = len(SELF)
ALLY = ("dx", "dy", "health", "level", "respawn", "cooldown")
ENEMY = ("seen", "dx", "dy", "health", "level", "respawn")
ENEMY_SEEN, ENEMY_DX, ENEMY_DY, ENEMY_HEALTH = range(4)
LANE = (
    *("dy", "own tower", "enemy tower", "own creeps", "own front dx", "own front health"),
    *("enemy creeps", "enemy front dx", "enemy front health"),
)
LANE_DY, OWN_TOWER, ENEMY_TOWER, OWN_CREEPS, OWN_FRONT_DX, OWN_FRONT_HEALTH = range(6)
ENEMY_CREEPS, ENEMY_FRONT_DX, ENEMY_FRONT_HEALTH = range(6, 9)

# Scales, chosen so that features are of order 1.
DISTANCE = 1 / 12
LEVELS = 1 / 9
POINTS = 1 / 100  # of health
DAMAGE = 1 / 20
COOLDOWN = 1 / 15
RESPAWN = 1 / 30
CREEP_HEALTH = 1 / 40
CREEPS = 1 / 6
KILLS = 1 / 20
TICKS = 1 / 400
WAVE_TICKS = 1 / 20


@cache
def parts(heroes: int) -> dict[str, tuple[int, int, int]]:
    """Where each part begins, how many of it there are, and the features of one."""
    sizes = {
        "self": (1, len(SELF)),
        "battle": (1, len(BATTLE)),
        "identity": (1, heroes if heroes > 1 else 0),  # one-hot: which hero of its team it is
        "ally": (heroes - 1, len(ALLY)),  # all but itself, by index
        "enemy": (heroes, len(ENEMY)),
        "lane": (LANES[heroes], len(LANE)),
    }
    begins, table = 0, {}
    for name, (count, size) in sizes.items():
        table[name] = (begins, count, size)
        begins += count * size
    return table


@cache
def features(heroes: int) -> int:
    """Length of the vector: 37 for a team of 1, 108 for one of 5."""
    return sum(count * size for _, count, size in parts(heroes).values())


def feature_names(heroes: int) -> tuple[str, ...]:
    """For example "health", "enemy 0: dx", "lane 2: own creeps"."""
    identity = [f"is hero {n}" for n in range(heroes)] if heroes > 1 else []
    names = [*SELF, *BATTLE, *identity]
    for what, count, of in (("ally", heroes - 1, ALLY), ("enemy", heroes, ENEMY), ("lane", LANES[heroes], LANE)):
        names += [f"{what} {k}: {name}" for k in range(count) for name in of]
    return tuple(names)
