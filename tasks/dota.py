"""Dota's proxy: teams of one or five heroes learn by self-play with PPO (App. A.4), scored against a fixed ladder."""

from collections import deque
from copy import deepcopy

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from tasks.actions import sample_actions
from tasks.dota_proxy.battle import Battle
from tasks.dota_proxy.constants import ACTIONS, TICK_LIMIT
from tasks.dota_proxy.features import features
from tasks.dota_proxy.script import LADDER, Script
from tasks.ppo import Policy, advantages_and_returns, losses, ppo_loss
from tasks.task import Batch, Sampler, Task, TaskError, random_generator, rank_share

HORIZON = 32  # ticks of a rollout
PAST_EVERY = 4  # one game in so many is played against a past policy
PAST_POLICIES = 8  # kept
PAST_GROWTH = 1.3  # a policy is kept whenever the number of steps has grown by this factor
SCALE_FRAMES = 100_000  # over which the running scale of advantages forgets
EVALUATION_SEED = 1_000_003


class SelfPlay(Sampler):
    """HORIZON ticks of every game at each draw; a game, both sides and all heroes of it, is one sample.

    Most games are the current policy against itself; in one of PAST_EVERY a past policy has one side. Game g of the
    global batch has the same opponents and random numbers on whichever rank it lives.

    Batch, first axes (n, HORIZON, 2 teams, heroes): observations, legal actions, the policy's state before the first
    tick (n, 2, heroes, size), done (n, HORIZON), actions, their log-probabilities, advantages, returns, weights.
    """

    def __init__(self, task: "DotaProxy", seed: int, rank: int, world_size: int, device: torch.device) -> None:
        self.task, self.seed = task, seed
        self.rank, self.world_size, self.device = rank, world_size, device
        self.samples = 0
        self.past: deque[tuple[int, dict]] = deque(maxlen=PAST_POLICIES)
        self.scale_sq = 0.0

    def draw(self, step: int, samples: int, model: Policy) -> Batch:
        if not self.samples:
            self._begin(samples)
        if samples != self.samples:
            raise TaskError(f"{self.samples} games are under way, but {samples} samples are drawn of them.")
        self._keep_past(step, model)
        opponents = self._opponents(model)
        share = rank_share(samples, self.rank, self.world_size)
        shape = (samples, HORIZON, 2, self.task.heroes)
        uniforms = torch.rand(shape, generator=random_generator("dota", self.seed, step))[share].to(self.device)
        first_state = self.state
        ticks = []
        with torch.no_grad():
            for t in range(HORIZON):
                observations, legal = self._seen()
                log_policy, values, state = model.tick(observations, legal, self.state)
                actions = sample_actions(log_policy, uniforms[:, t])
                for games, side, opponent in opponents:
                    where = (games, side)
                    played, _, state[where] = opponent.tick(observations[where], legal[where], self.state[where])
                    actions[where] = sample_actions(played, uniforms[:, t][where])
                stepped = self.battle.step(actions.cpu().numpy())
                done = torch.as_tensor(stepped.done).to(self.device)
                self.state = state * ~done[:, None, None, None]
                chosen = log_policy.gather(-1, actions[..., None])[..., 0]
                rewards = torch.as_tensor(stepped.rewards).to(self.device)
                ticks.append((observations, legal, done, actions, chosen, rewards, values))
            _, last, _ = model.tick(*self._seen(), self.state)
        observations, legal, done, actions, chosen, rewards, values = (torch.stack(part, 1) for part in zip(*ticks))
        advantages, returns = advantages_and_returns(rewards, values, done[..., None, None], last)
        weights = self.weights[:, None, :, None].expand_as(advantages)
        advantages = advantages / self._scale(advantages, weights)
        return observations, legal, first_state, done, actions, chosen, advantages, returns, weights.contiguous()

    def _begin(self, samples: int) -> None:
        numbers = np.arange(samples)[rank_share(samples, self.rank, self.world_size)]
        self.samples = samples
        self.battle = Battle(self.task.heroes, numbers, self.seed, shaping=self.task.shaping)
        self.numbers = torch.from_numpy(numbers)
        self.state = self.task.build_model().initial_state(len(numbers), 2, self.task.heroes).to(self.device)
        self.against_past = self.numbers % PAST_EVERY == PAST_EVERY - 1
        self.past_side = self.numbers // PAST_EVERY % 2
        self.weights = torch.ones(len(numbers), 2, device=self.device)

    def _seen(self) -> tuple[Tensor, Tensor]:
        observations, legal = self.battle.observations, self.battle.legal()
        return torch.as_tensor(observations).to(self.device), torch.as_tensor(legal).to(self.device)

    def _keep_past(self, step: int, model: Policy) -> None:
        if not self.past or step >= self.past[-1][0] * PAST_GROWTH + 1:
            self.past.append((step, deepcopy(model.state_dict())))

    def _opponents(self, policy: Policy) -> list[tuple[Tensor, Tensor, Policy]]:
        """Which games and sides past policies play, and these. Sets `weights` to 0 there."""
        self.weights.fill_(1)
        found = []
        for index, (_, weights) in enumerate(self.past):
            theirs = self.against_past & (self.numbers // (2 * PAST_EVERY) % len(self.past) == index)
            games = torch.nonzero(theirs)[:, 0].to(self.device)
            if len(games) == 0:
                continue
            side = self.past_side[theirs].to(self.device)
            self.weights[games, side] = 0
            opponent = deepcopy(policy)
            opponent.load_state_dict(weights)
            found.append((games, side, opponent))
        return found

    def _scale(self, advantages: Tensor, weights: Tensor) -> float:
        """Running root mean square of advantages, the same on all ranks: the batch's own would couple its games."""
        sums = torch.stack([(weights * advantages.square()).sum(), weights.sum()]).double().cpu()
        if dist.is_initialized() and dist.get_world_size() > 1:
            sums = sums.to(self.device)
            dist.all_reduce(sums)
        mean_sq, frames = float(sums[0] / sums[1]), float(sums[1])
        before = self.scale_sq or mean_sq
        self.scale_sq = before + (mean_sq - before) * frames / (frames + SCALE_FRAMES)
        return before**0.5 + 1e-8

    def state_dict(self) -> dict:
        if not self.samples:
            return {}
        names = ("samples", "state", "scale_sq")
        return {name: getattr(self, name) for name in names} | {
            "past": list(self.past),
            "battle": self.battle.state_dict(),
        }

    def load_state_dict(self, state: dict) -> None:
        if not state:
            return
        self._begin(state["samples"])
        self.battle.load_state_dict(state["battle"])
        self.state, self.scale_sq = state["state"].to(self.device), state["scale_sq"]
        self.past.extend(state["past"])


class DotaProxy(Task):
    """Args:
    heroes: of a team, 1 or 5. hidden, recurrent: see Policy.
    shaping: coefficient of the zero-sum shaping reward beside the win.
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
        self.heroes, self.hidden, self.recurrent, self.shaping = heroes, hidden, recurrent, shaping
        self.goals, self.evaluation_games = tuple(goals), evaluation_games
        self.units_per_sample = HORIZON * 2 * heroes
        self.data = f"lane battle of {heroes} against {heroes}, a proxy for Dota"

    def build_model(self) -> nn.Module:
        return Policy(features(self.heroes), ACTIONS, self.hidden, self.recurrent)

    def sampler(self, seed: int, rank: int, world_size: int, device: torch.device) -> Sampler:
        return SelfPlay(self, seed, rank, world_size, device)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return ppo_loss(model, batch)

    @torch.no_grad()
    def evaluate(self, model: Policy) -> float:
        """Mean over the rungs of the ladder of the share of games won, a draw counting half; sides alternate."""
        device = next(model.parameters()).device
        games = len(LADDER) * self.evaluation_games
        strengths = np.repeat(LADDER, self.evaluation_games)
        battle = Battle(self.heroes, range(games), EVALUATION_SEED)
        script = Script(strengths, EVALUATION_SEED)
        teams = np.arange(games) % 2
        every = np.arange(games)
        state = model.initial_state(games, self.heroes).to(device)
        result = np.full(games, np.nan)
        generator = random_generator("dota, evaluation")
        for _ in range(TICK_LIMIT):
            seen = battle.observations[every, teams], battle.legal()[every, teams]
            log_policy, _, state = model.tick(*(torch.as_tensor(part).to(device) for part in seen), state)
            uniforms = torch.rand(games, self.heroes, generator=generator).to(device)
            theirs = (script.act(battle, team) for team in (0, 1))
            actions = np.stack(list(theirs), 1)
            actions[every, teams] = sample_actions(log_policy, uniforms).cpu().numpy()
            stepped = battle.step(actions)
            first = stepped.done & np.isnan(result)
            won = stepped.winner * np.where(teams == 0, 1, -1)
            result[first] = (1 + won[first]) / 2
            if not np.isnan(result).any():
                break
        return float(result.mean())

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

    def loss_parts(self) -> dict:
        return {
            "policy": lambda model, batch: losses(model, batch)[0],
            "value": lambda model, batch: losses(model, batch)[1],
        }
