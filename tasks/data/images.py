"""Sets of images in memory."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Images:
    """Images as uint8, shape (n, height, width) or (n, 3, height, width), and labels as int64, shape (n,)."""

    pixels: Tensor
    labels: Tensor


@dataclass(frozen=True)
class ImageSplit:
    train: Images
    test: Images
