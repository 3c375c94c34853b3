"""Steps of games, beside those of other packages."""

import itertools
from collections.abc import Callable

import numpy as np
import torch

from reproduce.bench.batches import drawing
from reproduce.bench.timing import compare
from reproduce.bench.training import run_config, trainer_for, trainer_step
from reproduce.distributed import Ranks
from tasks.dota_proxy.battle import Battle
from tasks.dota_proxy.constants import ACTIONS


def measure_games(ranks: Ranks, blocks: int) -> list[dict]:
    """A step of Atari environments beside gymnasium's processes, and the share of a training step that play takes."""
    import gymnasium

    torch.set_num_threads(1)
    task, environments = "atari_breakout/mini", 32
    trainer = trainer_for(run_config(task, 5 * environments, 1), ranks, log_noise_scale=False)
    trainer.train_step()
    own, rng = trainer.sampler.environments, np.random.default_rng(0)

    def one() -> gymnasium.Env:
        return gymnasium.make("ale_py:ALE/Breakout-v5", obs_type="ram", frameskip=4, repeat_action_probability=0.0)

    about = {"task": task, "batch_size": 5 * environments, "ranks": 1}
    theirs = gymnasium.vector.AsyncVectorEnv([one] * environments, context="fork")
    try:
        theirs.reset(seed=0)
        pair = (
            lambda: own.step(rng.integers(own.actions, size=environments)),
            lambda: theirs.step(rng.integers(own.actions, size=environments)),
        )
        rows = [{"what": "play / AsyncVectorEnv", **about, **compare(*pair, blocks, ranks)}]
    finally:
        theirs.close()
    times = compare(drawing(trainer), trainer_step(trainer), blocks, ranks)
    return [*rows, {"what": "drawing / step", **about, **times}]


def random_ticks(heroes: int, games: int) -> Callable[[], None]:
    """Ticks of games of the Dota proxy whose heroes act at random."""
    battle = Battle(heroes, range(games))
    choices = itertools.cycle(list(np.random.default_rng(0).integers(ACTIONS, size=(16, games, 2, heroes))))
    return lambda: battle.step(next(choices))


def measure_battles(ranks: Ranks, blocks: int) -> list[dict]:
    """A hero's tick of the Dota proxy beside an agent's in MAgent2's battle, with random actions, on one core."""
    from magent2.environments import battle_v4

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    theirs = battle_v4.parallel_env(max_cycles=1_000_000)
    theirs.reset(seed=0)
    agents = len(theirs.agents)

    def their_tick() -> None:
        if len(theirs.agents) < agents // 2:  # the others have fallen
            theirs.reset()
        theirs.step({agent: int(action) for agent, action in zip(theirs.agents, rng.integers(21, size=agents))})

    rows = []
    for heroes, games in itertools.product((1, 5), (64, 8192)):
        hero_ticks = games * 2 * heroes
        times = compare(random_ticks(heroes, games), their_tick, blocks, ranks, (hero_ticks, agents))
        per_second = 1e3 / (times["ratio"] * times["milliseconds"])
        about = {"what": "battle / MAgent2", "task": f"dota_{heroes}v{heroes}", "batch_size": hero_ticks, "ranks": 1}
        rows.append({**about, **times, "hero_ticks_per_second": round(per_second)})
    return rows
