"""ImageNet with a residual network and momentum (App. A.4): a hundred generated classes, or the real images."""

from functools import partial

import torch
from torch import Tensor, nn

from tasks.data.fractals import fractals
from tasks.data.image_folder import ImageFolders
from tasks.data.sources import FolderImages, GeneratedImages, ImageSource
from tasks.image_classification import ImageClassification
from tasks.networks.grouped_batch_norm import GroupedBatchNorm2d
from tasks.networks.residual import ResNet, group_norm
from tasks.task import TaskError

SHAPES_PER_CLASS = 32
CUE = 0.6  # of colour, of the generated classes: more than for ten classes, or nothing would be learnt in minutes
# Mean and standard deviation of ImageNet's pixels, by channel.
PIXEL_MEAN, PIXEL_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageNet(ImageClassification):
    """Args:
    source: "generated" (fractals at 32 x 32 pixels) or "folders" (the real images, in `data_dir`/train/<class>/ and
    `data_dir`/val/<class>/).
    network: "small" (a residual network with GroupNorm) or "resnet50" (torchvision's, with batch normalisation in
    groups).
    image_size: pixels a side. classes: of the generated images; the folders say it of the real ones.
    group: images that batch normalisation couples, and so one sample; 1 for "small".
    workers: processes of each rank that decode files.
    goals, score, evaluation_images: see ImageClassification. "test" takes the folder val.
    """

    def __init__(
        self,
        source: str,
        network: str,
        image_size: int,
        classes: int,
        goals: list[float],
        group: int = 1,
        score: str = "train",
        evaluation_images: int = 1000,
        workers: int = 8,
        data_dir: str = "data/imagenet",
    ) -> None:
        if network not in ("small", "resnet50"):
            raise TaskError(f"task.network must be 'small' or 'resnet50', got '{network}'.")
        if network == "small" and group != 1:
            raise TaskError(f"task.network=small has no batch normalisation: task.group must be 1, got {group}.")
        super().__init__(
            self._source(source, image_size, classes, workers, data_dir),
            *(image_size, goals, score, evaluation_images, group),
        )
        self.network, self.classes = network, classes

    @staticmethod
    def _source(source: str, image_size: int, classes: int, workers: int, data_dir: str) -> ImageSource:
        if source == "generated":
            return GeneratedImages(
                f"{classes} classes of generated fractals", partial(fractals, classes, SHAPES_PER_CLASS, CUE)
            )
        if source == "folders":
            return FolderImages("ImageNet", partial(ImageFolders, data_dir, image_size, workers), classes)
        raise TaskError(f"task.source must be 'generated' or 'folders', got '{source}'.")

    def normalise(self, images: Tensor) -> Tensor:
        mean, std = (torch.tensor(values, device=images.device)[:, None, None] for values in (PIXEL_MEAN, PIXEL_STD))
        return (images - mean) / std

    def build_model(self) -> nn.Module:
        if self.network == "small":
            model: nn.Module = ResNet((16, 32, 64), 1, self.classes, group_norm, stem_stride=2)
        else:
            from torchvision.models import resnet50  # costs half a second, and the small network does without

            model = resnet50(
                num_classes=self.classes, norm_layer=partial(GroupedBatchNorm2d, group=self.units_per_sample)
            )
        return model.to(memory_format=torch.channels_last)
