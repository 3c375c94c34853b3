"""make bench: time of a training step against a bare PyTorch loop, of the noise scale's hook, of making or reading
batches beside training on them, of games beside those of other packages, and of `make report`; errors of estimates of
the noise scale at equal compute, and examples that pruning spares. All of them are ratios.

Both sides of a ratio take turns in one process, block by block, so that a machine that changes its speed changes
both. What is printed is the median of the blocks' ratios with their quartiles, and goes to results/benchmarks.json.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from reproduce.bench.batches import DRAWN, measure_drawing, measure_reading
from reproduce.bench.estimates import measure_errors, measure_pruning
from reproduce.bench.games import measure_battles, measure_games
from reproduce.bench.timing import quartiles, seconds_per_step
from reproduce.bench.training import HOOKED, TIMED, measure_hook, measure_trainer, run_config
from reproduce.distributed import run_on_ranks
from reproduce.results import write_json
from reproduce.run import commit, versions


def measure_report(results: Path, blocks: int) -> list[dict]:
    """`make report` from a copy of the results, beside what every command takes to start."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(results, Path(folder) / "results")
        report = partial(quietly, "-m", "reproduce.report", "--results", copy)
        start = partial(quietly, "-c", "import torch")
        pairs = np.array([[seconds_per_step(take, 1) for take in (report, start)] for _ in range(blocks)])
    row = {
        "what": "report / import torch",
        "task": f"{len(list(results.glob('*/*/summary.json')))} tasks",
        **quartiles(pairs[:, 0] / pairs[:, 1]),
        "milliseconds": round(float(np.median(pairs[:, 0])) * 1e3),
        "blocks": blocks,
    }
    return [row]


def quietly(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def line(row: dict) -> str:
    """A row as a terminal shows it."""
    ranks, batch_size = row.get("ranks", ""), row.get("batch_size", "")
    milliseconds = f"{row['milliseconds']:.3g}" if "milliseconds" in row else ""
    ends = "{:.3f} to {:.3f}".format(*row["ratio_quartiles"]) if "ratio_quartiles" in row else ""
    numbers = f"{ranks:>6}{batch_size:>8}{milliseconds:>9}{row['ratio']:>8.3f}"
    return f"{row['what']:<22}{row['task']:<29}{numbers}   {ends}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Ratios of times, errors and examples; see the module's text.")
    parser.add_argument("--blocks", type=int, default=21, help="pairs of blocks for each ratio (default 21)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder for benchmarks.json")
    arguments = parser.parse_args()
    # Fewer blocks where there are many rows, and what they show is far from the limit of what blocks can tell.
    many, few = arguments.blocks, max(3, arguments.blocks // 3)
    parts = [
        *(partial(measured_on, measure_trainer, TIMED, ranks, many) for ranks in (1, 2)),
        *(partial(measured_on, measure_hook, (*TIMED, *HOOKED), ranks, many) for ranks in (2, 4)),
        *(partial(run_on_ranks, measure_drawing, 1, "cpu", task, few) for task in DRAWN),
        partial(measure_reading, many),
        partial(run_on_ranks, measure_games, 1, "cpu", few),
        partial(run_on_ranks, measure_battles, 1, "cpu", few),
        partial(measure_errors, few),
        partial(measure_pruning, arguments.results),
        partial(measure_report, arguments.results, 3),
    ]
    print(f"{'what':<22}{'task':<29}{'ranks':>6}{'B':>8}{'ms':>9}{'ratio':>8}   quartiles")
    rows = []
    for part in parts:
        for row in part():
            print(line(row), flush=True)
            rows.append(row)
    summary = {
        "rows": rows,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": versions(),
        "commit": commit(),
    }
    write_json(arguments.results / "benchmarks.json", summary)


def measured_on(measure: Callable, cases: Sequence[tuple], ranks: int, blocks: int) -> list[dict]:
    configs = [run_config(task, batch_size, ranks, *overrides) for task, batch_size, *overrides in cases]
    return run_on_ranks(measure, ranks, "cpu", configs, blocks)


if __name__ == "__main__":
    main()
