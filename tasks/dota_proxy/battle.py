"""The environment: many battles that advance together. constants.py tells the rules, features.py what heroes see."""

from dataclasses import dataclass

import numpy as np
import torch

from tasks.dota_proxy.constants import EPISODE, LANES, POINT_SHIFT, SHAPING_STEPS
from tasks.dota_proxy.state import Array, State, empty_state


@dataclass(frozen=True)
class StepResult:
    """What a tick brought, as NumPy arrays or torch tensors. Fresh at every tick: they may be kept.

    Attributes:
        observations: (games, 2, heroes, features) float32; where an episode has ended, of the next one's first tick.
        legal: (games, 2, heroes, ACTIONS) bool, likewise: the actions that the next tick allows.
        rewards: (games, 2, heroes) float32; their sum over a game's teams and heroes is exactly 0.
        done: (games,) bool: the episode has ended, by the rules and never by truncation: nothing follows it.
        winner: (games,) int8: 1 where team 0 has won in this tick, -1 where team 1 has, else 0.
    """

    observations: Array
    legal: Array
    rewards: Array
    done: Array
    winner: Array


class Battle:
    """Battles of two teams, tick by tick; each begins its next episode as soon as one ends.

    What happens in a game depends on `seed`, its global index, its episode and the actions alone: not on the other
    games, their number, or the backend.

    Args:
        heroes: of a team: 1 (one lane) or 5 (three lanes).
        games: global indices of the games, (games,) whole numbers below 2^32; ranks share out 0, 1, 2, ...
        seed: from 0 to 2^32 - 1.
        backend: "numba" (NumPy arrays, one core, releases the GIL) or "torch" (tensors on `device`).
        shaping: coefficient of the shaping reward (constants.py), rounded to 1/256; 0 leaves the win alone. May be set
            at any time: it belongs to the caller and is not part of the state.

    Attributes:
        state: the games' State, updated in place. Who writes to it calls `observe` afterwards.
        observations: the newest, as in StepResult.
        engine: the backend's module games.py.
    """

    def __init__(
        self,
        heroes: int,
        games: np.ndarray | list[int] | range,
        seed: int = 0,
        backend: str = "numba",
        device: str | torch.device = "cpu",
        shaping: float = 0.0,
    ) -> None:
        if heroes not in LANES:
            raise ValueError(f"A team has 1 or 5 heroes, got heroes={heroes}.")
        if not 0 <= seed < 2**32:
            raise ValueError(f"The seed must be from 0 to 2^32 - 1, got {seed}.")
        if backend == "numba":
            from tasks.dota_proxy.numba_backend import games as engine
        elif backend == "torch":
            from tasks.dota_proxy.torch_backend import games as engine
        else:
            raise ValueError(f"backend must be 'numba' or 'torch', got {backend!r}.")
        self.heroes, self.seed, self.backend, self.shaping = heroes, seed, backend, shaping
        self.device = torch.device(device)
        if backend == "numba" and self.device.type != "cpu":
            raise ValueError(f"The backend 'numba' runs on the CPU: for device '{device}' choose backend='torch'.")
        indices = np.asarray(games)
        if indices.ndim != 1 or indices.dtype.kind not in "iu" or not all(0 <= g < 2**32 for g in indices.tolist()):
            raise ValueError("games must be a list of the games' global indices, whole numbers from 0 to 2^32 - 1.")
        self.engine = engine
        self.games = engine.as_array(indices, np.int64, self.device)
        self._load(empty_state(len(indices), heroes).arrays())
        self.reset()

    def reset(self, episode: int = 0) -> Array:
        """Begins all games anew at `episode`; returns the observations, as in StepResult."""
        self.state.clock[:, EPISODE] = episode
        self.engine.begin(self.seed, self.games, self.state)
        self.observe()
        return self.observations

    def legal(self) -> Array:
        """(games, 2, heroes, ACTIONS) bool: the actions that heroes have now. Staying is always one."""
        return self._legal

    def step(self, actions: Array) -> StepResult:
        """One tick.

        Args:
            actions: (games, 2, heroes) whole numbers from 0 to 12 (constants.py). One that is not legal is to stay.

        Raises:
            ValueError: if their shape is another, or there is no such action.
        """
        actions = self.engine.as_array(actions, np.int64, self.device)
        expected = (len(self.games), 2, self.heroes)
        if tuple(actions.shape) != expected:
            raise ValueError(
                f"actions must be of shape (games, teams, heroes) = {expected}, got {tuple(actions.shape)}."
            )
        # Times a power of 2, so that float32 holds all rewards and their sums exactly.
        weight = round(self.shaping * SHAPING_STEPS) / SHAPING_STEPS * 2.0 ** -POINT_SHIFT[self.heroes]
        rewards, done, winner = self.engine.step(self.seed, self.games, self.state, actions, weight)
        self.observe()
        return StepResult(self.observations, self._legal, rewards, done, winner)

    def observe(self) -> None:
        """Brings observations and legal actions up to date with the state."""
        self.observations, self._legal = self.engine.observe(self.state)

    def state_dict(self) -> dict[str, np.ndarray]:
        """A copy of the state as NumPy arrays, whatever the backend."""
        return {name: torch.as_tensor(array).cpu().numpy().copy() for name, array in self.state.arrays().items()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Goes on from `state_dict` of a battle with as many games and heroes.

        Raises:
            ValueError: if the state is of another form.
        """
        form = {name: tuple(array.shape) for name, array in self.state.arrays().items()}
        given = {name: tuple(array.shape) for name, array in state.items()}
        if given != form:
            raise ValueError(f"The state is of another battle: it has {given}, this battle has {form}.")
        self._load(state)
        self.observe()

    def _load(self, arrays: dict[str, np.ndarray]) -> None:
        # Plus 0: a copy, so that no game is played in the caller's arrays.
        self.state = State(**{name: self.engine.as_array(a, np.int32, self.device) + 0 for name, a in arrays.items()})
