"""The tables of adaptive batch sizes, what they show in words, and all that in a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from reproduce.report.adaptive_batch import AdaptiveBatch, ScheduledRuns, parse_adaptive_batch
from reproduce.report.formatting import count, estimate, number, plural
from reproduce.report.goal_tables import Rows, aligned

ADAPTIVE_BATCH_HEADER = ("batch size", "steps", "examples", "gamma", "seeds that arrived")


def format_adaptive_batch(record: AdaptiveBatch | Mapping) -> str:
    """What the experiment prints when it ends; takes the record of an adaptive_batch.json too."""
    result = record if isinstance(record, AdaptiveBatch) else parse_adaptive_batch(record)
    title = f"Adaptive and constant batch sizes: {what_was_scheduled(result)}"
    return "\n\n".join([title, aligned(ADAPTIVE_BATCH_HEADER, adaptive_batch_rows(result)), gained(result)])


def what_was_scheduled(result: AdaptiveBatch) -> str:
    law = result.learning_rate
    rate = f"{number(law.eps)} / (1 + {number(law.knee)} / B)^{number(law.alpha)}"
    return f"goal {result.goal:g}, learning rate {rate}, {plural(result.seeds, 'seed')}"


def adaptive_batch_rows(result: AdaptiveBatch) -> Rows:
    """Constant batch sizes, then adaptive ones by r, each with the batch sizes that it went through."""
    constant = [(count(runs.value), runs) for runs in result.constant]
    return [_row(name, runs) for name, runs in [*constant, *((schedule_name(runs), runs) for runs in result.adaptive)]]


def schedule_name(runs: ScheduledRuns) -> str:
    sizes = [size for _, size in runs.schedule]
    through = f", {number(min(sizes))} to {number(max(sizes))}" if sizes else ""
    return f"adaptive, r = {number(runs.value)}{through}"


def _row(name: str, runs: ScheduledRuns) -> tuple[str, ...]:
    gamma = "-" if runs.gamma is None else number(runs.gamma)
    return (name, number(runs.steps), number(runs.examples), gamma, f"{runs.seeds_reached} of {runs.seeds}")


def gained(result: AdaptiveBatch) -> str:
    """gamma measured beside predicted, and what it says.

    A gain must be certain over seeds, and below what single constant batch sizes have by scattering around their law.
    """
    if not result.gamma.measured:
        return "gamma is not measured: the constant batch sizes do not fix S_min and E_min, or no run is past both."
    text = f"gamma {estimate(result.gamma)}, where constant batch sizes have 1"
    own = [runs.gamma for runs in result.constant if runs.gamma is not None]
    if own:
        text += f" by their law, and {number(min(own))} to {number(max(own))} each"
    if result.predicted_gamma is not None:
        text += f"; the sweep's noise scales predict {number(result.predicted_gamma)}"
    value, low, high = result.gamma.value, result.gamma.low, result.gamma.high
    if low is not None and high is not None:
        if high < 1 and all(value < gamma for gamma in own):
            return f"{text}. It gains."
        if low > 1 and all(value > gamma for gamma in own):
            return f"{text}. It loses."
    return f"{text}. A gain is not shown."
