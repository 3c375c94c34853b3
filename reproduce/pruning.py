"""make pruning-<task>: what the pruned search saves against the paper's plain grid, and that it changes no result.

Compares two sweeps of one task over the same batch sizes, learning rate spacing and seeds, by their summaries.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from reproduce.records import RecordError
from reproduce.results import write_json


def load(folder: Path) -> dict:
    path = folder / "summary.json"
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read ({error}): run the sweep that writes it first.") from error


def compare(pruned: dict, grid: dict) -> dict:
    """Differences of the best points of two sweeps, and the share of the grid's examples that the pruned one took.

    Returns:
        "points": ln(steps pruned / steps grid) at each goal and batch size where both reached the goal, with whether
        the best learning rate is the same. A pruned search may find a rate outside the grid: then it is faster.
    Raises:
        ValueError: if the sweeps are not of the same task, goals and batch sizes.
    """
    for key in ("task", "scale"):
        if pruned[key] != grid[key]:
            raise ValueError(f"The sweeps differ in {key}: {pruned[key]} and {grid[key]}.")
    rows = []
    for a, b in zip(pruned["goals"], grid["goals"], strict=True):
        if a["goal"] != b["goal"]:
            raise ValueError(f"The sweeps differ in their goals: {a['goal']} and {b['goal']}.")
        of_grid = {p["batch_size"]: p for p in b["points"] if p["steps"]}
        for p in a["points"]:
            q = of_grid.get(p["batch_size"])
            if p["steps"] and q:
                rows.append(
                    {
                        "goal": a["goal"],
                        "batch_size": p["batch_size"],
                        "log_ratio": float(np.log(p["steps"] / q["steps"])),
                        "same_rate": p["learning_rate"] == q["learning_rate"],
                    }
                )
    logs = np.array([row["log_ratio"] for row in rows])
    return {
        "task": pruned["task"],
        "scale": pruned["scale"],
        "points_compared": len(rows),
        "same_rate": sum(row["same_rate"] for row in rows),
        "largest_log_ratio": float(np.abs(logs).max()),
        "rms_log_ratio": float(np.sqrt(np.square(logs).mean())),
        "b_crit": [
            {"goal": a["goal"], "pruned": a["b_crit"], "grid": b["b_crit"]}
            for a, b in zip(pruned["goals"], grid["goals"], strict=True)
        ],
        "examples": pruned["sweep"]["examples"],
        "examples_grid": grid["sweep"]["examples"],
        "share_of_grid": pruned["sweep"]["examples"] / grid["sweep"]["examples"],
        "runs": pruned["sweep"]["runs"],
        "runs_grid": grid["sweep"]["runs"],
        "seconds": pruned["sweep"]["seconds"],
        "seconds_grid": grid["sweep"]["seconds"],
        "commit": [pruned["commit"], grid["commit"]],
        "points": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Pruned search against the plain grid; see the module's text.")
    parser.add_argument("pruned", type=Path, help="results folder of the pruned sweep: .../<task>/<scale>")
    parser.add_argument("grid", type=Path, help="results folder of the grid")
    parser.add_argument("output", type=Path, help="file to write, such as results/mnist/mini/pruning.json")
    arguments = parser.parse_args()
    try:
        found = compare(load(arguments.pruned), load(arguments.grid))
    except (RecordError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{found['task']}/{found['scale']}: {found['examples']:,} examples against {found['examples_grid']:,} of the "
        f"grid ({found['share_of_grid']:.1%}), {found['runs']} runs against {found['runs_grid']}. Of "
        f"{found['points_compared']} best points {found['same_rate']} have the grid's learning rate; |ln(steps ratio)| "
        f"rms {found['rms_log_ratio']:.3f}, largest {found['largest_log_ratio']:.3f}."
    )
    write_json(arguments.output, found)


if __name__ == "__main__":
    main()
