"""The best learning rate against the batch size, with the law of appendix A.2."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduce.report.estimates import LearningRateFit
from reproduce.report.formatting import goal_name, number
from reproduce.report.laws import fitted_learning_rate
from reproduce.report.style import batch_size_axis, figure_style, log_axis, shades, task_figure
from reproduce.report.summaries import Summary
from reproduce.report.tips import add_tip
from reproduce.report.tradeoff_figures import GOAL_COLOURS, all_batch_sizes, point_tip


def learning_rate_figure(summary: Summary) -> Figure:
    with figure_style():
        figure, (ax,) = task_figure(summary, "Best learning rate")
        draw_learning_rates(ax, summary)
    return figure


def draw_learning_rates(ax: Axes, summary: Summary) -> None:
    """The rate that reached each goal first at each batch size, with the fitted law."""
    colours = shades(GOAL_COLOURS, len(summary.goals))
    for index, (goal, colour) in enumerate(zip(summary.goals, colours)):
        # Rates come from a grid, so goals often share one: a small shift keeps all of them visible.
        shift = 1.045 ** (index - (len(colours) - 1) / 2)
        points = [point for point in goal.reached if point.learning_rate is not None]
        ax.plot(
            [point.batch_size * shift for point in points],
            [point.learning_rate for point in points],
            color=colour,
            marker="o",
            markersize=4,
            linestyle="none",
            label=goal_name(summary, goal),
        )
        for point in points:
            add_tip(ax, point.batch_size * shift, point.learning_rate, point_tip(summary, goal, point))
    if summary.learning_rate_fit and all_batch_sizes(summary):
        _draw_fit(ax, summary, summary.learning_rate_fit)
    batch_size_axis(ax, all_batch_sizes(summary))
    log_axis(ax, "y")
    ax.set_xlabel(f"batch size ({summary.unit}s)")
    ax.set_ylabel(f"learning rate ({summary.optimizer})")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)


def _draw_fit(ax: Axes, summary: Summary, fit: LearningRateFit) -> None:
    sizes = all_batch_sizes(summary)
    batch_sizes = np.geomspace(sizes[0], sizes[-1], 100)
    label = f"{number(fit.eps)} / (1 + {number(fit.knee)} / B)"
    if fit.alpha != 1:
        label += f"$^{{{fit.alpha:.2f}}}$"
    ax.plot(batch_sizes, fitted_learning_rate(fit, batch_sizes), color="black", linewidth=1.0, label=label)
