"""The table of the linear scaling rule, what it shows in words, and all that in a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from reproduce.report.formatting import count, estimate, number, plural
from reproduce.report.goal_tables import Rows, aligned
from reproduce.report.linear_rule import KEEPS_UP, LinearRule, parse_linear_rule

LINEAR_RULE_HEADER = (
    "batch size",
    "batch size / B_crit",
    "scaled rate",
    "best rate",
    "steps, scaled rate",
    "steps, best rate",
    "ratio",
    "seeds that arrived",
)


def format_linear_rule(record: LinearRule | Mapping) -> str:
    """What the experiment prints when it ends; takes the record of a linear_rule.json too."""
    rule = record if isinstance(record, LinearRule) else parse_linear_rule(record)
    table = aligned(LINEAR_RULE_HEADER, linear_rule_rows(rule))
    return "\n\n".join([f"Learning rates in proportion to the batch size: {what_was_scaled(rule)}", table, shown(rule)])


def what_was_scaled(rule: LinearRule) -> str:
    return (
        f"from {number(rule.base_learning_rate)} at batch size {count(rule.base_batch_size)}, goal {rule.goal:g}, "
        f"{plural(rule.seeds, 'seed')}"
    )


def linear_rule_rows(rule: LinearRule) -> Rows:
    return [
        (
            count(point.batch_size),
            number(point.batch_size / rule.b_crit.value) if rule.b_crit.measured else "-",
            number(point.learning_rate),
            number(point.tuned_learning_rate),
            "not reached" if point.steps is None else number(point.steps),
            number(point.tuned_steps),
            "-" if point.ratio is None else number(point.ratio),
            f"{point.seeds_reached} of {point.seeds}",
        )
        for point in rule.points
    ]


def shown(rule: LinearRule) -> str:
    """How far the rule holds, in batch sizes and as multiples of B_crit."""
    text = f"It takes at most {KEEPS_UP:g} times the steps of the best rate up to {_size(rule, rule.holds_to)}"
    if rule.fails_from is None:
        return f"{text}, and at the largest batch size too."
    beyond = f"from {_size(rule, rule.fails_from)} on it takes more or does not arrive"
    return f"{text}; {beyond}. B_crit {estimate(rule.b_crit)}."


def _size(rule: LinearRule, batch_size: float) -> str:
    multiple = f" ({number(batch_size / rule.b_crit.value)} B_crit)" if rule.b_crit.measured else ""
    return f"{count(batch_size)} {rule.unit}s{multiple}"
