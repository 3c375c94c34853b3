"""The search, against a simulated task whose steps at every batch size and learning rate are known."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reproduce.progress import expected_runs
from reproduce.records import Record
from reproduce.run import is_complete
from reproduce.sweep import (
    FEWER_SEEDS,
    Known,
    Outcome,
    SweepPlan,
    Trial,
    best_index,
    by_index,
    expected_steps,
    next_round,
    outcome_from_record,
    points,
    run_sweep,
    tells,
    untried_neighbours,
    within,
)
from reproduce.tradeoff import fit_tradeoff

S_MIN, B_CRIT = (10.0, 40.0, 100.0), (20.0, 30.0, 60.0)
BUDGET = 20_000.0

PLAN = SweepPlan(
    batch_sizes=(1, 4, 16, 64, 256),
    goals=3,
    seeds=3,
    search="pruned",
    spacings=(4, 2),
    octaves=3,
    eps=0.1,
    knee=20,
    alpha=1,
    curvature=False,
)


def best_rate(batch_size: float, goal: int) -> float:
    """Later goals want lower rates; and the search begins several octaves off."""
    return 0.53 / (1 + B_CRIT[goal] / batch_size) / (1 + goal)


def true_steps(batch_size: float, rate: float, goal: int) -> float:
    ratio = rate / best_rate(batch_size, goal)
    if ratio > 6:
        return math.inf
    return S_MIN[goal] * (1 + B_CRIT[goal] / batch_size) * (ratio + 1 / ratio) / 2


def nearly_alike(trial: Trial) -> float:
    """Factor of a run's steps: seeds differ by a percent."""
    return 1 + 0.01 * math.sin(97 * trial.seed)


def scattered(trial: Trial) -> float:
    """Seeds differ by 20 percent, at each learning rate in another way."""
    return 1 + 0.2 * math.sin(97 * trial.seed + 31 * trial.index + trial.batch_size)


def often_stuck(trial: Trial) -> float:
    """A third of the runs with a further seed stay where they began."""
    return math.inf if trial.seed > 0 and (trial.seed + trial.index // 2) % 3 == 0 else nearly_alike(trial)


def simulate(plan: SweepPlan, trial: Trial, noise: Callable[[Trial], float] = nearly_alike) -> Outcome:
    """What the trainer would record, limits included."""
    rate = plan.learning_rate(trial.batch_size, trial.index)
    steps = [true_steps(trial.batch_size, rate, goal) * noise(trial) for goal in range(plan.goals)]
    steps = [max(steps[: goal + 1]) for goal in range(plan.goals)]  # an easier goal is never reached later
    if math.isinf(true_steps(trial.batch_size, rate, 0)):
        return Outcome("diverged", (None,) * plan.goals, 20, -1.0, 20, 20)
    end, status = BUDGET, "exhausted"
    for goal in range(plan.goals):
        limits = [BUDGET if limit is None else limit for limit in trial.limits[goal:]]
        horizon = max(limits)
        if steps[goal] > horizon:
            before = steps[goal - 1] if goal else 0.0
            end, status = max(before, horizon), "given_up" if horizon < BUDGET else "exhausted"
            break
        end, status = steps[goal], "reached"
    reached = tuple(s if s <= end else None for s in steps)
    progress = sum(s is not None for s in reached) - rate
    return Outcome(status, reached, int(end), progress, end, int(end * trial.batch_size))


def sweep(
    plan: SweepPlan,
    log: list | None = None,
    stop_after: int | None = None,
    cache: Known | None = None,
    noise: Callable[[Trial], float] = nearly_alike,
) -> Known:
    """A whole sweep; `cache` plays the part of records, `stop_after` of an interrupt."""
    cache = {} if cache is None else cache

    def run_round(trials, known):
        outcomes = {}
        for trial in trials:
            recorded = next((t for t in cache if t == trial), None)
            if recorded is None or not answers(cache[trial], recorded.limits, trial.limits):
                if stop_after is not None and len(cache) >= stop_after:
                    raise KeyboardInterrupt
                cache.pop(trial, None)
                cache[trial] = simulate(plan, trial, noise)
                if log is not None:
                    log.append(trial)
            outcomes[trial] = within(cache[trial], trial.limits)
        return outcomes

    return run_sweep(plan, run_round)


def answers(outcome: Outcome, recorded: tuple, limits: tuple) -> bool:
    return is_complete({"status": outcome.status, "limits": recorded, "steps_to_goals": outcome.steps}, limits)


def finest_best(batch_size: int, goal: int) -> float:
    """Fewest steps on the grid of half octaves, by looking at all of it."""
    rates = [PLAN.learning_rate(batch_size, 2 * k) for k in range(-16, 17)]
    return min(max(true_steps(batch_size, rate, g) for g in range(goal + 1)) for rate in rates)


def test_search_finds_the_best_rate_of_every_goal_from_a_start_octaves_away():
    known = sweep(PLAN)
    for batch_size in PLAN.batch_sizes:
        rates = by_index(known, batch_size)
        for goal in range(PLAN.goals):
            found = expected_steps(rates[best_index(rates, goal)], goal)
            assert found == pytest.approx(finest_best(batch_size, goal), rel=0.01)


def test_best_rates_are_inside_the_grid_on_both_sides():
    known = sweep(PLAN)
    for batch_size in PLAN.batch_sizes:
        rates = by_index(known, batch_size)
        for goal in range(PLAN.goals):
            best = best_index(rates, goal)
            assert {best - 2, best + 2} <= set(rates)


def test_pruning_changes_no_result_and_costs_a_fraction():
    pruned = sweep(PLAN)
    grid_plan = replace(PLAN, search="grid", octaves=5, spacings=(2,))
    grid = sweep(grid_plan)
    for goal in range(PLAN.goals):
        for a, b in zip(points(PLAN, pruned, goal), points(grid_plan, grid, goal), strict=True):
            assert a.batch_size == b.batch_size
            assert sorted(a.steps) == pytest.approx(sorted(b.steps), rel=1e-6)
    cost = [sum(o.examples for o in known.values()) for known in (pruned, grid)]
    assert cost[0] < 0.35 * cost[1]


def test_fit_of_the_found_points_is_the_truth():
    known = sweep(replace(PLAN, seeds=1, spacings=(4, 2, 1)))
    for goal in range(3):
        assert fit_tradeoff(points(PLAN, known, goal)).b_crit == pytest.approx(B_CRIT[goal], rel=0.15)


def test_further_seeds_run_at_best_rates_only_as_far_as_these_are_best():
    known = sweep(PLAN)
    seeded = [trial for trial in known if trial.seed > 0]
    for trial in seeded:
        rates = by_index(known, trial.batch_size)
        wanted = [goal for goal in range(PLAN.goals) if best_index(rates, goal) == trial.index]
        assert wanted
        assert known[trial].steps[wanted[-1]] is not None
        assert all(step is None for step in known[trial].steps[wanted[-1] + 1 :])
    for goal in range(PLAN.goals):
        assert all(len(point.steps) == PLAN.seeds for point in points(PLAN, known, goal))


@pytest.mark.parametrize("noise", [nearly_alike, scattered, often_stuck])
def test_every_best_rate_has_all_seeds_and_none_that_was_tried_looks_clearly_better(noise):
    known = sweep(PLAN, noise=noise)
    for batch_size in PLAN.batch_sizes:
        rates = by_index(known, batch_size)
        for goal in range(PLAN.goals):
            best = best_index(rates, goal)
            assert [tells(outcome, goal) for outcome in rates[best]] == [True] * PLAN.seeds
            fewest = expected_steps(rates[best], goal)
            for outcomes in rates.values():
                complete = sum(tells(outcome, goal) for outcome in outcomes) == PLAN.seeds
                assert expected_steps(outcomes, goal) * (1 if complete else FEWER_SEEDS) >= fewest


@pytest.mark.parametrize("eps", [0.1, 0.12, 0.14, 0.17])
def test_rate_that_wins_with_the_first_seed_alone_loses_to_the_next_at_which_all_arrive(eps):
    def fails_above(trial: Trial) -> float:
        rate = plan.learning_rate(trial.batch_size, trial.index)
        return math.inf if trial.seed > 0 and rate > 0.8 * best_rate(trial.batch_size, 0) else nearly_alike(trial)

    batch_size = 16
    plan = replace(PLAN, goals=1, batch_sizes=(batch_size,), eps=eps)
    first = best_index(by_index(sweep(replace(plan, seeds=1), noise=fails_above), batch_size), 0)
    rates = by_index(sweep(plan, noise=fails_above), batch_size)
    assert best_index(rates, 0) < first
    assert expected_steps(rates[best_index(rates, 0)], 0) < 1.3 * finest_best(batch_size, 0)


def test_rate_with_fewer_seeds_must_be_clearly_faster():
    slow, fast, faster = (Outcome("reached", (steps,), int(steps), 1.0) for steps in (100.0, 92.0, 90.0))
    assert best_index({0: [slow, slow, slow], 2: [fast]}, 0) == 0
    assert best_index({0: [slow, slow, slow], 2: [faster]}, 0) == 2
    assert best_index({0: [slow, slow, slow], 2: [fast, fast, fast]}, 0) == 2
    assert best_index({0: [slow], 2: [fast]}, 0) == 2


def test_expected_steps_count_what_failed_runs_spent():
    reached = Outcome("reached", (60.0,), 65, 1.0)
    exhausted = Outcome("exhausted", (None,), 300, 0.0)
    given_up, failed = Outcome("given_up", (None,), 50, 0.0), Outcome("failed", (), 7, -math.inf)
    assert expected_steps([reached, replace(reached, steps=(80.0,))], 0) == 70
    assert expected_steps([reached, exhausted, replace(reached, steps=(80.0,))], 0) == (60 + 300 + 80) / 2
    assert expected_steps([reached, given_up, failed], 0) == 60
    assert expected_steps([exhausted, given_up], 0) == math.inf


def test_outcome_within_limits_is_that_of_a_run_with_these_limits():
    reached = Outcome("reached", (10.0, 50.0, 200.0), 210, 1.0)
    assert within(reached, (None, None, None)) == within(reached, (0.0, 0.0, 200.0)) == reached
    assert within(reached, (None, 0.0, 0.0)) == replace(
        reached, status="given_up", steps=(10.0, None, None), last_step=10
    )
    assert within(reached, (0.0, 0.0, 70.0)) == replace(
        reached, status="given_up", steps=(10.0, 50.0, None), last_step=70
    )
    diverged = Outcome("diverged", (10.0, None, None), 90, 1.0)
    assert within(diverged, (None, None, 0.0)) == diverged
    assert within(diverged, (None, 60.0, 0.0)) == replace(diverged, status="given_up", last_step=60)


def test_record_of_a_run_that_went_further_is_seen_as_far_as_the_search_asked():
    end = {"status": "reached", "steps_to_goals": [5.0, 20.0], "step": 21, "seconds": 2.0, "examples": 84}
    evaluations = [{"step": 0, "score": 0.9}, {"step": 21, "score": 0.25}, {"step": 22, "score": None}]
    record = Record(Path("run.jsonl"), {}, evaluations, {**end, "probed_examples": 16})
    whole = outcome_from_record(record, (None, None), higher_is_better=False)
    assert whole == Outcome("reached", (5.0, 20.0), 21, -0.25, 2.0, 100)
    assert outcome_from_record(record, (8.0, 8.0), False) == replace(
        whole, status="given_up", steps=(5.0, None), last_step=8
    )


@pytest.mark.parametrize("noise", [nearly_alike, scattered, often_stuck])
@pytest.mark.parametrize("stop_after", [1, 7, 16, 29, 40, 55])
def test_interrupted_sweep_ends_as_an_undisturbed_one_without_a_run_twice(stop_after, noise):
    undisturbed_log, log, cache = [], [], {}
    undisturbed = sweep(PLAN, undisturbed_log, noise=noise)
    with pytest.raises(KeyboardInterrupt):
        sweep(PLAN, log, stop_after, cache, noise)
    assert sweep(PLAN, log, None, cache, noise) == undisturbed
    assert sorted(map(repr, log)) == sorted(map(repr, undisturbed_log))


def test_limits_are_the_best_of_the_rounds_before():
    known = sweep(PLAN)
    for trial in known:
        if trial.seed == 0 and trial.index != 0:
            assert all(limit is not None for limit in trial.limits)


def test_longest_runs_come_first():
    known = sweep(replace(PLAN, seeds=1))
    for batch_size in PLAN.batch_sizes:
        assert by_index(known, batch_size)
    trials = next_round(PLAN, {t: o for t, o in known.items() if t.index == 0})
    longest = [by_index(known, t.batch_size)[0][0].seconds for t in trials]
    assert longest == sorted(longest, reverse=True)


def test_rates_above_a_divergence_are_not_tried():
    diverged = Outcome("diverged", (None,), 20, -1.0)
    assert untried_neighbours({0: [diverged]}, 1, 4) == {-4}
    assert untried_neighbours({0: [diverged], -4: [diverged]}, 1, 4) == {-8}


def test_goal_that_nobody_reached_follows_the_best_score():
    exhausted = {index: [Outcome("exhausted", (None,), 100, progress)] for index, progress in ((0, 1.0), (-4, 2.0))}
    assert untried_neighbours(exhausted, 1, 4) == {-8}


def test_batch_size_that_never_reaches_a_goal_is_censored_not_dropped():
    trials = {
        Trial(4, 0, 0, (None,)): Outcome("exhausted", (None,), 500, 1.0),
        Trial(16, 0, 0, (None,)): Outcome("reached", (80.0,), 85, 1.0),
    }
    plan = replace(PLAN, batch_sizes=(4, 16), goals=1)
    low, high = points(plan, trials, 0)
    assert (low.steps, low.censored) == ((), (500.0,))
    assert (high.steps, high.censored) == ((80.0,), ())


def test_failed_runs_do_not_stop_the_sweep():
    def run_round(trials, known):
        return {t: Outcome("failed", (), 0, -math.inf) if t.batch_size == 16 else simulate(PLAN, t) for t in trials}

    known = run_sweep(PLAN, run_round)
    assert [p.batch_size for p in points(PLAN, known, 2)] == [1, 4, 64, 256]


def test_grid_is_one_round_without_limits():
    plan = replace(PLAN, search="grid", seeds=2)
    trials = next_round(plan, {})
    assert len(trials) == 5 * 13 * 2 == expected_runs(plan)
    assert all(limit is None for trial in trials for limit in trial.limits)


def test_curvature_is_measured_near_the_critical_batch_size():
    known = sweep(replace(PLAN, curvature=True, seeds=2))
    measured = [trial for trial in known if trial.curvature]
    assert [(t.batch_size, t.seed) for t in measured] == [(64, 0), (64, 1)]
