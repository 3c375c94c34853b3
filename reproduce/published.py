"""What the paper published: Table 1 of McCandlish et al. 2018 (arXiv 1812.06162).

Batch sizes and noise scales are in the task's unit (image, token, frame). "Start" is early in training, "average"
is over training. A value is one of

- a number,
- a Range: Atari's row covers seven games and gives the smallest and the largest of them,
- AtLeast: for Dota 5v5 no Pareto front was measured, and the team's batch size is a lower bound,
- None: not measured.

A range or a bound is never turned into one number here; whoever compares with it has to say how.

The source contradicts itself in two places (CONTRADICTIONS). Its text calls the smallest critical batch size 20 and
names the autoencoder, for which the table has 10 (start) and 40 (average). And the table's caption says "end of the
run" where its column says "average". The numbers below are the table's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """The smallest and the largest of several published values."""

    low: float
    high: float


@dataclass(frozen=True)
class AtLeast:
    """A published lower bound."""

    bound: float


PublishedValue = float | Range | AtLeast | None


@dataclass(frozen=True)
class PublishedRow:
    """One row of Table 1: values in `unit`s."""

    name: str
    unit: str
    b_crit_start: PublishedValue
    b_crit_average: PublishedValue
    b_simple_start: PublishedValue
    b_simple_average: PublishedValue

    def to_summary(self) -> dict[str, list]:
        """The "published" entry of summary.json: {"b_crit": [start, average], "b_simple": [start, average]}.

        A number stands for itself, a Range is [low, high], AtLeast is {"at_least": bound}, None is null.
        """
        return {
            "b_crit": [_to_json(self.b_crit_start), _to_json(self.b_crit_average)],
            "b_simple": [_to_json(self.b_simple_start), _to_json(self.b_simple_average)],
        }


TABLE_1: Mapping[str, PublishedRow] = {
    "mnist": PublishedRow("MNIST", "image", 20, 200, 50, 900),
    "svhn": PublishedRow("SVHN", "image", 50, 500, 300, 4_000),
    "cifar10": PublishedRow("CIFAR10", "image", 300, 900, 400, 2_000),
    "imagenet": PublishedRow("ImageNet", "image", 1_000, 15_000, 4_000, 30_000),
    "svhn_autoencoder": PublishedRow("Autoencoder (SVHN)", "image", 10, 40, 2, 2),
    "svhn_vae": PublishedRow("Variational autoencoder (SVHN)", "image", 10, 200, 10, 10),
    "billion_word": PublishedRow("Billion Word", "token", 700, 100_000, 1_000, 150_000),
    "atari": PublishedRow(
        "Atari", "frame", Range(100, 1_000), Range(400, 8_000), Range(100, 1_000), Range(1_000, 20_000)
    ),
    "dota_1v1": PublishedRow("Dota 1v1", "frame", 50_000, 3_000_000, 100_000, 300_000),
    "dota_5v5": PublishedRow("Dota 5v5", "frame", None, AtLeast(8_000_000), 100_000, 24_000_000),
}

# Appendix A.4. Underscores are dropped, so that beam_rider and beamrider are one game.
ATARI_GAMES = frozenset({"alien", "beamrider", "breakout", "pong", "qbert", "seaquest", "spaceinvaders"})

PUBLISHED_R2 = 0.80
"""r^2 of the logs of noise scale against critical batch size over tasks, from the authors' post about the paper."""

CONTRADICTIONS = (
    "The text calls the smallest critical batch size 20 and names the autoencoder; Table 1 has 10 (start) and"
    " 40 (average) for it. This report uses the table.",
    'The caption of Table 1 says "end of the run" where its column says "average". This report takes the column at'
    " its word, and compares it with the run's value: B_crit of the last goal, which is an average over the run up"
    " to that goal (appendix D), and the noise scale averaged over the same run.",
)


def published(task: str) -> PublishedRow | None:
    """The row of Table 1 for a task of the suite, or None for a task that is not in the paper.

    The seven games atari_* share one row, as they do in the paper.
    """
    family, _, game = task.partition("_")
    if family == "atari" and game.replace("_", "") in ATARI_GAMES:
        return TABLE_1["atari"]
    return TABLE_1.get(task)


def value_from_json(value: object) -> PublishedValue:
    """Reads one value as `PublishedRow.to_summary` writes it. Raises ValueError for anything else."""
    match value:
        case None:
            return None
        case bool():
            pass
        case int() | float() if value > 0:
            return float(value)
        case [int() | float() as low, int() | float() as high] if 0 < low <= high:
            return Range(low, high)
        case {"at_least": int() | float() as bound} if bound > 0:
            return AtLeast(bound)
    raise ValueError(f'{value!r} is not a number, [low, high], {{"at_least": bound}} or null')


def _to_json(value: PublishedValue) -> object:
    match value:
        case Range(low, high):
            return [low, high]
        case AtLeast(bound):
            return {"at_least": bound}
        case _:
            return value
