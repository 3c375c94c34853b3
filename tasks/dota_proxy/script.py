"""A scripted opponent for Battle, and the ladder of strengths that scores are taken against.

It plays from what heroes observe (features.py) and from nothing else: what its team does not see it does not know.
"""

import numpy as np

from tasks.dota_proxy.battle import Battle
from tasks.dota_proxy.state import Array

LADDER = (0.0, 0.3, 0.6, 0.85)  # shares of random ticks, from the strongest to the weakest


class Script:
    """Chooses the actions of a team; a hero plays each tick by the script or, with a set probability, at random.

    Chance depends on (seed, game, episode, tick, hero) alone, as in Battle.

    Args:
        random_share: probability of a random legal action, for all games or one each, (games,).
        seed: from 0 to 2^32 - 1.
    """

    def __init__(self, random_share: float | np.ndarray = 0.0, seed: int = 0) -> None:
        share = np.asarray(random_share, np.float64)
        if share.ndim > 1 or not ((share >= 0) & (share <= 1)).all():
            raise ValueError(f"random_share must be from 0 to 1, for all games or one each, got {random_share}.")
        self.seed = seed
        self.threshold = np.round(share * 2**32).astype(np.int64)  # compared with 32-bit numbers

    def act(self, battle: Battle, team: int) -> Array:
        """Actions of `team`, 0 or 1, for the next tick: (games, heroes) int64, of the battle's kind of array."""
        threshold = np.array(np.broadcast_to(self.threshold, len(battle.games)))
        return battle.engine.act(
            self.seed, battle.games, battle.state, battle.observations, battle.legal(), team, threshold
        )
