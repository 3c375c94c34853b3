"""Dota's proxy: teams of one or five heroes learn by self-play with PPO (App. A.4), scored against a fixed ladder."""

import numpy as np
import torch
from torch import Tensor, nn

from tasks.actions import sample_actions
from tasks.dota_proxy.battle import Battle
from tasks.dota_proxy.constants import ACTIONS, TICK_LIMIT
from tasks.dota_proxy.features import features
from tasks.dota_proxy.script import LADDER, Script
from tasks.ppo import Policy, losses, ppo_loss
from tasks.self_play import HORIZON, SelfPlay
from tasks.task import Batch, Sampler, Task, TaskError, random_generator

EVALUATION_SEED = 1_000_003  # of games that no training run plays


class DotaProxy(Task):
    """Lane battles of equal teams, a policy for all heroes of both.

    Args:
        heroes: of a team, 1 or 5. hidden, recurrent: see Policy.
        shaping: coefficient of the zero-sum reward for gold, experience and buildings, beside that for the win
            (tasks/dota_proxy/constants.py).
        goals: mean win rates against the ladder, from easy to hard.
        evaluation_games: against each rung of the ladder, the same ones at every evaluation.
    """

    unit = "frame"
    score = "win rate against the ladder"
    higher_is_better = True
    on_policy = True
    embedded = True

    def __init__(
        self,
        heroes: int,
        hidden: int,
        goals: list[float],
        recurrent: bool = False,
        shaping: float = 0.0,
        evaluation_games: int = 32,
    ) -> None:
        if heroes not in (1, 5):
            raise TaskError(f"task.heroes must be 1 or 5, got {heroes}.")
        for name, value in (("hidden", hidden), ("evaluation_games", evaluation_games)):
            if value < 1:
                raise TaskError(f"task.{name} must be at least 1, got {value}.")
        if shaping < 0:
            raise TaskError(f"task.shaping must not be negative, got {shaping}.")
        self.heroes, self.hidden, self.recurrent, self.shaping = heroes, hidden, recurrent, shaping
        self.goals, self.evaluation_games = tuple(goals), evaluation_games
        self.units_per_sample = HORIZON * 2 * heroes
        self.data = f"lane battle of {heroes} against {heroes}, a proxy for Dota"

    def build_model(self) -> Policy:
        return Policy(features(self.heroes), ACTIONS, self.hidden, self.recurrent)

    def sampler(self, seed: int, rank: int, world_size: int, device: torch.device) -> Sampler:
        return SelfPlay(self.heroes, self.shaping, self.build_model, seed, rank, world_size, device)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return ppo_loss(model, batch)

    def loss_parts(self) -> dict:
        return {
            "policy": lambda model, batch: losses(model, batch)[0],
            "value": lambda model, batch: losses(model, batch)[1],
        }

    def evaluate(self, model: Policy) -> float:
        """Mean over the rungs of the ladder of the share of games won, a draw counting half; sides alternate."""
        return float(self.results(model).mean())

    @torch.no_grad()
    def results(self, model: Policy) -> np.ndarray:
        """1, 1/2 or 0 for each game won, drawn or lost, (rungs from the strongest, evaluation_games)."""
        device = next(model.parameters()).device
        strengths = np.repeat(LADDER, self.evaluation_games)
        every = np.arange(len(strengths))
        teams = every % 2
        battle = Battle(self.heroes, every, EVALUATION_SEED)
        script = Script(strengths, EVALUATION_SEED)
        state = model.initial_state(len(every), self.heroes).to(device)
        results = np.full(len(every), np.nan)
        generator = random_generator("dota, evaluation")
        for _ in range(TICK_LIMIT):
            seen = battle.observations[every, teams], battle.legal()[every, teams]
            log_policy, _, state = model.tick(*(torch.as_tensor(part).to(device) for part in seen), state)
            uniforms = torch.rand(len(every), self.heroes, generator=generator).to(device)
            actions = np.stack([script.act(battle, team) for team in (0, 1)], 1)
            actions[every, teams] = sample_actions(log_policy, uniforms).cpu().numpy()
            stepped = battle.step(actions)
            first = stepped.done & np.isnan(results)
            won = stepped.winner * np.where(teams == 0, 1, -1)
            results[first] = (1 + won[first]) / 2
            if not np.isnan(results).any():
                break
        return results.reshape(len(LADDER), self.evaluation_games)

    def fake_batch(self, samples: int) -> Batch:
        shape = (samples, HORIZON, 2, self.heroes)
        numbers = [torch.zeros(shape) for _ in range(4)]
        return (
            torch.zeros(*shape, features(self.heroes)),
            torch.ones(*shape, ACTIONS, dtype=torch.bool),
            self.build_model().initial_state(samples, 2, self.heroes),
            torch.zeros(samples, HORIZON, dtype=torch.bool),
            torch.zeros(shape, dtype=torch.long),
            *numbers,
        )
