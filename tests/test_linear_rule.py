"""The linear scaling rule, through the command line, on the noisy quadratic, whose best rates are known."""

import json
from pathlib import Path

import pytest
from conftest import composed, sweep_small_quadratic

from reproduce.linear_rule import PATIENCE, LinearRule
from reproduce.settings import ConfigError


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("linear_rule")
    ended = sweep_small_quadratic(folder)
    assert ended.code == 0, ended.stderr
    return folder


@pytest.fixture(scope="module")
def printed(folder) -> str:
    ended = sweep_small_quadratic(folder, "comparison=linear_rule", "sweep.seeds=2")
    assert ended.code == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def result(folder, printed) -> dict:
    return json.loads((folder / "noisy_quadratic" / "mini" / "linear_rule.json").read_text())


def test_rates_go_with_the_batch_size_from_the_smallest_ones_best(folder, result):
    summary = json.loads((folder / "noisy_quadratic" / "mini" / "summary.json").read_text())
    tuned = summary["goals"][-1]["points"]
    assert result["base"] == {"batch_size": 4, "learning_rate": tuned[0]["learning_rate"]}
    assert [point["batch_size"] for point in result["points"]] == [16, 64, 256]
    for point, best in zip(result["points"], tuned[1:], strict=True):
        assert point["learning_rate"] == pytest.approx(tuned[0]["learning_rate"] * point["batch_size"] / 4, rel=1e-3)
        assert (point["tuned_learning_rate"], point["tuned_steps"]) == (best["learning_rate"], best["steps"])
    assert result["b_crit"] == summary["goals"][-1]["b_crit"]


def test_the_rule_keeps_up_below_b_crit_and_diverges_beyond_the_stable_rate(result):
    """The largest curvature is 1: rates above 2 diverge (eps_max of plain gradient descent)."""
    for point in result["points"]:
        if point["learning_rate"] > 2:
            assert (point["steps"], point["ratio"], point["seeds_reached"]) == (None, None, 0)
    assert result["points"][-1]["learning_rate"] > 2
    first = result["points"][0]
    assert (first["seeds"], first["seeds_reached"]) == (2, 2)
    assert first["ratio"] == pytest.approx(first["steps"] / first["tuned_steps"], rel=1e-3)
    assert 0.6 < first["ratio"] < 2


def test_it_prints_what_it_shows_and_a_second_call_runs_nothing(folder, printed):
    assert "does not arrive" in printed
    again = sweep_small_quadratic(folder, "comparison=linear_rule", "sweep.seeds=2")
    assert "linear_rule: all 6 runs are there already." in again.stdout
    assert (folder / "noisy_quadratic" / "mini" / "linear_rule.png").exists()


def test_runs_are_given_up_at_a_multiple_of_the_best_steps(folder, result):
    rule = LinearRule(None, composed("noisy_quadratic/mini", folder, "comparison=linear_rule", f"results={folder}"), [])
    for point in rule.scaled:
        settings = rule.runs.settings(rule.overrides(point, 0))
        assert settings.run.limits == (pytest.approx(PATIENCE * point.steps, abs=1),) * len(rule.task.goals)
        assert settings.max_steps >= PATIENCE * point.steps


def test_without_a_sweep_it_says_what_to_run(tmp_path):
    ended = sweep_small_quadratic(tmp_path, "comparison=linear_rule")
    assert ended.code != 0
    assert "Run the sweep first: make reproduce-noisy_quadratic" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_too_few_batch_sizes_are_told(folder, tmp_path):
    source = folder / "noisy_quadratic" / "mini" / "summary.json"
    summary = json.loads(source.read_text())
    for point in summary["goals"][-1]["points"][2:]:
        point |= {"steps": None, "examples": None}
    target = tmp_path / "noisy_quadratic" / "mini" / "summary.json"
    target.parent.mkdir(parents=True)
    target.write_text(json.dumps(summary))
    config = composed("noisy_quadratic/mini", tmp_path, "comparison=linear_rule", f"results={tmp_path}")
    with pytest.raises(ConfigError, match=r"reached its last goal at 2 batch size"):
        LinearRule(None, config, [])
