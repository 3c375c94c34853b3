"""The rules of the battle on cases counted by hand, in both backends."""

import pytest
import torch
from scenes import BLUE, FAR, RED, creep_health, hero, play, put_creep, put_hero, scene

from tasks.dota_proxy import constants as c

ROW = c.LANE_ROW  # of lane 0
EAST, WEST = 1, 5
LEAST, MOST = c.HERO_DAMAGE - c.DAMAGE_SPREAD, c.HERO_DAMAGE + c.DAMAGE_SPREAD  # of a blow at level 0


@pytest.fixture(params=["numba", "torch"])
def backend(request):
    return request.param


def test_last_hit_gives_gold_and_experience(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 12, ROW)
    put_creep(battle, RED, c.LAST - 14, health=LEAST)
    play(battle, {0: c.HIT_CREEP})
    assert creep_health(battle, RED) == 0
    assert hero(battle, BLUE, c.GOLD) == c.LAST_HIT_GOLD == 10
    assert hero(battle, BLUE, c.EXPERIENCE) == c.CREEP_EXPERIENCE == 12
    assert hero(battle, BLUE, c.LAST_HITS) == 1
    assert (hero(battle, RED, c.GOLD), hero(battle, RED, c.EXPERIENCE)) == (0, 0)


def test_a_blow_that_does_not_kill_earns_nothing(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 12, ROW)
    put_creep(battle, RED, c.LAST - 14, health=MOST + 1)
    play(battle, {0: c.HIT_CREEP})
    assert 1 <= creep_health(battle, RED) <= MOST + 1 - LEAST
    assert (hero(battle, BLUE, c.GOLD), hero(battle, BLUE, c.EXPERIENCE)) == (0, 0)


def test_a_creep_that_falls_to_creeps_gives_experience_alone(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 12, ROW)
    put_creep(battle, RED, c.LAST - 14, health=c.CREEP_DAMAGE)
    put_creep(battle, BLUE, 13, health=30)
    play(battle, {0: c.HIT_CREEP})  # the blow comes too late
    assert creep_health(battle, RED) == 0
    assert creep_health(battle, BLUE) == 30 - c.CREEP_DAMAGE  # it struck back in the same tick
    assert (hero(battle, BLUE, c.GOLD), hero(battle, BLUE, c.EXPERIENCE)) == (0, 12)


def test_heroes_share_a_last_hit_and_its_experience(backend):
    battle = scene(backend, heroes=5)
    for n, x in ((0, 12), (1, 13), (2, 14 - c.REWARD_REACH), (3, 14 - c.REWARD_REACH - 1)):
        put_hero(battle, BLUE, n, x, ROW)
    put_creep(battle, RED, c.LAST - 14, health=LEAST)
    play(battle, {0: c.HIT_CREEP, 1: c.HIT_CREEP})
    assert [hero(battle, BLUE, c.GOLD, n) for n in range(5)] == [5, 5, 0, 0, 0]
    assert [hero(battle, BLUE, c.EXPERIENCE, n) for n in range(5)] == [4, 4, 4, 0, 0]  # 12 among three


def test_the_weakest_in_reach_is_hit(backend):
    battle = scene(backend, heroes=5)
    put_hero(battle, BLUE, 0, 12, ROW)
    for n, (x, health) in enumerate(((14, 60), (11, 50), (15, 20), (12, 50))):  # red 2 is out of reach
        put_hero(battle, RED, n, c.LAST - x, ROW, health=health)
    play(battle, {0: c.HIT_HERO})
    left = [hero(battle, RED, c.HEALTH, n) for n in range(4)]
    assert [left[0], left[2], left[3]] == [60, 20, 50]
    assert 50 - MOST <= left[1] <= 50 - LEAST  # the lower index among equals


def test_death_and_return_take_their_ticks(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 12, ROW, experience=2 * c.LEVEL_EXPERIENCE)
    put_hero(battle, RED, 0, c.LAST - 13, ROW, health=1)
    play(battle, {0: c.HIT_HERO})
    assert hero(battle, RED, c.DEATHS) == 1
    assert hero(battle, RED, c.RESPAWN) == c.RESPAWN_TICKS == 12
    assert (hero(battle, RED, c.X), hero(battle, RED, c.Y)) == (0, ROW)
    assert (hero(battle, BLUE, c.GOLD), hero(battle, BLUE, c.EXPERIENCE)) == (c.KILL_GOLD, 120 + c.KILL_EXPERIENCE)
    for _ in range(11):
        play(battle, red={0: EAST})  # the fallen do not walk
        assert battle.legal()[0, RED, 0].tolist() == [True] + [False] * 12
        assert hero(battle, RED, c.HEALTH) == 0
    play(battle)
    assert (hero(battle, RED, c.RESPAWN), hero(battle, RED, c.HEALTH), hero(battle, RED, c.X)) == (0, c.HERO_HEALTH, 0)
    assert battle.legal()[0, RED, 0, EAST]


def test_higher_levels_return_later_hit_harder_and_have_more_health(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 12, ROW, experience=3 * c.LEVEL_EXPERIENCE, gold=2 * c.GOLD_PER_DAMAGE)
    put_hero(battle, RED, 0, c.LAST - 13, ROW, health=1, experience=3 * c.LEVEL_EXPERIENCE - 1)
    play(battle, {0: c.HIT_HERO})
    assert hero(battle, RED, c.RESPAWN) == c.RESPAWN_TICKS + 2 * c.RESPAWN_PER_LEVEL == 18
    put_creep(battle, RED, c.LAST - 14, health=100)
    play(battle, {0: c.HIT_CREEP})
    # Level 4 by the kill's experience; gold of 80 and of the kill, 50, buys 3.
    assert LEAST + 4 + 3 <= 100 - creep_health(battle, RED) <= MOST + 4 + 3
    put_hero(battle, BLUE, 0, 0, ROW, health=159)
    play(battle)
    assert hero(battle, BLUE, c.HEALTH) == 160  # full: 100 and 15 for each of 4 levels


def test_the_tower_shoots_a_lone_hero_but_rather_a_creep(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, c.LAST - c.TOWER_X - c.TOWER_REACH, ROW)
    play(battle)
    assert hero(battle, BLUE, c.HEALTH) == c.HERO_HEALTH - c.TOWER_DAMAGE
    battle.state.clock[0, c.TICK] = 1
    put_creep(battle, BLUE, c.LAST - c.TOWER_X - c.TOWER_REACH, health=30)
    play(battle)
    assert hero(battle, BLUE, c.HEALTH) == c.HERO_HEALTH - c.TOWER_DAMAGE
    assert creep_health(battle, BLUE) == 30 - c.TOWER_DAMAGE
    put_hero(battle, BLUE, 0, c.LAST - c.TOWER_X - c.TOWER_REACH - 1, ROW)
    put_creep(battle, BLUE, 0, health=0)
    battle.state.clock[0, c.TICK] = 1
    play(battle)
    assert hero(battle, BLUE, c.HEALTH) == c.HERO_HEALTH - c.TOWER_DAMAGE  # out of reach


def test_heroes_and_creeps_harm_the_tower(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, c.LAST - c.TOWER_X - 2, ROW)
    put_creep(battle, BLUE, c.LAST - c.TOWER_X - 1, health=30, age=2)
    play(battle, {0: c.HIT_BUILDING})
    harm = c.TOWER_HEALTH - int(battle.state.building[0, RED, 0])
    creep = c.CREEP_DAMAGE + 2 * c.CREEP_DAMAGE_GROWTH
    assert LEAST + creep <= harm <= MOST + creep


def test_1v1_is_won_by_the_tower(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, c.LAST - c.TOWER_X - 2, ROW)
    battle.state.building[0, RED, 0] = 1
    result = play(battle, {0: c.HIT_BUILDING})
    assert (bool(result.done[0]), int(result.winner[0])) == (True, 1)
    assert result.rewards[0].tolist() == [[1.0], [-1.0]]
    assert battle.state.clock[0].tolist() == [0, 1]  # the next episode has begun
    assert battle.state.building[0].tolist() == [[c.TOWER_HEALTH, c.ANCIENT_HEALTH]] * 2


def test_1v1_is_lost_by_two_deaths(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 12, ROW, health=1, deaths=1)
    put_hero(battle, RED, 0, c.LAST - 13, ROW)
    result = play(battle, red={0: c.HIT_HERO})
    assert (bool(result.done[0]), int(result.winner[0])) == (True, -1)


@pytest.mark.parametrize(("gold", "winner"), [(0, 0), (1, 1), (-1, -1)])
def test_who_falls_together_is_judged_by_wealth(backend, gold, winner):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 12, ROW, health=1, deaths=1, gold=max(gold, 0))
    put_hero(battle, RED, 0, c.LAST - 13, ROW, health=1, deaths=1, gold=max(-gold, 0))
    result = play(battle, {0: c.HIT_HERO}, {0: c.HIT_HERO})
    assert (bool(result.done[0]), int(result.winner[0])) == (True, winner)
    assert result.rewards[0, BLUE, 0] == winner


@pytest.mark.parametrize(("standing", "wealth", "winner"), [(2, 500, -1), (3, 500, 1), (3, 0, 0)])
def test_time_runs_out_and_towers_decide_then_wealth(backend, standing, wealth, winner):
    battle = scene(backend, heroes=5, tick=c.TICK_LIMIT - 2)
    battle.state.building[0, BLUE, standing:3] = 0
    put_hero(battle, BLUE, 0, FAR, 0, experience=wealth)
    assert not play(battle).done[0]
    result = play(battle)
    assert (bool(result.done[0]), int(result.winner[0])) == (True, winner)


def test_5v5_the_ancient_opens_with_a_tower_and_wins(backend):
    battle = scene(backend, heroes=5)
    put_hero(battle, BLUE, 0, c.LAST - c.ATTACK_REACH, ROW + 4)
    assert not battle.legal()[0, BLUE, 0, c.HIT_BUILDING]
    play(battle, {0: c.HIT_BUILDING})
    assert battle.state.building[0, RED, 3] == 5 * c.ANCIENT_HEALTH
    battle.state.building[0, RED, 2] = 0
    battle.state.building[0, RED, 3] = LEAST
    battle.observe()
    assert battle.legal()[0, BLUE, 0, c.HIT_BUILDING]
    result = play(battle, {0: c.HIT_BUILDING})
    assert int(result.winner[0]) == 1
    assert result.rewards[0].tolist() == [[1.0] * 5, [-1.0] * 5]


def test_a_fallen_tower_pays_the_whole_team_and_lets_creeps_at_the_ancient(backend):
    battle = scene(backend, heroes=5)
    put_hero(battle, BLUE, 4, c.LAST - c.TOWER_X - 2, ROW)
    battle.state.building[0, RED, 0] = 1
    play(battle, {4: c.HIT_BUILDING})
    assert [hero(battle, BLUE, c.GOLD, n) for n in range(5)] == [c.TOWER_GOLD] * 5
    put_creep(battle, BLUE, c.LAST - 1, health=30)
    put_creep(battle, BLUE, c.LAST - 1, health=30, lane=1)  # this lane's tower still stands
    play(battle)
    assert battle.state.building[0, RED, 3] == 5 * c.ANCIENT_HEALTH - c.CREEP_DAMAGE


def test_the_nuke_hurts_stuns_for_two_ticks_and_cools_down(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 12, ROW)
    put_hero(battle, RED, 0, c.LAST - 12 - c.NUKE_REACH, ROW)
    assert battle.legal()[0, BLUE, 0, c.NUKE]
    assert not battle.legal()[0, BLUE, 0, c.HIT_HERO]
    play(battle, {0: c.NUKE})
    assert hero(battle, RED, c.HEALTH) == c.HERO_HEALTH - c.NUKE_DAMAGE
    for _ in range(c.STUN_TICKS):
        assert battle.legal()[0, RED, 0].tolist() == [True] + [False] * 12
        x = hero(battle, RED, c.X)
        play(battle, {0: c.NUKE}, {0: WEST})  # neither is possible now
        assert hero(battle, RED, c.X) == x
    assert hero(battle, RED, c.HEALTH) <= c.HERO_HEALTH - c.NUKE_DAMAGE + 1  # nobody was nuked again
    ticks = c.STUN_TICKS
    while not battle.legal()[0, BLUE, 0, c.NUKE]:
        play(battle)
        ticks += 1
    assert ticks == c.NUKE_COOLDOWN == 15


def test_waves_come_every_twenty_ticks_walk_every_second_and_grow(backend):
    battle = scene(backend, tick=19)
    play(battle)
    wave = [[c.CREEP_X, 0, c.CREEP_HEALTH]] * 3 + [[0, 0, 0]] * 3
    assert battle.state.creep[0, :, 0].tolist() == [wave, wave]
    for _ in range(4):
        play(battle)
    assert battle.state.creep[0, BLUE, 0, :3, c.X].tolist() == [c.CREEP_X + 2] * 3
    battle = scene(backend, tick=79)
    for slot in range(5):
        put_creep(battle, BLUE, 10, health=30, slot=slot)
    play(battle)
    assert battle.state.creep[0, BLUE, 0, 5].tolist() == [c.CREEP_X, 1, c.CREEP_HEALTH + c.CREEP_HEALTH_GROWTH]


def test_creeps_strike_heroes_beside_them(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 12, ROW + 1)
    put_creep(battle, RED, c.LAST - 13, health=30)
    put_creep(battle, RED, c.LAST - 14, health=30, slot=1)
    play(battle)
    assert hero(battle, BLUE, c.HEALTH) == c.HERO_HEALTH - c.CREEP_DAMAGE


def test_healing(backend):
    battle = scene(backend, tick=4)
    put_hero(battle, BLUE, 0, 8, 0, health=50)
    put_hero(battle, RED, 0, c.FOUNTAIN_X, 0, health=95)
    play(battle)
    assert hero(battle, BLUE, c.HEALTH) == 51
    assert hero(battle, RED, c.HEALTH) == c.HERO_HEALTH
    play(battle)
    assert hero(battle, BLUE, c.HEALTH) == 51  # a point every fourth tick


def test_moves_end_at_the_arena_and_illegal_actions_stay(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 0, 0)
    put_hero(battle, RED, 0, c.LAST, 6)
    assert battle.legal()[0, BLUE, 0].tolist() == [True, True, True, True, *[False] * 9]  # east, and down the rows
    for action in range(1, c.ACTIONS):
        put_hero(battle, BLUE, 0, 0, 0)
        legal = bool(battle.legal()[0, BLUE, 0, action])
        play(battle, {0: action})
        moved = (hero(battle, BLUE, c.X), hero(battle, BLUE, c.Y)) != (0, 0)
        assert moved == legal


def test_shaping_pays_what_is_gained_and_takes_it_from_the_enemy(backend):
    battle = scene(backend, shaping=0.5)
    put_hero(battle, BLUE, 0, 12, ROW)
    put_creep(battle, RED, c.LAST - 14, health=1)
    reward = 0.5 * (12 + 10) / 2**10
    assert play(battle, {0: c.HIT_CREEP}).rewards[0].tolist() == [[reward], [-reward]]
    battle = scene(backend, heroes=5, shaping=1.0)
    put_hero(battle, BLUE, 1, 12, ROW)
    put_creep(battle, RED, c.LAST - 14, health=1)
    rewards = play(battle, {1: c.HIT_CREEP}).rewards[0]
    assert rewards[BLUE].tolist() == [0, 5 * 22 / 2**12, 0, 0, 0]
    assert rewards[RED].tolist() == [-22 / 2**12] * 5


def test_a_death_costs_what_the_enemy_gains_by_it(backend):
    battle = scene(backend, shaping=1.0)
    put_hero(battle, BLUE, 0, 12, ROW)
    put_hero(battle, RED, 0, c.LAST - 13, ROW, health=1)
    assert play(battle, {0: c.HIT_HERO}).rewards[0].tolist() == [[(60 + 50) / 2**10], [-(60 + 50) / 2**10]]


def test_blows_vary_by_chance_alone(backend):
    battle = scene(backend)
    put_hero(battle, BLUE, 0, 12, ROW)
    put_creep(battle, RED, c.LAST - 14, health=10_000)
    harm = []
    for _ in range(100):
        before = creep_health(battle, RED)
        battle.state.clock[0, c.EPISODE] += 1
        battle.state.clock[0, c.TICK] = 1
        put_hero(battle, BLUE, 0, 12, ROW, health=c.HERO_HEALTH)
        play(battle, {0: c.HIT_CREEP})
        harm.append(before - creep_health(battle, RED))
    counts = torch.tensor(harm).bincount(minlength=11)
    assert counts.nonzero().flatten().tolist() == [6, 7, 8, 9, 10]
    assert counts[6:].min() >= 8  # of 20 expected: 3 standard deviations
