"""Mirror of a run's evaluations to Weights & Biases; the JSON lines stay the truth."""

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reproduce.records import run_name
from reproduce.settings import ConfigError, Settings


def check_mirror(settings: Settings) -> None:
    """Raises ConfigError if W&B is asked for and not installed: told before a run is recorded."""
    if settings.logger.kind == "wandb" and importlib.util.find_spec("wandb") is None:
        raise ConfigError("logger=wandb needs the package wandb: pip install 'critical-batch[wandb]'.")


@contextmanager
def open_mirror(settings: Settings, enabled: bool) -> Iterator[Callable[[dict], None]]:
    """A function that takes each evaluation as it is recorded; does nothing unless logger=wandb.

    One W&B run a run, named as its record, and always finished, also when training fails.

    Raises:
        ConfigError: if W&B cannot start, for example online without a login.
    """
    if not enabled or settings.logger.kind != "wandb":
        yield lambda entry: None
        return
    if settings.logger.mode == "offline":
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # offline runs would be reported too, by default
    import wandb  # a second of imports

    identity = settings.identity()
    name = run_name(identity)
    try:
        run = wandb.init(
            project=settings.logger.project,
            mode=settings.logger.mode,
            dir=settings.logger.dir,
            name=name,
            id=name.replace("+", "p"),
            group=f"{settings.task}/{settings.scale}",
            config=identity,
            resume="allow",
            reinit="finish_previous",
            settings=wandb.Settings(silent=True, console="off"),
        )
    except wandb.errors.Error as error:
        raise ConfigError(f"W&B did not start: {error} Without a login, use logger.mode=offline.") from error
    failed = True
    try:
        yield lambda entry: run.log(flatten(entry), step=entry["step"])
        failed = False
    finally:
        run.finish(exit_code=int(failed))


def flatten(entry: dict) -> dict:
    """Nested moments as "probe/grad_sq" and so on, with "probe/noise_scale" where |G|^2 is positive."""
    flat = {}
    for key, value in entry.items():
        if not isinstance(value, dict):
            flat[key] = value
            continue
        flat |= {f"{key}/{name}": number for name, number in value.items()}
        if value["grad_sq"] > 0:
            flat[f"{key}/noise_scale"] = value["trace"] / value["grad_sq"]
    return flat
