"""One run from a composed config: skipped if its record is complete, resumed if it was interrupted."""

import importlib.metadata
import os
import platform
import subprocess
import traceback
from datetime import date
from functools import lru_cache
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from reproduce.checkpoint import remove_checkpoint
from reproduce.distributed import RankError, Ranks, from_first_rank, launched_from_outside, run_on_ranks
from reproduce.mirror import check_mirror, open_mirror
from reproduce.records import RecordError, RecordWriter
from reproduce.settings import ConfigError, Settings, build_task, check_batch_size, settings_from_config
from reproduce.trainer import Trainer
from tasks.task import Task, TaskError

USER_ERRORS = (ConfigError, RankError, RecordError, TaskError, OmegaConfBaseException)
"""Errors whose message tells the user what to do; shown without a traceback."""

FRAMES_SHOWN = 4  # of a traceback: a task's own, and where the trainer called it

PACKAGES = ("torch", "numpy", "hydra-core")


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def origin() -> dict:
    """Where, when and with what results were made, as they say it themselves."""
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "date": str(date.today()),
        "versions": versions() | {"python": platform.python_version()},
    }


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The suite's git commit, with "+changes" where files differ from it; None outside a checkout."""
    folder = Path(__file__).parent
    try:
        revision = subprocess.run(
            ["git", "-C", folder, "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        code = ["--", ":/reproduce", ":/tasks", ":/conf", ":/hydra_plugins", ":/pyproject.toml"]
        changes = subprocess.run(
            # Looks on, and writes nothing: the index belongs to whoever works in the checkout.
            ["git", "--no-optional-locks", "-C", folder, "status", "--porcelain", *code],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return revision + ("+changes" if changes.strip() else "")


def is_complete(outcome: dict | None, limits: tuple[float | None, ...]) -> bool:
    """True if a recorded outcome answers all that a run with these limits would.

    A run that was given up answers only if it would be given up again: for each goal that it has not reached, it
    went on for as long as the limit. A failed run is tried again.
    """
    if outcome is None or outcome["status"] == "failed":
        return False
    if outcome["status"] != "given_up":
        return True
    recorded = outcome["limits"]
    return len(recorded) == len(limits) and all(
        reached is not None or (now is not None and before is not None and now <= before)
        for reached, now, before in zip(outcome["steps_to_goals"], limits, recorded, strict=True)
    )


def _train(ranks: Ranks, task: Task, settings: Settings) -> dict:
    """Body of every rank: the outcome, recorded by the first rank, or as it was recorded before."""
    check_batch_size(settings.run.batch_size, task, ranks.size)
    torch.set_num_threads(settings.trainer.threads)
    if not ranks.is_first:
        return _train_unless_recorded(ranks, task, settings, None)
    task.prepare()
    header = {"versions": versions(), "commit": commit(), "ranks": ranks.size, "device": str(ranks.device)}
    with RecordWriter(settings.folder, settings.identity(), header) as writer:
        return _train_unless_recorded(ranks, task, settings, writer)


def _train_unless_recorded(ranks: Ranks, task: Task, settings: Settings, writer: RecordWriter | None) -> dict:
    """`writer` on the first rank. A failure is recorded there and raised again."""
    recorded = writer.existing.outcome if writer and writer.existing else None
    if recorded and not is_complete(recorded, settings.run.limits):
        recorded = None  # ended before, but not far enough: from its checkpoint, if it failed and has one
    recorded = from_first_rank(recorded, ranks)
    if recorded is not None:
        return recorded
    try:
        with open_mirror(settings, enabled=ranks.is_first) as mirror:
            outcome = Trainer(task, settings, ranks, writer, mirror).train()
    except Exception as error:
        if writer and not isinstance(error, RecordError):
            writer.append("outcome", status="failed", error=f"{type(error).__name__}: {error}")
        raise
    if writer:
        writer.append("outcome", **outcome)
        remove_checkpoint(writer.path)
    return outcome


def _train_from_config(ranks: Ranks, config: dict) -> dict:
    """As `_train`, for processes of their own, which build the task themselves."""
    composed = OmegaConf.create(config)
    task = build_task(composed)
    return _train(ranks, task, settings_from_config(composed, task))


def run(config: DictConfig) -> dict:
    """Trains the run that `config` describes, or returns its recorded outcome.

    Returns:
        {"status", "steps_to_goals", "step", "examples", ...} as in the record's last line.
    Raises:
        ConfigError, RecordError, TaskError: with a message for the user.
    """
    task = build_task(config)
    settings = settings_from_config(config, task)  # before any process starts: a wrong field is told at once
    check_mirror(settings)
    if settings.trainer.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("trainer.device=cuda, but torch sees no GPU on this machine: use trainer.device=auto.")
    if settings.trainer.ranks > 1 and not launched_from_outside():
        task.prepare()
    plain = OmegaConf.to_container(config, resolve=True)
    return run_on_ranks(_train_from_config, settings.trainer.ranks, settings.trainer.device, plain)


def failure_text(error: BaseException) -> str:
    """What to show of an error: the message alone where it is meant for users, else its innermost frames too."""
    if isinstance(error, USER_ERRORS):
        return str(error)
    return "".join(traceback.format_exception(error, limit=-FRAMES_SHOWN)).rstrip()
