"""The rules of the battle, as text and as numbers; both backends read them here and nowhere else.

Two teams of N heroes fight over one lane (N = 1) or three (N = 5). Each team's units live in that team's own frame:
its base is at x = 0, the enemy's at x = LAST, and rows are shared. A unit at x stands at LAST - x for the enemy, so
one policy plays both sides. A distance is the larger of both coordinates' differences. Any number of units fit a cell.

A tick, in this order; all that units do is decided from the state at its start, for both teams at once:
1. Aim. Heroes act (actions below). The foremost creep of each lane takes the blows of all enemy creeps that reach it;
   without one in reach a creep strikes the weakest hero beside it, then the lane's tower, then, where that has fallen,
   the ancient; else it walks on every second tick. A tower shoots at the foremost enemy creep of its lane, else at the
   weakest hero in reach.
2. Pay. Blows of creeps and towers land before those of heroes: where a creep would have outlived the former, the
   heroes that struck it share the gold of the last hit. Heroes near any fallen enemy share its experience, and the
   gold of a fallen hero. A fallen tower pays every hero of the other team.
3. Harm. Health falls, never below 0. A fallen hero returns to its fountain after some ticks.
4. Move. Heroes walk a cell in any of eight directions.
5. Recover. Respawning, levels (experience: health, damage, nuke), healing, cooldowns. Gold buys damage at once.
6. Waves. Every WAVE_PERIOD ticks each lane of each team gets new creeps, stronger every GROWTH_PERIOD ticks.
7. Decide. 1v1: a team loses by DEATHS_TO_LOSE deaths or by its tower (Dota's rule for 1v1). 5v5: by its ancient, which
   nothing harms before one of its team's towers has fallen. At TICK_LIMIT, or if both lose at once, standing towers
   decide, then experience and gold of all heroes together; equal in both: a draw.

Sight. A team sees what is within SIGHT of its living heroes, of its lanes' foremost creeps and of its standing
buildings. Known to all without sight: buildings' health, kills, and when fallen heroes return.
"""

# The arena, in cells. The ancient and the fountain before it span all rows.
LENGTH = 25
LAST = LENGTH - 1
ROWS_PER_LANE = 7  # a lane's creeps see no other lane: ROWS_PER_LANE > SIGHT
LANE_ROW = 3  # of lane 0; lane l runs along row LANE_ROW + ROWS_PER_LANE * l
TOWER_X = 7
CREEP_X = 2  # where waves set out
FOUNTAIN_X = 1  # up to here own heroes heal
SIGHT = 6
START_COLUMNS, START_ROWS = 4, 3  # heroes begin at x = 0 to 3, in their lane's row or beside it, by chance
LANES = {1: 1, 5: 3}  # of a team of so many heroes

TICK_LIMIT = 400
DEATHS_TO_LOSE = 2  # 1v1 only

# Actions. Moves are 1 to 8; a move's direction is DIRECTIONS[action - 1], in the team's own frame.
STAY = 0
DIRECTIONS = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
HIT_HERO = 9  # the weakest enemy hero within ATTACK_REACH
HIT_CREEP = 10  # the weakest enemy creep within ATTACK_REACH
HIT_BUILDING = 11  # the enemy tower within ATTACK_REACH, or the ancient
NUKE = 12  # the weakest enemy hero within NUKE_REACH: much damage, and it cannot act for STUN_TICKS
ACTIONS = 13

# Heroes. Health and damage in points, times in ticks.
HERO_HEALTH = 100
HEALTH_PER_LEVEL = 15
HERO_DAMAGE = 8
DAMAGE_SPREAD = 2  # a blow does damage - 2 to damage + 2, all five equally likely
LEVEL_EXPERIENCE = 60
MAX_LEVEL = 9
GOLD_PER_DAMAGE = 40
ATTACK_REACH = 2
NUKE_DAMAGE = 30
NUKE_DAMAGE_PER_LEVEL = 5
NUKE_REACH = 4
NUKE_COOLDOWN = 15
STUN_TICKS = 2  # without it nobody who flees is ever caught: all heroes are equally fast
RESPAWN_TICKS = 12
RESPAWN_PER_LEVEL = 3
HEAL_PERIOD = 4  # ticks per point of health away from the fountain
FOUNTAIN_PARTS = 10  # the fountain heals 1 / 10 of full health a tick

# Creeps, and buildings.
CREEP_SLOTS = 6  # most creeps of a team in a lane
WAVE_CREEPS = 3
WAVE_PERIOD = 20
WALK_PERIOD = 2
GROWTH_PERIOD = 80
CREEP_HEALTH = 30
CREEP_HEALTH_GROWTH = 5
CREEP_DAMAGE = 2
CREEP_DAMAGE_GROWTH = 1
CREEP_REACH = 1
TOWER_HEALTH = 180  # times N, as that of the ancient: five heroes at once would break what one can
TOWER_DAMAGE = 7
TOWER_REACH = 3
ANCIENT_HEALTH = 400

# Rewards of battle. Where several heroes share, each gets the whole part of an equal share.
REWARD_REACH = 6
CREEP_EXPERIENCE = 12
LAST_HIT_GOLD = 10
KILL_EXPERIENCE = 60
KILL_GOLD = 50
TOWER_GOLD = 40

# Shaping. A hero's standing is its experience and gold, less 1 / N of the health of all enemy buildings; what it gains
# in a tick, times N, less what the enemy heroes gain together, are its points. A death costs what the enemy gains by it
# and no more: when it cost 100 points besides, teams of five learnt to stay at home. One point is 2^-POINT_SHIFT of
# reward: a game's shaping then weighs about as much as its win, and with coefficients in steps of 1 / SHAPING_STEPS all
# rewards are multiples of 2^-20, which float32 adds without rounding: exactly zero-sum.
POINT_SHIFT = {1: 10, 5: 12}
SHAPING_STEPS = 256

# Fields of the state's arrays (state.py). X and HEALTH are the same for heroes and creeps.
TICK, EPISODE = range(2)
X, Y, HEALTH, EXPERIENCE, GOLD, DEATHS, RESPAWN, COOLDOWN, STUN, LAST_HITS = range(10)
AGE = 1  # of creeps: growth periods before their wave
CLOCK_FIELDS, HERO_FIELDS, CREEP_FIELDS = 2, 10, 3

# Fields of a tick's plan: what will befall a unit, what it will do. HURT is the same for heroes and creeps.
HURT, STUNNED, STEP_X, STEP_Y, CASTS, STRUCK = range(6)
HURT_BY_HEROES, STRIKERS, ENGAGED = range(1, 4)
HERO_PLAN_FIELDS, CREEP_PLAN_FIELDS = 6, 4

# What random numbers are for: added to 8 x (side) + (hero), so that no two draws of a tick share a counter.
DAMAGE_DRAWS = 0
START_DRAWS = 16
SCRIPT_DRAWS = 32

# What the script goes by (script.py). Healths are shares of the full one.
FLEE = 0.3  # below it a hero goes home
HEALED = 0.9  # below it a hero stays at home
BOLDNESS = 0.1  # a hero strikes one who is healthier by no more than this
GATHER_TICK = 150  # from here on all heroes go for the enemy's weakest tower; before, for that of their lane
WAITING_X = 3  # where they wait for creeps if their tower has fallen
