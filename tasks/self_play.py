"""Rollouts of the Dota proxy by self-play: the current policy against itself and, in a share of games, past ones."""

from collections.abc import Callable
from copy import deepcopy

import torch
import torch.distributed as dist
from torch import Tensor

from tasks.actions import sample_actions
from tasks.dota_proxy.battle import Battle
from tasks.dota_proxy.constants import TICK_LIMIT
from tasks.dota_proxy.script import Script
from tasks.ppo import Policy, advantages_and_returns
from tasks.rollouts import Rollouts
from tasks.task import Batch, random_generator

HORIZON = 32  # ticks of a rollout
PAST_SHARE = 0.25  # of games, in which a past policy plays one side
PAST_POLICIES = 4  # kept
PAST_GROWTH = 1.3  # the policy is kept whenever the number of steps has grown by this factor
SCALE_FRAMES = 100_000  # over which the running scale of advantages forgets
ITSELF = -1  # an opponent that is the current policy


class SelfPlay(Rollouts):
    """HORIZON ticks of every game at each draw; a game, both sides and all heroes of it, is one sample.

    Opponents are chosen at the beginning of each episode. First episodes are already under way when training begins,
    each at another tick, so that a batch holds all parts of a game from the start.

    Batch, first axes (n, HORIZON, 2 teams, heroes): observations, legal actions, the policy's state before the first
    tick (n, 2, heroes, size), done (n, HORIZON), actions, their log-probabilities, advantages, returns, weights.

    Args:
        heroes: of a team. shaping: coefficient of the shaping reward. build_model: a policy of the learner's kind.
    """

    def __init__(
        self,
        heroes: int,
        shaping: float,
        build_model: Callable[[], Policy],
        seed: int,
        rank: int,
        world_size: int,
        device: torch.device,
    ) -> None:
        super().__init__(seed, rank, world_size, device)
        self.heroes, self.shaping, self.build_model = heroes, shaping, build_model
        self.past: list[Policy] = []
        self.kept_at: list[int] = []  # the steps after which policies were kept
        self.scale_sq = 0.0

    def begin(self, numbers: range) -> None:
        backend = "numba" if self.device.type == "cpu" else "torch"
        self.battle = Battle(self.heroes, numbers, self.seed, backend, self.device, self.shaping)
        self.state = self.build_model().initial_state(len(numbers), 2, self.heroes).to(self.device)
        self.opponent = torch.full((len(numbers),), ITSELF)
        self.past_side = torch.zeros(len(numbers), dtype=torch.long)
        self._play_in()

    def _play_in(self) -> None:
        """Brings each game to a tick of its own, by heroes who act at random."""
        generator = random_generator("dota, first ticks", self.seed)
        ticks = torch.randint(TICK_LIMIT, (self.samples,), generator=generator)[self.share].numpy()
        chance = Script(1.0, self.seed)
        begun = self.battle.state_dict()
        for tick in range(int(ticks.max()) + 1):
            if (here := ticks == tick).any():
                for name, now in self.battle.state_dict().items():
                    begun[name][here] = now[here]
            self.battle.step(torch.stack([torch.as_tensor(chance.act(self.battle, team)) for team in (0, 1)], 1))
        self.battle.load_state_dict(begun)

    def play(self, step: int, model: Policy) -> Batch:
        self._keep_past(step, model)
        opponents = self._opponents()
        shape = (self.samples, HORIZON, 2, self.heroes)
        uniforms = torch.rand(shape, generator=random_generator("dota", self.seed, step))[self.share].to(self.device)
        first_state, ticks = self.state, []
        with torch.no_grad():
            for t in range(HORIZON):
                observations, legal = self._seen()
                log_policy, values, state = model.tick(observations, legal, self.state)
                actions = sample_actions(log_policy, uniforms[:, t])
                for where, policy in opponents:
                    played, _, state[where] = policy.tick(observations[where], legal[where], self.state[where])
                    actions[where] = sample_actions(played, uniforms[:, t][where])
                stepped = self.battle.step(actions)
                done, rewards = (torch.as_tensor(part).to(self.device) for part in (stepped.done, stepped.rewards))
                self.state = state * ~done[:, None, None, None]
                chosen = log_policy.gather(-1, actions[..., None])[..., 0]
                ticks.append((observations, legal, done, actions, chosen, rewards, values))
            _, last, _ = model.tick(*self._seen(), self.state)
        observations, legal, done, actions, chosen, rewards, values = (
            torch.stack(part, 1) for part in zip(*ticks, strict=True)
        )
        advantages, returns = advantages_and_returns(rewards, values, done[..., None, None], last)
        weights = self._weights(opponents)[:, None, :, None].expand_as(advantages)
        advantages = advantages / self._scale(advantages, weights)
        self._choose_opponents(step, done.any(1).cpu())
        return observations, legal, first_state, done, actions, chosen, advantages, returns, weights.contiguous()

    def _seen(self) -> tuple[Tensor, Tensor]:
        """Observations and legal actions of all heroes now."""
        return tuple(torch.as_tensor(part).to(self.device) for part in (self.battle.observations, self.battle.legal()))

    def _keep_past(self, step: int, model: Policy) -> None:
        """Keeps the policy now and then; when there are PAST_POLICIES, in the place of the oldest."""
        if self.kept_at and step < self.kept_at[-1] * PAST_GROWTH + 1:
            return
        copy = deepcopy(model)
        if len(self.past) < PAST_POLICIES:
            self.past.append(copy)
        else:
            self.past[len(self.kept_at) % PAST_POLICIES] = copy
        self.kept_at.append(step)

    def _opponents(self) -> list[tuple[tuple[Tensor, Tensor], Policy]]:
        """Past policies that play now, each with the games and sides it has."""
        found = []
        for index in self.opponent.unique().tolist():
            if index != ITSELF:
                games = torch.nonzero(self.opponent == index)[:, 0]
                found.append(((games.to(self.device), self.past_side[games].to(self.device)), self.past[index]))
        return found

    def _choose_opponents(self, step: int, ended: Tensor) -> None:
        """New opponents for the games that have ended, from numbers that all ranks share."""
        generator = random_generator("dota, opponents", self.seed, step)
        against_past, which, side = torch.rand(self.samples, 3, generator=generator)[self.share].unbind(1)
        chosen = torch.where(against_past < PAST_SHARE, (which * len(self.past)).long(), ITSELF)
        self.opponent = torch.where(ended, chosen, self.opponent)
        self.past_side = torch.where(ended, (side * 2).long(), self.past_side)

    def _weights(self, opponents: list[tuple[tuple[Tensor, Tensor], Policy]]) -> Tensor:
        """(n, 2): 1, and 0 for a side that a past policy plays."""
        weights = torch.ones(len(self.opponent), 2, device=self.device)
        for where, _ in opponents:
            weights[where] = 0
        return weights

    def _scale(self, advantages: Tensor, weights: Tensor) -> float:
        """Running root mean square of advantages, the same on all ranks: the batch's own would couple its games."""
        sums = torch.stack([(weights * advantages.square()).sum(), weights.sum()]).double()
        if dist.is_initialized() and dist.get_world_size() > 1:
            dist.all_reduce(sums)
        mean_sq, frames = float(sums[0] / sums[1]), float(sums[1])
        before = self.scale_sq or mean_sq
        self.scale_sq = before + (mean_sq - before) * frames / (frames + SCALE_FRAMES)
        return before**0.5 + 1e-8

    def kept(self) -> dict:
        return {
            "battle": self.battle.state_dict(),
            "past": [policy.state_dict() for policy in self.past],
            **{name: getattr(self, name) for name in ("state", "opponent", "past_side", "kept_at", "scale_sq")},
        }

    def restore(self, kept: dict) -> None:
        self.battle.load_state_dict(kept["battle"])
        self.state = kept["state"].to(self.device)
        self.opponent, self.past_side = kept["opponent"], kept["past_side"]
        self.kept_at, self.scale_sq = list(kept["kept_at"]), kept["scale_sq"]
        self.past = []
        for weights in kept["past"]:
            policy = self.build_model().to(self.device)
            policy.load_state_dict(weights)
            self.past.append(policy)
