"""A whole sweep of a small noisy quadratic, through the command line: every stage against its closed form."""

import json
from pathlib import Path

import pytest
from conftest import reproduce

from reproduce.pruning import compare

SMALL = [
    "task=noisy_quadratic/mini",
    "task.dimensions=256",
    "task.condition_number=1000",
    "task.goals=[0.5,0.3]",
    "sweep.batch_sizes=[4,16,64,256]",
    "grid.budget={steps: 300, examples: 8000}",
]


def sweep(folder: Path, *overrides: str) -> dict:
    """The summary of a sweep with records and results in `folder`."""
    ended = reproduce("-m", *SMALL, *overrides, "hydra/launcher=basic", f"outputs={folder}", f"results={folder}")
    assert ended.code == 0, ended.stderr
    return json.loads((folder / "noisy_quadratic" / "mini" / "summary.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("calibration")


@pytest.fixture(scope="module")
def quick(folder) -> dict:
    return sweep(folder, "sweep=quick")


@pytest.mark.slow
def test_every_stage_is_near_the_closed_form(quick):
    """One seed: looser than results/noisy_quadratic, where three seeds come within 10 %."""
    for goal in quick["goals"]:
        exact = goal["exact"]
        assert goal["identified"]
        for name in ("b_crit", "e_min", "s_min", "b_simple"):
            assert goal[name] == pytest.approx(exact[name], rel=0.25), (goal["goal"], name)
        assert goal["b_simple_low"] * 0.9 <= exact["b_simple"] <= goal["b_simple_high"] * 1.1
        assert goal["fit_rms"] < 0.1
        for point in goal["points"]:
            assert point["steps"] == pytest.approx(exact["steps"][str(int(point["batch_size"]))], rel=0.2)
    assert quick["b_noise"]["run"] == pytest.approx(quick["goals"][-1]["exact"]["b_noise"], rel=0.35)
    assert quick["published"] is None
    assert quick["sweep"]["failed"] == 0


@pytest.mark.slow
def test_pruned_search_finds_the_best_points_of_the_plain_grid_for_a_fraction(folder):
    changes = ["sweep.spacings=[1]", "sweep.curvature_samples=0"]
    found = compare(sweep(folder, "sweep=quick", *changes), sweep(folder, "sweep=grid", *changes))
    assert found["points_compared"] == 8
    assert found["share_of_grid"] <= 0.35
    # The grid is bounded and the search is not: it may only do better.
    assert all(row["log_ratio"] <= 1e-9 for row in found["points"])
    assert found["same_rate"] >= 7


@pytest.mark.slow
def test_sweep_on_two_ranks_finds_the_same_steps(folder, quick):
    """The global batch is the same, so only rounding differs. One rate a batch size: ranks take seconds to start."""
    changes = ["sweep=grid", "sweep.octaves=0", "sweep.batch_sizes=[16,256]", "sweep.curvature_samples=0"]
    alone = sweep(folder, *changes)
    two = sweep(folder / "two", *changes, "trainer.ranks=2")
    steps = [[point["steps"] for point in summary["goals"][0]["points"]] for summary in (alone, two)]
    assert steps[1] == pytest.approx(steps[0], rel=1e-3)
