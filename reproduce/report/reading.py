"""Reads results/<task>/<scale>/summary.json, checked field by field.

The report trusts nothing that it reads: a file can be torn, edited by hand or from another version. Whatever is
wrong is an error that names the file, the field and what to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from reproduce import published
from reproduce.report.adaptive_batch import parse_adaptive_batch
from reproduce.report.estimates import Estimate, LearningRateFit, SignedEstimate
from reproduce.report.fields import FieldError, Fields
from reproduce.report.linear_rule import parse_linear_rule
from reproduce.report.summaries import (
    BestStep,
    ComparedRuns,
    Comparison,
    Exact,
    Goal,
    LineSearch,
    LossLaw,
    NoiseAtScore,
    Point,
    PublishedValues,
    SearchLaw,
    SearchPoint,
    StartAndRun,
    Summary,
    Sweep,
)

Parsed = TypeVar("Parsed")

MOST_NATS = 100  # of a loss, far above ln of any vocabulary; its perplexity is shown too


class SummaryError(ValueError):
    """A summary, line search or curves.csv that cannot be reported. The message names the file and the remedy."""


def load_summary(folder: Path) -> Summary:
    """Reads folder/summary.json. Raises FileNotFoundError or SummaryError."""
    remedy = f"run its sweep again to rewrite it, or delete {folder} to leave it out"
    return _read(folder / "summary.json", parse_summary, remedy)


def load_line_search(folder: Path) -> LineSearch | None:
    """Reads folder/line_search.json; None where there is none. Raises SummaryError."""
    return _read_if_there(folder / "line_search.json", parse_line_search, "line search")


def load_comparisons(folder: Path) -> tuple[Comparison, ...]:
    """Reads folder/comparison_*.json, by name. Raises SummaryError."""
    paths = sorted(folder.glob("comparison_*.json"))
    return tuple(_read_if_there(path, parse_comparison, "comparison") for path in paths)


def with_further_files(summary: Summary, folder: Path) -> Summary:
    """The summary with what other commands measured of the same task. Raises SummaryError."""
    return replace(
        summary,
        line_search=load_line_search(folder),
        comparisons=load_comparisons(folder),
        linear_rule=_read_if_there(folder / "linear_rule.json", parse_linear_rule, "linear rule"),
        adaptive_batch=_read_if_there(
            folder / "adaptive_batch.json", parse_adaptive_batch, "comparison of batch schedules"
        ),
    )


def _read_if_there(path: Path, parse: Callable[[object], Parsed], what: str) -> Parsed | None:
    remedy = f"run its {what} again to rewrite it, or delete the file to leave it out"
    return _read(path, parse, remedy) if path.exists() else None


def _read(path: Path, parse: Callable[[object], Parsed], remedy: str) -> Parsed:
    try:
        return parse(json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SummaryError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    except FieldError as error:
        raise SummaryError(f"{path}: {error}; {remedy}") from error
    except (ValueError, RecursionError) as error:  # of json: also a number of thousands of digits, or nested as deep
        raise SummaryError(f"{path}: not complete JSON ({error}); {remedy}") from error


def parse_summary(record: object) -> Summary:
    """A Summary from the record of a summary.json. Raises FieldError, which names the field."""
    fields = Fields.of(record)
    data = fields.fields("data")
    goals = tuple(_goal(goal) for goal in fields.list_of_fields("goals"))
    if not goals:
        raise FieldError("goals should not be empty")
    _check_goals(goals, fields.flag("higher_is_better"), fields.optional_text("score_unit"))
    return Summary(
        task=fields.text("task"),
        scale=fields.text("scale"),
        unit=fields.text("unit"),
        score=fields.text("score"),
        higher_is_better=fields.flag("higher_is_better"),
        data=data.text("name"),
        embedded=data.flag("embedded"),
        model=fields.optional_text("model"),
        optimizer=fields.text("optimizer"),
        machine=fields.optional_text("machine"),
        date=fields.optional_text("date"),
        command=fields.optional_text("command"),
        commit=fields.optional_text("commit"),
        goals=goals,
        b_crit=_start_and_run(fields.optional_fields("b_crit")),
        b_simple=_start_and_run(fields.optional_fields("b_simple")),
        b_noise=_start_and_run(fields.optional_fields("b_noise")),
        published=_published(fields.optional_fields("published")),
        learning_rate_fit=_learning_rate_fit(fields.optional_fields("learning_rate_fit")),
        sweep=_sweep(fields),
        notes=fields.texts("notes"),
        versions=_versions(fields.optional_fields("versions")),
        score_unit=fields.optional_text("score_unit"),
        loss_law=_loss_law(fields.optional_fields("loss_law")),
    )


def _check_goals(goals: Sequence[Goal], higher_is_better: bool, score_unit: str) -> None:
    """Raises FieldError unless goals go from easy to hard, and the points of each from small to large batches."""
    scores = [goal.goal for goal in goals]
    if scores != sorted(set(scores), reverse=not higher_is_better):
        raise FieldError(f"goals should go from easy to hard, but are {scores}")
    if score_unit == "nats" and max(scores) > MOST_NATS:
        raise FieldError(f"goals in nats should be at most {MOST_NATS}, but are {scores}")
    for index, goal in enumerate(goals):
        sizes = [point.batch_size for point in goal.points]
        if sizes != sorted(set(sizes)):
            raise FieldError(f"goals[{index}].points should rise in batch size, but have {sizes}")


def parse_comparison(record: object) -> Comparison:
    """A Comparison from the record of a comparison_<name>.json. Raises FieldError, which names the field."""
    fields = Fields.of(record)
    goals = [entry.number("goal") for entry in fields.list_of_fields("spread")]
    for index, run in enumerate(fields.list_of_fields("runs")):
        if [entry.number("goal") for entry in run.list_of_fields("goals")] != goals:
            raise FieldError(f"runs[{index}].goals should be the goals of spread, {goals}")
    return Comparison(
        name=fields.text("comparison"),
        quantity=fields.text("quantity"),
        unit=fields.text("unit"),
        score=fields.text("score"),
        batch_size=fields.positive("batch_size"),
        seeds=fields.required_count("seeds"),
        runs=tuple(_compared_runs(run) for run in fields.list_of_fields("runs")),
        spread=tuple(
            (entry.number("goal"), entry.optional_positive("largest_over_smallest"))
            for entry in fields.list_of_fields("spread")
        ),
        typical_spread=fields.optional_positive("typical_spread"),
        exponent=_exponent(fields.optional_fields("exponent")),
        command=fields.optional_text("command"),
        commit=fields.optional_text("commit"),
    )


def _compared_runs(fields: Fields) -> ComparedRuns:
    return ComparedRuns(
        name=fields.text("name"),
        value=fields.positive("value"),
        learning_rate=fields.positive("learning_rate"),
        goals=tuple(
            NoiseAtScore(goal.number("goal"), goal.estimate("b_simple"), goal.numbers("steps"))
            for goal in fields.list_of_fields("goals")
        ),
    )


def _exponent(fields: Fields | None) -> SignedEstimate | None:
    if fields is None:
        return None
    return SignedEstimate(fields.number("value"), fields.optional_number("low"), fields.optional_number("high"))


def _loss_law(fields: Fields | None) -> LossLaw | None:
    if fields is None:
        return None
    return LossLaw(fields.estimate("alpha_b"), fields.positive("b_star"), fields.number("goals"), fields.number("rms"))


def parse_line_search(record: object) -> LineSearch:
    """A LineSearch from the record of a line_search.json. Raises FieldError, which names the field."""
    fields = Fields.of(record)
    run = fields.fields("run")
    return LineSearch(
        batch_size=run.positive("batch_size"),
        learning_rate=run.positive("learning_rate"),
        seed=run.number("seed"),
        from_summary=run.flag("from_summary"),
        points=tuple(_search_point(point) for point in fields.list_of_fields("points")),
        not_reached=fields.numbers("not_reached"),
        seconds=fields.optional_not_negative("seconds"),
        command=fields.optional_text("command"),
        commit=fields.optional_text("commit"),
    )


def _search_point(fields: Fields) -> SearchPoint:
    return SearchPoint(
        goal=fields.number("goal"),
        step=fields.positive("step"),
        score=fields.number("score"),
        drops=_search_law(fields.fields("drop_law"), "drop_max"),
        learning_rates=_search_law(fields.fields("learning_rate_law"), "learning_rate_max"),
        b_simple=fields.estimate("b_simple"),
        b_noise_hessian=fields.estimate("b_noise_hessian"),
        learning_rate_max_hessian=fields.optional_positive("learning_rate_max_hessian"),
        best_steps=tuple(
            BestStep(
                batch_size=step.positive("batch_size"),
                batches=step.required_count("batches"),
                drop=step.estimate("drop"),
                learning_rate=step.estimate("learning_rate"),
            )
            for step in fields.list_of_fields("batch_sizes")
        ),
    )


def _search_law(fields: Fields, limit: str) -> SearchLaw:
    return SearchLaw(
        b_noise=fields.estimate("b_noise"),
        limit=fields.estimate(limit),
        rms=fields.optional_not_negative("rms"),
        rms_noise=fields.optional_not_negative("rms_noise"),
        reason=fields.optional_text("reason"),
    )


def _refuse_constant(name: str) -> float:
    raise FieldError(f"holds {name}; a missing number is null")


def _goal(fields: Fields) -> Goal:
    return Goal(
        goal=fields.number("goal"),
        identified=fields.flag("identified"),
        reason=fields.optional_text("reason"),
        b_crit=fields.estimate("b_crit"),
        b_simple=fields.estimate("b_simple"),
        b_noise=fields.estimate("b_noise"),
        s_min=fields.optional_positive("s_min"),
        e_min=fields.optional_positive("e_min"),
        fit_rms=fields.optional_not_negative("fit_rms"),
        exact=_exact(fields.optional_fields("exact")),
        points=tuple(_point(point) for point in fields.list_of_fields("points")),
    )


def _start_and_run(fields: Fields | None) -> StartAndRun:
    if fields is None:
        return StartAndRun(Estimate(), Estimate())
    return StartAndRun(fields.estimate("start"), fields.estimate("run"))


def _exact(fields: Fields | None) -> Exact | None:
    if fields is None:
        return None
    names = ("b_crit", "b_simple", "b_noise", "s_min", "e_min")
    return Exact(**{name: fields.optional_positive(name) for name in names})


def _point(fields: Fields) -> Point:
    return Point(
        batch_size=fields.positive("batch_size"),
        learning_rate=fields.optional_positive("learning_rate"),
        steps=fields.optional_positive("steps"),
        steps_low=fields.optional_positive("steps_low"),
        steps_high=fields.optional_positive("steps_high"),
        examples=fields.optional_positive("examples"),
        seeds=fields.count("seeds"),
    )


def _published(fields: Fields | None) -> PublishedValues | None:
    if fields is None:
        return None
    values = [fields.pair(name, published.value_from_json) for name in ("b_crit", "b_simple")]
    return PublishedValues(*values[0], *values[1])


def _learning_rate_fit(fields: Fields | None) -> LearningRateFit | None:
    if fields is None:
        return None
    return LearningRateFit(fields.positive("eps"), fields.number("knee"), fields.number("alpha"))


def _sweep(fields: Fields) -> Sweep:
    costs = fields.optional_fields("sweep") or Fields({})
    names = ("runs", "given_up", "diverged", "failed", "examples", "examples_full_grid", "seconds", "cores")
    return Sweep(
        name=fields.optional_text("sweep_name"),
        seeds=costs.count("seeds"),
        **{name: costs.optional_not_negative(name) for name in names},
    )


def _versions(fields: Fields | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, fields.text(name)) for name in fields.record)) if fields else ()
