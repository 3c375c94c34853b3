"""What Battle asks of a backend, for numba. torch_backend/games.py is the twin."""

import numpy as np
import torch

from tasks.dota_proxy.constants import ACTIONS
from tasks.dota_proxy.features import features, parts
from tasks.dota_proxy.numba_backend.episodes import all_known, begin_games, step_games
from tasks.dota_proxy.numba_backend.observation import observe_games
from tasks.dota_proxy.numba_backend.script import act_games
from tasks.dota_proxy.state import State


def as_array(values: object, dtype: type, device: torch.device) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    return np.ascontiguousarray(values, dtype)


def begin(seed: int, games: np.ndarray, state: State) -> None:
    begin_games(seed, games, state.clock, state.side, state.hero, state.creep, state.building)


def step(
    seed: int, games: np.ndarray, state: State, actions: np.ndarray, weight: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rewards, done, winner (StepResult); `weight` is the reward of a point."""
    if not all_known(actions):
        raise ValueError(f"Actions are numbers from 0 to {ACTIONS - 1}.")
    rewards = np.empty(actions.shape, np.float32)
    done, winner = np.empty(len(games), np.bool_), np.empty(len(games), np.int8)
    step_games(
        *(seed, games, state.clock, state.side, state.hero, state.creep, state.building),
        *(actions, weight, rewards, done, winner),
    )
    return rewards, done, winner


def observe(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Observations and legal actions (StepResult)."""
    games, _, heroes, _ = state.hero.shape
    observations = np.empty((games, 2, heroes, features(heroes)), np.float32)
    legal = np.empty((games, 2, heroes, ACTIONS), np.bool_)
    observe_games(state.clock, state.hero, state.creep, state.building, observations, legal)
    return observations, legal


def act(
    seed: int,
    games: np.ndarray,
    state: State,
    observations: np.ndarray,
    legal: np.ndarray,
    team: int,
    threshold: np.ndarray,
) -> np.ndarray:
    """Actions of a scripted team (script.py), (games, heroes) int64."""
    heroes = observations.shape[2]
    where = parts(heroes)
    actions = np.empty((len(games), heroes), np.int64)
    act_games(
        *(seed, games, state.clock, state.side, observations, legal, team, threshold),
        *(where["enemy"][0], where["lane"][0], where["lane"][1], actions),
    )
    return actions
