"""What else was measured of a sweep's task, each with its figure, its table and how to measure it again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
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
    measurements = [line_search_section(summary, summary.line_search)] if summary.line_search else []
    measurements += [comparison_section(comparison) for comparison in summary.comparisons]
    if summary.linear_rule:
        measurements.append(linear_rule_section(summary.linear_rule))
    if summary.adaptive_batch:
        measurements.append(adaptive_batch_section(summary.adaptive_batch))
    return [block for measurement in measurements for block in measurement.blocks(summary, folder, figures)]


@dataclass(frozen=True)
class Measurement:
    """One result file.

    Attributes:
        what: was run. name: of the result file, and of its picture. result: its contents.
        title, caption: of the picture. below: tables, and what they say.
    """

    what: str
    name: str
    result: LineSearch | Comparison | LinearRule | AdaptiveBatch
    title: str
    caption: str
    below: tuple[Block, ...]
    figure: str = ""  # where it is not called like the file

    def blocks(self, summary: Summary, folder: Path, figures: Collection[str]) -> list[Block]:
        """What was run, the file, how to measure it again, the picture if it was drawn, and what is below it."""
        origin = f", commit {self.result.commit}" if self.result.commit else ""
        file = file_link(folder / f"{self.name}.json")
        blocks: list[Block] = [Paragraph(f"{self.what}{origin}."), Paragraph(file)]
        if self.result.command:
            blocks.append(Code(self.result.command))
        figure = self.figure or self.name
        if figure in figures:
            title = f"{self.title}: {summary.title}, {summary.scale} scale"
            blocks.append(Picture(folder / figure, title, self.caption))
        return [*blocks, *self.below]


def line_search_section(summary: Summary, search: LineSearch) -> Measurement:
    """Figure 5 and its tables."""
    caption = f"Line search: noise scales at weights of the run soon after it reached {summary.score}"
    below: list[Block] = [Table(caption, SEARCH_HEADER, tuple(search_rows(search)))]
    if reasons(search):
        below.append(Bullets(tuple(reasons(search))))
    below.append(Table("Line search: every batch size", BEST_STEPS_HEADER, tuple(best_step_rows(search)), folded=True))
    return Measurement(
        what=f"Line search at fixed weights of one run: {run_name(search)}",
        name="line_search",
        result=search,
        figure="fig5",
        title="Best learning rate and line search (Fig. 5)",
        caption=FIG5_CAPTION,
        below=tuple(below),
    )


def comparison_section(comparison: Comparison) -> Measurement:
    """Noise scales of runs that differ in one quantity."""
    rows = tuple(comparison_rows(comparison))
    table = Table(f"{title(comparison)}, at equal {comparison.score}", comparison_header(comparison), rows)
    return Measurement(
        what=f"{title(comparison)}: {what_was_run(comparison)}",
        name=f"comparison_{comparison.name}",
        result=comparison,
        title=title(comparison),
        caption=f"Noise scale where runs pass each {comparison.score}; kinds of runs are shifted a little sideways.",
        below=(table, Paragraph(finding(comparison))),
    )


def linear_rule_section(rule: LinearRule) -> Measurement:
    """Steps at scaled learning rates beside those at the best ones."""
    table = Table("Scaled rates beside the best ones", LINEAR_RULE_HEADER, tuple(linear_rule_rows(rule)))
    return Measurement(
        what=f"Learning rates in proportion to the batch size: {what_was_scaled(rule)}",
        name="linear_rule",
        result=rule,
        title="Learning rate in proportion to the batch size",
        caption="An arrow stands where a seed diverged, or had not arrived in four times the steps of the best rate.",
        below=(table, Paragraph(shown(rule))),
    )


def adaptive_batch_section(result: AdaptiveBatch) -> Measurement:
    """Adaptive beside constant batch sizes."""
    table = Table("Adaptive and constant batch sizes", ADAPTIVE_BATCH_HEADER, tuple(adaptive_batch_rows(result)))
    return Measurement(
        what=f"Batch sizes that follow the noise scale: {what_was_scheduled(result)}",
        name="adaptive_batch",
        result=result,
        title="Batch sizes that follow the noise scale (Fig. 16)",
        caption="Left: circles are constant batch sizes, diamonds adaptive ones. Right: the schedules, one seed each.",
        below=(table, Paragraph(gained(result))),
    )


def file_link(path: Path) -> Link:
    """Where a measurement's numbers are."""
    return Link(f"All numbers: {path.as_posix()}", path.as_posix())
