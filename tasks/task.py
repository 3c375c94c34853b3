"""What a task is: a model, examples, a loss, a score, goals and a unit. Nothing about steps, ranks or files."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, ...]
"""Tensors whose first axis counts samples. A batch is cut between samples, never inside one."""


class TaskError(ValueError):
    """A task cannot be set up as asked; the message says what to change."""


def random_generator(*key: object, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator that depends on `key` alone, so that what it draws is the same on every rank and after a resume.

    Args:
        key: anything with a stable `repr`, for example ("mnist", seed, step).
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    # 63 bits: manual_seed refuses larger unsigned values.
    return torch.Generator(device).manual_seed(int.from_bytes(digest, "little") >> 1)


def rank_share(samples: int, rank: int, world_size: int) -> slice:
    """The rows of a global batch of `samples` that belong to `rank`.

    Raises:
        TaskError: if the batch cannot be cut into equal shares.
    """
    if samples % world_size:
        raise TaskError(
            f"A batch of {samples} samples cannot be cut into equal shares for {world_size} ranks: "
            f"choose a batch size that is a multiple of {world_size} samples, or fewer ranks (trainer.ranks)."
        )
    share = samples // world_size
    return slice(rank * share, (rank + 1) * share)


class Sampler(ABC):
    """Draws training batches.

    Samplers of supervised tasks are pure functions of (seed, step): samples are drawn independently with
    replacement (the estimator of App. A.1 assumes it, footnote 6), the global batch does not depend on the
    number of ranks, and a resumed run continues exactly. Samplers of reinforcement learning hold environments
    and keep what a resume needs in `state_dict`.
    """

    @abstractmethod
    def draw(self, step: int, samples: int, model: nn.Module) -> Batch:
        """This rank's share of the global batch of `samples` samples at `step`. Supervised tasks ignore `model`."""

    def report(self) -> dict:
        """What this rank's environments have shown, for `Task.score_run`; nothing for supervised tasks."""
        return {}

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        if state:
            raise TaskError(f"{type(self).__name__} keeps no state, but the checkpoint holds some.")


@dataclass(frozen=True)
class GradientMoments:
    """Exact moments of the per-example gradient at one point of training (eq. 2.2, 2.8, 2.9).

    Attributes:
        grad_sq: G'G.
        trace: tr Sigma, per unit.
        curvature_grad_sq: G'HG.
        curvature_trace: tr(H Sigma), per unit.
    """

    grad_sq: float
    trace: float
    curvature_grad_sq: float
    curvature_trace: float

    @property
    def b_simple(self) -> float:
        return self.trace / self.grad_sq

    @property
    def b_noise(self) -> float:
        return self.curvature_trace / self.curvature_grad_sq


class Task(ABC):
    """One learning problem. Subclass it, and point a config's `task._target_` at the subclass.

    Attributes:
        unit: what one example is, in the singular: "image", "token", "frame".
        units_per_sample: units in one independently drawn sample (20 for a sequence of 20 tokens).
        score: what `evaluate` returns, for example "train error".
        score_unit: of the score, "" for a number without one. A loss in "nats" is shown as a perplexity too.
        higher_is_better: direction of the score.
        goals: scores from easy to hard; a sweep records the steps to each.
        smoothing: evaluations in the centred mean of the score in which goals are looked for (odd).
        data: name of the data, as results show it.
        on_policy: True where samples come from environments in which the model acts. The noise scale is then measured
            between groups of the training batch's own samples, as no other environments are where the policy is.
        embedded: True where the data is small or generated and comes with a package: not the paper's data.
    """

    unit: str
    units_per_sample: int = 1
    score: str
    score_unit: str = ""
    higher_is_better: bool = False
    goals: tuple[float, ...]
    smoothing: int = 3
    on_policy: bool = False
    data: str
    embedded: bool

    @abstractmethod
    def build_model(self) -> nn.Module:
        """A new model; its weights come from torch's global random state, which the trainer seeds."""

    @abstractmethod
    def sampler(self, seed: int, rank: int, world_size: int, device: torch.device) -> Sampler:
        """Draws training batches for `rank`; its batches live on `device`."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean of the loss over the batch's samples, a scalar."""

    @abstractmethod
    def evaluate(self, model: nn.Module) -> float:
        """The score, on a fixed set of samples, in evaluation mode; leaves the model in the mode it was in."""

    def score_run(self, model: nn.Module, reports: Sequence[dict]) -> float:
        """The score of a run under way; `reports`: what each rank's sampler reports. Unless the task says otherwise,
        that of the model alone."""
        return self.evaluate(model)

    @abstractmethod
    def fake_batch(self, samples: int) -> Batch:
        """A batch of the right shapes and types without any data, so that every task is testable in milliseconds."""

    def prepare(self) -> None:
        """Makes the data available, or raises TaskError that says how to. Called in one process before the others."""
        return

    def loss_parts(self) -> dict[str, Callable[[nn.Module, Batch], Tensor]]:
        """Terms of the loss, by name, whose own noise scales are to be recorded (policy and value)."""
        return {}

    def exact_steps(self, batch_size: float, goal: float) -> float | None:
        """Fewest steps to `goal` at `batch_size` over all learning rates, where theory knows it; else None."""
        return None

    def exact_moments(self, batch_size: float, learning_rate: float, step: float) -> GradientMoments | None:
        """Gradient moments expected at `step` of such a run, where theory knows them; else None."""
        return None


def check_goals(task: Task) -> None:
    """Raises TaskError unless the goals are finite, distinct and ordered from easy to hard."""
    goals = tuple(task.goals)
    if not goals:
        raise TaskError("The task has no goals: set task.goals to at least one score, from easy to hard.")
    ordered = sorted(set(goals), reverse=not task.higher_is_better)
    if list(goals) != ordered or not all(abs(g) < float("inf") for g in goals):
        order = "rising" if task.higher_is_better else "falling"
        raise TaskError(
            f"task.goals must go from easy to hard, strictly {order} for the score '{task.score}': "
            f"got {list(goals)}, expected {ordered}."
        )
    if task.smoothing < 1 or task.smoothing % 2 == 0:
        raise TaskError(f"The smoothing window must be an odd number of evaluations, got {task.smoothing}.")
