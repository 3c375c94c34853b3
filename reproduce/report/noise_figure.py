"""B_crit, B_simple and B_noise against the score (Fig. 7, right)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduce.report.estimates import Estimate
from reproduce.report.formatting import estimate, goal_with_unit
from reproduce.report.style import (
    B_CRIT_COLOUR,
    B_NOISE_COLOUR,
    B_SIMPLE_COLOUR,
    draw_estimate,
    figure_style,
    log_axis,
    score_axis,
    task_figure,
)
from reproduce.report.summaries import Exact, Goal, Summary


@dataclass(frozen=True)
class Quantity:
    """One of the three: how it is drawn and where a goal keeps it."""

    name: str
    label: str
    colour: str
    marker: str
    shift: float  # points, sideways: B_crit and a noise scale are often nearly equal
    of_goal: Callable[[Goal], Estimate]
    exact: Callable[[Exact], float | None]


QUANTITIES = (
    Quantity("B_crit", "$B_{crit}$ (fit)", B_CRIT_COLOUR, "o", -3, lambda goal: goal.b_crit, lambda it: it.b_crit),
    Quantity("B_simple", "$B_{simple}$", B_SIMPLE_COLOUR, "s", 0, lambda goal: goal.b_simple, lambda it: it.b_simple),
    Quantity("B_noise", "$B_{noise}$", B_NOISE_COLOUR, "^", 3, lambda goal: goal.b_noise, lambda it: it.b_noise),
)


def noise_scale_figure(summary: Summary) -> Figure:
    with figure_style():
        figure, (ax,) = task_figure(summary, "Critical batch size and noise scale")
        draw_noise_scale(ax, summary)
    return figure


def draw_noise_scale(ax: Axes, summary: Summary) -> None:
    """The three against the goals' scores, from the start of training on the left to its end."""
    for quantity in QUANTITIES:
        _draw_quantity(ax, summary, quantity)
    log_axis(ax, "y")
    score_axis(ax, summary, "x")
    ax.set_ylabel(f"batch size or noise scale ({summary.unit}s)")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)


def _draw_quantity(ax: Axes, summary: Summary, quantity: Quantity) -> None:
    estimates = [(goal, quantity.of_goal(goal)) for goal in summary.goals]
    if any(value != Estimate() for _, value in estimates):
        style = {"color": quantity.colour, "marker": quantity.marker, "markersize": 5, "linewidth": 0.8}
        ax.plot([], [], label=quantity.label, **style)
    for goal, value in estimates:
        tip = f"{quantity.name} {estimate(value)} {summary.unit}s\n{goal_with_unit(summary, goal)}"
        draw_estimate(ax, goal.goal, value, quantity.colour, quantity.marker, quantity.shift, tip)
    # A bound breaks the line: it is not a value to connect.
    values = [(goal.goal, value.value if value.measured else float("nan")) for goal, value in estimates]
    ax.plot(*zip(*values), color=quantity.colour, linewidth=0.8, alpha=0.6)
    exact = [(goal.goal, quantity.exact(goal.exact)) for goal in summary.goals if goal.exact]
    exact = [(score, value) for score, value in exact if value is not None]
    if exact:
        name = quantity.label.removesuffix(" (fit)")
        ax.plot(*zip(*exact), color=quantity.colour, linewidth=0.9, linestyle=(0, (4, 2)), label=f"{name}, exact")
