"""What figures say about their marks: the numbers, and that they stand where the marks are."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from synthetic import (
    BATCH_SIZES,
    GOALS,
    bounded_line_search,
    bounded_record,
    comparison_record,
    language_record,
    line_search_record,
    sweep_record,
)

from reproduce.report.comparison_figure import comparison_figure
from reproduce.report.learning_rate_figure import learning_rate_figure
from reproduce.report.line_search_figure import line_search_figure
from reproduce.report.noise_figure import noise_scale_figure
from reproduce.report.overview_figures import fig4_figure, fig7_figure
from reproduce.report.reading import parse_comparison, parse_line_search, parse_summary
from reproduce.report.style import save_figure
from reproduce.report.tips import Tip, with_tips
from reproduce.report.tradeoff_figures import pareto_figure, tradeoff_figure

SVG = "{http://www.w3.org/2000/svg}"


def tips(figure: Figure) -> list[str]:
    return [tip.text for tip in figure.findobj(Tip)]


def saved(figure: Figure, folder: Path) -> ElementTree.Element:
    _, svg = save_figure(figure, folder / "figure")
    return ElementTree.parse(svg).getroot()


def circles(svg: ElementTree.Element) -> np.ndarray:
    """Where the tips are, in the SVG's units."""
    return np.array([[float(it.get("cx")), float(it.get("cy"))] for it in svg.iter(f"{SVG}circle")])


def marks(svg: ElementTree.Element) -> np.ndarray:
    """Where Matplotlib put its marks, ticks among them."""
    return np.array([[float(it.get("x")), float(it.get("y"))] for it in svg.iter(f"{SVG}use") if it.get("y")])


@pytest.mark.parametrize(
    ("figure", "quantity"),
    [
        (pareto_figure, len(GOALS) * len(BATCH_SIZES)),
        (tradeoff_figure, 2 * len(GOALS) * (len(BATCH_SIZES) + 1)),  # with B_crit on each curve
        (learning_rate_figure, len(GOALS) * len(BATCH_SIZES)),
        (noise_scale_figure, 2 * len(GOALS)),  # no B_noise in this record
        (fig7_figure, len(GOALS) * (len(BATCH_SIZES) + 2)),
    ],
)
def test_every_tip_is_at_a_mark(tmp_path, figure, quantity):
    svg = saved(figure(parse_summary(sweep_record())), tmp_path)
    places = circles(svg)
    assert len(places) == quantity
    assert len(np.unique(places, axis=0)) == quantity
    distances = np.linalg.norm(places[:, None] - marks(svg)[None], axis=2)
    np.testing.assert_allclose(distances.min(axis=1), 0, atol=0.02)  # points


def test_a_point_says_all_that_is_known_of_it():
    record = sweep_record()
    entry = record["goals"][3]["points"][6]
    entry |= {"steps": 123.4, "steps_low": 110.0, "steps_high": 140.0, "examples": 7898.0, "learning_rate": 0.13}
    text = "train error 0.1\nbatch size 64\n123 [110, 140] steps\n7,900 images\nlearning rate 0.13\n3 seeds"
    for figure in (fig7_figure, tradeoff_figure, learning_rate_figure):
        assert text in tips(figure(parse_summary(record)))


def test_a_point_that_was_not_reached_says_so():
    found = tips(pareto_figure(parse_summary(bounded_record())))
    assert "train error 0.04\nbatch size 2\nnot reached in 20,000 steps\nlearning rate 0.025\n3 seeds" in found


def test_noise_scales_and_bounds_of_a_goal():
    found = tips(noise_scale_figure(parse_summary(bounded_record())))
    assert "B_crit at most 12 images\ntrain error 0.5" in found
    assert "B_simple at least 250 images\ntrain error 0.5" in found
    assert "B_simple 3,000 [2,610, 3,450] images\ntrain error 0.04" in found


def test_fig4_says_both_values_of_every_task():
    found = tips(fig4_figure([parse_summary(sweep_record()), parse_summary(bounded_record())]))
    assert "MNIST, mini scale, the run\nB_crit 75 [68.2, 82.5] images\nB_simple 310 [282, 341] images" in found
    assert "MNIST, mini scale, at the first goal\nB_crit 20 [18.2, 22] images\nB_simple 50 [45.5, 55] images" in found
    assert "SVHN, mini scale, the run\nB_crit at least 300 images\nB_simple 1,500 [1,360, 1,650] images" in found
    assert "MNIST, published\nB_crit 200\nB_simple 900" in found
    assert "Atari, published\nB_crit 400 to 8,000\nB_simple 1,000 to 20,000" in found


def test_line_search_and_comparison():
    summary = parse_summary(sweep_record())
    found = tips(line_search_figure(summary, parse_line_search(line_search_record((20, 110)))))
    drop = "train error 0.5, step 30\nbatch size 1\nloss drop 0.00952 [0.00794, 0.0114]\nfitted limit 0.2 [0.182, 0.22]"
    assert f"{drop}\nbest learning rate 0.0143 [0.013, 0.0157]" in found
    assert "B_noise from the Hessian 132 [102, 172] images\ntrain error 0.2, step 60" in found
    bounded = tips(line_search_figure(summary, parse_line_search(bounded_line_search())))
    assert any("\nloss drop at most 0.004\n" in text for text in bounded)
    found = tips(comparison_figure(parse_summary(language_record()), parse_comparison(comparison_record())))
    assert "LSTM size 128\nB_simple 4,000 [3,640, 4,400] tokens\ntrain loss 5" in found
    assert len(found) == 9


def test_texts_are_escaped_and_a_figure_without_tips_is_left_alone(tmp_path):
    svg = saved(pareto_figure(parse_summary(sweep_record(score="error <&> more"))), tmp_path)
    titles = [title.text for title in svg.iter(f"{SVG}title")]
    assert titles[0].startswith("error <&> more 0.5\n")
    assert with_tips(Figure(), "<svg></svg>") == "<svg></svg>"
