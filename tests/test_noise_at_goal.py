"""Noise scales at goals and over runs, from records whose moments are known."""

import math
from pathlib import Path

import numpy as np
import pytest

from reproduce.noise_at_goal import Crossing, noise_at_goal, probes_at_goal, run_average
from reproduce.records import Record

TRACE = 40.0


def grad_sq_at(step: float) -> float:
    """B_simple grows with the square root of the step, as on SVHN (App. D)."""
    return TRACE / (20 * math.sqrt(step))


def record(spread: float = 0.0, seed: int = 0, last_step: int = 400) -> Record:
    """A run with probes about 5 % apart, noisy by `spread` of tr Sigma and of |G|^2 at step 100."""
    rng = np.random.default_rng(seed)
    evaluations = []
    for step in np.unique(np.geomspace(1, last_step, 120).astype(int)).tolist():
        noise = spread * rng.standard_normal(2)
        moments = {"trace": TRACE * (1 + noise[0]), "grad_sq": grad_sq_at(step) + noise[1] * grad_sq_at(100)}
        evaluations.append({"step": step, "probe": moments | {"examples": 64}})
    header = {"identity": {"run": {"batch_size": 8, "learning_rate": 0.1, "seed": seed}}}
    return Record(Path("x"), header, evaluations)


def at_goal(crossings):
    return noise_at_goal(probes_at_goal(crossings, "probe"))


def test_value_at_the_goal():
    # The line in ln(step) is not quite the power law.
    assert at_goal([Crossing(record(), 100)]).value == pytest.approx(200, rel=0.01)


def test_last_goal_is_not_biased_by_probes_on_one_side_only():
    one_sided = at_goal([Crossing(record(last_step=100), 100)])
    assert one_sided.value == pytest.approx(200, rel=0.02)


def test_runs_that_pass_the_goal_at_other_steps_are_aligned_there():
    shifted = [Crossing(record(), 100), Crossing(record(seed=1), 100)]
    assert at_goal(shifted).value == pytest.approx(200, rel=0.01)


def test_intervals_cover():
    covered = 0
    for seed in range(200):
        found = at_goal([Crossing(record(0.2, 3 * seed + k), 100) for k in range(3)])
        covered += found.low <= 200 and (found.high is None or found.high >= 200)
    assert covered >= 0.9 * 200


def test_gradient_lost_in_noise_gives_a_bound():
    found = at_goal([Crossing(record(30.0), 100)])
    assert found.value is None
    assert found.low is not None
    assert found.high is None


def test_without_probes_nothing_is_said():
    empty = Record(Path("x"), {}, [{"step": 5}])
    assert at_goal([Crossing(empty, 5)]).low is None
    assert noise_at_goal([]).value is None


def test_run_average_of_a_constant_is_that_constant():
    assert run_average([10, 100, 1000], [50.0, 50.0, 50.0], 16) == pytest.approx(50)


def test_run_average_weighs_noiseless_steps():
    """B(S) = S from step 1 on; ds = dS / (1 + B(S) / B) integrates in closed form."""
    batch, last = 100.0, 10_000.0
    found = run_average([1.0, last], [1.0, last], batch)
    log_term = math.log((batch + last) / batch)
    noiseless = batch * log_term  # integral of dS / (1 + S / B)
    weighted = batch * (last - batch * log_term)  # integral of S dS / (1 + S / B)
    assert found == pytest.approx(weighted / noiseless, rel=0.01)


def test_run_average_skips_goals_without_a_number():
    assert run_average([10, 100, None], [20.0, None, 30.0], 16) == pytest.approx(20)
    assert run_average([10], [None], 16) is None
