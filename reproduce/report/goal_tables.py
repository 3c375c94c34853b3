"""The tables of one sweep: its goals, their points, the closed form where there is one; and all that in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reproduce.report.formatting import (
    count,
    data_name,
    estimate,
    goal_name,
    goal_with_unit,
    log10_ratio,
    number,
    percent_off,
    published_value,
    ratio,
)
from reproduce.report.ratios import ratio_to_published
from reproduce.report.reading import parse_summary
from reproduce.report.summaries import Goal, Summary

Rows = list[tuple[str, ...]]

GOALS_HEADER = ("goal", "B_crit", "S_min", "E_min", "B_simple", "B_noise", "fit rms", "batch sizes")
POINTS_HEADER = ("goal", "batch size", "best learning rate", "steps", "steps, interval", "examples", "seeds")
EXACT_HEADER = (
    "goal",
    "B_crit",
    "off by",
    "S_min",
    "off by",
    "E_min",
    "off by",
    "B_simple",
    "off by",
    "B_noise",
    "off by",
)
PUBLISHED_HEADER = ("", "measured", "published", "measured / published", "log10")


def format_table(summary: Summary | Mapping) -> str:
    """The table that a sweep prints when it ends; `summary` is a Summary or the record of a summary.json.

    Goals with their fits and noise scales, then the published values with the ratio of ours to them, then the
    closed-form answers for a task that has them. Raises FieldError for a record that is not a summary.
    """
    if not isinstance(summary, Summary):
        summary = parse_summary(summary)
    parts = [
        f"{summary.task}, {summary.scale} scale: goals in {summary.score}; batch sizes, examples and noise scales in"
        f" {summary.unit}s\ndata: {data_name(summary)}",
        aligned(GOALS_HEADER, goal_rows(summary)),
        *(f"{goal_name(summary, goal)}: {goal.reason}" for goal in summary.goals if goal.reason),
        aligned(PUBLISHED_HEADER, published_rows(summary)),
    ]
    if exact_rows(summary):
        parts += ["closed form, and how far the measurement is from it", aligned(EXACT_HEADER, exact_rows(summary))]
    return "\n\n".join([*parts, *(f"note: {note}" for note in summary.notes)])


def goal_rows(summary: Summary) -> Rows:
    return [
        (
            goal_with_unit(summary, goal),
            estimate(goal.b_crit),
            number(goal.s_min),
            number(goal.e_min),
            estimate(goal.b_simple),
            estimate(goal.b_noise),
            number(goal.fit_rms),
            _reached(goal),
        )
        for goal in summary.goals
    ]


def point_rows(summary: Summary) -> Rows:
    """One row for each goal and batch size; a censored point says how far its runs went."""
    rows = []
    for goal in summary.goals:
        for point in goal.points:
            censored = point.steps is None
            steps = f"more than {number(point.steps_low)}" if point.steps_low is not None else "not reached"
            interval = f"{number(point.steps_low)} to {number(point.steps_high)}"
            known = not censored and None not in (point.steps_low, point.steps_high)
            rows.append(
                (
                    goal_name(summary, goal),
                    count(point.batch_size),
                    "-" if point.learning_rate is None else number(point.learning_rate),
                    steps if censored else number(point.steps),
                    interval if known else "-",
                    "-" if point.examples is None else number(point.examples),
                    "-" if point.seeds is None else count(point.seeds),
                )
            )
    return rows


def exact_rows(summary: Summary) -> Rows:
    """The closed-form answers with the measurement's distance from each; empty for a task without them."""
    rows = []
    for goal in summary.goals:
        if goal.exact is None:
            continue
        exact = goal.exact
        pairs = (
            (goal.b_crit.value, exact.b_crit),
            (goal.s_min, exact.s_min),
            (goal.e_min, exact.e_min),
            (goal.b_simple.value, exact.b_simple),
            (goal.b_noise.value, exact.b_noise),
        )
        cells = (text for measured, answer in pairs for text in (number(answer), percent_off(measured, answer)))
        rows.append((goal_name(summary, goal), *cells))
    return rows


def published_rows(summary: Summary) -> Rows:
    """Start and run of B_crit and B_simple beside Table 1's start and average; B_noise has no column there."""
    values = summary.published
    lines = (
        ("B_crit, first goal", summary.b_crit.start, values and values.b_crit_start),
        ("B_crit, run", summary.b_crit.run, values and values.b_crit_average),
        ("B_simple, first goal", summary.b_simple.start, values and values.b_simple_start),
        ("B_simple, run", summary.b_simple.run, values and values.b_simple_average),
    )
    rows = []
    for name, ours, theirs in lines:
        quotient = ratio_to_published(ours, theirs)
        shown = published_value(theirs) if values else "not in the paper"
        rows.append((name, estimate(ours), shown, ratio(quotient), log10_ratio(quotient)))
    for name, ours in (("B_noise, first goal", summary.b_noise.start), ("B_noise, run", summary.b_noise.run)):
        rows.append((name, estimate(ours), "-", "-", "-"))
    return rows


def _reached(goal: Goal) -> str:
    """How many batch sizes reached the goal, of how many tried."""
    return f"{len(goal.reached)} of {len(goal.points)}" if goal.censored else f"{len(goal.points)}"


def aligned(header: Sequence[str], rows: Rows) -> str:
    """A table for the terminal."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [header, *rows]]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])
