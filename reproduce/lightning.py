"""The gradient noise scale in PyTorch Lightning (`pip install 'critical-batch[lightning]'`).

Trainer(callbacks=[NoiseScaleCallback()], devices=8)
"""

from collections.abc import Callable
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from reproduce.estimator import NoiseScaleError
from reproduce.noise_scale import NoiseScale


def first_length(batch: Any) -> int:
    """The samples of a batch as data loaders make them: the length of its first tensor."""
    while isinstance(batch, dict | list | tuple):
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return len(batch)


class NoiseScaleCallback(Callback):
    """Measures B_simple in DistributedDataParallel, with gradient accumulation, or both, and logs it as `noise_scale`.

    Args:
        samples: of a rank's batch.
        every: optimiser steps between logged values.
        options: as for NoiseScale, such as units_per_sample and horizon.
    Attributes:
        noise_scale: NoiseScale; its `estimate()` has the interval. Collective: call it on every rank.
    Raises:
        NoiseScaleError: when training starts, where there is nothing to compare or gradients are scaled.
    """

    def __init__(self, samples: Callable[[Any], int] = first_length, every: int = 50, **options: Any) -> None:
        self.samples, self.every, self.options = samples, every, options
        self.noise_scale: NoiseScale | None = None
        self.restored: dict | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size == 1 and trainer.accumulate_grad_batches == 1:
            raise NoiseScaleError(
                "One device without gradient accumulation has a single batch size: set accumulate_grad_batches=2 or "
                "more in the Trainer, or use PerExampleNoiseScale in the module."
            )
        if trainer.precision == "16-mixed":
            raise NoiseScaleError("Gradients of precision='16-mixed' are scaled: use 'bf16-mixed' or '32-true'.")
        accumulates = trainer.accumulate_grad_batches > 1
        self.noise_scale = NoiseScale(trainer.strategy.model, micro_batches=accumulates, **self.options)
        if self.restored:
            self.noise_scale.load_state_dict(self.restored)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch_samples = self.samples(batch)
        if batch_idx % trainer.accumulate_grad_batches == 0:  # the last step of an epoch may have fewer
            self.micro_batches = min(trainer.accumulate_grad_batches, trainer.num_training_batches - batch_idx)

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.noise_scale.micro:
            self.noise_scale.micro_batch(samples=self.batch_samples, weight=1 / self.micro_batches)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        samples = None if self.noise_scale.micro else self.batch_samples
        self.noise_scale.update(samples, loss_scale=self.micro_batches / trainer.accumulate_grad_batches)
        if (trainer.global_step + 1) % self.every == 0:
            estimate = self.noise_scale.estimate()
            if estimate.value is not None:
                pl_module.log("noise_scale", estimate.value)

    def state_dict(self) -> dict:
        if self.noise_scale is None:
            return {}
        self.noise_scale.flush()
        return self.noise_scale.state_dict()

    def load_state_dict(self, state_dict: dict) -> None:
        self.restored = state_dict or None
