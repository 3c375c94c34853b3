"""Ours against published, and how well the logs of two quantities go together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reproduce import published
from reproduce.published import AtLeast, PublishedValue, Range
from reproduce.report.estimates import Estimate

INSIDE = "inside the range"
AGREES = "agrees with the bound"
UNDECIDED = "undecided, two bounds"


@dataclass(frozen=True)
class Ratio:
    """Ours / published. `relation` is "", "at least" or "at most"; value is None where words must do."""

    value: float | None
    relation: str = ""

    @property
    def log10(self) -> float | None:
        return None if self.value is None else math.log10(self.value)


def ratio_to_published(ours: Estimate, theirs: PublishedValue) -> Ratio | None:
    """Ours / published, or None where one of the two is not measured.

    Against a range the ratio is to its nearer end, and inside it there is none. Bounds on either side stay bounds:
    a half-line divided by a number is a half-line.
    """
    if theirs is None:
        return None
    if ours.value is not None:
        return _ratio_of_number(ours.value, theirs)
    if ours.at_least is not None:
        return _ratio_of_lower_bound(ours.at_least, theirs)
    if ours.at_most is not None:
        return _ratio_of_upper_bound(ours.at_most, theirs)
    return None


def ratio_of_estimates(theirs: Estimate, ours: Estimate) -> Ratio | None:
    """Theirs / ours for two measured numbers, otherwise None."""
    if theirs.value is None or ours.value is None:
        return None
    return Ratio(theirs.value / ours.value)


def quotient_of_estimates(ours: Estimate, by: Estimate) -> Estimate:
    """Ours / by with an interval from the far ends of both, which is wider than the noise of two sweeps asks for.

    Bounds stay bounds; without a number or a bound on both sides there is nothing.
    """

    def divided(a: float | None, b: float | None) -> float | None:
        return None if a is None or b is None else a / b

    return Estimate(divided(ours.value, by.value), divided(ours.low, by.high), divided(ours.high, by.low))


def log_r2(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Squared correlation of log x and log y; None for fewer than 3 pairs, or where one does not vary."""
    if len(xs) < 3:
        return None
    log_x, log_y = [math.log(x) for x in xs], [math.log(y) for y in ys]
    mean_x, mean_y = sum(log_x) / len(log_x), sum(log_y) / len(log_y)
    var_x = sum((x - mean_x) ** 2 for x in log_x)
    var_y = sum((y - mean_y) ** 2 for y in log_y)
    if var_x == 0 or var_y == 0:
        return None
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(log_x, log_y)) ** 2 / (var_x * var_y)


def table_1_log_r2() -> tuple[float, int]:
    """r^2 of the logs over those rows of Table 1 whose two averages are single numbers, and how many they are."""
    pairs = [
        (row.b_crit_average, row.b_simple_average)
        for row in published.TABLE_1.values()
        if isinstance(row.b_crit_average, int | float) and isinstance(row.b_simple_average, int | float)
    ]
    return log_r2(*zip(*pairs)), len(pairs)


def _ratio_of_number(ours: float, theirs: PublishedValue) -> Ratio:
    match theirs:
        case Range(low, high):
            if low <= ours <= high:
                return Ratio(None, INSIDE)
            return Ratio(ours / low if ours < low else ours / high)
        case AtLeast(bound):
            return Ratio(None, AGREES) if ours >= bound else Ratio(ours / bound, "at most")
        case _:
            return Ratio(ours / theirs)


def _ratio_of_lower_bound(ours: float, theirs: PublishedValue) -> Ratio:
    match theirs:
        case Range(high=high):  # below the top of the range, a lower bound decides nothing
            return Ratio(ours / high, "at least") if ours > high else Ratio(None, UNDECIDED)
        case AtLeast():
            return Ratio(None, UNDECIDED)
        case _:
            return Ratio(ours / theirs, "at least")


def _ratio_of_upper_bound(ours: float, theirs: PublishedValue) -> Ratio:
    match theirs:
        case Range(low=low):
            return Ratio(ours / low, "at most") if ours < low else Ratio(None, UNDECIDED)
        case AtLeast(bound):
            return Ratio(ours / bound, "at most")
        case _:
            return Ratio(ours / theirs, "at most")
