"""The paper's claims that one sweep can speak to, each judged by a stated rule.

The rules are pure functions of numbers. A rule answers with a verdict; where the measurement cannot decide, the
answer is "not shown", which is not a word against the claim. Thresholds are ours unless a source is given.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reproduce.report.formatting import estimate, number
from reproduce.report.laws import learning_rate_rms
from reproduce.report.summaries import Estimate, Goal, Summary

HOLDS = "holds"
HOLDS_LOOSELY = "holds within a factor"
CONTRADICTS = "contradicts"
NOT_SHOWN = "not shown"

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
MIN_POINTS = 3  # the law has two parameters: two points fit it exactly


@dataclass(frozen=True)
class Finding:
    """What one sweep measured for one claim."""

    measurement: str
    verdict: str


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, the rule for its verdict in words, and the rule; or why there is none yet."""

    number: int
    prediction: str
    rule: str
    judge: Callable[[Summary], Finding] | None = None


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
    growth = _certain_growth(first, last)
    if growth is None:
        return NOT_SHOWN
    if _above(first, last):
        return CONTRADICTS
    if not _above(last, first):
        return NOT_SHOWN
    if growth >= GROWTH:
        return HOLDS
    return HOLDS_LOOSELY if growth > SOME_GROWTH else NOT_SHOWN


def learning_rate_verdict(rms: float | None, alpha: float, alpha_range: tuple[float, float]) -> str:
    """Claim 7: rms of ln(best rate / fit), and the fitted exponent inside the range that the claim gives."""
    if rms is None:
        return NOT_SHOWN
    if not alpha_range[0] <= alpha <= alpha_range[1]:
        return CONTRADICTS
    if rms < math.log(LEARNING_RATE_FACTOR):
        return HOLDS
    return HOLDS_LOOSELY if rms < math.log(LOOSE_LEARNING_RATE_FACTOR) else CONTRADICTS


def _certain_growth(first: Estimate, last: Estimate) -> float | None:
    """last / first of the numbers; for a bound, the smallest growth it allows; None where there is none."""
    low = last.value if last.measured else last.at_least
    high = first.value if first.measured else first.at_most
    return None if low is None or high is None else low / high


def _above(upper: Estimate, lower: Estimate) -> bool:
    """Whether the whole interval of one lies above the whole interval of the other. No interval, no answer."""
    return upper.low is not None and lower.high is not None and upper.low > lower.high


def _judge_noise_ratio(summary: Summary) -> Finding:
    ratios = [
        goal.b_simple.value / goal.b_noise.value
        for goal in summary.goals
        if goal.b_simple.measured and goal.b_noise.measured
    ]
    if not ratios:
        return Finding("B_simple and B_noise not both measured at any goal", NOT_SHOWN)
    ends = f"{number(min(ratios))} to {number(max(ratios))}"
    return Finding(
        f"B_simple / B_noise {ends} over {len(ratios)} of {len(summary.goals)} goals", noise_ratio_verdict(ratios)
    )


def _judge_fit(summary: Summary) -> Finding:
    rms = [goal.fit_rms for goal in summary.goals if _tests_the_law(goal)]
    if not rms:
        return Finding(f"no goal with an identified B_crit and {MIN_POINTS} batch sizes", NOT_SHOWN)
    measurement = f"rms of ln S: worst {number(max(rms))}, median {number(statistics.median(rms))}"
    return Finding(f"{measurement} over {len(rms)} of {len(summary.goals)} goals", fit_verdict(rms))


def _tests_the_law(goal: Goal) -> bool:
    return goal.identified and goal.fit_rms is not None and len(goal.reached) >= MIN_POINTS


def _judge_prediction(summary: Summary) -> Finding:
    b_crit, b_simple = summary.b_crit.run, summary.b_simple.run
    verdict = prediction_verdict(b_crit, b_simple)
    if verdict == NOT_SHOWN:
        return Finding(f"B_crit {estimate(b_crit)}, B_simple {estimate(b_simple)}", verdict)
    quotient = b_simple.value / b_crit.value
    return Finding(f"B_simple / B_crit = {number(quotient)} (log10 {math.log10(quotient):+.2f})", verdict)


def _judge_b_crit_growth(summary: Summary) -> Finding:
    return _growth(summary.goals[0].b_crit, summary.goals[-1].b_crit, "B_crit")


def _judge_b_simple_growth(summary: Summary) -> Finding:
    return _growth(summary.goals[0].b_simple, summary.goals[-1].b_simple, "B_simple")


def _growth(first: Estimate, last: Estimate, name: str) -> Finding:
    measurement = f"{name} from {estimate(first)} to {estimate(last)}"
    growth = _certain_growth(first, last)
    if growth is not None:
        measurement += f", x {number(growth)}" if first.measured and last.measured else f", at least x {number(growth)}"
    return Finding(measurement, growth_verdict(first, last))


def _judge_learning_rate(summary: Summary) -> Finding:
    optimizer, fit = summary.optimizer.lower(), summary.learning_rate_fit
    if fit is None:
        return Finding("no learning rate fit", NOT_SHOWN)
    adaptive = any(name in optimizer for name in ("adam", "rmsprop"))
    if not adaptive and not any(name in optimizer for name in ("sgd", "momentum")):
        return Finding(f"the claim says nothing about {summary.optimizer}", NOT_SHOWN)
    rms = learning_rate_rms(fit, summary.goals[-1])
    if rms is None:
        return Finding("fewer than 4 batch sizes reached the last goal", NOT_SHOWN)
    measurement = f"{summary.optimizer}: rms of ln(rate / fit) {number(rms)}, alpha {number(fit.alpha)}"
    return Finding(measurement, learning_rate_verdict(rms, fit.alpha, ADAPTIVE_ALPHA if adaptive else SGD_ALPHA))


CLAIMS = (
    Claim(
        1,
        "The best step's improvement and its learning rate follow 1 / (1 + B_noise / B).",
        "Not measured yet: it needs a line search along the gradient at fixed weights.",
    ),
    Claim(
        2,
        "B_simple differs from B_noise by a small constant factor.",
        f"B_simple / B_noise at each goal where both are measured: all within a factor {SAME_NOISE_FACTOR:g} and"
        f" varying by at most {CONSTANT_FACTOR:g}: holds; varying more: holds within a factor; else contradicts.",
        _judge_noise_ratio,
    ),
    Claim(
        3,
        "Steps and examples to a goal follow (S / S_min - 1)(E / E_min - 1) = 1.",
        f"Rms error of ln S over goals with an identified B_crit and at least {MIN_POINTS} batch sizes: worst below"
        f" {FIT_RMS:g}: holds; only the median: holds within a factor; else contradicts.",
        _judge_fit,
    ),
    Claim(
        4,
        "B_simple predicts B_crit to an order of magnitude.",
        "Run averages within a factor of ten: holds; else contradicts.",
        _judge_prediction,
    ),
    Claim(
        5,
        "B_crit grows by ten times or more during a run.",
        f"First to last goal, with intervals that do not overlap: at least {GROWTH:g} times: holds; more than"
        f" {SOME_GROWTH:g}: holds within a factor; shrinking: contradicts; anything else is not shown.",
        _judge_b_crit_growth,
    ),
    Claim(
        5,
        "The noise scale grows by ten times or more during a run.",
        "As for B_crit, with B_simple.",
        _judge_b_simple_growth,
    ),
    Claim(
        6,
        "At equal loss the noise scale hardly depends on model size.",
        "Not measured yet: it needs one task with models of several sizes.",
    ),
    Claim(
        7,
        "SGD and momentum: the best learning rate follows eps / (1 + B* / B). Adam and RMSProp: a power of B with"
        " exponent 0.5 to 1, then a plateau.",
        f"Exponent alpha of the fit within {SGD_ALPHA[0]:g} to {SGD_ALPHA[1]:g} (SGD, momentum) or"
        f" {ADAPTIVE_ALPHA[0]:g} to {ADAPTIVE_ALPHA[1]:g} (Adam, RMSProp), and the best rates of the last goal within"
        f" a factor {LEARNING_RATE_FACTOR:g} (rms) of the fit: holds; within {LOOSE_LEARNING_RATE_FACTOR:g}: holds"
        " within a factor; else contradicts. Fits for SGD have alpha = 1 built in: there the error alone decides.",
        _judge_learning_rate,
    ),
    Claim(
        8,
        "Harder tasks have larger noise scales.",
        "Not judged: no rule orders tasks by difficulty without looking at the answer. Table 1 shows the numbers.",
    ),
    Claim(
        9,
        "The noise scale goes as 1 / temperature.",
        "Not measured yet: it needs runs at several learning rates compared at one loss.",
    ),
    Claim(
        10,
        "Scaling the learning rate with the batch holds well below B_crit and fails past it.",
        "Not measured yet: it needs runs at the scaled rate, beside those at the best.",
    ),
)
