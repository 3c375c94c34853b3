"""Noise scales of runs that differ in one quantity, against the score: Fig. 8 for model size."""

from __future__ import annotations

from matplotlib.figure import Figure

from reproduce.report.formatting import estimate
from reproduce.report.style import draw_estimate, figure_style, log_axis, score_axis, shades, task_figure
from reproduce.report.summaries import Comparison, Summary

RUN_COLOURS = "viridis"
MARKERS = "osD^vPX"


def comparison_figure(summary: Summary, comparison: Comparison) -> Figure:
    """One line for each kind of runs, from the start of training on the left to its end."""
    with figure_style():
        figure, (ax,) = task_figure(summary, f"Noise scale by {comparison.quantity}")
        colours = shades(RUN_COLOURS, len(comparison.runs))
        for index, (run, colour) in enumerate(zip(comparison.runs, colours)):
            marker = MARKERS[index % len(MARKERS)]
            label = f"{comparison.quantity} {run.name}"
            ax.plot([], [], label=label, color=colour, marker=marker, markersize=5, linewidth=0.8)
            shift = 4 * (index - (len(comparison.runs) - 1) / 2)
            for goal in run.goals:
                found = f"B_simple {estimate(goal.b_simple)} {comparison.unit}s\n{comparison.score} {goal.goal:g}"
                draw_estimate(ax, goal.goal, goal.b_simple, colour, marker, shift, f"{label}\n{found}")
            values = [g.b_simple.value if g.b_simple.measured else float("nan") for g in run.goals]
            ax.plot([g.goal for g in run.goals], values, color=colour, linewidth=0.8, alpha=0.6)
        log_axis(ax, "y")
        score_axis(ax, summary, "x")
        ax.set_ylabel(f"noise scale $B_{{simple}}$ ({comparison.unit}s)")
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)
    return figure
