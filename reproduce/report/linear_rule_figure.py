"""Steps to the last goal against the batch size, at scaled and at tuned learning rates (claim 10)."""

from __future__ import annotations

from matplotlib.figure import Figure

from reproduce.report.formatting import goal_name
from reproduce.report.linear_rule import LinearRule
from reproduce.report.linear_rule_tables import LINEAR_RULE_HEADER, linear_rule_rows
from reproduce.report.style import (
    B_CRIT_COLOUR,
    MUTED,
    OKABE_ITO,
    batch_size_axis,
    draw_arrow,
    figure_style,
    log_axis,
    task_figure,
)
from reproduce.report.summaries import Summary
from reproduce.report.tips import add_tip

SCALED_COLOUR = OKABE_ITO[1]
REACH = 1.8  # length of the arrow of a batch size that did not arrive, as a factor


def linear_rule_figure(summary: Summary, rule: LinearRule) -> Figure:
    """Left: steps. Right: the rates."""
    with figure_style():
        figure, (left, right) = task_figure(summary, "Learning rate in proportion to the batch size", panels=2)
        sizes = [point.batch_size for point in rule.points]
        arrived = [point for point in rule.points if point.steps is not None]
        lost = [point for point in rule.points if point.steps is None]
        best = {"color": "black", "marker": "o", "markersize": 4, "label": "best rate of the sweep"}
        scaled = {"color": SCALED_COLOUR, "marker": "s", "markersize": 4, "label": "scaled rate"}
        left.plot(sizes, [point.tuned_steps for point in rule.points], **best)
        left.plot([point.batch_size for point in arrived], [point.steps for point in arrived], **scaled)
        for point in lost:  # did not arrive within what it was given: no number, but an arrow
            draw_arrow(
                left,
                (point.batch_size, point.tuned_steps * REACH),
                (point.batch_size, point.tuned_steps * REACH**2),
                SCALED_COLOUR,
            )
        right.plot(sizes, [point.tuned_learning_rate for point in rule.points], **best)
        right.plot(sizes, [point.learning_rate for point in rule.points], **scaled)
        for point, row in zip(rule.points, linear_rule_rows(rule)):
            tip = "\n".join(f"{name} {cell}" for name, cell in zip(LINEAR_RULE_HEADER, row))
            add_tip(left, point.batch_size, point.steps or point.tuned_steps * REACH, tip)
            add_tip(right, point.batch_size, point.learning_rate, tip)
        for ax, what in ((left, "steps"), (right, "learning rate")):
            _mark_b_crit(ax, rule)
            batch_size_axis(ax, [rule.base_batch_size, *sizes])
            log_axis(ax, "y")
            ax.set_xlabel(f"batch size ({summary.unit}s)")
            ax.set_ylabel(f"{what} to {goal_name(summary, summary.goals[-1])}" if what == "steps" else what)
        left.legend(loc="best")
    return figure


def _mark_b_crit(ax, rule: LinearRule) -> None:
    if not rule.b_crit.measured:
        return
    ax.axvline(rule.b_crit.value, color=B_CRIT_COLOUR, linewidth=1.0, linestyle=(0, (4, 2)), label="$B_{crit}$")
    if rule.b_crit.low is not None and rule.b_crit.high is not None:
        ax.axvspan(rule.b_crit.low, rule.b_crit.high, color=MUTED, alpha=0.15, linewidth=0)
