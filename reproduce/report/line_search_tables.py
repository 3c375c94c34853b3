"""The tables of a line search, and all that in a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from reproduce.report.formatting import count, estimate, number
from reproduce.report.goal_tables import Rows, aligned
from reproduce.report.reading import parse_line_search
from reproduce.report.summaries import BestStep, LineSearch, SearchLaw, SearchPoint

SEARCH_HEADER = (
    "point",
    "step",
    "B_noise from drops",
    "B_noise from rates",
    "B_noise from Hessian",
    "drops / Hessian",
    "B_simple",
    "rms, drops (noise)",
    "rms, rates (noise)",
    "eps_max",
    "eps_max from Hessian",
)
BEST_STEPS_HEADER = ("point", "batch size", "batches", "loss drop", "drop / law", "best learning rate", "rate / law")


def format_line_search(record: LineSearch | Mapping) -> str:
    """The table that a line search prints when it ends; takes the record of a line_search.json too."""
    search = record if isinstance(record, LineSearch) else parse_line_search(record)
    lines = [f"run: {run_name(search)}", aligned(SEARCH_HEADER, search_rows(search)), *reasons(search)]
    return "\n\n".join(lines)


def run_name(search: LineSearch) -> str:
    origin = "from the sweep's summary" if search.from_summary else "chosen by hand"
    rate = number(search.learning_rate)
    return f"batch size {count(search.batch_size)}, learning rate {rate}, seed {count(search.seed)} ({origin})"


def search_rows(search: LineSearch) -> Rows:
    """One row for each point of training."""
    return [
        (
            f"{point.goal:g}",
            count(point.step),
            estimate(point.drops.b_noise),
            estimate(point.learning_rates.b_noise),
            estimate(point.b_noise_hessian),
            _quotient(point.drops.b_noise.value, point.b_noise_hessian.value),
            estimate(point.b_simple),
            _error(point.drops),
            _error(point.learning_rates),
            estimate(point.learning_rates.limit),
            number(point.learning_rate_max_hessian),
        )
        for point in search.points
    ]


def best_step_rows(search: LineSearch) -> Rows:
    """One row for each point and batch size, each beside the fitted law."""
    return [
        (
            f"{point.goal:g}",
            count(step.batch_size),
            count(step.batches),
            estimate(step.drop),
            _quotient(step.drop.value, law_value(point.drops, step.batch_size)),
            "-" if step.learning_rate.value is None else estimate(step.learning_rate),
            _quotient(step.learning_rate.value, law_value(point.learning_rates, step.batch_size)),
        )
        for point in search.points
        for step in point.best_steps
    ]


def law_value(law: SearchLaw, batch_size: float) -> float | None:
    """limit / (1 + B_noise / B) (equations 2.6, 2.7); None without a fit."""
    if not (law.b_noise.measured and law.limit.measured):
        return None
    return law.limit.value / (1 + law.b_noise.value / batch_size)


def reasons(search: LineSearch) -> list[str]:
    """What is missing, and why."""
    lines = [
        f"{point.goal:g}: no B_noise from {name}: {law.reason}"
        for point in search.points
        for name, law in (("drops", point.drops), ("rates", point.learning_rates))
        if law.reason
    ]
    for point in search.points:
        censored = [count(step.batch_size) for step in censored_steps(point)]
        if censored:
            lines.append(f"{point.goal:g}: no drop that can be told from 0 at batch size {', '.join(censored)}")
    if search.not_reached:
        goals = ", ".join(f"{goal:g}" for goal in search.not_reached)
        lines.append(f"the run ended before it reached {goals}")
    return lines


def censored_steps(point: SearchPoint) -> list[BestStep]:
    return [step for step in point.best_steps if not step.drop.measured]


def _error(law: SearchLaw) -> str:
    """The law's error, and in brackets what noise alone would reach."""
    return number(law.rms) if law.rms_noise is None else f"{number(law.rms)} ({number(law.rms_noise)})"


def _quotient(value: float | None, by: float | None) -> str:
    return "-" if value is None or by is None else number(value / by)
