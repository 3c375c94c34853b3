"""Adaptive batch sizes in the report: the table, what gamma says, the figure."""

import json

import pytest
from synthetic import adaptive_batch_record, sweep_record, write_sweep

from reproduce.report import format_adaptive_batch, write_report, write_task_report
from reproduce.report.adaptive_batch import parse_adaptive_batch
from reproduce.report.adaptive_batch_tables import adaptive_batch_rows, gained
from reproduce.report.reading import SummaryError, load_summary, with_further_files


@pytest.fixture
def folder(tmp_path):
    folder = write_sweep(tmp_path, sweep_record())
    (folder / "adaptive_batch.json").write_text(json.dumps(adaptive_batch_record()))
    return folder


def test_a_row_for_each_batch_size_and_each_r():
    rows = adaptive_batch_rows(parse_adaptive_batch(adaptive_batch_record()))
    assert rows[2] == ("80", "200", "16,000", "1", "12 of 12")
    assert rows[6] == ("adaptive, r = 80, 10 to 240", "200", "15,200", "0.9", "12 of 12")


@pytest.mark.parametrize(
    ("gamma", "said"),
    [
        (
            0.9,
            "gamma 0.9 [0.857, 0.945], where constant batch sizes have 1 by their law, and 1 to 1 each; the sweep's "
            "noise scales predict 0.96. It gains.",
        ),
        (0.97, "A gain is not shown."),
        (1.2, "It loses."),
        (None, "gamma is not measured"),
    ],
)
def test_what_gamma_says(gamma, said):
    assert said in gained(parse_adaptive_batch(adaptive_batch_record(gamma)))
    assert said in format_adaptive_batch(adaptive_batch_record(gamma))


def test_a_gain_that_single_constant_batch_sizes_have_as_well_is_not_shown():
    record = adaptive_batch_record(0.9)
    record["constant"][1]["gamma"] = 0.85
    said = gained(parse_adaptive_batch(record))
    assert "0.85 to 1 each" in said
    assert said.endswith("A gain is not shown.")


def test_report_and_figure_show_it_and_forget_it_with_its_file(folder):
    assert "adaptive_batch.svg" in {path.name for path in write_task_report(folder)}
    assert "adaptive, r = 80, 10 to 240" in (folder / "adaptive_batch.svg").read_text()
    write_report(folder.parents[1])
    text = (folder.parents[1] / "report.md").read_text()
    assert "| adaptive, r = 80, 10 to 240 | 200 | 15,200 | 0.9 | 12 of 12 |" in text
    assert "mnist/mini/adaptive_batch.json" in text
    (folder / "adaptive_batch.json").unlink()
    write_task_report(folder)
    assert not (folder / "adaptive_batch.svg").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": None}, r"learning_rate is missing"),
        ({"adaptive": [{"r": 20, "seeds": 1, "seeds_reached": 1, "schedule": [[1, 2, 3]]}]}, r"schedule.*pairs"),
        ({"gamma": -1}, r"gamma should be above 0"),
    ],
)
def test_a_wrong_field_is_named_with_the_remedy(folder, changes, message):
    (folder / "adaptive_batch.json").write_text(json.dumps(adaptive_batch_record(**changes)))
    with pytest.raises(SummaryError, match=rf"adaptive_batch\.json: .*{message}.*to rewrite it"):
        with_further_files(load_summary(folder), folder)
