"""Autoencoder and variational autoencoder of SVHN's images, with InfoGAN's encoder and decoder (App. A.4)."""

import math
from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks.data.sources import ImageStream, checked_split
from tasks.networks.autoencoder import Decoder, Encoder
from tasks.svhn import SIZE, svhn_source
from tasks.task import Batch, Sampler, Task, TaskError, random_generator, rank_share

VALUES = 3 * SIZE**2  # of an image


class ImagesAlone(Sampler):
    """Batch: images (n, 3, 32, 32) float in [0, 1]."""

    def __init__(self, stream: ImageStream) -> None:
        self.stream = stream

    def draw(self, step: int, samples: int, model: nn.Module) -> Batch:
        images, _ = self.stream.draw(step, samples)
        return (images,)


class ImagesAndNoise(Sampler):
    """Batch: images (n, 3, 32, 32) float in [0, 1], standard normal noise (n, codes) for the code's sample.

    The noise comes with the batch, so that a step is a pure function of (seed, step), as with dropout masks.
    """

    def __init__(
        self, stream: ImageStream, codes: int, seed: int, rank: int, world_size: int, device: torch.device
    ) -> None:
        self.stream, self.codes = stream, codes
        self.seed, self.rank, self.world_size, self.device = seed, rank, world_size, device

    def draw(self, step: int, samples: int, model: nn.Module) -> Batch:
        images, _ = self.stream.draw(step, samples)
        return images, self.noise(step, samples)

    def noise(self, step: int, samples: int) -> Tensor:
        generator = random_generator("code noise", self.seed, step)
        share = rank_share(samples, self.rank, self.world_size)
        return torch.randn(samples, self.codes, generator=generator)[share].to(self.device)


class Reconstruction(Task):
    """Args:
    source: "generated" or "torchvision" (the real images, in `data_dir`).
    width, hidden, codes: channels of the first convolution, units of the hidden layer, numbers in a code.
    goals: losses from easy to hard.
    score: "train" (as in the paper: fixed training images) or "test". Of generated images none is seen twice, so the
    two are alike there.
    evaluation_images: how many images the score is taken on.
    """

    unit = "image"
    higher_is_better = False
    measure: str  # what the loss is

    def __init__(
        self,
        source: str,
        width: int,
        hidden: int,
        codes: int,
        goals: list[float],
        score: str = "train",
        evaluation_images: int = 500,
        data_dir: str = "data",
        download: bool = False,
    ) -> None:
        self.source = svhn_source(source, data_dir, download)
        self.data, self.embedded = self.source.name, self.source.embedded
        self.width, self.hidden, self.codes = width, hidden, codes
        self.goals = tuple(goals)
        self.split, self.score = checked_split(score), f"{score} {self.measure}"
        self.evaluation_images = evaluation_images

    def prepare(self) -> None:
        self.source.prepare()

    @abstractmethod
    def as_batch(self, images: Tensor) -> Batch:
        """Images for the score."""

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> float:
        device = next(model.parameters()).device
        total = count = 0.0
        for images, _ in self.source.fixed(self.split, self.evaluation_images):
            total += float(self.loss(model, self.as_batch(images.to(device)))) * len(images)
            count += len(images)
        return total / count

    def fake_batch(self, samples: int) -> Batch:
        return self.as_batch(torch.zeros(samples, 3, SIZE, SIZE).to(memory_format=torch.channels_last))


class Autoencoder(nn.Module):
    """Encoder and decoder; `outputs` numbers come out of the encoder, `codes` go into the decoder."""

    def __init__(self, width: int, hidden: int, outputs: int, codes: int) -> None:
        super().__init__()
        self.encoder = Encoder(width, hidden, outputs)
        self.decoder = Decoder(width, codes)

    def forward(self, images: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Reconstructions (n, 3, 32, 32) and what the encoder gave (n, outputs): with noise, means and ln variances."""
        encoded = self.encoder(images)
        if noise is None:
            return self.decoder(encoded), encoded
        mean, log_variance = encoded.chunk(2, 1)
        return self.decoder(mean + noise * (log_variance / 2).exp()), encoded


class SVHNAutoencoder(Reconstruction):
    """The loss is the squared error, in the mean over pixels and channels, of values in [0, 1]."""

    measure = "squared error"

    def build_model(self) -> nn.Module:
        model = Autoencoder(self.width, self.hidden, self.codes, self.codes)
        return model.to(memory_format=torch.channels_last)

    def sampler(self, seed: int, rank: int, world_size: int, device: torch.device) -> Sampler:
        return ImagesAlone(self.source.stream(seed, rank, world_size, device))

    def as_batch(self, images: Tensor) -> Batch:
        return (images,)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        (images,) = batch
        reconstruction, _ = model(images)
        return F.mse_loss(reconstruction, images)


class SVHNVAE(Reconstruction):
    """The loss is the negative evidence lower bound in nats, divided by the number of values in an image.

    A value is normal around its reconstruction with standard deviation `pixel_std`, codes are standard normal a priori
    (Kingma and Welling 2013, arXiv 1312.6114). The constant ln(pixel_std sqrt(2 pi)) is left out: 0 is a perfect
    reconstruction at no cost in codes. The score uses the mean of the code's distribution for each image and its
    Kullback-Leibler term, so that it has no noise of its own.
    """

    measure = "nats per value"

    def __init__(self, pixel_std: float, **settings: object) -> None:
        super().__init__(**settings)
        if not 0 < pixel_std < math.inf:
            raise TaskError(f"task.pixel_std must be above 0, got {pixel_std}.")
        self.pixel_std = pixel_std

    def build_model(self) -> nn.Module:
        model = Autoencoder(self.width, self.hidden, 2 * self.codes, self.codes)
        return model.to(memory_format=torch.channels_last)

    def sampler(self, seed: int, rank: int, world_size: int, device: torch.device) -> Sampler:
        stream = self.source.stream(seed, rank, world_size, device)
        return ImagesAndNoise(stream, self.codes, seed, rank, world_size, device)

    def as_batch(self, images: Tensor) -> Batch:
        return images, torch.zeros(len(images), self.codes, device=images.device)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        images, noise = batch
        reconstruction, encoded = model(images, noise)
        mean, log_variance = encoded.chunk(2, 1)
        distortion = F.mse_loss(reconstruction, images, reduction="sum") / (2 * self.pixel_std**2)
        rate = (mean.square() + log_variance.exp() - 1 - log_variance).sum() / 2
        return (distortion + rate) / images.numel()
