"""What the figures show, read back from their axes."""

import matplotlib
import numpy as np
import pytest
from synthetic import (
    BATCH_SIZES,
    GOALS,
    bounded_line_search,
    bounded_record,
    curve_rows,
    line_search_record,
    quadratic_record,
    sweep_record,
    write_sweep,
)

from reproduce.report.curves_figure import curves_figure, load_curves
from reproduce.report.laws import fitted_learning_rate, learning_rate_rms
from reproduce.report.learning_rate_figure import learning_rate_figure
from reproduce.report.line_search_figure import SIDEWAYS, line_search_figure
from reproduce.report.noise_figure import noise_scale_figure
from reproduce.report.overview_figures import fig4_figure, fig7_figure, measured_r2, r2_sentences
from reproduce.report.reading import SummaryError, parse_line_search, parse_summary
from reproduce.report.style import figure_style, save_figure
from reproduce.report.tradeoff_figures import pareto_figure, tradeoff_figure


def drawn(ax) -> list[np.ndarray]:
    """The vertices of every line in the axes, markers included."""
    return [np.column_stack([line.get_xdata(orig=True), line.get_ydata(orig=True)]) for line in ax.get_lines()]


def has_point(ax, x: float, y: float) -> bool:
    return any(np.isclose(points, [x, y], rtol=1e-6).all(axis=1).any() for points in drawn(ax) if len(points))


def arrows(ax) -> list[tuple]:
    return [text.xy for text in ax.texts if getattr(text, "arrow_patch", None)]


def test_pareto_has_every_point_on_logarithmic_axes():
    summary = parse_summary(sweep_record())
    (ax,) = pareto_figure(summary).axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("optimiser steps", "examples (images)")
    for goal in summary.goals:
        for point in goal.points:
            assert has_point(ax, point.steps, point.steps * point.batch_size)


def test_pareto_draws_the_hyperbola_of_the_fit():
    summary = parse_summary(sweep_record(scatter=0.0))
    (ax,) = pareto_figure(summary).axes
    curves = [points for points in drawn(ax) if len(points) > 50]
    assert len(curves) == len(GOALS)
    for curve, goal in zip(curves, summary.goals):
        product = (curve[:, 0] / goal.s_min - 1) * (curve[:, 1] / goal.e_min - 1)
        np.testing.assert_allclose(product, 1, rtol=1e-9)  # equation 2.11


def test_pareto_asymptotes_are_s_min_and_e_min():
    summary = parse_summary(sweep_record())
    (ax,) = pareto_figure(summary).axes
    for goal in summary.goals:
        assert has_point(ax, goal.s_min, goal.e_min)  # where the two meet


def test_batch_sizes_are_labelled_at_the_hardest_goal():
    (ax,) = pareto_figure(parse_summary(sweep_record())).axes
    assert [text.get_text() for text in ax.texts] == ["B = 1", *(str(size) for size in BATCH_SIZES[1:])]


def test_censored_points_are_arrows_and_unidentified_goals_have_no_curve():
    (ax,) = pareto_figure(parse_summary(bounded_record())).axes
    assert len([points for points in drawn(ax) if len(points) > 50]) == 4
    tips = arrows(ax)
    assert len(tips) == 2
    for (x, y), batch_size in zip(tips, (1, 2)):
        assert x > 20_000
        assert y == pytest.approx(x * batch_size)  # along the ray of its batch size


def test_a_seed_that_did_not_arrive_is_an_arrow_too():
    record = sweep_record()
    record["goals"][0]["points"][0]["steps_high"] = None
    (ax,) = pareto_figure(parse_summary(record)).axes
    assert len(arrows(ax)) == 1


def test_tradeoff_shows_steps_left_and_examples_right():
    summary = parse_summary(sweep_record())
    left, right = tradeoff_figure(summary).axes
    point = summary.goals[2].points[4]
    assert has_point(left, point.batch_size, point.steps)
    assert has_point(right, point.batch_size, point.examples)
    goal = summary.goals[-1]
    assert has_point(left, goal.b_crit.value, 2 * goal.s_min)
    assert has_point(right, goal.b_crit.value, 2 * goal.e_min)


def test_noise_scale_runs_with_training():
    (ax,) = noise_scale_figure(parse_summary(sweep_record())).axes
    assert ax.xaxis_inverted()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    rising = sweep_record(higher_is_better=True)
    rising["goals"].reverse()  # scores that rise
    (growing,) = noise_scale_figure(parse_summary(rising)).axes
    assert not growing.xaxis_inverted()


def test_noise_scale_limits_hold_every_interval():
    summary = parse_summary(quadratic_record())
    (ax,) = noise_scale_figure(summary).axes
    low, high = ax.get_ylim()
    assert low < min(goal.b_noise.low for goal in summary.goals)
    assert high > max(goal.b_simple.high for goal in summary.goals)


def test_exact_values_are_lines_of_their_own():
    summary = parse_summary(quadratic_record())
    (ax,) = noise_scale_figure(summary).axes
    labels = {line.get_label(): line for line in ax.get_lines()}
    np.testing.assert_allclose(labels["$B_{crit}$, exact"].get_ydata(), [goal.exact.b_crit for goal in summary.goals])
    assert not any("exact" in str(line.get_label()) for line in _noise_lines(sweep_record()))


def test_what_was_not_measured_has_no_legend():
    labels = {str(line.get_label()) for line in _noise_lines(sweep_record())}
    assert "$B_{simple}$" in labels
    assert "$B_{noise}$" not in labels


def _noise_lines(record: dict) -> list:
    (ax,) = noise_scale_figure(parse_summary(record)).axes
    return ax.get_lines()


def test_bounds_point_where_the_number_may_be():
    (ax,) = noise_scale_figure(parse_summary(bounded_record())).axes
    tips = sorted(y for _, y in arrows(ax))
    assert tips[0] < 12  # B_crit of the first goal: at most 12
    assert tips[1] > 250  # B_simple of the first goal: at least 250
    assert tips[2] > 300  # B_crit of the last goal: at least 300


def test_learning_rates_with_their_fit():
    summary = parse_summary(sweep_record())
    (ax,) = learning_rate_figure(summary).axes
    fit = drawn(ax)[-1]
    np.testing.assert_allclose(fit[:, 1], 0.4 / (1 + 30 / fit[:, 0]))
    assert learning_rate_rms(summary.learning_rate_fit, summary.goals[-1]) == pytest.approx(0, abs=1e-12)


def test_rms_of_learning_rates_a_factor_off():
    summary = parse_summary(sweep_record(learning_rate_fit={"eps": 0.8, "knee": 30.0, "alpha": 1.0}))
    assert learning_rate_rms(summary.learning_rate_fit, summary.goals[-1]) == pytest.approx(np.log(2))
    assert fitted_learning_rate(summary.learning_rate_fit, 30.0) == pytest.approx(0.4)


def test_no_rms_below_four_batch_sizes():
    summary = parse_summary(sweep_record(batch_sizes=(1, 8, 64)))
    assert learning_rate_rms(summary.learning_rate_fit, summary.goals[-1]) is None


def test_one_curve_for_each_batch_size_at_its_best_rate(tmp_path):
    record = sweep_record()
    folder = write_sweep(tmp_path, record)
    with (folder / "curves.csv").open("a") as file:
        file.write("1,99.0,0,5,5,0.9,0.9,0.9,,\n")  # another rate, not the best
    summary = parse_summary(record)
    curves = load_curves(folder, summary)
    assert [curve.batch_size for curve in curves] == list(BATCH_SIZES)
    assert 99.0 not in {curve.learning_rate for curve in curves}
    left, right = curves_figure(summary, curves).axes
    expected = [row for row in curve_rows(record) if row["batch_size"] == 8]
    assert has_point(left, expected[7]["step"], expected[7]["score"])
    assert has_point(right, expected[7]["examples"], expected[7]["score"])


def test_seeds_are_averaged_where_all_of_them_were_evaluated(tmp_path):
    folder = write_sweep(tmp_path, sweep_record(), curves=False)
    rows = ["0,0,0.9", "10,80,0.4", "20,160,0.2"], ["0,0,0.9", "10,80,0.6"]
    text = "batch_size,learning_rate,seed,step,examples,smoothed_score,score\n"
    text += "".join(f"8,0.1,{seed},{row},\n" for seed, part in enumerate(rows) for row in part)
    (folder / "curves.csv").write_text(text)
    (curve,) = load_curves(folder, parse_summary(sweep_record()))
    assert (curve.seeds, curve.steps, curve.examples) == (2, (10.0,), (80.0,))
    assert curve.scores == pytest.approx((0.5,))


def test_rows_without_a_score_are_passed_over(tmp_path):
    folder = write_sweep(tmp_path, sweep_record(), curves=False)
    header = "batch_size,learning_rate,seed,step,examples,score,smoothed_score\n"
    (folder / "curves.csv").write_text(header + "8,0.1,0,10,80,,\n8,0.1,0,20,160,0.3,\n")
    (curve,) = load_curves(folder, parse_summary(sweep_record()))
    assert curve.scores == (0.3,)


@pytest.mark.parametrize("row", ["8,0.1,0,ten,80,0.5,", "8,0.1,0,10,80,nan,", "8,0.1"])
def test_a_torn_curves_file_is_named(tmp_path, row):
    folder = write_sweep(tmp_path, sweep_record(), curves=False)
    header = "batch_size,learning_rate,seed,step,examples,score,smoothed_score\n"
    (folder / "curves.csv").write_text(header + row + "\n")
    with pytest.raises(SummaryError, match=r"curves\.csv: a row cannot be read"):
        load_curves(folder, parse_summary(sweep_record()))


def test_fig4_has_ours_and_the_published_points():
    (ax,) = fig4_figure([parse_summary(sweep_record())]).axes
    assert has_point(ax, 75, 310)
    assert has_point(ax, 20, 50)
    assert has_point(ax, 200, 900)  # published
    assert has_point(ax, 3e6, 3e5)  # Dota 1v1, without a sweep of ours
    names = {text.get_text() for text in ax.texts}
    assert "Dota 1v1" in names
    assert "MNIST" not in names  # it has a sweep, and its colour in the legend


def test_fig4_keeps_scales_apart():
    summaries = [parse_summary(sweep_record(task, b_simple_run=400)) for task in ("mnist", "svhn")]
    summaries += [parse_summary(sweep_record("cifar10", "paper")), parse_summary(sweep_record("my_task"))]
    assert measured_r2(summaries, "mini") == (None, 2)
    assert measured_r2(summaries, "paper") == (None, 1)
    assert r2_sentences(summaries)[0] == "mini scale: r² of the logs not shown (2 tasks of the paper)"


def test_fig4_r2_over_three_tasks():
    tasks = (("mnist", 10, 20), ("svhn", 100, 200), ("cifar10", 1_000, 2_000))
    summaries = [parse_summary(sweep_record(task, b_crit=(5, x), b_simple_run=y)) for task, x, y in tasks]
    r2, n = measured_r2(summaries, "mini")
    assert (r2, n) == (pytest.approx(1), 3)
    assert "published: r² 0.80" in r2_sentences(summaries)[-1]


def test_fig4_without_a_single_run_value():
    record = sweep_record() | {"b_simple": {}, "b_crit": None}
    (ax,) = fig4_figure([parse_summary(record)]).axes
    assert "MNIST, mini (not both measured)" in {text.get_text() for text in ax.get_legend().get_texts()}


def test_fig7_is_the_two_panels_side_by_side():
    left, right = fig7_figure(parse_summary(sweep_record())).axes
    assert left.get_xlabel() == "optimiser steps"
    assert right.xaxis_inverted()


def fig5(search: dict, **changes: object):
    """The axes of Fig. 5, left and right."""
    return line_search_figure(parse_summary(sweep_record(**changes)), parse_line_search(search)).axes


def test_fig5_has_learning_rates_left():
    left, _ = fig5(line_search_record())
    summary = parse_summary(sweep_record())
    (alone,) = learning_rate_figure(summary).axes
    assert [line.tolist() for line in drawn(left)] == [line.tolist() for line in drawn(alone)]


def test_fig5_draws_drops_relative_to_their_limit_on_the_law():
    _, right = fig5(line_search_record((20, 110)))
    assert (right.get_xscale(), right.get_yscale()) == ("log", "log")
    for shift, b_noise in ((SIDEWAYS**-0.5, 20), (SIDEWAYS**0.5, 110)):
        for size in BATCH_SIZES:
            assert has_point(right, size * shift, 1 / (1 + b_noise / size))
        assert has_point(right, 1.2 * b_noise, 0.5)  # that of the Hessian
    laws = [points for points in drawn(right) if len(points) > 50]
    for law, b_noise in zip(laws, (20, 110), strict=True):
        np.testing.assert_allclose(law[:, 1], 1 / (1 + b_noise / law[:, 0]))
    labels = [text.get_text() for text in right.get_legend().get_texts()]
    assert labels[0] == "train error 0.5: $B_{noise}$ 20"
    for collection, b_noise in zip(right.collections, (20, 110), strict=True):
        for segment, size in zip(collection.get_segments(), BATCH_SIZES, strict=True):
            law = 1 / (1 + b_noise / size)
            np.testing.assert_allclose(segment[:, 1], [law / 1.2, law * 1.2])
    low, high = right.get_ylim()
    assert low < 1 / (1 + 110) / 1.2  # intervals are inside
    assert high > 1.2 / (1 + 20 / BATCH_SIZES[-1])


def test_fig5_colours_tell_points_apart():
    _, right = fig5(line_search_record((20, 60, 110)))
    laws = [line.get_color() for line in right.get_lines() if len(line.get_xdata()) > 50]
    assert len(set(laws)) == 3


def test_fig5_shows_what_is_censored_and_what_was_not_fitted():
    _, right = fig5(bounded_line_search())
    ((x, y),) = arrows(right)
    assert x == pytest.approx(BATCH_SIZES[0] * SIDEWAYS**-0.5)
    assert y < 0.004 / 0.2
    assert len([points for points in drawn(right) if len(points) > 50]) == 1
    assert "train error 0.2: law not fitted" in {text.get_text() for text in right.get_legend().get_texts()}


def test_fig5_can_be_drawn_with_nothing_in_it(tmp_path):
    nothing = line_search_record(())
    save_figure(line_search_figure(parse_summary(sweep_record()), parse_line_search(nothing)), tmp_path / "empty")
    unfitted = bounded_line_search()
    del unfitted["points"][0]
    save_figure(line_search_figure(parse_summary(bounded_record()), parse_line_search(unfitted)), tmp_path / "none")


@pytest.mark.parametrize(
    "figure", [pareto_figure, tradeoff_figure, noise_scale_figure, learning_rate_figure, fig7_figure]
)
def test_headings_name_task_scale_and_data(figure):
    heading = figure(parse_summary(sweep_record())).get_suptitle()
    assert "MNIST, mini scale" in heading
    assert "5,000 MNIST digits, moved and turned (embedded data)" in heading


@pytest.mark.parametrize(
    "figure", [pareto_figure, tradeoff_figure, noise_scale_figure, learning_rate_figure, fig7_figure]
)
def test_a_sweep_in_which_nothing_was_reached_can_be_drawn(tmp_path, figure):
    record = bounded_record()
    for goal in record["goals"]:
        goal |= dict.fromkeys(("b_crit", "b_crit_low", "b_crit_high", "b_simple", "b_simple_low", "b_simple_high"))
        goal |= {"identified": False, "s_min": None, "e_min": None, "points": []}
    save_figure(figure(parse_summary(record)), tmp_path / "figure")


def test_the_style_does_not_leak():
    before = dict(matplotlib.rcParams)
    with figure_style():
        assert matplotlib.rcParams["axes.grid"] is True
    assert dict(matplotlib.rcParams) == before
