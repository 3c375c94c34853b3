"""The best learning rate and the line search against the batch size (Fig. 5)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from reproduce.report.formatting import count, estimate, number
from reproduce.report.learning_rate_figure import draw_learning_rates
from reproduce.report.line_search_tables import censored_steps, law_value
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
from reproduce.report.summaries import BestStep, LineSearch, SearchPoint, Summary
from reproduce.report.tips import add_tip

POINT_COLOURS = "plasma"  # not the goals' colours beside it: these are weights of one run
SIDEWAYS = 1.06  # points of training are this factor apart, since they share batch sizes
ARROW_REACH = 1.5
LOWEST = 1e-3  # of dL_max: intervals that reach to almost nothing are cut here


def line_search_figure(summary: Summary, search: LineSearch) -> Figure:
    """Left: best learning rates of the sweep. Right: dL(B) / dL_max at each point of training."""
    with figure_style():
        figure, (left, right) = task_figure(summary, "Best learning rate and line search", panels=2)
        draw_learning_rates(left, summary)
        draw_line_search(right, summary, search)
    return figure


def draw_line_search(ax: Axes, summary: Summary, search: LineSearch) -> None:
    """Drops relative to dL_max with the fitted law, and at 1/2, where the law has its B_noise, that of the Hessian."""
    colours = shades(POINT_COLOURS, len(search.points))
    for index, (point, colour) in enumerate(zip(search.points, colours)):
        shift = SIDEWAYS ** (index - (len(colours) - 1) / 2)
        _draw_point(ax, summary, point, colour, shift)
        ax.plot([], [], color=colour, marker="o", markersize=4, label=_label(summary, point))
    sizes = sorted({step.batch_size for point in search.points for step in point.best_steps})
    if any(point.drops.limit.measured for point in search.points):
        ax.axhline(0.5, color=MUTED, linewidth=0.7, linestyle=(0, (1, 2)))
        style = {"color": MUTED, "marker": "^", "markersize": 5, "markerfacecolor": "white", "linestyle": "none"}
        ax.plot([], [], label="$B_{noise}$ from the Hessian", **style)
    batch_size_axis(ax, sizes)
    log_axis(ax, "y")
    ax.set_xlabel(f"batch size ({summary.unit}s)")
    ax.set_ylabel(r"loss drop of the best step / $\Delta L_{max}$")
    if search.points:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)


def _draw_point(ax: Axes, summary: Summary, point: SearchPoint, colour: Colour, shift: float) -> None:
    limit = point.drops.limit.value
    if limit is None:
        return  # nothing to be relative to; the legend says so
    measured = [step for step in point.best_steps if step.drop.measured]
    if not measured:
        return
    intervals = [
        [(step.batch_size * shift, max(end / limit, LOWEST)) for end in (step.drop.low, step.drop.high)]
        for step in measured
        if None not in (step.drop.low, step.drop.high)
    ]
    ax.add_collection(LineCollection(intervals, colors=[colour], linewidths=1.0))
    places = [(step.batch_size * shift, step.drop.value / limit) for step in measured]
    ax.plot(*zip(*places), color=colour, marker="o", markersize=4, linestyle="none")
    for step, place in zip(measured, places):
        add_tip(ax, *place, _step_tip(summary, point, step))
    for step in censored_steps(point):
        if step.drop.at_most is not None:
            top = (step.batch_size * shift, step.drop.at_most / limit)
            ax.plot(*top, color=colour, marker="o", markersize=4, linestyle="none", markerfacecolor="white")
            draw_arrow(ax, top, (top[0], top[1] / ARROW_REACH), colour)
            add_tip(ax, *top, _step_tip(summary, point, step))
    sizes = [step.batch_size for step in point.best_steps]
    batch_sizes = np.geomspace(min(sizes) / 1.3, max(sizes) * 1.3, 80)
    ax.plot(batch_sizes, [law_value(point.drops, size) / limit for size in batch_sizes], color=colour)
    hessian = point.b_noise_hessian
    if hessian.measured and batch_sizes[0] <= hessian.value <= batch_sizes[-1]:
        ends = [hessian.value if end is None else end for end in (hessian.low, hessian.high)]
        ends = np.clip(ends, batch_sizes[0], batch_sizes[-1])
        ax.plot(ends, [0.5, 0.5], color=colour, linewidth=1.0, alpha=0.7)
        ax.plot([hessian.value], [0.5], color=colour, marker="^", markersize=6, markerfacecolor="white", zorder=3)
        found = f"B_noise from the Hessian {estimate(hessian)} {summary.unit}s"
        add_tip(ax, hessian.value, 0.5, f"{found}\n{_place_in_training(summary, point)}")


def _place_in_training(summary: Summary, point: SearchPoint) -> str:
    return f"{summary.score} {point.goal:g}, step {count(point.step)}"


def _step_tip(summary: Summary, point: SearchPoint, step: BestStep) -> str:
    lines = [
        _place_in_training(summary, point),
        f"batch size {count(step.batch_size)}",
        f"loss drop {estimate(step.drop)}",
        f"fitted limit {estimate(point.drops.limit)}",
    ]
    if step.learning_rate.measured:
        lines.append(f"best learning rate {estimate(step.learning_rate)}")
    return "\n".join(lines)


def _label(summary: Summary, point: SearchPoint) -> str:
    fitted = point.drops.b_noise
    found = f"$B_{{noise}}$ {number(fitted.value)}" if fitted.measured else "law not fitted"
    return f"{summary.score} {point.goal:g}: {found}"
