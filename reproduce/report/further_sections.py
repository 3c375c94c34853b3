"""What else was measured of a sweep's task, each with its figure, its table and how to measure it again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from reproduce.report.adaptive_batch import AdaptiveBatch
from reproduce.report.adaptive_batch_tables import (
    ADAPTIVE_BATCH_HEADER,
    adaptive_batch_rows,
    gained,
    what_was_scheduled,
)
from reproduce.report.comparison_tables import comparison_header, comparison_rows, finding, title, what_was_run
from reproduce.report.document import Block, Bullets, Code, Link, Paragraph, Picture, Table
from reproduce.report.line_search_tables import (
    BEST_STEPS_HEADER,
    SEARCH_HEADER,
    best_step_rows,
    reasons,
    run_name,
    search_rows,
)
from reproduce.report.linear_rule import LinearRule
from reproduce.report.linear_rule_tables import LINEAR_RULE_HEADER, linear_rule_rows, shown, what_was_scaled
from reproduce.report.summaries import Comparison, LineSearch, Summary

FIG5_CAPTION = (
    "Left: the learning rates that reached each goal in fewest steps. Right: how far the best step along batches of"
    " one size lowers the loss at fixed weights, averaged over batches and relative to the fitted limit, with the law"
    " 1 / (1 + B_noise / B) (equation 2.7); a colour is a point of training, shifted a little sideways. An arrow leaves"
    " an upper bound, where the drop cannot be told from 0. The law passes 1/2 at its B_noise; a triangle marks the"
    " B_noise that products with the Hessian give at the same weights."
)


def further_sections(summary: Summary, folder: Path, figures: Collection[str]) -> list[Block]:
    """All that there is; `folder` is where the figures are, relative to the report, and `figures` their names."""
    blocks: list[Block] = []
    if summary.line_search:
        blocks += line_search_section(summary, summary.line_search, folder, figures)
    for comparison in summary.comparisons:
        blocks += comparison_section(summary, comparison, folder, figures)
    if summary.linear_rule:
        blocks += linear_rule_section(summary, summary.linear_rule, folder, figures)
    if summary.adaptive_batch:
        blocks += adaptive_batch_section(summary, summary.adaptive_batch, folder, figures)
    return blocks


def line_search_section(summary: Summary, search: LineSearch, folder: Path, figures: Collection[str]) -> list[Block]:
    """Figure 5 and its tables, and how to make them again."""
    origin = f", commit {search.commit}" if search.commit else ""
    blocks: list[Block] = [
        Paragraph(f"Line search at fixed weights of one run: {run_name(search)}{origin}."),
        Paragraph(file_link(folder / "line_search.json")),
    ]
    if search.command:
        blocks.append(Code(search.command))
    if "fig5" in figures:
        what = "Best learning rate and line search (Fig. 5)"
        blocks.append(Picture(folder / "fig5", f"{what}: {summary.title}, {summary.scale} scale", FIG5_CAPTION))
    caption = f"Line search: noise scales at weights of the run soon after it reached {summary.score}"
    blocks.append(Table(caption, SEARCH_HEADER, tuple(search_rows(search))))
    if reasons(search):
        blocks.append(Bullets(tuple(reasons(search))))
    blocks.append(Table("Line search: every batch size", BEST_STEPS_HEADER, tuple(best_step_rows(search)), folded=True))
    return blocks


def comparison_section(summary: Summary, comparison: Comparison, folder: Path, figures: Collection[str]) -> list[Block]:
    """Noise scales of runs that differ in one quantity, and how to measure them again."""
    origin = f", commit {comparison.commit}" if comparison.commit else ""
    blocks: list[Block] = [Paragraph(f"{title(comparison)}: {what_was_run(comparison)}{origin}.")]
    name = f"comparison_{comparison.name}"
    blocks.append(Paragraph(file_link(folder / f"{name}.json")))
    if comparison.command:
        blocks.append(Code(comparison.command))
    if name in figures:
        caption = f"Noise scale where runs pass each {comparison.score}; kinds of runs are shifted a little sideways."
        blocks.append(Picture(folder / name, f"{title(comparison)}: {summary.title}, {summary.scale} scale", caption))
    caption = f"{title(comparison)}, at equal {comparison.score}"
    blocks.append(Table(caption, comparison_header(comparison), tuple(comparison_rows(comparison))))
    blocks.append(Paragraph(finding(comparison)))
    return blocks


def linear_rule_section(summary: Summary, rule: LinearRule, folder: Path, figures: Collection[str]) -> list[Block]:
    """Steps at scaled learning rates beside those at the best ones, and how to measure them again."""
    origin = f", commit {rule.commit}" if rule.commit else ""
    blocks: list[Block] = [
        Paragraph(f"Learning rates in proportion to the batch size: {what_was_scaled(rule)}{origin}."),
        Paragraph(file_link(folder / "linear_rule.json")),
    ]
    if rule.command:
        blocks.append(Code(rule.command))
    if "linear_rule" in figures:
        what = f"Learning rate in proportion to the batch size: {summary.title}, {summary.scale} scale"
        caption = "An arrow stands where a seed diverged, or had not arrived in four times the steps of the best rate."
        blocks.append(Picture(folder / "linear_rule", what, caption))
    table = Table("Scaled rates beside the best ones", LINEAR_RULE_HEADER, tuple(linear_rule_rows(rule)))
    return [*blocks, table, Paragraph(shown(rule))]


def adaptive_batch_section(
    summary: Summary, result: AdaptiveBatch, folder: Path, figures: Collection[str]
) -> list[Block]:
    """Adaptive beside constant batch sizes, and how to measure them again."""
    origin = f", commit {result.commit}" if result.commit else ""
    blocks: list[Block] = [
        Paragraph(f"Batch sizes that follow the noise scale: {what_was_scheduled(result)}{origin}."),
        Paragraph(file_link(folder / "adaptive_batch.json")),
    ]
    if result.command:
        blocks.append(Code(result.command))
    if "adaptive_batch" in figures:
        what = f"Batch sizes that follow the noise scale (Fig. 16): {summary.title}, {summary.scale} scale"
        caption = "Left: circles are constant batch sizes, diamonds adaptive ones. Right: the schedules, one seed each."
        blocks.append(Picture(folder / "adaptive_batch", what, caption))
    table = Table("Adaptive and constant batch sizes", ADAPTIVE_BATCH_HEADER, tuple(adaptive_batch_rows(result)))
    return [*blocks, table, Paragraph(gained(result))]


def file_link(path: Path) -> Link:
    """Where a measurement's numbers are."""
    return Link(f"All numbers: {path.as_posix()}", path.as_posix())
