"""The Lightning callback against what its micro-batches' gradients say, worked out by hand."""

from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

from reproduce.estimator import NoiseScaleError, unbiased_moments
from reproduce.lightning import NoiseScaleCallback, first_length

FEATURES, SAMPLES = 8, 5

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning", "ignore:.*LeafSpec:DeprecationWarning")


class Model(LightningModule):
    """Every sample's gradient is the sample itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 1, bias=False)

    def training_step(self, batch: Tensor) -> Tensor:
        return self.layer(batch).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fitted(callback: NoiseScaleCallback, data: Tensor, tmp_path, **options) -> Trainer:
    quiet = ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")
    options = {"max_epochs": 1, "accelerator": "cpu", "devices": 1} | dict.fromkeys(quiet, False) | options
    trainer = Trainer(callbacks=[callback], default_root_dir=tmp_path, **options)
    trainer.fit(Model(), DataLoader(data, batch_size=SAMPLES))
    return trainer


def test_moments_are_those_of_the_micro_batches_also_where_the_last_step_has_fewer(tmp_path):
    data = torch.randn(10 * SAMPLES, FEATURES, generator=torch.Generator().manual_seed(0)) + 0.3
    callback = NoiseScaleCallback(every=2)
    trainer = fitted(callback, data, tmp_path, accumulate_grad_batches=4, gradient_clip_val=1e-3)
    gradients = data.view(10, SAMPLES, FEATURES).mean(1).double()
    expected = []
    for parts in (gradients[:4], gradients[4:8], gradients[8:]):
        small, whole = parts.square().sum(1).mean(), parts.mean(0).square().sum()
        expected.append(unbiased_moments(float(small), float(whole), SAMPLES, SAMPLES * len(parts)))
    estimate = callback.noise_scale.estimate()
    assert estimate.updates == 3
    assert estimate.grad_sq == pytest.approx(sum(grad_sq for grad_sq, _ in expected) / 3, rel=1e-5)
    assert estimate.trace == pytest.approx(sum(trace for _, trace in expected) / 3, rel=1e-5)
    assert "noise_scale" in trainer.callback_metrics


def test_measurement_goes_on_from_a_checkpoint(tmp_path):
    data = torch.randn(8 * SAMPLES, FEATURES)
    first, second = NoiseScaleCallback(), NoiseScaleCallback()
    trainer = fitted(first, data, tmp_path, accumulate_grad_batches=2)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    again = Trainer(
        max_epochs=2, accelerator="cpu", devices=1, accumulate_grad_batches=2, callbacks=[second], logger=False,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    again.fit(Model(), DataLoader(data, batch_size=SAMPLES), ckpt_path=tmp_path / "last.ckpt", weights_only=False)
    assert first.noise_scale.estimate().updates == 4
    assert second.noise_scale.estimate().updates == 8


@pytest.mark.parametrize(
    ("ranks", "precision", "message"),
    [(1, "32-true", "accumulate_grad_batches=2 or more"), (2, "16-mixed", "use 'bf16-mixed' or '32-true'")],
)
def test_what_cannot_be_measured_is_refused_when_training_starts(ranks, precision, message):
    trainer = SimpleNamespace(world_size=ranks, accumulate_grad_batches=1, precision=precision)
    with pytest.raises(NoiseScaleError, match=message):
        NoiseScaleCallback().on_train_start(trainer, None)


def test_samples_of_batches_as_loaders_make_them():
    tensor = torch.zeros(7, 3)
    assert first_length(tensor) == first_length([tensor, 1]) == first_length({"x": (tensor, tensor)}) == 7
