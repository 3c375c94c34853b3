"""How numbers, intervals, bounds and ratios read, the same in the terminal and in every document."""

from __future__ import annotations

import math

from reproduce.published import AtLeast, PublishedValue, Range
from reproduce.report.estimates import Estimate
from reproduce.report.ratios import Ratio
from reproduce.report.summaries import Goal, Summary

NOT_MEASURED = "not measured"


def number(value: float | None) -> str:
    """Three significant digits: 0.0427, 21.3, 15,000."""
    if value is None:
        return NOT_MEASURED
    rounded = float(f"{value:.3g}")
    if rounded != 0 and not 1e-4 <= abs(rounded) < 1e10:
        return f"{value:.2e}"
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def count(value: float | None) -> str:
    """Every digit, for what is counted or chosen: batch sizes, examples, runs."""
    if value is None:
        return NOT_MEASURED
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,g}"


def estimate(value: Estimate) -> str:
    """21.3 [18.2, 25.1], or the bound where that is all there is."""
    if value.measured:
        return number(value.value) + _interval(value.low, value.high)
    if value.at_least is not None:
        return f"at least {number(value.at_least)}"
    if value.at_most is not None:
        return f"at most {number(value.at_most)}"
    if value.low is not None and value.high is not None:
        return f"between {number(value.low)} and {number(value.high)}"
    return NOT_MEASURED


def published_value(value: PublishedValue) -> str:
    match value:
        case Range(low, high):
            return f"{count(low)} to {count(high)}"
        case AtLeast(bound):
            return f"at least {count(bound)}"
        case _:
            return count(value)


def ratio(value: Ratio | None) -> str:
    """0.375, at least 2, inside the range; "-" where there is nothing to compare."""
    if value is None:
        return "-"
    return value.relation if value.value is None else f"{value.relation} {number(value.value)}".lstrip()


def log10_ratio(value: Ratio | None) -> str:
    """-0.43, at least +0.30; "-" where the ratio is not a number."""
    if value is None or value.value is None:
        return "-"
    return f"{value.relation} {value.log10:+.2f}".lstrip()


def percent_off(measured: float | None, exact: float | None) -> str:
    """+2.3 %: how far a measurement is from the exact answer."""
    if measured is None or exact is None:
        return "-"
    return f"{100 * (measured / exact - 1):+.1f} %"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NOT_MEASURED
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h"


def goal_name(summary: Summary, goal: Goal) -> str:
    return f"{summary.score} {goal.goal:g}"


def goal_with_unit(summary: Summary, goal: Goal) -> str:
    """The goal's name, and a loss in nats as a perplexity too: train loss 5 nats (perplexity 148)."""
    name = f"{goal_name(summary, goal)} {summary.score_unit}".rstrip()
    return f"{name} (perplexity {number(math.exp(goal.goal))})" if summary.score_unit == "nats" else name


def examples_label(summary: Summary) -> str:
    """Label of an axis of examples, with the unit where it has a name of its own."""
    return "examples" if summary.unit == "example" else f"examples ({summary.unit}s)"


def data_name(summary: Summary) -> str:
    """The data, with a word on it where it is not the paper's own."""
    return f"{summary.data} (embedded data)" if summary.embedded else summary.data


def plural(quantity: float, noun: str) -> str:
    return f"{count(quantity)} {noun}" if quantity == 1 else f"{count(quantity)} {noun}s"


def _interval(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    ends = ["no limit" if end is None else number(end) for end in (low, high)]
    return f" [{ends[0]}, {ends[1]}]"
