"""The linear rule in the report: how far it holds, its table, its figure and claim 10."""

import json

import pytest
from synthetic import linear_rule_record, sweep_record, write_sweep

from reproduce.report import format_linear_rule, write_report, write_task_report
from reproduce.report.claims import CLAIMS
from reproduce.report.linear_rule import parse_linear_rule
from reproduce.report.linear_rule_tables import linear_rule_rows, shown
from reproduce.report.reading import SummaryError, load_summary, with_further_files
from reproduce.report.verdicts import CONTRADICTS, HOLDS, HOLDS_LOOSELY, NOT_SHOWN, linear_rule_verdict


@pytest.fixture
def folder(tmp_path):
    folder = write_sweep(tmp_path, sweep_record())
    (folder / "linear_rule.json").write_text(json.dumps(linear_rule_record()))
    return folder


def test_a_row_for_each_batch_size():
    rows = linear_rule_rows(parse_linear_rule(linear_rule_record()))
    assert rows[1] == ("32", "0.427", "0.16", "0.206", "802", "669", "1.2", "3 of 3")
    assert rows[-1] == ("2,048", "27.3", "10.2", "0.394", "not reached", "207", "-", "1 of 3")


@pytest.mark.parametrize(
    ("ratios", "holds_to", "fails_from"),
    [
        ((1.0, 1.2, 1.4, 1.6, None), 128, 512),
        ((1.6, 1.2, 1.4, 1.6, None), 4, 512),  # fails at once, then recovers: neither end is in the middle
        ((1.0, 1.6, 1.4, 1.5, 1.5), 8, None),
        ((None, None), 4, 8),
    ],
)
def test_how_far_it_holds_and_from_where_it_fails(ratios, holds_to, fails_from):
    rule = parse_linear_rule(linear_rule_record(ratios))
    assert (rule.holds_to, rule.fails_from) == (holds_to, fails_from)


def test_what_it_shows_is_told_in_multiples_of_b_crit():
    assert shown(parse_linear_rule(linear_rule_record())) == (
        "It takes at most 1.5 times the steps of the best rate up to 128 images (1.71 B_crit); from 512 images"
        " (6.83 B_crit) on it takes more or does not arrive. B_crit 75 [68.2, 82.5]."
    )
    assert "at the largest batch size too" in shown(parse_linear_rule(linear_rule_record((1.0, 1.1))))
    text = format_linear_rule(linear_rule_record())
    assert text.startswith(
        "Learning rates in proportion to the batch size: from 0.02 at batch size 4, goal 0.04, 3 seeds"
    )


@pytest.mark.parametrize(
    ("points", "verdict"),
    [
        ([(0.1, True), (0.25, True), (1, False), (2, False), (8, False)], HOLDS),
        ([(0.1, True), (1, True), (2, False)], HOLDS),
        ([(0.1, True), (1, True), (2, True), (8, False)], HOLDS_LOOSELY),
        ([(0.05, True), (0.2, False), (4, False)], HOLDS_LOOSELY),
        ([(0.05, False), (4, False)], CONTRADICTS),
        ([(0.1, True), (4, True)], CONTRADICTS),
        ([(0.1, True), (1, False)], NOT_SHOWN),
        ([(0.5, True), (4, False)], NOT_SHOWN),
        ([], NOT_SHOWN),
    ],
)
def test_claim_10_where_the_rule_breaks(points, verdict):
    assert linear_rule_verdict(points) == verdict


def test_claim_10_is_judged_from_its_file(folder):
    (claim,) = (claim for claim in CLAIMS if claim.number == 10)
    assert claim.judge([load_summary(folder)]) == []
    (found,) = claim.judge([with_further_files(load_summary(folder), folder)])
    assert (found.task, found.finding.verdict) == ("mnist", HOLDS)  # 8 is 0.11 B_crit, 128 is 1.7, 512 is 6.8
    (folder / "linear_rule.json").write_text(json.dumps(linear_rule_record() | {"b_crit": None, "b_crit_high": None}))
    (found,) = claim.judge([with_further_files(load_summary(folder), folder)])
    assert (found.finding.measurement, found.finding.verdict) == ("B_crit at least 68.2", NOT_SHOWN)


def test_report_and_figures_show_it_and_forget_it_with_its_file(folder):
    assert "linear_rule.svg" in {path.name for path in write_task_report(folder)}
    tips = (folder / "linear_rule.svg").read_text()
    assert "steps, scaled rate 802" in tips
    write_report(folder.parents[1])
    assert "| 32 | 0.427 | 0.16 | 0.206 | 802 | 669 | 1.2 | 3 of 3 |" in (folder.parents[1] / "report.md").read_text()
    (folder / "linear_rule.json").unlink()
    write_task_report(folder)
    assert not (folder / "linear_rule.svg").exists()


def test_a_wrong_field_is_named_with_the_remedy(folder):
    (folder / "linear_rule.json").write_text(json.dumps(linear_rule_record(base={"batch_size": 0})))
    with pytest.raises(SummaryError, match=r"linear_rule\.json: base\.batch_size .*run its linear rule again"):
        with_further_files(load_summary(folder), folder)
