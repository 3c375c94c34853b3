"""A batch size that follows the noise scale while training goes on (App. D of arXiv 1812.06162)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reproduce.tradeoff import central_learning_rate
from reproduce.validation import above, least

RECENT = 0.5  # of all steps: those from which the noise scale is taken
MIN_UPDATES = 10  # steps that say something together


@dataclass(frozen=True)
class AdaptiveBatch:
    """B(s) = sqrt(r B_simple(s)), the schedule with fewest steps at its cost in examples.

    Attributes:
        r: examples that a step saved may cost. At r = B_crit a run takes about 2 S_min steps and 2 E_min examples.
        knee, alpha: of the learning rate at each batch size, run.learning_rate / (1 + knee / B)^alpha (App. A.2).
        largest: batch size.
    """

    r: float = above(0)
    knee: float = least(0)
    alpha: float = least(0)
    largest: int = above(0)

    def batch_size(self, evaluations: Sequence[dict], begins_with: int, multiple: int) -> int:
        """The batch size of the next steps, in units, a multiple of `multiple`.

        Where the noise scale cannot be told yet (no gradient above its noise) it stays what it was.

        Args:
            evaluations: of the run so far, with what its training steps say about the noise scale.
            begins_with: batch size of the first steps.
        """
        scales = (recent_noise_scale(evaluations[:end]) for end in range(len(evaluations), 0, -1))
        noise_scale = next((scale for scale in scales if scale is not None), None)
        size = begins_with if noise_scale is None else math.sqrt(self.r * noise_scale)
        return whole_samples(min(size, self.largest), multiple)

    def learning_rate(self, limit: float, batch_size: float) -> float:
        return central_learning_rate(batch_size, limit, self.knee, self.alpha)


def whole_samples(batch_size: float, multiple: int) -> int:
    """Rounded to a multiple of `multiple`; two of it at least, the fewest that show a noise scale."""
    return max(round(batch_size / multiple), 2) * multiple


def recent_noise_scale(evaluations: Sequence[dict]) -> float | None:
    """B_simple from the training steps of the last half of the run; None from too few, or where it is not above 0."""
    since = evaluations[-1]["step"] * (1 - RECENT)
    recent = [e["training"] for e in evaluations if e["step"] > since and "training" in e]
    grad_sq = sum(entry["grad_sq"] * entry["updates"] for entry in recent)
    trace = sum(entry["trace"] * entry["updates"] for entry in recent)
    enough = sum(entry["updates"] for entry in recent) >= MIN_UPDATES
    return trace / grad_sq if enough and grad_sq > 0 and trace > 0 else None
