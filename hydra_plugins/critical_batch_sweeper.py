"""The sweeper as Hydra finds it: it must live in this namespace, and is imported at every start, so it is thin."""

from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class CriticalBatchSweeperConf:
    _target_: str = "hydra_plugins.critical_batch_sweeper.CriticalBatchSweeper"


ConfigStore.instance().store(
    group="hydra/sweeper", name="critical_batch", node=CriticalBatchSweeperConf, provider="critical-batch"
)


class CriticalBatchSweeper(Sweeper):
    """Finds the best learning rate at each batch size of the task, through whatever launcher is configured."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config
        self.hydra_context = hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        from reproduce.driver import sweep_through

        return sweep_through(self.launcher, self.config, arguments)
