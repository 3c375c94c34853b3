"""One sweep's part of the report: figures, goals, points, what it cost and how to make it again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from reproduce.report.document import Block, Bullets, Code, Heading, Paragraph, Picture, Table
from reproduce.report.formatting import count, data_name, duration, estimate, goal_name, number, plural
from reproduce.report.further_sections import file_link, further_sections
from reproduce.report.goal_tables import EXACT_HEADER, GOALS_HEADER, POINTS_HEADER, exact_rows, goal_rows, point_rows
from reproduce.report.summaries import LossLaw, Summary, Sweep

FIGURES = (
    (
        "fig7",
        "Trade-off and noise scale",
        "Left: steps and examples to each goal, with the fitted hyperbola (equation 2.11) and, dotted, S_min and"
        " E_min. An error in steps moves a point along the line of its batch size; an arrow leaves a point that runs"
        " did not reach. Right: B_crit, B_simple and B_noise at each goal, training from left to right.",
    ),
    (
        "tradeoff",
        "Steps and examples against the batch size",
        "The same points against the batch size, with the same fits. A tick on a curve marks B_crit, where a run"
        " takes twice S_min and twice E_min.",
    ),
    (
        "learning_rate",
        "Best learning rate",
        "The learning rate that reached each goal in fewest steps, with the law of appendix A.2. Goals are shifted a"
        " little sideways, since they often share a rate.",
    ),
    (
        "curves",
        "Training at constant batch size (Fig. 6)",
        "Smoothed score at the best learning rate of each batch size; where several seeds were recorded, their mean."
        " Large batch sizes need few steps, small ones few examples.",
    ),
)


def task_heading(summary: Summary) -> Heading:
    """The heading of the sweep's section; no other section has the same."""
    return Heading(2, f"{summary.title} ({summary.task}), {summary.scale} scale")


def task_section(summary: Summary, folder: Path, figures: Collection[str]) -> list[Block]:
    """`folder` is where the sweep's figures are, relative to the report, and `figures` the names of those."""
    blocks: list[Block] = [
        task_heading(summary),
        Bullets((*_provenance(summary), file_link(folder / "summary.json"))),
    ]
    if summary.command:
        blocks += [Paragraph("To make it again:"), Code(summary.command)]
    if summary.notes:
        blocks.append(Bullets(summary.notes))
    blocks.append(Table("Goals", GOALS_HEADER, tuple(goal_rows(summary))))
    reasons = tuple(f"{goal_name(summary, goal)}: {goal.reason}" for goal in summary.goals if goal.reason)
    if reasons:
        blocks.append(Bullets(reasons))
    if exact_rows(summary):
        caption = "The closed form, and how far the measurement is from it"
        blocks.append(Table(caption, EXACT_HEADER, tuple(exact_rows(summary))))
    for name, what, caption in FIGURES:
        if name not in figures:
            blocks.append(Paragraph(f"{what}: not shown, there is no curves.csv that can be read."))
            continue
        blocks.append(Picture(folder / name, f"{what}: {summary.title}, {summary.scale} scale", caption))
    blocks += further_sections(summary, folder, figures)
    blocks.append(
        Table("Points: every goal at every batch size", POINTS_HEADER, tuple(point_rows(summary)), folded=True)
    )
    return blocks


def _loss_law(law: LossLaw) -> str:
    return (
        f"B_crit against the loss L in nats: {number(law.b_star)} / L^(1 / alpha_B), alpha_B {estimate(law.alpha_b)} "
        f"over {plural(law.goals, 'goal')}, rms of ln B_crit {number(law.rms)}. Kaplan et al. 2020 (arXiv 2001.08361) "
        "have 0.21, for Transformers on other text with another vocabulary. Goals share runs: the interval may be too "
        "narrow."
    )


def _provenance(summary: Summary) -> list[str]:
    """What was measured, on what, and at what cost, in the order in which a reader doubts it."""
    fit = summary.learning_rate_fit
    lines = [
        f"Data: {data_name(summary)}",
        f"Model: {summary.model or 'not recorded'}; optimiser: {summary.optimizer}",
        f"Score: {summary.score}; batch sizes, examples and noise scales in {summary.unit}s",
        _cost(summary.sweep),
    ]
    if fit:
        lines.append(f"Learning rate: {number(fit.eps)} / (1 + {number(fit.knee)} / B)^{number(fit.alpha)}")
    if summary.loss_law:
        lines.append(_loss_law(summary.loss_law))
    origin = [summary.date, summary.machine, f"commit {summary.commit}" if summary.commit else ""]
    origin += [f"{name} {version}" for name, version in summary.versions]
    lines.append("Made: " + (", ".join(part for part in origin if part) or "not recorded"))
    return lines


def _cost(sweep: Sweep) -> str:
    parts = [f"Sweep {sweep.name}:" if sweep.name else "Sweep:"]
    if sweep.runs is not None:
        parts.append(f"{plural(sweep.runs, 'run')}{_kinds_of_runs(sweep)},")
    if sweep.examples is not None:
        saved = ""
        if sweep.examples_full_grid:
            saved = f" (the plain grid: at least {number(sweep.examples_full_grid)})"
        parts.append(f"{number(sweep.examples)} examples{saved},")
    cores = "" if sweep.cores is None else f" on {plural(sweep.cores, 'core')}"
    parts.append(f"{duration(sweep.seconds)} of run time{cores}" if sweep.seconds is not None else "time not recorded")
    return " ".join(parts)


def _kinds_of_runs(sweep: Sweep) -> str:
    parts = [] if sweep.seeds is None else [plural(sweep.seeds, "seed")]
    for number_of_runs, kind in ((sweep.given_up, "given up"), (sweep.diverged, "diverged"), (sweep.failed, "failed")):
        if number_of_runs:
            parts.append(f"{count(number_of_runs)} {kind}")
    return f" ({', '.join(parts)})" if parts else ""
