"""One emulated console, as ale-py has it, and many environments that play on it.

An agent's step is four frames with one action. An environment is a state of the emulator, restored before each of its
steps and cloned after it: hundreds of them cost no set-up and little time, and can be written to a checkpoint. States
of Q*bert cannot be restored exactly (ale-py 0.12.1), so that each of its environments has a console of its own.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ale_py import ALEInterface, ALEState, LoggerMode, roms

FRAMES = 4  # of an agent's step
RAM = 128  # bytes
NO_OPS = 30  # a game begins after 0 to 29 frames without action, so that games differ
LONGEST_GAME = 27_000  # agent's steps: half an hour of play
INEXACT = frozenset({"qbert"})


@dataclass(frozen=True)
class Played:
    """What one step of an environment brought: points, unclipped; whether a life was lost; whether the game ended."""

    points: float
    life_lost: bool
    over: bool


class Console:
    """An emulator with one game in it. screens: also keep what it shows.

    Sticky actions are off, as in the paper's time; actions are those that the game knows.
    """

    def __init__(self, game: str, screens: bool = False) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("random_seed", 1)  # randomness comes from start states and actions
        self.ale.loadROM(roms.get_rom_path(game))
        self.actions = self.ale.getMinimalActionSet()
        self.screens = screens
        self.shown = np.zeros((210, 160), np.uint8)

    def begin(self, no_ops: int) -> None:
        """A new game, after so many frames without action."""
        self.ale.reset_game()
        for _ in range(no_ops):
            self.ale.act(self.actions[0])
        if self.screens:
            self.shown = self.ale.getScreenGrayscale()

    def play(self, action: int) -> Played:
        """One agent's step: an index into `actions`, held for FRAMES frames or until the game ends."""
        lives, points = self.ale.lives(), 0
        seen = []
        for frame in range(FRAMES):
            points += self.ale.act(self.actions[action])
            over = self.ale.game_over()
            if self.screens and (over or frame >= FRAMES - 2):
                seen.append(self.ale.getScreenGrayscale())
            if over:
                break
        if seen:
            self.shown = np.maximum.reduce(seen)  # sprites flicker from one frame to the next
        return Played(float(points), over or self.ale.lives() < lives, over)

    def ram(self) -> np.ndarray:
        return self.ale.getRAM()


@dataclass(frozen=True)
class Stepped:
    """One step of n environments, (n,) each.

    Attributes:
        points: unclipped. ended: the return ends here, since a life was lost or the game is over.
        over: the game is over, and the next one has begun. scores: of the games that are over, unclipped; else 0.
    """

    points: np.ndarray
    ended: np.ndarray
    over: np.ndarray
    scores: np.ndarray


class Environments:
    """Environments that play one game, with their latest observations.

    Attributes:
        ram, previous_ram: (n, RAM) uint8, after the last step and the one before; equal where a game begins.
        screens: (n, 210, 160) uint8, brightest of the last two frames; None unless asked for.
        scores: of the games under way, unclipped.
    """

    def __init__(self, game: str, starts: Sequence[ALEState], seeds: Sequence[int], screens: bool) -> None:
        """starts: the state in which each environment begins. seeds: of what varies between its games."""
        n = len(starts)
        shared = game not in INEXACT
        self.consoles = [Console(game, screens) for _ in range(1 if shared else n)]
        self.shared, self.seeds = shared, list(seeds)
        self.states: list[ALEState] = list(starts)
        self.ram = np.zeros((n, RAM), np.uint8)
        self.screens = np.zeros((n, 210, 160), np.uint8) if screens else None
        self.scores = np.zeros(n)
        self.lengths = np.zeros(n, np.int64)
        self.games = np.zeros(n, np.int64)
        for i, state in enumerate(starts):
            console = self._console(i)
            console.ale.restoreState(state)
            self._look(i, console)
        self.previous_ram = self.ram.copy()

    def __len__(self) -> int:
        return len(self.states)

    @property
    def actions(self) -> int:
        return len(self.consoles[0].actions)

    def step(self, actions: np.ndarray) -> Stepped:
        """One step of every environment; actions: (n,) indices. Games that are over begin anew at once."""
        n = len(self)
        points, ended, over, scores = np.zeros(n), np.zeros(n, bool), np.zeros(n, bool), np.zeros(n)
        np.copyto(self.previous_ram, self.ram)
        for i, action in enumerate(actions):
            console = self._console(i)
            if self.shared:
                console.ale.restoreState(self.states[i])
            played = console.play(int(action))
            points[i] = played.points
            self.scores[i] += played.points
            self.lengths[i] += 1
            over[i] = played.over or self.lengths[i] >= LONGEST_GAME
            ended[i] = over[i] or played.life_lost
            if over[i]:
                scores[i] = self.scores[i]
                self._begin(i, console)
            self._look(i, console)
            if over[i]:
                self.previous_ram[i] = self.ram[i]
        return Stepped(points, ended, over, scores)

    def _console(self, i: int) -> Console:
        return self.consoles[0 if self.shared else i]

    def _begin(self, i: int, console: Console) -> None:
        self.games[i] += 1
        self.scores[i] = self.lengths[i] = 0
        console.begin(int(np.random.default_rng((self.seeds[i], int(self.games[i]))).integers(NO_OPS)))

    def _look(self, i: int, console: Console) -> None:
        """Takes down the state and what can be seen of it."""
        if self.shared:
            self.states[i] = console.ale.cloneState()
        self.ram[i] = console.ram()
        if self.screens is not None:
            self.screens[i] = console.shown

    def state_dict(self) -> dict:
        states = self.states if self.shared else [console.ale.cloneState() for console in self.consoles]
        arrays = ("ram", "previous_ram", "screens", "scores", "lengths", "games")
        return {"states": list(states)} | {name: copy.copy(getattr(self, name)) for name in arrays}

    def load_state_dict(self, state: dict) -> None:
        self.states = list(state["states"])
        if not self.shared:
            for console, own in zip(self.consoles, self.states, strict=True):
                console.ale.restoreState(own)
        for name, value in state.items():
            if name != "states":
                setattr(self, name, copy.copy(value))
