"""Mirror of a run's evaluations to Weights & Biases; the JSON lines stay the truth."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reproduce.records import run_name
from reproduce.settings import ConfigError, Settings


def check_mirror(settings: Settings) -> None:
    """Raises ConfigError if W&B is asked for and not installed: told before a run is recorded."""
    if settings.logger.get("kind") == "wandb" and importlib.util.find_spec("wandb") is None:
        raise ConfigError("logger=wandb needs the package wandb: pip install 'critical-batch[wandb]'.")


@contextmanager
def open_mirror(settings: Settings, enabled: bool) -> Iterator[Callable[[dict], None]]:
    """A function that takes each evaluation as it is recorded; does nothing unless logger=wandb.

    One W&B run a run, named as its record, and always finished, also when training fails.

    Raises:
        ConfigError: if wandb is asked for and not installed.
    """
    if not enabled or settings.logger.get("kind") != "wandb":
        yield lambda entry: None
        return
    import wandb  # a second of imports

    identity = settings.identity()
    name = run_name(identity)
    run = wandb.init(
        project=settings.logger["project"],
        mode=settings.logger["mode"],
        dir=settings.logger["dir"],
        name=name,
        id=name.replace("+", "p"),
        group=f"{settings.task}/{settings.scale}",
        config=identity,
        resume="allow",
        reinit="finish_previous",
        settings=wandb.Settings(silent=True, console="off"),
    )
    failed = True
    try:
        yield lambda entry: run.log(flatten(entry), step=entry["step"])
        failed = False
    finally:
        run.finish(exit_code=int(failed))


def flatten(entry: dict) -> dict:
    """Nested moments as "probe/grad_sq" and so on, with "probe/b_simple" where it is positive."""
    flat = {}
    for key, value in entry.items():
        if not isinstance(value, dict):
            flat[key] = value
            continue
        flat |= {f"{key}/{name}": number for name, number in value.items()}
        if value["grad_sq"] > 0:
            flat[f"{key}/noise_scale"] = value["trace"] / value["grad_sq"]
    return flat
