"""The line search's tables, in the report and in a terminal."""

from synthetic import BATCH_SIZES, bounded_line_search, line_search_record

from reproduce.report import format_line_search
from reproduce.report.line_search_tables import BEST_STEPS_HEADER, SEARCH_HEADER, best_step_rows, reasons, search_rows
from reproduce.report.reading import parse_line_search


def test_a_row_for_each_point_of_training():
    rows = search_rows(parse_line_search(line_search_record()))
    assert dict(zip(SEARCH_HEADER, rows[1])) == {
        "point": "0.2",
        "step": "60",
        "B_noise from drops": "110 [95.7, 126]",
        "B_noise from rates": "110 [95.7, 126]",
        "B_noise from Hessian": "132 [102, 172]",
        "drops / Hessian": "0.833",
        "B_simple": "330 [300, 363]",
        "rms, drops (noise)": "0.05 (0.1)",
        "rms, rates (noise)": "0.05 (0.1)",
        "eps_max": "0.3 [0.273, 0.33]",
        "eps_max from Hessian": "0.28",
    }


def test_every_batch_size_beside_the_law():
    rows = best_step_rows(parse_line_search(line_search_record()))
    assert len(rows) == 2 * len(BATCH_SIZES)
    assert dict(zip(BEST_STEPS_HEADER, rows[0])) == {
        "point": "0.5",
        "batch size": "1",
        "batches": "96",
        "loss drop": "0.00952 [0.00794, 0.0114]",
        "drop / law": "1",
        "best learning rate": "0.0143 [0.013, 0.0157]",
        "rate / law": "1",
    }


def test_bounds_and_what_is_missing_are_told():
    search = parse_line_search(bounded_line_search())
    assert best_step_rows(search)[0][3:] == ("at most 0.004", "-", "-", "-")
    assert search_rows(search)[1][2:6] == ("at least 300", "110 [95.7, 126]", "at least 200", "-")
    assert reasons(search) == [
        "0.2: no B_noise from drops: all batch sizes lie below B_noise",
        "0.5: no drop that can be told from 0 at batch size 1",
        "the run ended before it reached 0.04",
    ]


def test_the_terminal_has_the_run_and_the_table():
    text = format_line_search(bounded_line_search())
    assert text.startswith("run: batch size 64, learning rate 0.13, seed 0 (from the sweep's summary)\n")
    assert "110 [95.7, 126]" in text
    assert text.endswith("the run ended before it reached 0.04")
