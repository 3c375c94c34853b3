"""Atari games learnt with A2C (App. A.4): one task a game, from the screen or from the console's memory."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from tasks.atari.a2c import STEPS, ActorCritic, GameRollouts, a2c_loss, losses, ram_body, screen_body
from tasks.atari.console import RAM, Console, Environments, Stepped
from tasks.atari.observation import SCREEN, STACK, Observer, RamObserver, ScreenObserver
from tasks.atari.starts import Starts, load_starts, prepare_starts
from tasks.task import Batch, Sampler, Task, TaskError, random_generator

GAMES = ("alien", "beam_rider", "breakout", "pong", "qbert", "seaquest", "space_invaders")  # App. A.4
SCORES = {"game": "mean game score", "points": "share of points won"}
LOWEST_SCORES = {"pong": -21.0}  # of a game; 0 in all others
RECENT_GAMES, RECENT_POINTS = 50, 500  # that a score is the mean of; at least as many games as there are environments


class Atari(Task):
    """Args:
    game: one of GAMES. observation: "screen" (four grey frames of 84 x 84, as in the paper) or "ram" (the console's
    128 bytes and their change).
    hidden: units of the two layers that read the RAM.
    goals: scores from easy to hard.
    score: "game": mean unclipped score of the last 50 games, or of as many as there are environments if these are
    more; "points": share of the last 500 points that the agent won, for games of two players. Until there are as
    many, those that are missing count as the worst: a goal is not reached by the luck of the first few.
    start_states: how many are made, and so the largest number of environments. data_dir: where they are kept.
    """

    unit = "frame"
    units_per_sample = STEPS
    higher_is_better = True
    on_policy = True

    def __init__(
        self,
        game: str,
        observation: str,
        goals: list[float],
        score: str = "game",
        hidden: int = 256,
        start_states: int = 1024,
        data_dir: str = "data",
    ) -> None:
        if game not in GAMES:
            raise TaskError(f"task.game must be one of {', '.join(GAMES)}, got '{game}'.")
        if observation not in ("screen", "ram"):
            raise TaskError(f"task.observation must be 'screen' or 'ram', got '{observation}'.")
        if score not in SCORES:
            raise TaskError(f"task.score must be one of {', '.join(SCORES)}, got '{score}'.")
        self.game, self.observation, self.hidden = game, observation, hidden
        self.score, self.counts_games = SCORES[score], score == "game"
        self.goals = tuple(goals)
        seen = "the console's memory" if observation == "ram" else "the screen"
        self.data, self.embedded = f"{game.replace('_', ' ')} from {seen}", observation == "ram"
        self.start_states, self.folder = start_states, Path(data_dir) / "atari"

    def prepare(self) -> None:
        prepare_starts(self.game, self.start_states, self.folder)

    @cached_property
    def starts(self) -> Starts:
        return load_starts(self.game, self.start_states, self.folder)

    @cached_property
    def actions(self) -> int:
        return len(Console(self.game).actions)

    def build_model(self) -> nn.Module:
        if self.observation == "ram":
            return ActorCritic(ram_body(2 * RAM, self.hidden), self.hidden, self.actions)
        return ActorCritic(screen_body(), 512, self.actions)

    def sampler(self, seed: int, rank: int, world_size: int, device: torch.device) -> Sampler:
        def make(numbers: range, of: int) -> tuple[Environments, Observer]:
            if of > self.start_states:
                raise TaskError(
                    f"There are {self.start_states:,} start states for {of:,} environments: choose a smaller "
                    "batch size, or more of them with task.start_states."
                )
            order = torch.randperm(self.start_states, generator=random_generator("atari starts", seed)).tolist()
            states = [self.starts.states[order[number]] for number in numbers]
            seeds = [seed * self.start_states + number for number in numbers]
            environments = Environments(self.game, states, seeds, self.observation == "screen")
            return environments, RamObserver(self.starts) if self.observation == "ram" else ScreenObserver()

        return GameRollouts(make, self.results, self.window, seed, rank, world_size, device)

    def results(self, stepped: Stepped) -> list[float]:
        """What the score is the mean of: scores of finished games, or 1 for each point won and 0 for each one lost."""
        if self.counts_games:
            return stepped.scores[stepped.over].tolist()
        return [float(points > 0) for points in stepped.points if points != 0]

    def window(self, environments: int) -> int:
        return max(RECENT_GAMES, environments) if self.counts_games else RECENT_POINTS

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return a2c_loss(model, batch)

    def loss_parts(self) -> dict:
        return {
            "policy": lambda model, batch: losses(model, batch)[0],
            "value": lambda model, batch: losses(model, batch)[1],
        }

    def score_run(self, model: nn.Module, reports: Sequence[dict]) -> float:
        """Mean of the latest results over all ranks."""
        window = self.window(reports[0]["environments"])
        latest = sorted((entry for report in reports for entry in report["results"]), key=lambda entry: entry[0])
        latest = [result for _, result in latest[-window:]]
        worst = LOWEST_SCORES.get(self.game, 0.0) if self.counts_games else 0.0
        return (sum(latest) + (window - len(latest)) * worst) / window

    def evaluate(self, model: nn.Module) -> float:
        """The score of new environments, played until there are enough results."""
        rollouts = self.sampler(-1, 0, 1, next(model.parameters()).device)
        enough, step = self.window(0), 0
        while len(rollouts.recent) < enough:
            step += 1
            rollouts.draw(step, 16, model)
        return self.score_run(model, [rollouts.report()])

    def fake_batch(self, samples: int) -> Batch:
        shape, kind = (
            ((2 * RAM,), torch.float32) if self.observation == "ram" else ((STACK, SCREEN, SCREEN), torch.uint8)
        )
        observations = torch.zeros(samples, STEPS, *shape, dtype=kind)
        return observations, torch.zeros(samples, STEPS, dtype=torch.long), torch.zeros(samples, STEPS)
