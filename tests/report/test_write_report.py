"""A results folder becomes figures and reports: numbers, order, robustness, and the same bytes twice."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest
from synthetic import (
    atari_record,
    bounded_record,
    line_search_record,
    quadratic_record,
    sweep_record,
    write_line_search,
    write_sweep,
)

from reproduce.report import write_report, write_task_report
from reproduce.report.__main__ import main
from reproduce.report.reading import SummaryError, parse_summary
from reproduce.report.style import save_figure
from reproduce.report.tradeoff_figures import pareto_figure

FIGURES = ("fig7", "pareto", "tradeoff", "noise_scale", "learning_rate", "curves")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Five sweeps of all kinds and their report; tests only read it."""
    folder = tmp_path_factory.mktemp("five") / "results"
    paper = sweep_record(scale="paper", b_crit=(22, 230), b_simple_run=880, data={"name": "MNIST", "embedded": False})
    own = sweep_record("my_task", model="a <b>bold</b> model")
    for record in (
        own,
        quadratic_record(),
        bounded_record(),
        atari_record("pong", 3_000, 9_000),
        paper,
        sweep_record(),
    ):
        write_sweep(folder, record)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def markdown(results: Path) -> str:
    return (results / "report.md").read_text()


def test_every_figure_is_there_as_png_and_svg(results):
    for folder in (results / "mnist" / "mini", results / "svhn" / "mini", results / "noisy_quadratic" / "mini"):
        for name in FIGURES:
            assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            assert (folder / f"{name}.png").stat().st_size > 20_000
            assert (folder / f"{name}.svg").stat().st_size > 20_000
    assert (results / "fig4.png").exists()
    assert (results / "fig4.svg").exists()


def test_table_1_has_measured_beside_published_with_ratios(markdown):
    task = "[mnist](#mnist-mnist-mini-scale)"
    row = f"| {task} | mini † | image | 20 [18.2, 22] | 20 | 1 | +0.00 | 75 [68.2, 82.5] | 200 | 0.375 | -0.43 |"
    assert row in markdown
    assert "| 310 [282, 341] | 900 | 0.344 | -0.46 |" in markdown


def test_scales_have_rows_of_their_own(markdown):
    task = "[mnist](#mnist-mnist-paper-scale)"
    row = f"| {task} | paper | image | 22 [20, 24.2] | 20 | 1.1 | +0.04 | 230 [209, 253] | 200 | 1.15 | +0.06 |"
    assert row in markdown
    # no mark: nothing published stands beside it
    assert "| [my_task](#my-task-my_task-mini-scale) | mini | image |" in markdown


def test_ranges_and_bounds_in_table_1(markdown):
    assert (
        "| at most 12 | 50 | at most 0.24 | at most -0.62 | at least 300 | 500 | at least 0.6 | at least -0.22 |"
        in (markdown)
    )
    assert "| 3,000 [2,730, 3,300] | 400 to 8,000 | inside the range | - |" in markdown


def test_tasks_stand_in_the_order_of_the_paper(markdown):
    sections = re.findall(r"^## (.*) scale$", markdown, flags=re.MULTILINE)
    assert sections == [
        "MNIST (mnist), mini",
        "MNIST (mnist), paper",
        "SVHN (svhn), mini",
        "Atari pong (atari_pong), mini",
        "My task (my_task), mini",
        "Noisy quadratic (noisy_quadratic), mini",
    ]


def test_every_link_leads_somewhere(results, markdown):
    page = (results / "report.html").read_text()
    anchors = re.findall(r'<h\d id="([^"]+)"', page)
    assert len(set(anchors)) == len(anchors) == 1 + 3 + 6
    for targets in (re.findall(r'<a href="([^"]+)"', page), re.findall(r"(?<!!)\[[^\]]+\]\(([^)]+)\)", markdown)):
        inside = [target.removeprefix("#") for target in targets if target.startswith("#")]
        assert set(inside) == set(anchors[1:])  # all but the title
        files = [target for target in targets if not target.startswith("#")]
        assert files.count("mnist/mini/summary.json") == 1
        assert len(files) == 6
        assert all((results / file).exists() for file in files)


def test_data_model_cost_and_origin_are_stated(markdown):
    data = "5,000 MNIST digits, moved and turned (embedded data)"
    assert f"| [mnist](#mnist-mnist-mini-scale) | mini | {data} | SmallConvNet, 26,794 weights | SGD |" in markdown
    assert "90 runs (3 seeds, 31 given up, 4 diverged)" in markdown
    assert "(the plain grid: at least 10,000,000), 21 min of run time on 2 cores" in markdown
    assert "commit 0123abc, numpy 2.3.5, torch 2.9.0" in markdown
    assert "python -m reproduce -m task=mnist/mini sweep=full" in markdown


def test_contradictions_of_the_source_are_told(markdown):
    assert "10 (start) and 40 (average)" in markdown
    assert '"end of the run"' in markdown


def test_claims_have_verdicts_and_those_without_a_measurement_are_not_shown(markdown):
    task = "[mnist](#mnist-mnist-mini-scale)"
    assert f"| 4 | {task} | mini | B_simple / B_crit = 4.13 (log10 +0.62) | holds |" in markdown
    assert "| 9 | The noise scale goes as 1 / temperature. | not shown |" in markdown
    assert "Claim 9: Runs of one batch size at the best learning rate" in markdown


def test_exact_values_are_in_the_report(markdown):
    assert "| loss 0.3 | 29.4 | +2.0 % |" in markdown


def test_nothing_reads_as_a_programs_leftover(markdown):
    for word in ("nan", "None", "inf ", "Estimate("):
        assert not re.search(rf"(?<![a-z]){re.escape(word)}(?![a-z])", markdown)


def test_markdown_and_html_have_the_same_cells(results, markdown):
    page = (results / "report.html").read_text()
    body = page[page.index("<main>") : page.index("</main>")]
    cells = len(re.findall(r"<t[dh]\b", body))
    rows = [line for line in markdown.splitlines() if line.startswith("| ") and "| ---" not in line]
    assert cells == sum(line.replace("\\|", "").count("|") - 1 for line in rows)
    assert body.count("<svg") == 1 + 4 * 6


def test_html_escapes_a_users_text(results):
    page = (results / "report.html").read_text()
    assert "a &lt;b&gt;bold&lt;/b&gt; model" in page
    assert "<b>bold" not in page


def test_the_same_inputs_give_the_same_bytes(tmp_path):
    for name in ("first", "second"):
        write_sweep(tmp_path / name, bounded_record())
        write_report(tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*.*"))
    assert len(files) == 18
    for file in files:
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes(), file


def test_a_users_matplotlibrc_changes_nothing(tmp_path):
    summary = parse_summary(sweep_record(batch_sizes=(1, 8, 64)))
    _, before = save_figure(pareto_figure(summary), tmp_path / "before")
    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 5, "axes.facecolor": "black"}):
        _, after = save_figure(pareto_figure(summary), tmp_path / "after")
    assert after.read_bytes() == before.read_bytes()


def test_one_task_returns_what_it_wrote(tmp_path):
    folder = write_sweep(tmp_path, sweep_record())
    paths = write_task_report(folder)
    assert {path.name for path in paths} == {f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")}
    assert all(path.parent == folder and path.exists() for path in paths)


def test_curves_of_an_earlier_sweep_do_not_stay(tmp_path):
    folder = write_sweep(tmp_path, sweep_record(batch_sizes=(1, 8, 64)), curves=False)
    (folder / "curves.png").write_bytes(b"of an earlier sweep")
    write_task_report(folder)
    assert not (folder / "curves.png").exists()


def test_a_line_search_has_its_figure_and_tables(tmp_path):
    results = tmp_path / "results"
    folder = write_sweep(results, sweep_record(batch_sizes=(1, 8, 64)), curves=False)
    write_line_search(folder, line_search_record())
    assert {folder / "fig5.png", folder / "fig5.svg"} <= set(write_task_report(folder))
    write_report(results)
    text, page = (results / "report.md").read_text(), (results / "report.html").read_text()
    assert "(mnist/mini/fig5.png)" in text
    assert "batch size 64, learning rate 0.13, seed 0 (from the sweep's summary), commit 4567def" in text
    assert "python -m reproduce.line_search task=mnist/mini" in text
    assert "| 0.2 | 60 | 110 [95.7, 126] | 110 [95.7, 126] | 132 [102, 172] | 0.833 | 330 [300, 363] |" in text
    assert (
        "| 1 | The best step's improvement and its learning rate follow 1 / (1 + B_noise / B). | mini: holds 1 |"
        in text
    )
    assert page.count("<svg") == 1 + 4
    (folder / "line_search.json").unlink()
    write_report(results)
    assert not (folder / "fig5.png").exists()
    assert "fig5" not in (results / "report.md").read_text()


def test_a_bad_line_search_leaves_the_rest_of_the_task(tmp_path, capsys):
    folder = write_sweep(tmp_path, sweep_record(), curves=False)
    (folder / "line_search.json").write_text('{"run": 3}')
    (folder / "fig5.png").write_bytes(b"of an earlier search")
    write_report(tmp_path)
    assert "warning: mnist/mini/line_search.json: run should be an object" in capsys.readouterr().err
    assert "75 [68.2, 82.5]" in (tmp_path / "report.md").read_text()
    assert not (folder / "fig5.png").exists()
    with pytest.raises(SummaryError, match=r"line_search\.json"):
        write_task_report(folder)


def test_claims_over_several_sweeps_are_in_the_report(tmp_path):
    for record in (
        sweep_record("svhn", b_crit=(50, 400), b_simple_run=3_000),
        sweep_record("svhn_vae", b_crit=(5, 40), b_simple_run=30),
    ):
        write_sweep(tmp_path, record, curves=False)
    write_report(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert (
        "| 8 | svhn_vae / svhn | mini | B_crit 40 [36.4, 44] against 400 [364, 440]: ratio 0.1 [0.0826, 0.121] |"
        in text
    )
    assert "on the same data. | mini: holds 2, not shown 2 |" in text


def test_a_bad_summary_is_left_out_with_a_warning(tmp_path, capsys):
    results = tmp_path / "results"
    write_sweep(results, sweep_record())
    bad = write_sweep(results, sweep_record("svhn"))
    (bad / "summary.json").write_text('{"task": "svhn", ')
    assert main(["--results", str(results)]) == 0
    assert "warning: svhn/mini/summary.json: not complete JSON" in capsys.readouterr().err
    text = (results / "report.md").read_text()
    assert "## Left out" in text
    assert "svhn/mini/summary.json" in text
    assert str(tmp_path) not in text


def test_bad_curves_leave_the_rest_of_the_task(tmp_path, capsys):
    folder = write_sweep(tmp_path, sweep_record())
    (folder / "curves.csv").write_text("batch_size,learning_rate\n1,x\n")
    write_report(tmp_path)
    assert "warning: mnist/mini/curves.csv" in capsys.readouterr().err
    text = (tmp_path / "report.md").read_text()
    assert "Training at constant batch size (Fig. 6): not shown" in text
    assert "75 [68.2, 82.5]" in text


@pytest.mark.parametrize("kind", ["missing", "empty", "all torn"])
def test_nothing_to_report_is_an_error_of_one_line(tmp_path, capsys, kind):
    results = tmp_path / "results"
    if kind != "missing":
        results.mkdir()
    if kind == "all torn":
        (write_sweep(results, sweep_record()) / "summary.json").write_text("{")
    assert main(["--results", str(results)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert ("run its sweep again" if kind == "all torn" else "make reproduce-mnist") in error
    assert not (results / "report.md").exists()


def test_a_single_task_raises_for_its_caller(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_task_report(tmp_path)
    folder = write_sweep(tmp_path, sweep_record())
    (folder / "summary.json").write_text("[]")
    with pytest.raises(SummaryError, match=r"summary\.json"):
        write_task_report(folder)


def test_another_folder_is_shown_beside(tmp_path):
    ours, theirs = tmp_path / "results", tmp_path / "mine"
    write_sweep(ours, sweep_record(), curves=False)
    write_sweep(theirs, sweep_record(b_crit=(20, 150)), curves=False)
    write_sweep(theirs, sweep_record("svhn"), curves=False)
    write_report(ours, compare=theirs)
    text = (ours / "report.md").read_text()
    assert "## Beside mine" in text
    assert "| mnist | mini | B_crit | 75 [68.2, 82.5] | 150 [136, 165] | 2 | +0.30 | apart |" in text
    assert "| mnist | mini | B_simple | 310 [282, 341] | 310 [282, 341] | 1 | +0.00 | overlap |" in text
    assert "| svhn | mini | B_crit | not measured | 75 [68.2, 82.5] | - | - | - |" in text
    assert sorted(path.name for path in (theirs / "mnist" / "mini").iterdir()) == ["summary.json"]


def test_a_missing_folder_to_compare_with_is_an_error(tmp_path, capsys):
    write_sweep(tmp_path, sweep_record(), curves=False)
    assert main(["--results", str(tmp_path), "--compare", str(tmp_path / "none")]) == 1
    assert "none: no such folder" in capsys.readouterr().err


def test_the_command_starts_without_torch():
    code = "import sys, reproduce.report.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_report_survives_being_moved(results, tmp_path, markdown):
    copy = tmp_path / "elsewhere"
    shutil.copytree(results, copy)
    for image in re.findall(r"\]\((.*?\.png)\)", markdown):
        assert (copy / image).exists()
