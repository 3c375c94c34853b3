"""Figures that put things side by side: Fig. 4 over all tasks, and Fig. 7's page for one task."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from reproduce import published
from reproduce.published import AtLeast, PublishedValue, Range
from reproduce.report.estimates import Estimate
from reproduce.report.formatting import estimate, published_value
from reproduce.report.noise_figure import draw_noise_scale
from reproduce.report.ratios import log_r2, table_1_log_r2
from reproduce.report.style import MUTED, OKABE_ITO, draw_arrow, figure_style, log_axis, task_figure
from reproduce.report.summaries import Summary
from reproduce.report.tips import add_tip
from reproduce.report.tradeoff_figures import draw_pareto

PAPER_MARKERS = "oDsv"
OWN_MARKER = "*"
AGREEMENT_TASKS = 3
"""Fewer tasks than this say nothing about r^2: two points always lie on a line."""


def fig7_figure(summary: Summary) -> Figure:
    """The paper's page for one task: Pareto fronts beside critical batch size and noise scale."""
    with figure_style():
        figure, (left, right) = task_figure(summary, "Trade-off and noise scale", panels=2)
        draw_pareto(left, summary)
        draw_noise_scale(right, summary)
    return figure


def fig4_figure(summaries: Sequence[Summary]) -> Figure:
    """Run-averaged noise scale against critical batch size over all tasks and scales, with the published points."""
    with figure_style():
        figure = Figure(figsize=(8.6, 5.6), layout="constrained")
        ax = figure.subplots()
        _draw_published_elsewhere(ax, summaries)
        for index, summary in enumerate(summaries):
            _draw_sweep(ax, summary, OKABE_ITO[index % len(OKABE_ITO)], _marker(summary, index))
        ax.plot([], [], "o", color=MUTED, markerfacecolor="white", label="published (hollow)")
        ax.plot([], [], "o", color=MUTED, markersize=3, label="at the first goal (small)")
        ax.plot([], [], color="black", linewidth=0.8, linestyle=(0, (4, 2)), label="$B_{simple} = B_{crit}$")
        log_axis(ax, "x")
        log_axis(ax, "y")
        _draw_identity(ax)
        ax.set_xlabel("critical batch size $B_{crit}$ (images, tokens or frames)")
        ax.set_ylabel("simple noise scale $B_{simple}$, averaged over the run")
        figure.suptitle(_heading(summaries), x=0.01, ha="left", fontsize=9.5)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)
    return figure


def measured_r2(summaries: Sequence[Summary], scale: str) -> tuple[float | None, int]:
    """r^2 of the logs over the paper's tasks measured at one scale, and how many those are.

    Run values only, and numbers only: a bound has no place in it. None below AGREEMENT_TASKS tasks.
    """
    pairs = [
        (summary.b_crit.run.value, summary.b_simple.run.value)
        for summary in summaries
        if summary.scale == scale
        and summary.published
        and summary.b_crit.run.measured
        and summary.b_simple.run.measured
    ]
    return (log_r2(*zip(*pairs)) if len(pairs) >= AGREEMENT_TASKS else None), len(pairs)


def r2_sentences(summaries: Sequence[Summary]) -> list[str]:
    """r^2 per scale, ours and published, or why it is not shown."""
    sentences = []
    for scale in sorted({summary.scale for summary in summaries}):
        r2, tasks = measured_r2(summaries, scale)
        noun = "task" if tasks == 1 else "tasks"
        shown = "not shown" if r2 is None else f"{r2:.2f}"
        sentences.append(f"{scale} scale: r² of the logs {shown} ({tasks} {noun} of the paper)")
    r2, rows = table_1_log_r2()
    published_r2 = published.PUBLISHED_R2
    sentences.append(f"published: r² {published_r2:.2f}; {r2:.2f} over the {rows} rows of Table 1 that are numbers")
    return sentences


def _heading(summaries: Sequence[Summary]) -> str:
    return "\n".join(["Noise scale against critical batch size", *r2_sentences(summaries)])


def _marker(summary: Summary, index: int) -> str:
    # Past eight sweeps the colours repeat, and the marker tells them apart.
    return PAPER_MARKERS[index // len(OKABE_ITO) % len(PAPER_MARKERS)] if summary.published else OWN_MARKER


def _draw_sweep(ax: Axes, summary: Summary, colour: str, marker: str) -> None:
    run = _draw_pair(ax, summary.b_crit.run, summary.b_simple.run, colour, marker, size=10 if marker == "*" else 7)
    start = _draw_pair(ax, summary.b_crit.start, summary.b_simple.start, colour, marker, size=3)
    if run:
        add_tip(ax, *run, _pair_tip(summary, "the run", summary.b_crit.run, summary.b_simple.run))
    if start:
        add_tip(ax, *start, _pair_tip(summary, "at the first goal", summary.b_crit.start, summary.b_simple.start))
    if run and start:
        ax.plot(*zip(start, run), color=colour, linewidth=0.6, alpha=0.5)
    label = f"{summary.title}, {summary.scale}"
    if not run:
        label += " (not both measured)"
    ax.plot([], [], marker, color=colour, label=label)
    if summary.published:
        values = summary.published
        # Atari's one row stands for seven games: it is grey, with its name, and every game is joined to it.
        published_colour = colour if summary.task in published.TABLE_1 else MUTED
        row = published.published(summary.task)
        name = row.name if row else summary.title
        place = _draw_published(ax, values.b_crit_average, values.b_simple_average, name, published_colour)
        if run and place:
            ax.plot(*zip(run, place), color=colour, linewidth=0.8, linestyle=(0, (1, 1.5)))


def _pair_tip(summary: Summary, when: str, b_crit: Estimate, b_simple: Estimate) -> str:
    heading = f"{summary.title}, {summary.scale} scale, {when}"
    return f"{heading}\nB_crit {estimate(b_crit)} {summary.unit}s\nB_simple {estimate(b_simple)} {summary.unit}s"


def _draw_pair(
    ax: Axes, b_crit: Estimate, b_simple: Estimate, colour: str, marker: str, size: float
) -> tuple[float, float] | None:
    """Draws one point with its two intervals and returns its place, or None where a coordinate has no number.

    A bound gets an arrow from its end; with a bound on one axis the other must be a number to be drawn.
    """
    x, y = _position(b_crit), _position(b_simple)
    if x is None or y is None or not (b_crit.measured or b_simple.measured):
        return None
    _draw_interval(ax, b_crit, x, lambda value: (value, y), colour)
    _draw_interval(ax, b_simple, y, lambda value: (x, value), colour)
    filled = b_crit.measured and b_simple.measured
    face = colour if filled else "white"
    ax.plot([x], [y], marker=marker, color=colour, markerfacecolor=face, markersize=size, linestyle="none")
    return x, y


def _position(value: Estimate) -> float | None:
    for candidate in (value.value, value.at_least, value.at_most):
        if candidate is not None:
            return candidate
    return None


def _draw_interval(ax: Axes, value: Estimate, position: float, place, colour: str) -> None:
    """`place(value)` is where a value of this coordinate lies in the plane."""
    if value.measured:
        low = position if value.low is None else max(value.low, position / 100)
        high = position if value.high is None else value.high
        ax.plot(*zip(place(low), place(high)), color=colour, linewidth=1.0)
    else:
        reach = 1.7 if value.at_least is not None else 1 / 1.7
        draw_arrow(ax, place(position), place(position * reach), colour)


def _draw_published(
    ax: Axes, b_crit: PublishedValue, b_simple: PublishedValue, name: str, colour: str
) -> tuple[float, float] | None:
    """A hollow point. A range is a bar through its geometric mean, used for its place here and for nothing else."""
    place = _draw_pair(ax, _as_estimate(b_crit), _as_estimate(b_simple), colour, "o", size=0)
    if place:
        style = {"markerfacecolor": "white", "markeredgecolor": colour, "markersize": 6, "linestyle": "none"}
        ax.plot([place[0]], [place[1]], marker="o", **style)
        tip = f"{name}, published\nB_crit {published_value(b_crit)}\nB_simple {published_value(b_simple)}"
        add_tip(ax, *place, tip)
    return place


def _as_estimate(value: PublishedValue) -> Estimate:
    match value:
        case Range(low, high):
            return Estimate(math.sqrt(low * high), low, high)
        case AtLeast(bound):
            return Estimate(None, bound, None)
        case _:
            return Estimate(value)


def _draw_published_elsewhere(ax: Axes, summaries: Sequence[Summary]) -> None:
    """Published rows without a sweep of ours to give them a colour, in grey, each with its name."""
    measured = {published.TABLE_1.get(summary.task) for summary in summaries}
    for row in published.TABLE_1.values():
        if row in measured:
            continue
        place = _draw_published(ax, row.b_crit_average, row.b_simple_average, row.name, MUTED)
        if place:
            above = place[1] > place[0]  # names go to the side away from the identity line
            style = {"ha": "right" if above else "left", "textcoords": "offset points", "fontsize": 7, "color": MUTED}
            halo = [withStroke(linewidth=2, foreground="white")]
            rise = 5 if isinstance(row.b_crit_average, Range) else -3  # clear of a range's bar
            ax.annotate(row.name, place, xytext=(-6 if above else 6, rise), path_effects=halo, **style)


def _draw_identity(ax: Axes) -> None:
    low = max(ax.get_xlim()[0], ax.get_ylim()[0])
    high = min(ax.get_xlim()[1], ax.get_ylim()[1])
    if low < high:
        style = {"color": "black", "linewidth": 0.8, "linestyle": (0, (4, 2)), "zorder": 0}
        ax.plot([low, high], [low, high], scalex=False, scaley=False, **style)
