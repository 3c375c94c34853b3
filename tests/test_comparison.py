"""Runs that differ in one quantity, through the command line, against the noisy quadratic's closed form."""

import json
from pathlib import Path

import pytest
from conftest import SMALL_QUADRATIC, Ended, composed, sweep_small_quadratic

from reproduce.comparison import comparison_from_config, exponent, spread
from reproduce.noise_at_goal import NoiseAtGoal
from reproduce.settings import ConfigError, build_task, settings_from_config

NOISE = {"weak": 5, "middle": 10, "strong": 20}
RUNS = ",".join(f"{name}:{{value:{noise},overrides:['task.noise={noise}']}}" for name, noise in NOISE.items())
COMPARISON = f"+comparisons.noise={{quantity:noise,batch_size:64,learning_rate:0.3,seeds:2,runs:{{{RUNS}}}}}"


def compare(folder: Path) -> Ended:
    return sweep_small_quadratic(folder, COMPARISON, "comparison=noise")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("comparison")


@pytest.fixture(scope="module")
def printed(folder) -> str:
    ended = compare(folder)
    assert ended.code == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def result(folder, printed) -> dict:
    return json.loads((folder / "noisy_quadratic" / "mini" / "comparison_noise.json").read_text())


def exact_noise(folder: Path, run: dict, goal: int) -> float:
    """B_simple in closed form at the steps at which the runs passed the goal."""
    config = composed("noisy_quadratic/mini", folder, *SMALL_QUADRATIC, *run["overrides"])
    steps = run["goals"][goal]["steps"]
    return build_task(config).exact_moments(64, run["learning_rate"], sum(steps) / len(steps)).b_simple


def test_noise_scales_at_equal_score_are_those_of_the_closed_form(folder, result):
    assert [run["name"] for run in result["runs"]] == list(NOISE)
    for run in result["runs"]:
        for goal, entry in enumerate(run["goals"]):
            assert len(entry["steps"]) == 2
            exact = exact_noise(folder, run, goal)
            assert entry["b_simple"] == pytest.approx(exact, rel=0.25)
            assert entry["b_simple_low"] * 0.9 <= exact <= entry["b_simple_high"] * 1.1


def test_spread_and_exponent_are_those_of_the_closed_form(folder, result):
    exact = [[exact_noise(folder, run, goal) for run in result["runs"]] for goal in range(2)]
    for entry, values in zip(result["spread"], exact, strict=True):
        assert entry["largest_over_smallest"] == pytest.approx(max(values) / min(values), rel=0.3)
    true = exponent(list(NOISE.values()), [[NoiseAtGoal(v, v / 1.1, v * 1.1) for v in pair] for pair in zip(*exact)])
    assert true.exponent > 0.8
    assert result["exponent"]["value"] == pytest.approx(true.exponent, abs=0.2)
    assert result["exponent"]["points"] == 6


def test_table_is_printed_and_a_second_call_runs_nothing(folder, printed):
    assert "noise weak" in printed
    assert "Noise scale goes as (noise)^" in printed
    again = compare(folder)
    assert "noisy_quadratic/mini noise: all 6 runs are there already." in again.stdout
    assert again.stdout.split("\n", 1)[1].split("Written")[0] == printed.split("Written")[0]


def test_exponent_leaves_out_what_is_not_measured():
    found = NoiseAtGoal(8.0, 6.0, 11.0)
    noise = [[NoiseAtGoal(2.0, 1.5, 2.6), NoiseAtGoal(None, 5.0, None)], [found, found]]
    law = exponent([1.0, 2.0], noise)
    assert (law.exponent, law.points) == (pytest.approx(2.0), 3)
    assert spread([NoiseAtGoal(2.0), found, NoiseAtGoal()]) == 4.0
    assert spread([found, NoiseAtGoal(None, 5.0)]) is None


@pytest.mark.parametrize(
    ("task", "name"), [("billion_word", "model_size"), ("billion_word", "temperature"), ("svhn", "temperature")]
)
def test_comparisons_of_the_suite_differ_in_what_they_say(tmp_path, task, name):
    """Runs as their launcher would compose them: the value of each is what its overrides set."""
    config = composed(f"{task}/mini", tmp_path, f"comparison={name}")
    settings, compared = comparison_from_config(config)
    common = f"run.batch_size={settings.batch_size}", f"run.learning_rate={settings.learning_rate}"
    for run in compared.values():
        own = composed(f"{task}/mini", tmp_path, *common, *run.overrides)
        assert run.value == (own.task.hidden if name == "model_size" else own.run.learning_rate)
        settings_from_config(own, build_task(own))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["comparison=size"], r"no comparison=size for this task: its config's section 'comparisons' has none"),
        (["comparison=other", COMPARISON], r"'comparisons' has noise"),
        (["comparison=noise", COMPARISON, "comparisons.noise.batch_size=0"], r"comparisons\.noise\.batch_size"),
        (
            ["comparison=noise", COMPARISON, "~comparisons.noise.runs.weak", "~comparisons.noise.runs.strong"],
            r"at least two runs",
        ),
        (["comparison=noise", COMPARISON, "comparisons.noise.runs.weak.value=-1"], r"noise\.runs\.weak\.value"),
    ],
)
def test_wrong_comparison_is_told(tmp_path, overrides, message):
    with pytest.raises(ConfigError, match=message):
        comparison_from_config(composed("noisy_quadratic/mini", tmp_path, *overrides))
