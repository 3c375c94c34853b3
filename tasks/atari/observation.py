"""What an agent sees of its environments: the console's memory, or its screen."""

from abc import ABC, abstractmethod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tasks.atari.console import Environments
from tasks.atari.starts import Starts, ram_features

SCREEN, STACK = 84, 4  # pixels a side, frames (App. A.4)
LARGEST = 5.0  # standard deviations at which RAM features are cut off
SMALLEST_STD = 1.0  # of a RAM feature: bytes that hardly change at random are not blown up


class Observer(ABC):
    """Observations of n environments.

    Attributes:
        current: (n, ...) on the CPU, as the model takes them; a new tensor after each step.
    """

    current: Tensor

    @abstractmethod
    def update(self, environments: Environments, begun: np.ndarray) -> None:
        """Looks at the environments after a step; begun: (n,) where a game has just begun."""

    def state_dict(self) -> dict:
        return {"current": self.current}

    def load_state_dict(self, state: dict) -> None:
        self.current = state["current"]


class RamObserver(Observer):
    """The RAM and its change over the last step, whitened as random play has them: (n, 256) float32."""

    def __init__(self, starts: Starts) -> None:
        self.mean, self.std = starts.mean, np.maximum(starts.std, SMALLEST_STD)

    def update(self, environments: Environments, begun: np.ndarray) -> None:
        features = ram_features(environments.ram, environments.previous_ram)
        self.current = torch.from_numpy(np.clip((features - self.mean) / self.std, -LARGEST, LARGEST))


class ScreenObserver(Observer):
    """The last four screens in grey, (n, 4, 84, 84) uint8; black before a game's beginning."""

    def __init__(self) -> None:
        self.current = torch.zeros(0, STACK, SCREEN, SCREEN, dtype=torch.uint8)

    def update(self, environments: Environments, begun: np.ndarray) -> None:
        screens = torch.from_numpy(environments.screens)[:, None].float()
        latest = F.interpolate(screens, (SCREEN, SCREEN), mode="area").round().to(torch.uint8)
        earlier = self.current[:, 1:] if len(self.current) else torch.zeros(len(latest), 3, SCREEN, SCREEN).byte()
        earlier = earlier * torch.from_numpy(~begun)[:, None, None, None]
        self.current = torch.cat([earlier, latest], 1)
