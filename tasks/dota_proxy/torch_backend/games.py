"""What Battle asks of a backend, for torch. numba_backend/games.py is the twin."""

import numpy as np
import torch
from torch import Tensor

from tasks.dota_proxy.constants import ACTIONS
from tasks.dota_proxy.features import parts
from tasks.dota_proxy.state import State
from tasks.dota_proxy.torch_backend.episodes import begin_games, step_games
from tasks.dota_proxy.torch_backend.observation import observe_games
from tasks.dota_proxy.torch_backend.script import act_games

DTYPES = {np.int32: torch.int32, np.int64: torch.int64}


def as_array(values: object, dtype: type, device: torch.device) -> Tensor:
    return torch.as_tensor(values).to(device, DTYPES[dtype])


@torch.no_grad()
def begin(seed: int, games: Tensor, state: State) -> None:
    begin_games(seed, games, state.clock, state.side, state.hero, state.creep, state.building)


@torch.no_grad()
def step(seed: int, games: Tensor, state: State, actions: Tensor, weight: float) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards, done, winner (StepResult); `weight` is the reward of a point."""
    if actions.min() < 0 or actions.max() >= ACTIONS:
        raise ValueError(f"Actions are numbers from 0 to {ACTIONS - 1}.")
    arrays = state.clock, state.side, state.hero, state.creep, state.building
    return step_games(seed, games, *arrays, actions, weight)


@torch.no_grad()
def observe(state: State) -> tuple[Tensor, Tensor]:
    """Observations and legal actions (StepResult)."""
    return observe_games(state.clock, state.hero, state.creep, state.building)


@torch.no_grad()
def act(
    seed: int, games: Tensor, state: State, observations: Tensor, legal: Tensor, team: int, threshold: np.ndarray
) -> Tensor:
    """Actions of a scripted team (script.py), (games, heroes) int64."""
    where = parts(observations.shape[2])
    return act_games(
        *(
            seed,
            games,
            state.clock,
            state.side,
            observations,
            legal,
            team,
            torch.from_numpy(threshold).to(games.device),
        ),
        *(where["enemy"][0], where["lane"][0], where["lane"][1]),
    )
