"""Reads a results folder and writes its figures and reports."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from reproduce import published
from reproduce.report.adaptive_batch_figure import adaptive_batch_figure
from reproduce.report.comparison_figure import comparison_figure
from reproduce.report.curves_figure import curves_figure, load_curves
from reproduce.report.html import render_html
from reproduce.report.learning_rate_figure import learning_rate_figure
from reproduce.report.line_search_figure import line_search_figure
from reproduce.report.linear_rule_figure import linear_rule_figure
from reproduce.report.markdown import render_markdown
from reproduce.report.noise_figure import noise_scale_figure
from reproduce.report.overview_figures import fig4_figure, fig7_figure
from reproduce.report.reading import SummaryError, load_summary, with_further_files
from reproduce.report.sections import build_report
from reproduce.report.style import save_figure
from reproduce.report.summaries import SCALES, Summary
from reproduce.report.tradeoff_figures import pareto_figure, tradeoff_figure
from reproduce.results import write_whole

FIRST_SWEEP = "make a first sweep with `make reproduce-mnist`, or name another folder with"


@dataclass(frozen=True)
class Results:
    """The summaries of a results folder in the report's order, each with its folder; and what could not be read."""

    summaries: tuple[tuple[Path, Summary], ...]
    problems: tuple[str, ...]


def load_results(folder: Path, option: str = "--results") -> Results:
    """Reads folder/<task>/<scale>/summary.json for all tasks and scales; a bad one is a problem, not the end.

    `option` is where the command line names the folder, for error messages.

    Raises:
        FileNotFoundError: no such folder, or no summary in it.
        SummaryError: no summary of them could be read.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; {FIRST_SWEEP} {option}")
    paths = sorted(folder.glob("*/*/summary.json"))
    if not paths:
        raise FileNotFoundError(f"{folder}: no <task>/<scale>/summary.json in it; {FIRST_SWEEP} {option}")
    summaries, problems = [], []
    for path in paths:
        try:
            summary = load_summary(path.parent)
        except SummaryError as error:
            problems.append(_below(str(error), folder))
            continue
        try:
            summary = with_further_files(summary, path.parent)
        except SummaryError as error:
            problems.append(_below(str(error), folder))
        summaries.append((path.parent, summary))
    if not summaries:
        raise SummaryError("\n".join(problems))
    return Results(tuple(sorted(summaries, key=_report_order)), tuple(problems))


def write_task_report(folder: Path) -> list[Path]:
    """Writes the figures of one sweep beside its summary.json, as PNG and SVG, and returns their paths.

    Without a curves.csv there is no figure of curves, without a line_search.json or comparison_*.json none of these.
    Raises FileNotFoundError or SummaryError.
    """
    return _write_task_figures(folder, with_further_files(load_summary(folder), folder))


def write_report(results: Path, compare: Path | None = None) -> list[Path]:
    """Writes all figures, report.md and report.html into `results`, and returns their paths.

    Args:
        results: folder with <task>/<scale>/summary.json.
        compare: another such folder, to be shown beside; nothing is written into it.

    Raises what `load_results` raises. What was left out is in the report and on stderr.
    """
    ours = load_results(results)
    theirs = load_results(compare, "--compare") if compare else None
    written, problems = [], list(ours.problems)
    problems += [f"{compare.name}: {problem}" for problem in theirs.problems] if theirs else []
    for folder, summary in ours.summaries:
        try:
            written += _write_task_figures(folder, summary)
        except SummaryError as error:
            problems.append(_below(str(error), results))
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    summaries = [summary for _, summary in ours.summaries]
    written += save_figure(fig4_figure(summaries), results / "fig4")
    blocks = build_report(
        [(summary, folder.relative_to(results), _figures_in(folder)) for folder, summary in ours.summaries],
        problems,
        (_name_of(compare), [summary for _, summary in theirs.summaries]) if theirs else None,
    )
    return [
        *written,
        _write(results / "report.md", render_markdown(blocks)),
        _write(results / "report.html", render_html(blocks, results)),
    ]


def _write_task_figures(folder: Path, summary: Summary) -> list[Path]:
    figures = {
        "fig7": fig7_figure(summary),
        "pareto": pareto_figure(summary),
        "tradeoff": tradeoff_figure(summary),
        "noise_scale": noise_scale_figure(summary),
        "learning_rate": learning_rate_figure(summary),
    }
    if summary.line_search:
        figures["fig5"] = line_search_figure(summary, summary.line_search)
    if summary.linear_rule:
        figures["linear_rule"] = linear_rule_figure(summary, summary.linear_rule)
    if summary.adaptive_batch:
        figures["adaptive_batch"] = adaptive_batch_figure(summary, summary.adaptive_batch)
    for name in ("fig5", "linear_rule", "adaptive_batch"):
        if name not in figures:
            _remove_figure(folder, name)
    for comparison in summary.comparisons:
        figures[f"comparison_{comparison.name}"] = comparison_figure(summary, comparison)
    written = [path for name, figure in figures.items() for path in save_figure(figure, folder / name)]
    # Last, since it is the only one whose input can still be unreadable.
    _remove_figure(folder, "curves")
    curves = load_curves(folder, summary)
    if curves:
        written += save_figure(curves_figure(summary, curves), folder / "curves")
    return written


def _remove_figure(folder: Path, name: str) -> None:
    """A figure from an earlier sweep must not stand beside this one's numbers."""
    for suffix in ("png", "svg"):
        (folder / f"{name}.{suffix}").unlink(missing_ok=True)


def _figures_in(folder: Path) -> frozenset[str]:
    return frozenset(path.stem for path in folder.glob("*.svg"))


def _report_order(entry: tuple[Path, Summary]) -> tuple:
    """The paper's tasks in Table 1's order, then the others; mini before paper before a user's own scales."""
    _, summary = entry
    rows = list(published.TABLE_1.values())
    row = published.published(summary.task)
    scale = SCALES.index(summary.scale) if summary.scale in SCALES else len(SCALES)
    return (rows.index(row) if row else len(rows), summary.task, scale, summary.scale)


def _below(message: str, folder: Path) -> str:
    """Paths relative to the results folder: where that lies differs between machines, and the report is committed."""
    return message.replace(f"{folder}/", "")


def _name_of(folder: Path) -> str:
    """A short name for another results folder; "results" alone would not tell it from this one."""
    return f"{folder.resolve().parent.name}/{folder.name}" if folder.name == "results" else folder.name


def _write(path: Path, text: str) -> Path:
    write_whole(path, text.encode())
    return path
