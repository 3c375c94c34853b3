"""Classification of colour images, whatever they come from and whatever network learns them."""

from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks.data.sources import ImageSource, ImageStream, checked_split
from tasks.task import Batch, Sampler, Task


class ClassifiedImages(Sampler):
    """Batch: images (n, 3, size, size) float as the network takes them, labels (n,) int64.

    With group > 1: (n, group, 3, size, size) and (n, group).
    """

    def __init__(self, task: "ImageClassification", stream: ImageStream) -> None:
        self.task, self.stream = task, stream

    def draw(self, step: int, samples: int, model: nn.Module) -> Batch:
        images, labels = self.stream.draw(step, samples * self.task.units_per_sample)
        return self.task.grouped(self.task.normalise(images), labels)


class ImageClassification(Task):
    """Args:
    source: of the images. size: pixels a side.
    goals: error rates from easy to hard.
    score: "train" (as in the paper: fixed training images, no augmentation) or "test". Of generated images none is
    seen twice, so the two are alike there.
    evaluation_images: how many images the score is taken on.
    group: images that batch normalisation couples, and so one sample; 1 where images are independent.
    """

    unit = "image"
    higher_is_better = False

    def __init__(
        self, source: ImageSource, size: int, goals: list[float], score: str, evaluation_images: int, group: int = 1
    ) -> None:
        self.source, self.size = source, size
        self.data, self.embedded = source.name, source.embedded
        self.goals = tuple(goals)
        self.split, self.score = checked_split(score), f"{score} error"
        self.evaluation_images = evaluation_images
        self.units_per_sample = group

    @abstractmethod
    def normalise(self, images: Tensor) -> Tensor:
        """Images in [0, 1] as the network takes them."""

    def grouped(self, images: Tensor, labels: Tensor) -> Batch:
        """Images as samples: in groups, where batch normalisation couples them."""
        group = self.units_per_sample
        if group == 1:
            return images, labels
        return images.view(-1, group, *images.shape[1:]), labels.view(-1, group)

    def prepare(self) -> None:
        self.source.prepare()

    def sampler(self, seed: int, rank: int, world_size: int, device: torch.device) -> Sampler:
        return ClassifiedImages(self, self.source.stream(seed, rank, world_size, device))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        images, labels = batch
        if self.units_per_sample > 1:
            images = images.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        return F.cross_entropy(model(images), labels.flatten())

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> float:
        device = next(model.parameters()).device
        errors = total = 0
        for images, labels in self.source.fixed(self.split, self.evaluation_images):
            predicted = model(self.normalise(images.to(device))).argmax(1)
            errors += int((predicted != labels.to(device)).sum())
            total += len(labels)
        return errors / total

    def fake_batch(self, samples: int) -> Batch:
        images = samples * self.units_per_sample
        pixels = torch.zeros(images, 3, self.size, self.size).to(memory_format=torch.channels_last)
        return self.grouped(pixels, torch.zeros(images, dtype=torch.long))
