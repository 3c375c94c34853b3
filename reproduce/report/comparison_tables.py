"""The tables of a comparison of runs, and all that in a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from reproduce.report.estimates import SignedEstimate
from reproduce.report.formatting import count, estimate, number, plural
from reproduce.report.goal_tables import Rows, aligned
from reproduce.report.reading import parse_comparison
from reproduce.report.summaries import Comparison


def format_comparison(record: Comparison | Mapping) -> str:
    """The table that a comparison prints when it ends; takes the record of a comparison_<name>.json too."""
    comparison = record if isinstance(record, Comparison) else parse_comparison(record)
    return "\n\n".join(
        [
            f"{title(comparison)} at equal {comparison.score}; {what_was_run(comparison)}",
            aligned(comparison_header(comparison), comparison_rows(comparison)),
            finding(comparison),
        ]
    )


def title(comparison: Comparison) -> str:
    return f"Noise scale ({comparison.unit}s) by {comparison.quantity}"


def what_was_run(comparison: Comparison) -> str:
    rates = dict.fromkeys(number(run.learning_rate) for run in comparison.runs)
    many = "s" if len(rates) > 1 else ""
    return (
        f"batch size {count(comparison.batch_size)}, learning rate{many} {', '.join(rates)}, "
        f"{plural(comparison.seeds, 'seed')}"
    )


def comparison_header(comparison: Comparison) -> tuple[str, ...]:
    names = (f"{comparison.quantity} {run.name}" for run in comparison.runs)
    return (comparison.score, *names, "largest / smallest")


def comparison_rows(comparison: Comparison) -> Rows:
    """One row for each goal."""
    return [
        (
            f"{goal:g}",
            *(estimate(run.goals[index].b_simple) for run in comparison.runs),
            "-" if spread is None else number(spread),
        )
        for index, (goal, spread) in enumerate(comparison.spread)
    ]


def finding(comparison: Comparison) -> str:
    """The spread and the exponent in words."""
    if comparison.typical_spread is None:
        return "No goal at which two noise scales are measured."
    text = f"Largest over smallest at equal {comparison.score}, geometric mean: {number(comparison.typical_spread)}."
    if comparison.exponent:
        text += f" Noise scale goes as ({comparison.quantity})^{signed(comparison.exponent)}."
    return text


def signed(value: SignedEstimate) -> str:
    """-0.12 [-0.3, 0.06]."""
    if value.low is None or value.high is None:
        return f"{value.value:.2g}"
    return f"{value.value:.2g} [{value.low:.2g}, {value.high:.2g}]"
