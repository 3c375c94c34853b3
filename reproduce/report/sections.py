"""What the report says: the blocks of results/report.md and report.html, from the summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from reproduce import published
from reproduce.report.claims import CLAIMS, Claim
from reproduce.report.document import Block, Bullets, Heading, Link, Paragraph, Picture, Table
from reproduce.report.estimates import Estimate
from reproduce.report.formatting import data_name, estimate, log10_ratio, published_value, ratio
from reproduce.report.overview_figures import r2_sentences
from reproduce.report.ratios import ratio_of_estimates, ratio_to_published
from reproduce.report.summaries import StartAndRun, Summary
from reproduce.report.task_section import task_heading, task_section
from reproduce.report.verdicts import NOT_SHOWN

TITLE = "An Empirical Model of Large-Batch Training, measured"
INTRODUCTION = (
    "Critical batch sizes and gradient noise scales measured by this suite, beside those of McCandlish et al. 2018"
    " (arXiv 1812.06162). python -m reproduce.report rewrites this file from the summaries in the folders beside it."
)
MINI_MARK = "†"
READING = (
    "Intervals stand in brackets. A bound (at least, at most) stands where the measurement gives no number: all"
    " batch sizes on one side of B_crit, or a gradient that cannot be told from its noise.",
    f"Mini scale ({MINI_MARK}) is another model on other data than the published value beside it: a measurement of its"
    " own, and not the paper's experiment. The ratio says how far apart the two experiments are. Scales are never"
    " averaged, and the paper scale has rows of its own.",
    "First goal is set beside the paper's start, and run beside its average. B_crit of the run is that of the last"
    " goal; B_simple of the run is averaged over noiseless steps up to it.",
    "Against a published range the ratio is to its nearer end; inside the range there is none.",
    "In report.html a mark in a figure shows its numbers when it is pointed at, tapped, or reached with the arrow keys"
    " once the figure has the focus; a click on a column's heading sorts its table.",
)


def build_report(
    sweeps: Sequence[tuple[Summary, Path, frozenset[str]]],
    warnings: Sequence[str] = (),
    compared: tuple[str, Sequence[Summary]] | None = None,
) -> list[Block]:
    """The whole report.

    Args:
        sweeps: each summary with the folder of its figures, relative to the report, and the figures' names.
        warnings: what was left out and why.
        compared: another results folder: its name and its summaries.
    """
    summaries = [summary for summary, _, _ in sweeps]
    blocks: list[Block] = [Paragraph("To read it:"), Bullets(READING)]
    if warnings:
        blocks += [Heading(2, "Left out"), Bullets(tuple(warnings))]
    blocks += table_1_section(summaries)
    if compared:
        blocks += compare_section(summaries, *compared)
    blocks += fig4_section(summaries)
    blocks += claims_section(summaries)
    for summary, folder, figures in sweeps:
        blocks += task_section(summary, folder, figures)
    return [Heading(1, TITLE), Paragraph(INTRODUCTION), contents(blocks), *blocks]


def contents(blocks: Sequence[Block]) -> Bullets:
    """A link to each section."""
    return Bullets(tuple(block.link() for block in blocks if isinstance(block, Heading) and block.level == 2))


def table_1_section(summaries: Sequence[Summary]) -> list[Block]:
    provenance = tuple(
        (_to_section(summary), summary.scale, data_name(summary), summary.model or "-", summary.optimizer)
        for summary in summaries
    )
    return [
        Heading(2, "Table 1, measured beside published"),
        _beside_published("Critical batch size B_crit", summaries, lambda summary: summary.b_crit, "b_crit"),
        _beside_published("Simple noise scale B_simple", summaries, lambda summary: summary.b_simple, "b_simple"),
        Table(
            "The data and the model that each number comes from",
            ("task", "scale", "data", "model", "optimiser"),
            provenance,
        ),
        Paragraph("The source contradicts itself in two places:"),
        Bullets(published.CONTRADICTIONS),
    ]


def fig4_section(summaries: Sequence[Summary]) -> list[Block]:
    return [
        Heading(2, "Noise scale against critical batch size (Fig. 4)"),
        Picture(
            Path("fig4"),
            "Run-averaged noise scale against critical batch size over all tasks",
            "Filled: measured, with intervals on both axes; small: at the first goal. Hollow: published, joined to"
            " ours by a dotted line; a bar is a published range, drawn through its geometric mean; an arrow leaves a"
            " bound. Grey: published, without a sweep of that name here. Stars: tasks that the paper does not have.",
        ),
        Bullets(tuple(r2_sentences(summaries))),
    ]


def claims_section(summaries: Sequence[Summary]) -> list[Block]:
    """Each claim with the count of its verdicts, its rule, and below that every measurement."""
    overview = tuple((str(claim.number), claim.prediction, _verdicts(claim, summaries)) for claim in CLAIMS)
    sections = {(summary.task, summary.scale): _to_section(summary) for summary in summaries}
    judged = [(str(claim.number), found) for claim in CLAIMS for found in claim.judge(summaries)]
    measurements = tuple(
        (claim, sections.get((it.task, it.scale), it.task), it.scale, it.finding.measurement, it.finding.verdict)
        for claim, it in judged
    )
    rules = tuple(f"Claim {claim.number}: {claim.rule}" for claim in CLAIMS)
    return [
        Heading(2, "The paper's claims"),
        Paragraph(
            "A verdict follows from the rule below it and the numbers, and holds for that task at that scale only."
            ' "Not shown" means that the measurement cannot decide. The first table counts the tasks of the paper; the'
            " last one has every sweep."
        ),
        Table("Verdicts", ("claim", "prediction", "verdicts"), overview),
        Paragraph("The rules:"),
        Bullets(rules),
        Table("Measurements", ("claim", "task", "scale", "measurement", "verdict"), measurements),
    ]


def compare_section(ours: Sequence[Summary], name: str, theirs: Sequence[Summary]) -> list[Block]:
    """Another results folder beside this one: run values of the sweeps that both have, and which they don't share."""
    ours_by_sweep = {(summary.task, summary.scale): summary for summary in ours}
    theirs_by_sweep = {(summary.task, summary.scale): summary for summary in theirs}
    rows = []
    for sweep in [*ours_by_sweep, *(sweep for sweep in theirs_by_sweep if sweep not in ours_by_sweep)]:
        here, there = ours_by_sweep.get(sweep), theirs_by_sweep.get(sweep)
        for quantity, pick in (("B_crit", lambda it: it.b_crit), ("B_simple", lambda it: it.b_simple)):
            a, b = _run(here, pick), _run(there, pick)
            quotient = ratio_of_estimates(b, a)
            rows.append(
                (*sweep, quantity, estimate(a), estimate(b), ratio(quotient), log10_ratio(quotient), _overlap(a, b))
            )
    header = ("task", "scale", "run value of", "here", name, f"{name} / here", "log10", "intervals")
    return [Heading(2, f"Beside {name}"), Table(f"These results and those of {name}", header, tuple(rows))]


def _beside_published(caption: str, summaries: Sequence[Summary], pick, key: str) -> Table:
    rows = []
    for summary in summaries:
        values: StartAndRun = pick(summary)
        cells = []
        for ours, when in ((values.start, "start"), (values.run, "average")):
            theirs = getattr(summary.published, f"{key}_{when}") if summary.published else None
            quotient = ratio_to_published(ours, theirs)
            shown = published_value(theirs) if summary.published else "not in the paper"
            cells += [estimate(ours), shown, ratio(quotient), log10_ratio(quotient)]
        rows.append((_to_section(summary), _scale(summary), summary.unit, *cells))
    header = ("task", "scale", "unit", "first goal", "published start", "ratio", "log10")
    return Table(caption, (*header, "run", "published average", "ratio", "log10"), tuple(rows))


def _to_section(summary: Summary) -> Link:
    return task_heading(summary).link(summary.task)


def _scale(summary: Summary) -> str:
    """The scale, marked where a mini number stands beside a published one."""
    return f"mini {MINI_MARK}" if summary.scale == "mini" and summary.published else summary.scale


def _verdicts(claim: Claim, summaries: Sequence[Summary]) -> str:
    """How often each verdict fell on the paper's tasks, for each scale."""
    found = [found for found in claim.judge(summaries) if found.in_paper]
    if not found:
        return NOT_SHOWN
    counts = Counter((it.scale, it.finding.verdict) for it in found)
    scales = dict.fromkeys(it.scale for it in found)
    parts = (", ".join(f"{verdict} {n}" for (at, verdict), n in sorted(counts.items()) if at == s) for s in scales)
    return "; ".join(f"{scale}: {part}" for scale, part in zip(scales, parts))


def _run(summary: Summary | None, pick) -> Estimate:
    return pick(summary).run if summary else Estimate()


def _overlap(a: Estimate, b: Estimate) -> str:
    if None in (a.value, a.low, a.high, b.value, b.low, b.high):
        return "-"
    return "overlap" if a.low <= b.high and b.low <= a.high else "apart"
