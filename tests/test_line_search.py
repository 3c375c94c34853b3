"""The line search's command: where its run comes from, what it writes, and that it goes on where it stopped."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig

from reproduce import points_of_training
from reproduce.chosen_run import best_of_summary
from reproduce.line_search import from_command_line, sample_counts
from reproduce.loss_drop import FixedWeights
from reproduce.points_of_training import spread_goals
from reproduce.settings import ConfigError, LineSearchSettings, build_task, settings_from_config
from tasks.noisy_quadratic import NoisyQuadratic

SMALL = (
    "task=noisy_quadratic/mini",
    "task.goals=[0.5,0.4,0.3]",
    "line_search.points=2",
    "line_search.batch_sizes=[2,8,32,128]",
    "line_search.blocks=6",
)
RUN = ("run.batch_size=32", "run.learning_rate=1.2")


@pytest.fixture
def line_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> Callable:
    """`python -m reproduce.line_search` in an empty folder, in this process; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    hydra_config = HydraConfig.instance().cfg

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
        monkeypatch.setattr(sys, "argv", ["line_search", *arguments])
        GlobalHydra.instance().clear()
        capfd.readouterr()
        code, text = 0, ""
        try:
            from_command_line()
        except SystemExit as end:
            code, text = (1, end.code) if isinstance(end.code, str) else (end.code, "")
        out, err = capfd.readouterr()
        return code, out, err + text

    yield call
    HydraConfig.instance().cfg = hydra_config


def result(folder: Path) -> dict:
    return json.loads((folder / "results/noisy_quadratic/mini/line_search.json").read_text())


def without_times(record: object) -> object:
    if isinstance(record, dict):
        return {key: without_times(value) for key, value in record.items() if key not in ("seconds", "date", "command")}
    return [without_times(value) for value in record] if isinstance(record, list) else record


def write_summary(folder: Path, b_crit: dict) -> Path:
    path = folder / "results/noisy_quadratic/mini/summary.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    points = [{"batch_size": 2.0**k, "learning_rate": 0.1 * k, "steps": 50.0} for k in range(1, 9)]
    points[4]["steps"] = None  # batch size 32 did not get there
    path.write_text(json.dumps({"goals": [{"points": points}], "b_crit": b_crit}))
    return path


def test_the_command_measures_at_goals_and_says_where_its_run_is_from(line_search, tmp_path, monkeypatch):
    monkeypatch.setattr("reproduce.time_left.FILE_SECONDS", 0)
    code, out, err = line_search(*SMALL, *RUN)
    assert (code, "error" in err) == (0, False)
    found = result(tmp_path)
    assert found["run"] == {"batch_size": 32, "learning_rate": 1.2, "seed": 0, "from_summary": False}
    assert [p["goal"] for p in found["points"]] == [0.5, 0.3]
    assert found["not_reached"] == []
    for entry in found["points"]:
        # Where the smoothed score has crossed the goal, not much later.
        assert entry["goal"] * 0.85 < entry["score"] < entry["goal"] * 1.05
        assert [size["batch_size"] for size in entry["batch_sizes"]] == [2, 8, 32, 128]
        law = entry["drop_law"]
        assert law["b_noise_low"] < entry["b_noise_hessian_high"]
        assert law["b_noise_high"] > entry["b_noise_hessian_low"]
        assert 20 < law["b_noise"] < 80
        assert entry["learning_rate_law"]["learning_rate_max"] == pytest.approx(
            entry["learning_rate_max_hessian"], rel=0.2
        )
    assert found["settings"]["blocks"] == 6
    assert found["commit"]
    assert "B_noise from drops" in out
    assert "chosen by hand" in out
    assert re.search(r"expected loss 0.5: batch size 32 done, \d+ s so far, about \d+ s left", err)
    assert err.splitlines()[-1].endswith("about 0 s left")
    assert not list((tmp_path / "results").rglob("fig5*"))  # without a sweep there is no page to put it on


def test_an_interrupted_search_goes_on_from_its_records(line_search, tmp_path, monkeypatch):
    line_search(*SMALL, *RUN)
    whole = without_times(result(tmp_path))
    records = sorted((tmp_path / "outputs/noisy_quadratic/mini/line_search").glob("*.jsonl"), key=lambda p: len(p.name))
    finished = [path for path in records if '"line_search"' in path.read_text().splitlines()[0]]
    assert len(finished) == 2
    cut = finished[0]
    lines = cut.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 1 + 4 + 1  # header, probes, batch sizes, outcome
    cut.write_bytes(b"".join(lines[:4]) + lines[4][:30])  # the third batch size was being written
    searched = []
    search = FixedWeights.search
    monkeypatch.setattr(FixedWeights, "search", lambda self, *a: searched.append(a[0]) or search(self, *a))
    monkeypatch.setattr("reproduce.points_of_training.TrainingWithPoints.train", None)  # trained already
    monkeypatch.setattr(FixedWeights, "noise_scales", None)  # probed already
    assert line_search(*SMALL, *RUN)[0] == 0
    assert searched == [32, 128]
    assert without_times(result(tmp_path)) == whole
    assert line_search(*SMALL, *RUN)[0] == 0
    assert searched == [32, 128]


def test_lost_weights_are_trained_again(line_search, tmp_path):
    line_search(*SMALL, *RUN)
    whole = without_times(result(tmp_path))
    (lost,) = (tmp_path / "outputs/noisy_quadratic/mini/line_search").glob("*_goal0.checkpoint")
    lost.unlink()
    assert line_search(*SMALL, *RUN)[0] == 0
    assert without_times(result(tmp_path)) == whole
    assert lost.exists()


@pytest.mark.parametrize("deleted", [False, True])
def test_an_interrupted_training_goes_on_also_without_its_first_weights(line_search, tmp_path, monkeypatch, deleted):
    line_search(*SMALL, *RUN)
    whole = without_times(result(tmp_path))
    save, arguments = points_of_training.save_checkpoint, (*SMALL, *RUN, "outputs=b", "trainer.checkpoint_seconds=0")

    def interrupted(path: Path, state: dict) -> None:
        if path.stem.endswith("_goal2"):
            raise KeyboardInterrupt
        save(path, state)

    monkeypatch.setattr(points_of_training, "save_checkpoint", interrupted)
    code, _, err = line_search(*arguments)
    assert (code, "the same command goes on" in err) == (130, True)
    monkeypatch.setattr(points_of_training, "save_checkpoint", save)
    (first,) = (tmp_path / "b/noisy_quadratic/mini/line_search").glob("*_goal0.checkpoint")
    if deleted:
        first.unlink()
    assert line_search(*arguments)[0] == 0
    assert without_times(result(tmp_path)) == whole
    assert first.exists()


def test_goals_that_the_run_does_not_reach_are_named(line_search, tmp_path):
    few = "grid.budget={steps: 30, examples: 0}"
    code, out, _ = line_search(*SMALL, *RUN, few, "line_search.batch_sizes=[8,32,128]")
    assert code == 0
    assert ([p["goal"] for p in result(tmp_path)["points"]], result(tmp_path)["not_reached"]) == ([0.5], [0.3])
    assert "ended before it reached 0.3" in out
    none = "grid.budget={steps: 3, examples: 0}"
    code, _, err = line_search(*SMALL, *RUN, none, "outputs=other")
    assert (code, "reached no goal" in err) == (1, True)


def test_the_run_is_the_sweeps_best_one_near_b_crit(tmp_path):
    path = write_summary(tmp_path, {"run": 40.0, "run_low": 30.0, "run_high": 50.0})
    assert best_of_summary(path) == (64, pytest.approx(0.6))  # 32 is nearer, but did not reach the goal
    path = write_summary(tmp_path, {"run": None, "run_low": None, "run_high": 5.0})
    assert best_of_summary(path) == (4, pytest.approx(0.2))


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"goals": [], "b_crit": {}}', '{"goals": [{"points": []}], "b_crit": {}}']
)
def test_a_summary_that_says_too_little_is_named(tmp_path, text):
    path = tmp_path / "summary.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"summary\.json.*run\.batch_size="):
        best_of_summary(path)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["There is no results/noisy_quadratic/mini/summary.json", "make reproduce-", "run.learning_rate="]),
        (["run.batch_size=8"], ["run.learning_rate is missing", "or neither"]),
        (["-m"], ["held in one run", "leave out -m"]),
        ([*RUN, "trainer.ranks=2"], ["one process", "trainer.ranks=1"]),
        ([*RUN, "line_search.blocks=1"], ["line_search.blocks must be a whole number of at least 2, got 1"]),
        ([*RUN, "line_search.batch_sizes=[]"], ["line_search.batch_sizes must not be empty"]),
        ([*RUN, "line_search.batch_sizes=[0]"], ["line_search.batch_sizes[0] must be a whole number above 0"]),
        ([*RUN, "+line_search.more=1"], ["line_search.more is no setting"]),
        ([*RUN, "task=nope/mini"], ["no task/nope/mini.yaml"]),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(line_search, tmp_path, arguments, parts):
    code, out, err = line_search(*SMALL, *arguments)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert "Traceback" not in err
    for part in parts:
        assert part in err
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_batch_sizes_that_cut_samples_are_refused():
    task = NoisyQuadratic(dimensions=2, condition_number=10, noise=1, goals=[0.5])
    task.units_per_sample = 20
    options = LineSearchSettings(1, None, 2, 1, 1, 1, 1, 1)
    assert sample_counts(options, task) == tuple(2**octave for octave in range(12))
    assert sample_counts(replace(options, batch_sizes=(20, 160)), task) == (1, 8)
    with pytest.raises(ConfigError, match="30 is no multiple of 20 examples"):
        sample_counts(replace(options, batch_sizes=(30,)), task)


def test_the_section_is_no_part_of_a_run(config):
    with_section = config("noisy_quadratic/mini")
    changed = config("noisy_quadratic/mini", "line_search.blocks=4")
    without = config("noisy_quadratic/mini", "~line_search")
    identities = [settings_from_config(c, build_task(c)).identity() for c in (with_section, changed, without)]
    assert identities[0] == identities[1] == identities[2]


def test_goals_are_spread_over_the_list():
    assert spread_goals(7, 4) == (0, 2, 4, 6)
    assert spread_goals(6, 4) == (0, 2, 3, 5)
    assert spread_goals(3, 4) == (0, 1, 2)
    assert spread_goals(1, 4) == (0,)
    assert spread_goals(7, 1) == (6,)
