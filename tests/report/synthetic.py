"""Results folders made from the exact law with known numbers, so that every number in a report has one right value."""

from __future__ import annotations

import csv
import json
import math
from itertools import pairwise
from pathlib import Path

from reproduce.published import published

GOALS = (0.5, 0.3, 0.2, 0.1, 0.06, 0.04)
BATCH_SIZES = tuple(2**power for power in range(10))
EPS, KNEE = 0.4, 30.0


def geometric(first: float, last: float, quantity: int) -> list[float]:
    if quantity == 1:
        return [first]
    return [first * (last / first) ** (index / (quantity - 1)) for index in range(quantity)]


def with_interval(name: str, value: float | None, spread: float = 0.1) -> dict:
    if value is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: value, f"{name}_low": value / (1 + spread), f"{name}_high": value * (1 + spread)}


def start_and_run(start: float, run: float, spread: float = 0.1) -> dict:
    return with_interval("start", start, spread) | with_interval("run", run, spread)


def point(batch_size: float, s_min: float, b_crit: float, scatter: float = 0.0) -> dict:
    # a fixed pattern of deviations: the same in every test, and without a trend in the batch size
    steps = s_min * (1 + b_crit / batch_size) * math.exp(scatter * math.sin(5 * math.log2(batch_size) + b_crit))
    return {
        "batch_size": batch_size,
        "learning_rate": EPS / (1 + KNEE / batch_size),
        "steps": steps,
        "steps_low": steps / 1.1,
        "steps_high": steps * 1.1,
        "examples": steps * batch_size,
        "seeds": 3,
    }


def censor(entry: dict, steps: float) -> dict:
    """The point of a batch size whose runs stopped at `steps` without reaching the goal."""
    return entry | {"steps": None, "steps_low": steps, "steps_high": None, "examples": None}


def sweep_record(
    task: str = "mnist",
    scale: str = "mini",
    *,
    goals: tuple[float, ...] = GOALS,
    b_crit: tuple[float, float] = (20, 75),
    b_simple: tuple[float, float] = (50, 800),
    b_simple_run: float | None = 310,
    noise: bool = False,
    batch_sizes: tuple[float, ...] = BATCH_SIZES,
    scatter: float = 0.06,
    **changes: object,
) -> dict:
    """The record of a summary.json; `changes` replace top-level fields."""
    row = published(task)
    b_crits, b_simples = geometric(*b_crit, len(goals)), geometric(*b_simple, len(goals))
    s_mins = geometric(15, 200, len(goals))
    entries = []
    for goal, crit, simple, s_min in zip(goals, b_crits, b_simples, s_mins):
        entries.append(
            {"goal": goal, "identified": True, "reason": "", "s_min": s_min, "e_min": s_min * crit, "fit_rms": 0.06}
            | with_interval("b_crit", crit)
            | with_interval("b_simple", simple, 0.15)
            | with_interval("b_noise", simple / 2 if noise else None, 0.25)
            | {"exact": None, "points": [point(size, s_min, crit, scatter) for size in batch_sizes]}
        )
    record = {
        "task": task,
        "scale": scale,
        "unit": row.unit if row else "image",
        "score": "train error",
        "higher_is_better": False,
        "data": {"name": "5,000 MNIST digits, moved and turned", "embedded": True},
        "model": "SmallConvNet, 26,794 weights",
        "optimizer": "SGD",
        "goals": entries,
        "b_crit": start_and_run(b_crit[0], b_crit[1]),
        "b_simple": start_and_run(b_simple[0], b_simple_run) if b_simple_run else {},
        "b_noise": start_and_run(b_simple[0] / 2, b_simple_run / 2) if noise and b_simple_run else None,
        "published": row.to_summary() if row else None,
        "learning_rate_fit": {"eps": EPS, "knee": KNEE, "alpha": 1.0, "rms": 0.0},
        "sweep": {
            "runs": 90,
            "seeds": 3,
            "given_up": 31,
            "diverged": 4,
            "failed": 0,
            "examples": 2.5e6,
            "examples_full_grid": 1e7,
            "seconds": 1260,
            "cores": 2,
        },
        "sweep_name": "full",
        "command": f"python -m reproduce -m task={task}/{scale} sweep=full",
        "machine": "x86_64, 2 cores, Linux",
        "date": "2026-01-31",
        "versions": {"torch": "2.9.0", "numpy": "2.3.5"},
        "commit": "0123abc",
        "notes": [],
    }
    return record | changes


def quadratic_record() -> dict:
    """noisy_quadratic: every goal with its closed form, which the measurement misses by 2 % in B_crit."""
    record = sweep_record(
        "noisy_quadratic",
        goals=(0.3, 0.1, 0.03, 0.01),
        b_crit=(30, 120),
        b_simple=(30, 120),
        b_simple_run=70,
        noise=True,
        score="loss",
        data={"name": "a quadratic with known noise", "embedded": False},
    )
    for goal in record["goals"]:
        goal["exact"] = {
            "b_crit": goal["b_crit"] / 1.02,
            "b_simple": goal["b_simple"],
            "b_noise": goal["b_noise"] / 1.05,
            "s_min": goal["s_min"],
            "e_min": goal["e_min"] / 1.02,
        }
    return record


def bounded_record() -> dict:
    """A sweep with everything that is not a plain number: bounds, censored points, nothing measured."""
    record = sweep_record("svhn", b_crit=(60, 400), b_simple=(300, 3_000), b_simple_run=1_500, learning_rate_fit=None)
    first, hardest = record["goals"][0], record["goals"][-1]
    first |= {
        "b_crit": None,
        "b_crit_low": None,
        "b_crit_high": 12.0,
        "identified": False,
        "s_min": None,
        "e_min": None,
    }
    first |= {"fit_rms": None, "reason": "all batch sizes lie above B_crit"}
    first |= {"b_simple": None, "b_simple_low": 250.0, "b_simple_high": None}
    hardest |= {"b_crit": None, "b_crit_low": 300.0, "b_crit_high": None, "identified": False, "s_min": None}
    hardest |= {"e_min": None, "fit_rms": None, "reason": "all batch sizes lie below B_crit"}
    hardest["points"][0] = censor(hardest["points"][0], 20_000)
    hardest["points"][1] = censor(hardest["points"][1], 20_000)
    record["b_crit"] = {"start": None, "start_low": None, "start_high": 12.0}
    record["b_crit"] |= {"run": None, "run_low": 300.0, "run_high": None}
    record["notes"] = ["Two batch sizes never reached train error 0.04 within the budget."]
    return record


def line_search_record(b_noise: tuple[float, ...] = (20, 110), *, hessian: float = 1.2, **changes: object) -> dict:
    """The record of a line_search.json whose steps lie on the law, at one goal for each B_noise.

    hessian: B_noise from the Hessian over the fitted one.
    """
    points = []
    for index, noise in enumerate(b_noise):
        law = with_interval("b_noise", noise, 0.15) | {"rms": 0.05, "rms_noise": 0.1, "reason": ""}
        entry = {
            "goal": GOALS[2 * index],
            "step": 30.0 * (index + 1),
            "score": GOALS[2 * index] * 0.98,
            "drop_law": law | with_interval("drop_max", 0.2),
            "learning_rate_law": law | with_interval("learning_rate_max", 0.3),
            **with_interval("b_noise_hessian", hessian * noise, 0.3),
            "learning_rate_max_hessian": 0.28,
            **with_interval("b_simple", 3 * noise),
            "batch_sizes": [
                {"batch_size": size, "batches": 96, "measured": True}
                | with_interval("drop", 0.2 / (1 + noise / size), 0.2)
                | with_interval("learning_rate", 0.3 / (1 + noise / size), 0.1)
                for size in BATCH_SIZES
            ],
        }
        points.append(entry)
    run = {"batch_size": 64, "learning_rate": 0.13, "seed": 0, "from_summary": True}
    record = {"run": run, "points": points, "not_reached": [], "seconds": 120, "commit": "4567def"}
    return record | {"command": "python -m reproduce.line_search task=mnist/mini"} | changes


def bounded_line_search() -> dict:
    """One with a censored batch size, a point without a fit, and a goal that was not reached."""
    record = line_search_record(not_reached=[0.04])
    first, second = record["points"]
    nothing = dict.fromkeys(("learning_rate", "learning_rate_low", "learning_rate_high"))
    first["batch_sizes"][0] |= {"measured": False, "drop": None, "drop_low": None, "drop_high": 0.004} | nothing
    reason = "all batch sizes lie below B_noise"
    none = {"b_noise": None, "b_noise_low": 300.0, "b_noise_high": None, "reason": reason}
    second["drop_law"] |= none | dict.fromkeys(("drop_max", "drop_max_low", "drop_max_high"))
    second |= {"b_noise_hessian": None, "b_noise_hessian_low": 200.0, "b_noise_hessian_high": None}
    return record


def write_line_search(folder: Path, record: dict) -> None:
    (folder / "line_search.json").write_text(json.dumps(record), encoding="utf-8")


def atari_record(game: str, b_crit: float, b_simple: float) -> dict:
    """A sweep whose score grows, in frames, at large batch sizes."""
    return sweep_record(
        f"atari_{game}",
        goals=(2.0, 3.0, 5.0, 10.0),
        b_crit=(b_crit / 8, b_crit),
        b_simple=(b_simple / 8, b_simple * 2),
        b_simple_run=b_simple,
        batch_sizes=tuple(40 * 4**power for power in range(6)),
        score="mean game score",
        higher_is_better=True,
        optimizer="RMSProp",
        learning_rate_fit={"eps": 0.003, "knee": 500.0, "alpha": 0.6},
    )


def write_sweep(results: Path, record: dict, curves: bool = True) -> Path:
    """results/<task>/<scale> with summary.json and, if wanted, curves.csv; returns that folder."""
    folder = results / record["task"] / record["scale"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(record), encoding="utf-8")
    if curves:
        with (folder / "curves.csv").open("w", newline="", encoding="utf-8") as file:
            names = ["batch_size", "learning_rate", "seed", "step", "examples", "score", "smoothed_score", "loss"]
            writer = csv.DictWriter(file, [*names, "b_simple", "b_noise"], restval="")
            writer.writeheader()
            writer.writerows(curve_rows(record))
    return folder


def curve_rows(record: dict) -> list[dict]:
    """Scores that pass each goal where the points say, in a straight line of the logs between them."""
    rows = []
    last = record["goals"][-1]["points"]
    for index, entry in enumerate(last):
        reached = [(goal["points"][index]["steps"], goal["goal"]) for goal in record["goals"]]
        reached = [(steps, goal) for steps, goal in reached if steps is not None]
        for step, score in _between(reached):
            rate = {"batch_size": entry["batch_size"], "learning_rate": entry["learning_rate"], "seed": 0}
            rows.append(rate | {"step": step, "examples": step * entry["batch_size"], "score": score})
            rows[-1] |= {"smoothed_score": score, "loss": score}
    return rows


def _between(anchors: list[tuple[float, float]], parts: int = 10) -> list[tuple[int, float]]:
    curve = []
    for (step_a, score_a), (step_b, score_b) in pairwise(anchors):
        for part in range(parts):
            t = part / parts
            curve.append((round(step_a ** (1 - t) * step_b**t), score_a ** (1 - t) * score_b**t))
    return [*curve, (round(anchors[-1][0]), anchors[-1][1])]


def full_folder(results: Path) -> Path:
    """A results folder with one of each kind."""
    for record in (
        sweep_record(),
        sweep_record(scale="paper", b_crit=(22, 230), b_simple_run=880, data={"name": "MNIST", "embedded": False}),
        bounded_record(),
        quadratic_record(),
        atari_record("breakout", 3_000, 9_000),
        sweep_record("billion_word", b_crit=(500, 3_000), b_simple_run=5_000, goals=(6.0, 5.5, 5.0, 4.5), score="loss"),
        sweep_record("my_task", published=None, b_crit=(90, 900), b_simple_run=2_000, model=""),
    ):
        write_sweep(results, record)
    return results


def comparison_record(exponent: float = 0.0, *, growth: tuple[float, float] = (300, 4_000), **changes: object) -> dict:
    """The record of a comparison of model sizes whose noise scale goes as size^exponent at each goal's loss."""
    sizes, goals = (64, 128, 256), (6.0, 5.5, 5.0)
    noise = geometric(*growth, len(goals))
    factors = [(size / 64) ** exponent for size in sizes]
    runs = [
        {
            "name": str(size),
            "value": size,
            "learning_rate": 0.01,
            "goals": [
                {"goal": goal, "steps": [100.0, 110.0]} | with_interval("b_simple", value * factor)
                for goal, value in zip(goals, noise)
            ],
        }
        for size, factor in zip(sizes, factors)
    ]
    spread = max(factors) / min(factors)
    record = {
        "task": "billion_word",
        "scale": "mini",
        "comparison": "model_size",
        "quantity": "LSTM size",
        "unit": "token",
        "score": "train loss",
        "batch_size": 1280,
        "seeds": 2,
        "runs": runs,
        "spread": [{"goal": goal, "largest_over_smallest": spread} for goal in goals],
        "typical_spread": spread,
        "exponent": {"value": exponent, "low": exponent - 0.1, "high": exponent + 0.1, "points": 9},
        "command": "python -m reproduce -m task=billion_word/mini comparison=model_size",
        "commit": "89abcde",
    }
    return record | changes


def linear_rule_record(ratios: tuple[float | None, ...] = (1.0, 1.2, 1.4, 1.6, None), **changes: object) -> dict:
    """The record of a linear_rule.json from B = 4 and rate 0.02, at B = 8, 32, 128, 512, ...; B_crit is 75."""
    points = []
    for index, ratio in enumerate(ratios):
        size, tuned = 8 * 4**index, 200 * (1 + 75 / (8 * 4**index))
        points.append(
            {
                "batch_size": size,
                "learning_rate": 0.02 * size / 4,
                "steps": ratio and ratio * tuned,
                "seeds": 3,
                "seeds_reached": 3 if ratio else 1,
                "tuned_learning_rate": EPS / (1 + KNEE / size),
                "tuned_steps": tuned,
                "ratio": ratio,
            }
        )
    record = {
        "task": "mnist",
        "scale": "mini",
        "comparison": "linear_rule",
        "unit": "image",
        "goal": 0.04,
        "seeds": 3,
        "base": {"batch_size": 4, "learning_rate": 0.02},
        "points": points,
        "command": "python -m reproduce -m task=mnist/mini comparison=linear_rule",
        "commit": "89abcde",
    }
    return record | with_interval("b_crit", 75) | changes


def adaptive_batch_record(gamma: float | None = 0.9, **changes: object) -> dict:
    """The record of an adaptive_batch.json: S_min 100 and E_min 8,000, adaptive runs on the hyperbola of `gamma`."""

    def runs(steps: float, factor: float) -> dict:
        examples = 8_000 * (1 + factor / (steps / 100 - 1))
        return {"steps": steps, "examples": examples, "gamma": factor, "seeds": 12, "seeds_reached": 12}

    record = {
        "task": "mnist",
        "scale": "mini",
        "comparison": "adaptive_batch",
        "unit": "image",
        "goal": 0.04,
        "seeds": 12,
        "learning_rate": {"eps": EPS, "knee": KNEE, "alpha": 1},
        "s_min": 100.0,
        "e_min": 8_000.0,
        "constant": [{"batch_size": size} | runs(100 * (1 + 80 / size), 1.0) for size in (20, 40, 80, 160, 320)],
        "adaptive": [
            {"r": r, "schedule": [[1, 10.0], [50, 2.0 * r], [100, 3.0 * r]]} | runs(100 * (1 + 80 / r), gamma or 1.0)
            for r in (20, 80, 320)
        ],
        "predicted_gamma": 0.96,
        "command": "python -m reproduce -m task=mnist/mini comparison=adaptive_batch",
        "commit": "89abcde",
    }
    return record | with_interval("gamma", gamma, 0.05) | with_interval("b_crit", 80) | changes


def language_record() -> dict:
    """A sweep of a language model: a loss in nats, and critical batch sizes on Kaplan's law."""
    goals = (6.0, 5.5, 5.0)
    law = {"alpha_b": 0.21, "alpha_b_low": 0.18, "alpha_b_high": 0.26, "b_star": 2e8, "goals": 3, "rms": 0.05}
    b_crit = tuple(2e8 / goal ** (1 / 0.21) for goal in (goals[0], goals[-1]))
    return sweep_record("billion_word", goals=goals, b_crit=b_crit, score="train loss", score_unit="nats", loss_law=law)
