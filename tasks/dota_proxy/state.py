"""The state of many battles: plain int32 arrays, so that it can be saved, compared and handed to any backend."""

from dataclasses import dataclass, fields

import numpy as np
import torch

from tasks.dota_proxy.constants import CLOCK_FIELDS, CREEP_FIELDS, CREEP_SLOTS, HERO_FIELDS, LANES

Array = np.ndarray | torch.Tensor


@dataclass(frozen=True)
class State:
    """Arrays of int32, of NumPy or torch, updated in place. The axis of length 2 is the team.

    Attributes:
        clock: (games, 2): TICK of the episode, EPISODE since the battle began.
        side: (games, 2): which of two streams of random numbers a team draws from, 0 or 1. Swapping the teams in all
            arrays, this one included, swaps everything that follows.
        hero: (games, 2, heroes, HERO_FIELDS). RESPAWN is the ticks until a fallen hero returns, 0 for the living.
        creep: (games, 2, lanes, CREEP_SLOTS, CREEP_FIELDS): X, AGE, HEALTH; health 0 is a free slot.
        building: (games, 2, lanes + 1): health of each lane's tower, then of the ancient.
    """

    clock: Array
    side: Array
    hero: Array
    creep: Array
    building: Array

    def arrays(self) -> dict[str, Array]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def swapped(self) -> "State":
        """A copy with the teams' places exchanged."""
        flipped = {name: array[:, [1, 0]] for name, array in self.arrays().items() if name != "clock"}
        return State(clock=self.clock + 0, **flipped)


def empty_state(games: int, heroes: int) -> State:
    lanes = LANES[heroes]
    side = np.zeros((games, 2), np.int32)
    side[:, 1] = 1
    return State(
        clock=np.zeros((games, CLOCK_FIELDS), np.int32),
        side=side,
        hero=np.zeros((games, 2, heroes, HERO_FIELDS), np.int32),
        creep=np.zeros((games, 2, lanes, CREEP_SLOTS, CREEP_FIELDS), np.int32),
        building=np.zeros((games, 2, lanes + 1), np.int32),
    )
