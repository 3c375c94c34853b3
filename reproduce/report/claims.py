"""The paper's claims, each judged from the sweeps by a stated rule (reproduce.report.verdicts).

A claim speaks of each sweep on its own, or of several together; either way its judge takes all summaries and gives
one finding for every measurement that can speak to it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reproduce.report.across_tasks import judge_games, judge_generative
from reproduce.report.comparison_tables import finding
from reproduce.report.estimates import Estimate
from reproduce.report.formatting import estimate, number, plural
from reproduce.report.judgements import Finding, Judge, Judgement, each_sweep
from reproduce.report.laws import learning_rate_rms
from reproduce.report.linear_rule import KEEPS_UP, LinearRule
from reproduce.report.linear_rule_tables import shown
from reproduce.report.summaries import Comparison, Goal, Summary
from reproduce.report.verdicts import (
    ADAPTIVE_ALPHA,
    CONSTANT_FACTOR,
    DECADE,
    EQUAL_NOISE_FACTOR,
    FIT_RMS,
    GROWTH,
    INVERSE_EXPONENT,
    LEARNING_RATE_FACTOR,
    LINE_SEARCH_FACTOR,
    LOOSE_EXPONENT,
    LOOSE_LEARNING_RATE_FACTOR,
    LOOSELY_EQUAL_NOISE_FACTOR,
    MIN_POINTS,
    NOT_SHOWN,
    PAST,
    SAME_NOISE_FACTOR,
    SGD_ALPHA,
    SOME_GROWTH,
    WELL_BELOW,
    LawCheck,
    certain_growth,
    fit_verdict,
    growth_verdict,
    learning_rate_verdict,
    line_search_verdict,
    linear_rule_verdict,
    model_size_verdict,
    noise_ratio_verdict,
    prediction_verdict,
    temperature_verdict,
)


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, the rule for its verdict in words, and the rule."""

    number: int
    prediction: str
    rule: str
    judge: Judge


def _find_line_search(summary: Summary) -> Finding:
    search = summary.line_search
    if search is None:
        return Finding("no line search", NOT_SHOWN)
    laws = [(point, law) for point in search.points for law in (point.drops, point.learning_rates)]
    checks = [
        LawCheck(law.rms, law.rms_noise, _quotient(law.b_noise, point.b_noise_hessian))
        for point, law in laws
        if law.b_noise.measured and law.rms is not None
    ]
    if not checks:
        return Finding("no B_noise from a line search", NOT_SHOWN)
    parts = [f"rms of ln dL and ln eps: worst {number(max(check.rms for check in checks))}"]
    ratios = [check.ratio for check in checks if check.ratio is not None]
    if ratios:
        parts.append(f"B_noise / B_noise from the Hessian {number(min(ratios))} to {number(max(ratios))}")
    undecided = sum(check.undecided for check in checks)
    if undecided:
        parts.append(f"{undecided} of {len(checks)} laws drowned in noise")
    measurement = f"{', '.join(parts)}; {plural(len(search.points), 'point')} of training"
    return Finding(measurement, line_search_verdict(checks))


def _quotient(value: Estimate, by: Estimate) -> float | None:
    return value.value / by.value if value.measured and by.measured else None


def _find_noise_ratio(summary: Summary) -> Finding:
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


def _find_fit(summary: Summary) -> Finding:
    rms = [goal.fit_rms for goal in summary.goals if _tests_the_law(goal)]
    if not rms:
        return Finding(f"no goal with an identified B_crit and {MIN_POINTS} batch sizes", NOT_SHOWN)
    measurement = f"rms of ln S: worst {number(max(rms))}, median {number(statistics.median(rms))}"
    return Finding(f"{measurement} over {len(rms)} of {len(summary.goals)} goals", fit_verdict(rms))


def _tests_the_law(goal: Goal) -> bool:
    return goal.identified and goal.fit_rms is not None and len(goal.reached) >= MIN_POINTS


def _find_prediction(summary: Summary) -> Finding:
    b_crit, b_simple = summary.b_crit.run, summary.b_simple.run
    verdict = prediction_verdict(b_crit, b_simple)
    if verdict == NOT_SHOWN:
        return Finding(f"B_crit {estimate(b_crit)}, B_simple {estimate(b_simple)}", verdict)
    quotient = b_simple.value / b_crit.value
    return Finding(f"B_simple / B_crit = {number(quotient)} (log10 {math.log10(quotient):+.2f})", verdict)


def _find_b_crit_growth(summary: Summary) -> Finding:
    return _growth(summary.goals[0].b_crit, summary.goals[-1].b_crit, "B_crit")


def _find_b_simple_growth(summary: Summary) -> Finding:
    return _growth(summary.goals[0].b_simple, summary.goals[-1].b_simple, "B_simple")


def _growth(first: Estimate, last: Estimate, name: str) -> Finding:
    measurement = f"{name} from {estimate(first)} to {estimate(last)}"
    growth = certain_growth(first, last)
    if growth is not None:
        measurement += f", x {number(growth)}" if first.measured and last.measured else f", at least x {number(growth)}"
    return Finding(measurement, growth_verdict(first, last))


def _find_learning_rate(summary: Summary) -> Finding:
    optimizer, fit = summary.optimizer.lower(), summary.learning_rate_fit
    if fit is None:
        return Finding("no learning rate fit", NOT_SHOWN)
    adaptive = any(name in optimizer for name in ("adam", "rmsprop"))
    if not adaptive and not any(name in optimizer for name in ("sgd", "momentum")):
        return Finding(f"the claim says nothing about {summary.optimizer}", NOT_SHOWN)
    rms = learning_rate_rms(fit, summary.goals[-1])
    if rms is None:
        return Finding("fewer than 4 batch sizes reached the last goal", NOT_SHOWN)
    law = f"alpha {number(fit.alpha)} well below B* = {number(fit.knee)}"
    measurement = f"{summary.optimizer}: rms of ln(rate / fit) {number(rms)}, {law}"
    return Finding(measurement, learning_rate_verdict(rms, fit.alpha, ADAPTIVE_ALPHA if adaptive else SGD_ALPHA))


def each_comparison(name: str, find: Callable[[Comparison], Finding]) -> Judge:
    """Judges every sweep's comparison of that name."""

    def judge(summaries: Sequence[Summary]) -> list[Judgement]:
        return [
            Judgement(summary.task, summary.scale, summary.published is not None, find(comparison))
            for summary in summaries
            for comparison in summary.comparisons
            if comparison.name == name
        ]

    return judge


def _find_model_size(comparison: Comparison) -> Finding:
    exponent = comparison.exponent
    ends = (exponent.low, exponent.high) if exponent else (None, None)
    return Finding(_compared(comparison), model_size_verdict(comparison.typical_spread, *ends))


def _find_temperature(comparison: Comparison) -> Finding:
    return Finding(_compared(comparison), temperature_verdict(comparison.exponent))


def _compared(comparison: Comparison) -> str:
    return f"{comparison.quantity} {', '.join(run.name for run in comparison.runs)}: {finding(comparison)}"


def each_with_linear_rule(summaries: Sequence[Summary]) -> list[Judgement]:
    """Judges every sweep beside which the linear rule was tried."""
    return [
        Judgement(it.task, it.scale, it.published is not None, _find_linear_rule(it.linear_rule))
        for it in summaries
        if it.linear_rule
    ]


def _find_linear_rule(rule: LinearRule) -> Finding:
    if not rule.b_crit.measured:
        return Finding(f"B_crit {estimate(rule.b_crit)}", NOT_SHOWN)
    points = [(point.batch_size / rule.b_crit.value, point.keeps_up) for point in rule.points]
    return Finding(shown(rule), linear_rule_verdict(points))


CLAIMS = (
    Claim(
        1,
        "The best step's improvement and its learning rate follow 1 / (1 + B_noise / B).",
        "Line search at fixed weights (make line-search-<task>), at every point of training where B_noise was fitted:"
        f" weighted rms errors of ln dL(B) and ln eps_opt(B) all below {FIT_RMS:g}, and each fitted B_noise within a"
        f" factor {LINE_SEARCH_FACTOR:g} of that from products with the Hessian at the same weights: holds; the median"
        f" error, and within {SAME_NOISE_FACTOR:g}: holds within a factor; else contradicts. A law whose error is"
        f" {FIT_RMS:g} or more, but no more than noise alone would make it, is left out.",
        each_sweep(_find_line_search),
    ),
    Claim(
        2,
        "B_simple differs from B_noise by a small constant factor.",
        f"B_simple / B_noise at each goal where both are measured: all within a factor {SAME_NOISE_FACTOR:g} and"
        f" varying by at most {CONSTANT_FACTOR:g}: holds; varying more: holds within a factor; else contradicts.",
        each_sweep(_find_noise_ratio),
    ),
    Claim(
        3,
        "Steps and examples to a goal follow (S / S_min - 1)(E / E_min - 1) = 1.",
        f"Rms error of ln S over goals with an identified B_crit and at least {MIN_POINTS} batch sizes: worst below"
        f" {FIT_RMS:g}: holds; only the median: holds within a factor; else contradicts.",
        each_sweep(_find_fit),
    ),
    Claim(
        4,
        "B_simple predicts B_crit to an order of magnitude.",
        "Run averages within a factor of ten: holds; else contradicts.",
        each_sweep(_find_prediction),
    ),
    Claim(
        5,
        "B_crit grows by ten times or more during a run.",
        f"First to last goal, with intervals that do not overlap: at least {GROWTH:g} times: holds; more than"
        f" {SOME_GROWTH:g}: holds within a factor; shrinking: contradicts; anything else is not shown.",
        each_sweep(_find_b_crit_growth),
    ),
    Claim(
        5,
        "The noise scale grows by ten times or more during a run.",
        "As for B_crit, with B_simple.",
        each_sweep(_find_b_simple_growth),
    ),
    Claim(
        6,
        "At equal loss the noise scale hardly depends on model size.",
        "Runs of one batch size and learning rate with models of several sizes (make reproduce-model-size): largest"
        f" over smallest noise scale at equal loss, geometric mean over goals, at most {EQUAL_NOISE_FACTOR:g}: holds;"
        f" at most {LOOSELY_EQUAL_NOISE_FACTOR:g}: holds within a factor; else contradicts, unless the exponent in the"
        " model's size cannot be told from 0: then it is not shown.",
        each_comparison("model_size", _find_model_size),
    ),
    Claim(
        7,
        "SGD and momentum: the best learning rate follows eps / (1 + B* / B). Adam and RMSProp: a power of B with"
        " exponent 0.5 to 1, then a plateau.",
        f"Exponent alpha of the fit within {SGD_ALPHA[0]:g} to {SGD_ALPHA[1]:g} (SGD, momentum) or"
        f" {ADAPTIVE_ALPHA[0]:g} to {ADAPTIVE_ALPHA[1]:g} (Adam, RMSProp), and the best rates of the last goal within"
        f" a factor {LEARNING_RATE_FACTOR:g} (rms) of the fit: holds; within {LOOSE_LEARNING_RATE_FACTOR:g}: holds"
        " within a factor; else contradicts. Fits for SGD have alpha = 1 built in: there the error alone decides.",
        each_sweep(_find_learning_rate),
    ),
    Claim(
        8,
        "Harder tasks have larger noise scales: games with sparse reward and long horizons above classifiers.",
        "Run values of each game against those of every image classifier at the same scale: its interval above all of"
        " theirs: holds; above most of them: holds within a factor; below all of them: contradicts; anything else is"
        " not shown. Units differ, as in the paper: frames against images.",
        judge_games,
    ),
    Claim(
        8,
        "Generative models have smaller noise scales than classifiers on the same data.",
        "SVHN's autoencoder and variational autoencoder against its classifier at the same scale, B_crit of the run and"
        " run-averaged B_simple: the whole interval below the classifier's: holds; above it: contradicts; overlapping,"
        " or one not measured: not shown. The ratio's interval is from the far ends of both.",
        judge_generative,
    ),
    Claim(
        9,
        "The noise scale goes as 1 / temperature.",
        "Runs of one batch size at the best learning rate, a quarter and a sixteenth of it"
        " (make reproduce-temperature): exponent of the noise scale in the learning rate at equal score, over all"
        f" goals, within {INVERSE_EXPONENT:g} of -1: holds; within {LOOSE_EXPONENT:g}: holds within a factor; else"
        " contradicts, unless its interval contains -1: then it is not shown.",
        each_comparison("temperature", _find_temperature),
    ),
    Claim(
        10,
        "Scaling the learning rate with the batch holds well below B_crit and fails past it.",
        "The best rate at the smallest batch size, scaled in proportion to the batch size (make linear-rule-<task>), at"
        f" most {KEEPS_UP:g} times the steps of the best rate: at every batch size up to {WELL_BELOW:g} B_crit and at"
        f" none from {PAST:g} B_crit on: holds; first failing within a factor {DECADE:g} of B_crit: holds within a"
        " factor; else contradicts; without batch sizes on both sides it is not shown.",
        each_with_linear_rule,
    ),
)
