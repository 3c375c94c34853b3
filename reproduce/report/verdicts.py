"""The rules that turn numbers into verdicts on the paper's claims.

Pure functions of numbers. Where the measurement cannot decide, the answer is "not shown", which is not a word against
the claim. Thresholds are ours unless a source is given.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from reproduce.report.estimates import Estimate, SignedEstimate

HOLDS = "holds"
HOLDS_LOOSELY = "holds within a factor"
CONTRADICTS = "contradicts"
NOT_SHOWN = "not shown"

LINE_SEARCH_FACTOR = 2.0  # between two measurements of one B_noise; their intervals are often that wide
SAME_NOISE_FACTOR = 10.0  # "a small constant" between B_simple and B_noise: an order of magnitude
CONSTANT_FACTOR = 3.0  # how much that "constant" may vary over a run
FIT_RMS = 0.2  # of ln S: steps predicted to 20 %, about what two seeds differ by
PREDICTION_DECADES = 1.0  # "to an order of magnitude", section 1 of the paper
GROWTH = 10.0  # "ten times or more"
SOME_GROWTH = 2.0
LEARNING_RATE_FACTOR = 1.5  # grids are refined to sqrt(2), so the best rate is known to about that
LOOSE_LEARNING_RATE_FACTOR = 2.0
SGD_ALPHA = (0.75, 1.25)  # alpha = 1 (appendix A.2), with room for the fit's error
ADAPTIVE_ALPHA = (0.5, 1.0)  # Adam and RMSProp, appendix A.2
EQUAL_NOISE_FACTOR = 1.5  # "hardly depends": about what intervals of single noise scales are wide
LOOSELY_EQUAL_NOISE_FACTOR = 3.0  # still small beside the tenfold growth over a run
INVERSE_EXPONENT, LOOSE_EXPONENT = 0.25, 0.5  # how far from -1 an exponent may lie, for 1 / temperature
WELL_BELOW, PAST = 0.25, 2.0  # multiples of B_crit: a quarter, where rates grow nearly with B, and twice
DECADE = 10.0  # "to an order of magnitude"
MIN_POINTS = 3  # the law has two parameters: two points fit it exactly


@dataclass(frozen=True)
class LawCheck:
    """One law at one point of training: its error, what noise alone would exceed once in twenty, and a second B_noise.

    ratio: fitted B_noise / B_noise from the Hessian; None where one is not measured.
    """

    rms: float
    rms_noise: float | None
    ratio: float | None

    @property
    def undecided(self) -> bool:
        """Far from the law, but no further than noise would bring it."""
        return self.rms >= FIT_RMS and self.rms_noise is not None and self.rms <= self.rms_noise


def line_search_verdict(checks: Sequence[LawCheck]) -> str:
    """Claim 1: both laws at all points of training, each with its error and its B_noise beside the Hessian's."""
    decided = [check for check in checks if not check.undecided]
    ratios = [check.ratio for check in decided if check.ratio is not None]
    if not ratios:
        return NOT_SHOWN
    law = fit_verdict([check.rms for check in decided])
    furthest = max(max(ratio, 1 / ratio) for ratio in ratios)
    if law == CONTRADICTS or furthest > SAME_NOISE_FACTOR:
        return CONTRADICTS
    return law if furthest <= LINE_SEARCH_FACTOR else HOLDS_LOOSELY


def noise_ratio_verdict(ratios: Sequence[float]) -> str:
    """Claim 2: B_simple / B_noise over the goals where both are measured."""
    if not ratios:
        return NOT_SHOWN
    if max(ratios) > SAME_NOISE_FACTOR or min(ratios) < 1 / SAME_NOISE_FACTOR:
        return CONTRADICTS
    return HOLDS if max(ratios) / min(ratios) <= CONSTANT_FACTOR else HOLDS_LOOSELY


def fit_verdict(rms: Sequence[float]) -> str:
    """Claim 3: the rms errors of ln S of all identified goals."""
    if not rms:
        return NOT_SHOWN
    if max(rms) < FIT_RMS:
        return HOLDS
    return HOLDS_LOOSELY if statistics.median(rms) < FIT_RMS else CONTRADICTS


def prediction_verdict(b_crit: Estimate, b_simple: Estimate) -> str:
    """Claim 4: run-averaged B_simple within a decade of B_crit."""
    if not (b_crit.measured and b_simple.measured):
        return NOT_SHOWN
    decades = abs(math.log10(b_simple.value / b_crit.value))
    return HOLDS if decades <= PREDICTION_DECADES else CONTRADICTS


def growth_verdict(first: Estimate, last: Estimate) -> str:
    """Claim 5: growth from the first goal to the last; only what the intervals keep apart counts.

    Bounds count for what they are worth: from at most 10 to at least 100 is at least tenfold.
    """
    growth = certain_growth(first, last)
    if growth is None:
        return NOT_SHOWN
    if above(first, last):
        return CONTRADICTS
    if not above(last, first):
        return NOT_SHOWN
    if growth >= GROWTH:
        return HOLDS
    return HOLDS_LOOSELY if growth > SOME_GROWTH else NOT_SHOWN


def model_size_verdict(typical_spread: float | None, exponent_low: float | None, exponent_high: float | None) -> str:
    """Claim 6: largest over smallest noise scale at equal loss, and the exponent in the model's size."""
    if typical_spread is None:
        return NOT_SHOWN
    if typical_spread <= EQUAL_NOISE_FACTOR:
        return HOLDS
    if typical_spread <= LOOSELY_EQUAL_NOISE_FACTOR:
        return HOLDS_LOOSELY
    flat = exponent_low is None or exponent_high is None or exponent_low <= 0 <= exponent_high
    return NOT_SHOWN if flat else CONTRADICTS


def temperature_verdict(exponent: SignedEstimate | None) -> str:
    """Claim 9: the noise scale's exponent in the learning rate at equal score, which should be -1."""
    if exponent is None or exponent.low is None or exponent.high is None:
        return NOT_SHOWN
    off = abs(exponent.value + 1)
    if off <= INVERSE_EXPONENT:
        return HOLDS
    if off <= LOOSE_EXPONENT:
        return HOLDS_LOOSELY
    return NOT_SHOWN if exponent.low <= -1 <= exponent.high else CONTRADICTS


def linear_rule_verdict(points: Sequence[tuple[float, bool]]) -> str:
    """Claim 10: (batch size / B_crit, whether the scaled rate keeps up with the best one), rising.

    Where it fails at smaller batch sizes than the claim has it, or later, the first failure's distance counts.
    """
    below = [keeps_up for multiple, keeps_up in points if multiple <= WELL_BELOW]
    past = [keeps_up for multiple, keeps_up in points if multiple >= PAST]
    failed = [multiple for multiple, keeps_up in points if not keeps_up]
    if not below or not past:
        return NOT_SHOWN
    if all(below) and not any(past):
        return HOLDS
    return HOLDS_LOOSELY if failed and 1 / DECADE <= failed[0] <= DECADE else CONTRADICTS


def learning_rate_verdict(rms: float | None, alpha: float, alpha_range: tuple[float, float]) -> str:
    """Claim 7: rms of ln(best rate / fit), and the fitted exponent inside the range that the claim gives."""
    if rms is None:
        return NOT_SHOWN
    if not alpha_range[0] <= alpha <= alpha_range[1]:
        return CONTRADICTS
    if rms < math.log(LEARNING_RATE_FACTOR):
        return HOLDS
    return HOLDS_LOOSELY if rms < math.log(LOOSE_LEARNING_RATE_FACTOR) else CONTRADICTS


def below_verdict(lower: Estimate, upper: Estimate) -> str:
    """Claim 8: one number below another; only what the intervals keep apart counts, bounds for what they are worth."""
    if above(upper, lower):
        return HOLDS
    return CONTRADICTS if above(lower, upper) else NOT_SHOWN


def above_all_verdict(upper: Estimate, others: Sequence[Estimate]) -> str:
    """Claim 8: one number above several others; as `below_verdict`, for each of them."""
    verdicts = [below_verdict(other, upper) for other in others]
    if not verdicts:
        return NOT_SHOWN
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return HOLDS_LOOSELY if verdicts.count(HOLDS) > len(verdicts) / 2 else NOT_SHOWN


def certain_growth(first: Estimate, last: Estimate) -> float | None:
    """last / first of the numbers; for a bound, the smallest growth it allows; None where there is none."""
    low = last.value if last.measured else last.at_least
    high = first.value if first.measured else first.at_most
    return None if low is None or high is None else low / high


def above(upper: Estimate, lower: Estimate) -> bool:
    """Whether the whole interval of one lies above the whole interval of the other. No interval, no answer."""
    return upper.low is not None and lower.high is not None and upper.low > lower.high
