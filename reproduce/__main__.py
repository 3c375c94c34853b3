"""python -m reproduce task=... run.batch_size=... run.learning_rate=...   one run
python -m reproduce -m task=... sweep=quick|full|grid                      a sweep, under hydra/sweeper=critical_batch
"""

import sys

import hydra
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from reproduce.run import USER_ERRORS, run


def run_job(config: DictConfig) -> dict:
    """One run of a sweep. Its failure is in its record and does not stop the others."""
    return run(config)


@hydra.main(config_path="pkg://conf", config_name="config", version_base="1.3")
def main(config: DictConfig) -> None:
    try:
        outcome = run(config)
    except (*USER_ERRORS, OmegaConfBaseException) as error:
        sys.exit(f"error: {error}")
    print(f"{outcome['status']} after {outcome['step']} steps, {outcome['examples']} examples")


if __name__ == "__main__":
    main()
