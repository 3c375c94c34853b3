"""SVHN with a two-layer convolutional network and SGD (App. A.4), at any width."""

from functools import partial

import torch
from torch import Tensor, nn

from tasks.data.sources import GeneratedImages, ImageSet, ImageSource
from tasks.data.street_numbers import DIGITS, street_numbers
from tasks.data.torchvision_sets import full_svhn
from tasks.image_classification import ImageClassification
from tasks.networks.convolutional import ConvNet
from tasks.task import TaskError

SIZE = 32


def svhn_source(source: str, data_dir: str, download: bool) -> ImageSource:
    """ "generated" street numbers, or the real ones by "torchvision"."""
    if source == "generated":
        return GeneratedImages("street numbers generated in SVHN's manner", street_numbers)
    if source == "torchvision":
        return ImageSet("SVHN", partial(full_svhn, data_dir, download))
    raise TaskError(f"task.source must be 'generated' or 'torchvision', got '{source}'.")


class SVHN(ImageClassification):
    """Args:
    source: "generated" or "torchvision" (the real images, in `data_dir`).
    channels, hidden: size of the network.
    goals, score, evaluation_images: see ImageClassification.
    """

    def __init__(
        self,
        source: str,
        channels: list[int],
        hidden: int,
        goals: list[float],
        score: str = "train",
        evaluation_images: int = 1000,
        data_dir: str = "data",
        download: bool = False,
    ) -> None:
        super().__init__(svhn_source(source, data_dir, download), SIZE, goals, score, evaluation_images)
        self.channels, self.hidden = tuple(channels), hidden

    def normalise(self, images: Tensor) -> Tensor:
        # Colour casts say nothing about the digit: without them training spends less time on a plateau.
        return torch.add(-4 * images.mean((2, 3), keepdim=True), images, alpha=4)

    def build_model(self) -> nn.Module:
        model = ConvNet((3, SIZE), self.channels, self.hidden, DIGITS)
        return model.to(memory_format=torch.channels_last)
