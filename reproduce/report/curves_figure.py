"""The score against steps and against examples at each batch size (Fig. 6), from curves.csv."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from reproduce.report.formatting import count, examples_label
from reproduce.report.reading import SummaryError
from reproduce.report.style import MUTED, figure_style, log_axis, score_axis, shades, task_figure
from reproduce.report.summaries import Summary


@dataclass(frozen=True)
class Curve:
    """The mean score over seeds at one batch size and learning rate; examples in the task's unit."""

    batch_size: float
    learning_rate: float
    seeds: int
    steps: tuple[float, ...]
    examples: tuple[float, ...]
    scores: tuple[float, ...]


def load_curves(folder: Path, summary: Summary) -> list[Curve]:
    """One curve for each batch size in folder/curves.csv, at the best learning rate of the hardest goal it reached.

    An empty list where there is no file. Raises SummaryError for one that cannot be read.
    """
    path = folder / "curves.csv"
    if not path.exists():
        return []
    runs: dict[tuple[float, float], dict[str, list[tuple[float, float, float]]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            for row in rows:
                if None in row.values():
                    raise ValueError(f"line {rows.line_num} is too short")
                score = row["smoothed_score"] or row["score"]
                if not score:
                    continue  # not measured at this step
                run = runs.setdefault((_finite(row["batch_size"]), _finite(row["learning_rate"])), defaultdict(list))
                run[row["seed"]].append((_finite(row["step"]), _finite(row["examples"]), _finite(score)))
    except (KeyError, TypeError, ValueError) as error:
        raise SummaryError(f"{path}: a row cannot be read ({error}); run its sweep again to rewrite it") from error
    return [
        _mean_over_seeds(batch_size, rate, runs[batch_size, rate])
        for batch_size, rate in sorted(_best_rates(summary, list(runs)).items())
    ]


def curves_figure(summary: Summary, curves: Sequence[Curve]) -> Figure:
    with figure_style():
        figure, (left, right) = task_figure(summary, "Training at constant batch size", panels=2)
        for curve, colour in zip(curves, shades("plasma", len(curves))):
            style = {"color": colour, "linewidth": 1.1}
            left.plot(curve.steps, curve.scores, **style)
            right.plot(curve.examples, curve.scores, label=f"B = {count(curve.batch_size)}", **style)
        for ax, label in ((left, "optimiser steps"), (right, examples_label(summary))):
            for goal in summary.goals:
                ax.axhline(goal.goal, color=MUTED, linewidth=0.6, linestyle=(0, (1, 3)), zorder=0)
            log_axis(ax, "x")
            score_axis(ax, summary, "y")
            ax.set_xlabel(label)
        right.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0, title="dotted: goals")
    return figure


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a number")
    return value


def _best_rates(summary: Summary, available: Sequence[tuple[float, float]]) -> dict[float, float]:
    """{batch size: learning rate}: the best for the hardest goal reached, else the first in the file."""
    best = {}
    for batch_size, rate in available:
        best.setdefault(batch_size, rate)
    for goal in summary.goals:  # from easy to hard, so that the hardest has the last word
        for point in goal.reached:
            for batch_size, rate in available:
                # a rate may have lost its last digits on its way through the file
                if batch_size == point.batch_size and math.isclose(rate, point.learning_rate or 0, rel_tol=1e-5):
                    best[batch_size] = rate
    return best


def _mean_over_seeds(batch_size: float, rate: float, seeds: Mapping[str, list[tuple[float, float, float]]]) -> Curve:
    """The mean at those steps that every seed has, so that a seed that stopped early bends no curve."""
    scores = [{step: score for step, _, score in rows} for rows in seeds.values()]
    examples = {step: seen for rows in seeds.values() for step, seen, _ in rows}
    # Step 0 is untrained and has no place on a logarithmic axis.
    steps = sorted(step for step in set.intersection(*(set(run) for run in scores)) if step > 0)
    return Curve(
        batch_size=batch_size,
        learning_rate=rate,
        seeds=len(seeds),
        steps=tuple(steps),
        examples=tuple(examples[step] for step in steps),
        scores=tuple(sum(run[step] for run in scores) / len(scores) for step in steps),
    )
