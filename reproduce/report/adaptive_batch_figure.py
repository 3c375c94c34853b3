"""Steps and examples of adaptive beside constant batch sizes, and the schedules (Fig. 16)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduce.report.adaptive_batch import AdaptiveBatch
from reproduce.report.adaptive_batch_tables import ADAPTIVE_BATCH_HEADER, adaptive_batch_rows
from reproduce.report.formatting import examples_label, number
from reproduce.report.style import OKABE_ITO, figure_style, log_axis, shades, task_figure
from reproduce.report.summaries import Summary
from reproduce.report.tips import add_tip

ADAPTIVE_COLOURS = "plasma"


def adaptive_batch_figure(summary: Summary, result: AdaptiveBatch) -> Figure:
    """Left: the trade-off. Right: the batch size as training goes on."""
    with figure_style():
        figure, (left, right) = task_figure(summary, "Batch sizes that follow the noise scale", panels=2)
        colours = shades(ADAPTIVE_COLOURS, len(result.adaptive))
        _draw_hyperbolas(left, result)
        for row, runs in zip(adaptive_batch_rows(result), [*result.constant, *result.adaptive]):
            if runs.steps is None:
                continue
            index = result.adaptive.index(runs) if runs in result.adaptive else None
            style = {"color": "black", "marker": "o"} if index is None else {"color": colours[index], "marker": "D"}
            left.plot([runs.steps], [runs.examples], markersize=5, linestyle="none", **style)
            add_tip(left, runs.steps, runs.examples, "\n".join(map(" ".join, zip(ADAPTIVE_BATCH_HEADER, row))))
        for runs, colour in zip(result.adaptive, colours):
            if runs.schedule:
                label = f"r = {number(runs.value)} {summary.unit}s"
                right.plot(*zip(*runs.schedule), color=colour, drawstyle="steps-pre", label=label)
        for ax in (left, right):
            log_axis(ax, "x")
            log_axis(ax, "y")
            ax.set_xlabel("optimiser steps")
        left.set_ylabel(examples_label(summary))
        right.set_ylabel(f"batch size ({summary.unit}s)")
        for ax in (left, right):
            if ax.get_legend_handles_labels()[0]:
                ax.legend(loc="best")
    return figure


def _draw_hyperbolas(ax: Axes, result: AdaptiveBatch) -> None:
    """(S / S_min - 1)(E / E_min - 1) = 1, and with gamma in the place of 1, over the range of the runs."""
    steps = [runs.steps for runs in (*result.constant, *result.adaptive) if runs.steps is not None]
    if result.s_min is None or result.e_min is None or not steps:
        return
    curves = [(1.0, "black", "constant: gamma = 1")]
    if result.gamma.measured:
        curves.append((result.gamma.value, OKABE_ITO[1], f"adaptive: gamma = {number(result.gamma.value)}"))
    along = np.geomspace(max(min(steps) / 1.1, 1.02 * result.s_min), max(steps) * 1.1, 100)
    for gamma, colour, label in curves:
        examples = result.e_min * (1 + gamma / (along / result.s_min - 1))
        ax.plot(along, examples, color=colour, label=label)
