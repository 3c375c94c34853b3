"""The noise scale in PyTorch Lightning, here on two processes with gradient accumulation.

python examples/lightning_ddp.py
"""

import time

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from reproduce.lightning import NoiseScaleCallback

# Every sample's gradient is -x, of mean MEAN and variance 1 in each of FEATURES weights, however long we train:
# the noise scale is tr Sigma / |G|^2 = FEATURES / (FEATURES MEAN^2) = 100 samples.
FEATURES, MEAN, SAMPLES = 64, 0.1, 60_000


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 1, bias=False)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return -self.layer(batch[0]).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


torch.manual_seed(0)
data = TensorDataset(MEAN + torch.randn(SAMPLES, FEATURES))
callback = NoiseScaleCallback()
trainer = Trainer(
    max_epochs=1,
    accelerator="cpu",
    devices=2,
    strategy="ddp",
    accumulate_grad_batches=2,
    gradient_clip_val=1.0,
    callbacks=[callback],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Model(), DataLoader(data, batch_size=64, shuffle=True))

estimate = callback.noise_scale.estimate()  # collective: on every rank
if trainer.is_global_zero:
    print(f"noise scale {estimate}, known: {1 / MEAN**2:.4g}")
time.sleep(1)  # until gloo's threads are done with the last tensors: at the interpreter's end they would abort it
