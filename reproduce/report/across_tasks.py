"""Claim 8, which sets tasks beside each other: generative models below classifiers, games above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reproduce.report.estimates import Estimate
from reproduce.report.formatting import estimate
from reproduce.report.judgements import Finding, Judgement
from reproduce.report.ratios import quotient_of_estimates
from reproduce.report.summaries import SCALES, Summary
from reproduce.report.verdicts import above_all_verdict, below_verdict

# The generative models of Table 1, each with the classifier on the same data.
GENERATIVE_AND_CLASSIFIER = (("svhn_autoencoder", "svhn"), ("svhn_vae", "svhn"))
CLASSIFIERS = ("mnist", "svhn", "cifar10", "imagenet")
GAME_UNIT = "frame"
QUANTITIES: tuple[tuple[str, Callable[[Summary], Estimate]], ...] = (
    ("B_simple", lambda summary: summary.b_simple.run),
    ("B_crit", lambda summary: summary.b_crit.run),
)


def judge_generative(summaries: Sequence[Summary]) -> list[Judgement]:
    """Run values of the generative models against those of the classifier, at each scale that has one of the two."""
    by_sweep = {(summary.task, summary.scale): summary for summary in summaries}
    scales = dict.fromkeys([*SCALES, *(summary.scale for summary in summaries)])
    return [
        Judgement(f"{model} / {classifier}", scale, True, finding)
        for scale in scales
        for model, classifier in GENERATIVE_AND_CLASSIFIER
        if (model, scale) in by_sweep or (classifier, scale) in by_sweep
        for finding in _generative_findings(by_sweep.get((model, scale)), by_sweep.get((classifier, scale)))
    ]


def _generative_findings(model: Summary | None, classifier: Summary | None) -> list[Finding]:
    """One for B_simple and one for B_crit."""
    pairs = (
        ("B_simple", model and model.b_simple.run, classifier and classifier.b_simple.run),
        ("B_crit", model and model.b_crit.run, classifier and classifier.b_crit.run),
    )
    return [_below(name, lower or Estimate(), upper or Estimate()) for name, lower, upper in pairs]


def _below(name: str, lower: Estimate, upper: Estimate) -> Finding:
    measurement = f"{name} {estimate(lower)} against {estimate(upper)}"
    quotient = quotient_of_estimates(lower, upper)
    if quotient != Estimate():
        measurement += f": ratio {estimate(quotient)}"
    return Finding(measurement, below_verdict(lower, upper))


def judge_games(summaries: Sequence[Summary]) -> list[Judgement]:
    """Run values of each game of the paper's against those of all classifiers at its scale."""
    return [
        Judgement(summary.task, summary.scale, True, _above_classifiers(name, run, summary, summaries))
        for summary in summaries
        if summary.published is not None and summary.unit == GAME_UNIT
        for name, run in QUANTITIES
    ]


def _above_classifiers(
    name: str, run: Callable[[Summary], Estimate], game: Summary, summaries: Sequence[Summary]
) -> Finding:
    others = [it for it in summaries if it.task in CLASSIFIERS and it.scale == game.scale]
    beside = ", ".join(f"{it.task} {estimate(run(it))}" for it in others) or "no classifier of this scale"
    return Finding(
        f"{name} {estimate(run(game))} against {beside}", above_all_verdict(run(game), [run(it) for it in others])
    )
