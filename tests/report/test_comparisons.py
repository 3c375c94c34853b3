"""Comparisons of runs: tables, claim 6, the figure, and the language model's own lines in the report."""

import json
from pathlib import Path

import pytest
from synthetic import comparison_record, language_record

from reproduce.report import format_comparison, format_table, write_report, write_task_report
from reproduce.report.claims import CLAIMS
from reproduce.report.comparison_tables import comparison_header, comparison_rows, finding
from reproduce.report.estimates import SignedEstimate
from reproduce.report.reading import SummaryError, load_comparisons, load_summary, parse_comparison, with_further_files
from reproduce.report.verdicts import (
    CONTRADICTS,
    HOLDS,
    HOLDS_LOOSELY,
    NOT_SHOWN,
    model_size_verdict,
    temperature_verdict,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Results of a language model with a comparison of sizes."""
    folder = tmp_path / "billion_word" / "mini"
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(language_record()))
    (folder / "comparison_model_size.json").write_text(json.dumps(comparison_record(0.1)))
    return folder


def test_a_row_for_each_goal_with_every_kind_of_run():
    comparison = parse_comparison(comparison_record(0.5))
    header = ("train loss", "LSTM size 64", "LSTM size 128", "LSTM size 256", "largest / smallest")
    assert comparison_header(comparison) == header
    row = ("6", "300 [273, 330]", "424 [386, 467]", "600 [545, 660]", "2")
    assert comparison_rows(comparison)[0] == row


def test_the_terminal_says_what_was_run_and_what_came_out():
    text = format_comparison(comparison_record(0.5))
    first = "Noise scale (tokens) by LSTM size at equal train loss; batch size 1,280, learning rate 0.01, 2 seeds"
    assert text.startswith(first)
    assert text.endswith(
        "Largest over smallest at equal train loss, geometric mean: 2. Noise scale goes as (LSTM size)^0.5 [0.4, 0.6]."
    )


def test_nothing_measured_is_told():
    nothing = comparison_record() | {"typical_spread": None, "exponent": None}
    assert finding(parse_comparison(nothing)) == "No goal at which two noise scales are measured."
    for entry in nothing["spread"]:
        entry["largest_over_smallest"] = None
    assert comparison_rows(parse_comparison(nothing))[0][-1] == "-"


@pytest.mark.parametrize(
    ("spread", "ends", "verdict"),
    [
        (1.4, (0.1, 0.2), HOLDS),
        (2.9, (0.1, 0.2), HOLDS_LOOSELY),
        (3.1, (0.1, 1.2), CONTRADICTS),
        (3.1, (-1.2, -0.1), CONTRADICTS),
        (3.1, (-0.1, 1.2), NOT_SHOWN),
        (3.1, (None, None), NOT_SHOWN),
        (None, (None, None), NOT_SHOWN),
    ],
)
def test_claim_6_spread_at_equal_loss(spread, ends, verdict):
    assert model_size_verdict(spread, *ends) == verdict


def test_claim_6_is_judged_from_the_comparison(folder):
    (claim,) = (claim for claim in CLAIMS if claim.number == 6)
    summary = with_further_files(load_summary(folder), folder)
    (found,) = claim.judge([summary, load_summary(folder)])
    assert (found.task, found.scale, found.in_paper, found.finding.verdict) == ("billion_word", "mini", True, HOLDS)
    assert "LSTM size 64, 128, 256: Largest over smallest" in found.finding.measurement
    (folder / "comparison_temperature.json").write_text(json.dumps(comparison_record(comparison="temperature")))
    assert len(claim.judge([with_further_files(summary, folder)])) == 1


@pytest.mark.parametrize(
    ("value", "width", "verdict"),
    [
        (-1.24, 0.1, HOLDS),
        (-0.8, 0.5, HOLDS),
        (-0.7, 0.1, HOLDS_LOOSELY),
        (-1.5, 0.1, HOLDS_LOOSELY),
        (-0.4, 0.1, CONTRADICTS),
        (-0.4, 0.7, NOT_SHOWN),
        (1.0, 0.1, CONTRADICTS),
    ],
)
def test_claim_9_exponent_of_the_noise_scale_in_the_learning_rate(value, width, verdict):
    assert temperature_verdict(SignedEstimate(value, value - width, value + width)) == verdict
    assert temperature_verdict(SignedEstimate(value, None, None)) == temperature_verdict(None) == NOT_SHOWN


def test_claim_9_is_judged_from_its_own_comparison(folder):
    (claim,) = (claim for claim in CLAIMS if claim.number == 9)
    assert claim.judge([with_further_files(load_summary(folder), folder)]) == []
    record = comparison_record(-0.7, comparison="temperature", quantity="learning rate")
    (folder / "comparison_temperature.json").write_text(json.dumps(record))
    (found,) = claim.judge([with_further_files(load_summary(folder), folder)])
    assert found.finding.verdict == HOLDS_LOOSELY
    assert "goes as (learning rate)^-0.7 [-0.8, -0.6]" in found.finding.measurement


def test_figures_and_report_show_the_comparison(folder):
    written = write_task_report(folder)
    assert {path.name for path in written} >= {"comparison_model_size.png", "comparison_model_size.svg"}
    write_report(folder.parents[1])
    text = (folder.parents[1] / "report.md").read_text()
    assert "Noise scale (tokens) by LSTM size" in text
    assert "comparison=model_size" in text
    assert "](billion_word/mini/comparison_model_size.png)" in text


def test_losses_are_perplexities_too_and_the_law_of_the_loss_is_told(folder):
    table = format_table(language_record())
    assert "train loss 5 nats (perplexity 148)" in table
    write_report(folder.parents[1])
    text = (folder.parents[1] / "report.md").read_text()
    assert "alpha_B 0.21 [0.18, 0.26] over 3 goals" in text


def test_a_torn_comparison_is_named_with_the_remedy(folder):
    (folder / "comparison_model_size.json").write_text('{"comparison": "model_size"')
    with pytest.raises(SummaryError, match=r"comparison_model_size\.json: not complete JSON.*run its comparison again"):
        load_comparisons(folder)
    (folder / "comparison_model_size.json").write_text(json.dumps(comparison_record(batch_size=-1)))
    with pytest.raises(SummaryError, match=r"batch_size should be above 0"):
        load_comparisons(folder)
