"""Steps against examples: the Pareto front of each goal (Fig. 7, left), and both against the batch size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from reproduce.report.estimates import Estimate
from reproduce.report.formatting import count, estimate, examples_label, goal_name, goal_with_unit, number, plural
from reproduce.report.laws import fitted_steps
from reproduce.report.style import (
    MUTED,
    Colour,
    batch_size_axis,
    draw_arrow,
    figure_style,
    log_axis,
    shades,
    task_figure,
)
from reproduce.report.summaries import Goal, Point, Summary
from reproduce.report.tips import add_tip

GOAL_COLOURS = "viridis"
# How far a censored point's arrow reaches, as a factor: legible, and no claim about where the point would be.
ARROW_REACH = 1.35


def pareto_figure(summary: Summary) -> Figure:
    with figure_style():
        figure, (ax,) = task_figure(summary, "Steps and examples to each goal")
        draw_pareto(ax, summary)
    return figure


def draw_pareto(ax: Axes, summary: Summary) -> None:
    """Each goal's points, fitted hyperbola and asymptotes; on the hardest goal each point has its batch size."""
    for goal, colour in zip(summary.goals, shades(GOAL_COLOURS, len(summary.goals))):
        _draw_front(ax, summary, goal, colour)
        ax.plot([], [], color=colour, marker="o", markersize=4, label=goal_name(summary, goal))
    log_axis(ax, "x")
    log_axis(ax, "y")
    _label_batch_sizes(ax, summary)
    ax.set_xlabel("optimiser steps")
    ax.set_ylabel(examples_label(summary))
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)


def tradeoff_figure(summary: Summary) -> Figure:
    """Steps and examples against the batch size: flat ends at S_min and E_min, the bend at B_crit."""
    with figure_style():
        figure, (left, right) = task_figure(summary, "Steps and examples against the batch size", panels=2)
        for goal, colour in zip(summary.goals, shades(GOAL_COLOURS, len(summary.goals))):
            _draw_against_batch_size(left, summary, goal, colour, lambda steps, _: steps)
            _draw_against_batch_size(right, summary, goal, colour, lambda steps, size: steps * size)
            right.plot([], [], color=colour, marker="o", markersize=4, label=goal_name(summary, goal))
        for ax, label in ((left, "optimiser steps to the goal"), (right, f"{summary.unit}s to the goal")):
            batch_size_axis(ax, all_batch_sizes(summary))
            log_axis(ax, "y")
            ax.set_xlabel(f"batch size ({summary.unit}s)")
            ax.set_ylabel(label)
        right.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)
    return figure


def all_batch_sizes(summary: Summary) -> list[float]:
    return sorted({point.batch_size for goal in summary.goals for point in goal.points})


def point_tip(summary: Summary, goal: Goal, point: Point) -> str:
    """All that is known of a point, for the reader who points at it."""
    lines = [goal_with_unit(summary, goal), f"batch size {count(point.batch_size)}"]
    if point.steps is None:
        lines.append("not reached" + (f" in {number(point.steps_low)} steps" if point.steps_low is not None else ""))
    else:
        lines.append(f"{estimate(Estimate(point.steps, point.steps_low, point.steps_high))} steps")
    if point.examples is not None:
        lines.append(f"{number(point.examples)} {summary.unit}s")
    if point.learning_rate is not None:
        lines.append(f"learning rate {number(point.learning_rate)}")
    if point.seeds is not None:
        lines.append(plural(point.seeds, "seed"))
    return "\n".join(lines)


def _draw_front(ax: Axes, summary: Summary, goal: Goal, colour: Colour) -> None:
    # At a given batch size E = B S: an error in S moves the point along that ray, not along one axis.
    _draw_points(ax, summary, goal, colour, lambda steps, batch_size: (steps, batch_size * steps))
    batch_sizes = _fit_range(goal)
    steps = fitted_steps(goal, batch_sizes)
    if steps is None:
        return
    ax.plot(steps, batch_sizes * steps, color=colour)
    e_min = goal.s_min * goal.b_crit.value  # equation 2.12, so that the asymptotes are this curve's
    asymptotes = {"color": colour, "linewidth": 0.7, "linestyle": (0, (1, 2)), "alpha": 0.8}
    ax.plot([goal.s_min] * 2, [e_min, batch_sizes[-1] * steps[-1]], **asymptotes)
    ax.plot([goal.s_min, steps[0]], [e_min] * 2, **asymptotes)


def _draw_against_batch_size(
    ax: Axes, summary: Summary, goal: Goal, colour: Colour, quantity: Callable[[float, float], float]
) -> None:
    """`quantity(steps, batch_size)` is what the y axis shows."""
    _draw_points(ax, summary, goal, colour, lambda steps, size: (size, quantity(steps, size)))
    batch_sizes = _fit_range(goal)
    steps = fitted_steps(goal, batch_sizes)
    if steps is None:
        return
    ax.plot(batch_sizes, quantity(steps, batch_sizes), color=colour)
    b_crit = goal.b_crit.value
    if batch_sizes[0] <= b_crit <= batch_sizes[-1]:
        tick = {"marker": "|", "markersize": 11, "markeredgewidth": 1.6, "linestyle": "none"}
        place = (b_crit, quantity(2 * goal.s_min, b_crit))
        ax.plot(*place, color=colour, **tick)
        add_tip(ax, *place, f"B_crit {estimate(goal.b_crit)} {summary.unit}s\n{goal_with_unit(summary, goal)}")


def _draw_points(
    ax: Axes, summary: Summary, goal: Goal, colour: Colour, place: Callable[[float, float], tuple[float, float]]
) -> None:
    """Points with their intervals; an arrow where a seed or all of them did not get to the goal.

    `place(steps, batch_size)` is where such a run lies in the figure.
    """
    intervals = [[place(steps, point.batch_size) for steps in _step_interval(point)] for point in goal.reached]
    ax.add_collection(LineCollection(intervals, colors=[colour], linewidths=1.0))
    for point in goal.points:
        start = point.steps if point.steps is not None else point.steps_low
        if start is not None and point.steps_high is None:
            draw_arrow(ax, place(start, point.batch_size), place(start * ARROW_REACH, point.batch_size), colour)
    reached = [place(point.steps, point.batch_size) for point in goal.reached]
    censored = [place(point.steps_low, point.batch_size) for point in goal.censored if point.steps_low is not None]
    for places, face in ((reached, colour), (censored, "white")):
        if places:
            style = {"marker": "o", "markersize": 4, "linestyle": "none", "color": colour, "markerfacecolor": face}
            ax.plot(*zip(*places), **style)
    for point in goal.points:
        steps = point.steps_low if point.steps is None else point.steps
        if steps is not None:
            add_tip(ax, *place(steps, point.batch_size), point_tip(summary, goal, point))


def _label_batch_sizes(ax: Axes, summary: Summary) -> None:
    """Numbers at the hardest goal's points, which have the free side of the figure to themselves."""
    for index, point in enumerate(summary.goals[-1].points):
        censored = point.steps is None
        steps = point.steps_low if censored else point.steps
        if steps is None:
            continue
        text = f"B = {count(point.batch_size)}" if index == 0 else count(point.batch_size)
        offset = (5, -9) if censored else (4, 4)  # a censored point's arrow goes where its label would be
        style = {"xytext": offset, "textcoords": "offset points", "fontsize": 7, "color": MUTED}
        ax.annotate(text, (steps, steps * point.batch_size), **style)


def _step_interval(point: Point) -> tuple[float, float]:
    """Lowest and highest steps. Where only the upper is missing a seed did not arrive: an arrow stands for it."""
    low = point.steps if point.steps_low is None else point.steps_low
    high = point.steps if point.steps_high is None else point.steps_high
    return low, high


def _fit_range(goal: Goal) -> np.ndarray:
    """Batch sizes to draw a fit at: those that were run, and a little beyond."""
    sizes = [point.batch_size for point in goal.points] or [1.0]
    return np.geomspace(min(sizes) / 1.4, max(sizes) * 1.4, 60)
