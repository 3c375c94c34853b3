"""Battle as gymnasium environments: one team is the agent, the script plays the other.

Importing this module registers DotaProxy-1v1-v0 and DotaProxy-5v5-v0. For many games at once, much faster:

    gymnasium.make_vec("DotaProxy-1v1-v0", num_envs=1024, vectorization_mode="vector_entry_point")
"""

from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tasks.dota_proxy.battle import Battle
from tasks.dota_proxy.constants import ACTIONS, EPISODE
from tasks.dota_proxy.features import features
from tasks.dota_proxy.rendering import draw_game
from tasks.dota_proxy.script import Script
from tasks.dota_proxy.state import State

RENDERING = {"render_modes": ["rgb_array"], "render_fps": 10}
BOUND = 10.0  # of observations: larger than any feature gets


class DotaProxyVectorEnv(VectorEnv):
    """Many games against the script.

    Observations of a game are of shape (features,) for one hero and (5, features) for five; actions a number for one
    hero and five for five. Illegal actions are to stay: info["action_mask"], (num_envs, [5,] 13) bool, tells which are
    legal. The reward is the mean of the team's heroes'. An episode ends by its rules alone (terminated), and its game
    goes on with the first observation of the next one: nothing has to be bootstrapped from the last one, which is not
    given. info["winner"] is 1, -1 or 0 for the agent's team where one ended.

    Args:
        num_envs: number of games.
        heroes: of a team: 1 or 5.
        opponent: share of random ticks of the script, from 0 (strongest) to 1.
        shaping: coefficient of the shaping reward (constants.py).
        view: True to render only what the agent's team sees.
    """

    metadata: ClassVar[dict] = {**RENDERING, "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        heroes: int = 1,
        opponent: float = 0.0,
        shaping: float = 0.0,
        view: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}.")
        self.num_envs, self.heroes, self.render_mode = num_envs, heroes, render_mode
        self.opponent, self.shaping, self.view = opponent, shaping, 0 if view else None
        form = (features(heroes),) if heroes == 1 else (heroes, features(heroes))
        self.single_observation_space = Box(-BOUND, BOUND, form, np.float32)
        self.single_action_space = Discrete(ACTIONS) if heroes == 1 else MultiDiscrete([ACTIONS] * heroes)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.battle: Battle | None = None
        self.before: State | None = None
        self.actions: np.ndarray | None = None

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Begins all games anew: with a seed the same games every time, without one the next episodes."""
        super().reset(seed=seed)
        if seed is not None or self.battle is None:
            seed = int(self.np_random.integers(2**32))
            self.battle = Battle(self.heroes, range(self.num_envs), seed, shaping=self.shaping)
            self.script = Script(self.opponent, seed)
        else:
            self.battle.reset(int(self.battle.state.clock[:, EPISODE].max()) + 1)
        self.before = self.actions = None
        return self._observation(), self._info()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        own = np.asarray(actions).reshape(self.num_envs, self.heroes)
        self.actions = np.stack([own, self.script.act(self.battle, 1)], 1)
        if self.render_mode is not None:
            self.before = State(**self.battle.state_dict())
        result = self.battle.step(self.actions)
        reward = result.rewards[:, 0].mean(-1, dtype=np.float64)
        info = self._info() | {"winner": result.winner}
        return self._observation(), reward, result.done, np.zeros_like(result.done), info

    def render(self) -> tuple[np.ndarray, ...] | None:
        """A picture of every game, (height, width, 3) uint8."""
        if self.render_mode is None:
            return None
        return tuple(self._picture(game) for game in range(self.num_envs))

    def _picture(self, game: int) -> np.ndarray:
        state, before = self.battle.state, self.before
        if before is not None and state.clock[game, EPISODE] != before.clock[game, EPISODE]:
            before = None  # a new episode has begun
        return draw_game(state, game, before, self.actions, self.view)

    def _observation(self) -> np.ndarray:
        seen = self.battle.observations[:, 0]
        return seen[:, 0] if self.heroes == 1 else seen

    def _info(self) -> dict:
        legal = self.battle.legal()[:, 0]
        return {"action_mask": legal[:, 0] if self.heroes == 1 else legal}


class DotaProxyEnv(gymnasium.Env):
    """One game against the script; all else as in DotaProxyVectorEnv."""

    metadata: ClassVar[dict] = RENDERING

    def __init__(
        self,
        heroes: int = 1,
        opponent: float = 0.0,
        shaping: float = 0.0,
        view: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.games = DotaProxyVectorEnv(1, heroes, opponent, shaping, view, render_mode)
        self.render_mode = render_mode
        self.observation_space = self.games.single_observation_space
        self.action_space = self.games.single_action_space

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        observations, info = self.games.reset(seed=seed)
        return observations[0], {name: values[0] for name, values in info.items()}

    def step(self, action: int | np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        observations, rewards, terminated, _, info = self.games.step(np.asarray(action)[None])
        info = {name: values[0] for name, values in info.items()}
        return observations[0], float(rewards[0]), bool(terminated[0]), False, info

    def render(self) -> np.ndarray | None:
        return self.games.render()[0] if self.render_mode is not None else None


for heroes, name in ((1, "DotaProxy-1v1-v0"), (5, "DotaProxy-5v5-v0")):
    gymnasium.register(
        name,
        entry_point=DotaProxyEnv,
        vector_entry_point=DotaProxyVectorEnv,
        kwargs={"heroes": heroes},
    )
