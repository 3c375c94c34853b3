"""python -m reproduce task=... run.batch_size=... run.learning_rate=...   one run
python -m reproduce -m task=... sweep=quick|full|grid                      a sweep, under hydra/sweeper=critical_batch
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

import conf
from reproduce.run import USER_ERRORS, failure_text, run


@hydra.main(config_path="pkg://conf", config_name="config", version_base="1.3")
def main(config: DictConfig) -> None:
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        if multiprocessing.parent_process():
            leave_interrupts_to_the_sweep()
        run(config)  # a failure goes to the sweeper, which goes on with the other runs
        return
    try:
        outcome = run(config)
    except Exception as error:
        sys.exit(f"error: {failure_text(error)}")
    print(f"{outcome['status']} after {outcome['step']} steps, {outcome['examples']} examples")


def leave_interrupts_to_the_sweep() -> None:
    """Ctrl-C reaches all processes of a terminal: the sweep's own one ends its workers.

    A worker cut off while it hands back a result would leave the sweep waiting for the rest of it. Not SIG_IGN, which
    the worker's ranks would inherit: they are to end.
    """
    signal.signal(signal.SIGINT, lambda *_: None)


def hydra_error_text(error: HydraException) -> str:
    """What Hydra found wrong, and for a task that does not exist, those that do."""
    if isinstance(error, MissingConfigException) and str(error.missing_cfg_file).startswith("task/"):
        folder = Path(conf.__file__).parent / "task"
        tasks = sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))
        return (
            f"There is no {error.missing_cfg_file}.yaml. The suite's tasks are {', '.join(tasks)}; to use one of your "
            "own, name the folder that holds its task/ with --config-dir."
        )
    return f"{error}\n{error.__cause__}" if isinstance(error.__cause__, OmegaConfBaseException) else str(error)


def command(main: Callable[[], None]) -> None:
    """A Hydra `main`, with what Hydra finds wrong told in one message too. HYDRA_FULL_ERROR=1 shows the traceback."""
    if os.environ.get("HYDRA_FULL_ERROR") == "1":
        main()
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands on its errors instead of printing them
    try:
        main()
    except HydraException as error:
        sys.exit(f"error: {hydra_error_text(error)}")
    except USER_ERRORS as error:  # raised before main, by a resolver of the config, or by another of Hydra's sweepers
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    command(main)
