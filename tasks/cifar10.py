"""CIFAR-10 with a residual network and momentum (App. A.4), at any width and depth."""

from functools import partial

import torch
from torch import Tensor, nn

from tasks.data.fractals import fractals
from tasks.data.sources import GeneratedImages, ImageSet, ImageSource
from tasks.data.torchvision_sets import full_cifar10
from tasks.image_classification import ImageClassification
from tasks.networks.grouped_batch_norm import GroupedBatchNorm2d
from tasks.networks.residual import ResNet, group_norm
from tasks.task import TaskError

CLASSES = 10
SIZE = 32
SHAPES_PER_CLASS = 64
CUE = 0.45  # of colour, of the generated classes: coarse differences are learnt first and shapes later
MAX_SHIFT = 4  # pixels, and mirrored: the usual augmentation (He et al. 2015, arXiv 1512.03385)


def cifar10_source(source: str, data_dir: str, download: bool) -> ImageSource:
    """ "generated" fractals in ten classes, or CIFAR-10 itself by "torchvision"."""
    if source == "generated":
        return GeneratedImages("ten classes of generated fractals", partial(fractals, CLASSES, SHAPES_PER_CLASS, CUE))
    if source == "torchvision":
        return ImageSet("CIFAR-10", partial(full_cifar10, data_dir, download), MAX_SHIFT, flip=True)
    raise TaskError(f"task.source must be 'generated' or 'torchvision', got '{source}'.")


class CIFAR10(ImageClassification):
    """Args:
    source: "generated" (ten classes of fractals) or "torchvision" (the real images, in `data_dir`).
    widths, blocks, stem_stride: of the network; widths (16, 32, 64) with 5 blocks a stage make ResNet-32.
    group: images that batch normalisation couples; 1: GroupNorm, which couples none.
    goals, score, evaluation_images: see ImageClassification.
    """

    def __init__(
        self,
        source: str,
        widths: list[int],
        blocks: int,
        stem_stride: int,
        goals: list[float],
        group: int = 1,
        score: str = "train",
        evaluation_images: int = 1000,
        data_dir: str = "data",
        download: bool = False,
    ) -> None:
        super().__init__(cifar10_source(source, data_dir, download), SIZE, goals, score, evaluation_images, group)
        self.widths, self.blocks, self.stem_stride = tuple(widths), blocks, stem_stride

    def normalise(self, images: Tensor) -> Tensor:
        return (images - 0.5).mul_(4)  # about zero mean and unit variance

    def build_model(self) -> nn.Module:
        group = self.units_per_sample
        norm = group_norm if group == 1 else partial(GroupedBatchNorm2d, group=group)
        model = ResNet(self.widths, self.blocks, CLASSES, norm, self.stem_stride)
        return model.to(memory_format=torch.channels_last)
