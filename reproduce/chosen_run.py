"""Which run a measurement of its own is made in: that of the sweep's summary, or one that the user names."""

import json
from pathlib import Path

import numpy as np
from omegaconf import DictConfig, OmegaConf, open_dict

from reproduce.places import relative
from reproduce.settings import ConfigError


def best_of_summary(path: Path) -> tuple[int, float]:
    """(batch size, learning rate) of a sweep: the batch size nearest to the run's B_crit, its best rate at the end.

    Where B_crit is only bounded, the bound takes its place.

    Raises:
        ConfigError: if there is no summary, or it says too little.
    """
    remedy = (
        "Run the sweep first (make reproduce-<task>), or name the run to search along: run.batch_size=... "
        "run.learning_rate=..."
    )
    try:
        summary = json.loads(path.read_text())
        last, b_crit = summary["goals"][-1], summary["b_crit"]
        found = next((b_crit[key] for key in ("run", "run_low", "run_high") if b_crit.get(key)), None)
        points = [p for p in last["points"] if p["steps"] is not None and p["learning_rate"] is not None]
    except OSError as error:
        raise ConfigError(
            f"There is no {relative(path)} to take the batch size and learning rate from. {remedy}"
        ) from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ConfigError(f"{relative(path)} cannot be used ({type(error).__name__}: {error}). {remedy}") from error
    if found is None or not points:
        raise ConfigError(f"{relative(path)} has no B_crit, or no run that reached the last goal. {remedy}")
    nearest = min(points, key=lambda p: abs(np.log(p["batch_size"] / found)))
    return int(nearest["batch_size"]), float(nearest["learning_rate"])


def with_run(config: DictConfig, summary: Path) -> tuple[DictConfig, bool]:
    """The config with its run filled in, and whether that came from the sweep's summary.

    Raises:
        ConfigError: with only one of batch size and learning rate, or neither and no summary.
    """
    missing = [key for key in ("batch_size", "learning_rate") if OmegaConf.is_missing(config.run, key)]
    if not missing:
        return config, False
    if len(missing) == 1:
        raise ConfigError(
            f"run.{missing[0]} is missing: name run.batch_size and run.learning_rate, or neither, to take both from "
            "the sweep's summary."
        )
    batch_size, learning_rate = best_of_summary(summary)
    config = config.copy()
    with open_dict(config):
        config.run.batch_size, config.run.learning_rate = batch_size, learning_rate
    return config, True
