"""From image files to crops, in a decoding process: a pure function of the files and the images' seeds."""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

VAL_RESIZE = 256 / 224  # the usual margin around the centre crop that ImageNet is scored on

Decoded = tuple[np.ndarray, dict[int, str]]
"""Images (n, 3, size, size) as uint8, and what was wrong with those (by row) that could not be decoded."""


@lru_cache(maxsize=2)
def _transform(image_size: int, augmented: bool) -> Callable[[Image.Image], Image.Image]:
    from torchvision.transforms import v2  # costs half a second, and most tasks do without

    if augmented:
        return v2.Compose([v2.RandomResizedCrop(image_size), v2.RandomHorizontalFlip()])
    return v2.Compose([v2.Resize(round(image_size * VAL_RESIZE)), v2.CenterCrop(image_size)])


def decode(paths: list[str], seeds: list[int] | None, image_size: int) -> Decoded:
    """Reads and crops images; the work of one task of a worker.

    Orientation tags are ignored, as torchvision's own reader does, so that scores compare.

    Raises:
        OSError: if a file cannot be opened at all: a fault of the disk or network, which repeating the run mends,
            while an image that is replaced by another would change it.
    """
    images = np.zeros((len(paths), 3, image_size, image_size), np.uint8)
    broken = {}
    crop = _transform(image_size, seeds is not None)
    # v2's transforms draw from torch's global generator. It is set by hand: torch.manual_seed would set the GPUs'
    # generators too, which fork_rng does not put back here.
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of odd tags in readable files, once for every worker
        for row, path in enumerate(paths):
            try:
                with open(path, "rb") as file, Image.open(file) as opened:
                    image = opened.convert("RGB")  # some of ImageNet are CMYK or grey, and one is a PNG
            except Exception as error:  # Pillow raises many kinds on damaged files
                if isinstance(error, OSError) and error.errno is not None:
                    raise OSError(error.errno, error.strerror, path) from error
                if isinstance(error, MemoryError):
                    raise
                unknown = isinstance(error, UnidentifiedImageError)  # whose text is the path again
                broken[row] = "of no known image format" if unknown else f"{type(error).__name__}: {error}"
                continue
            if seeds is not None:
                torch.default_generator.manual_seed(seeds[row])
            images[row] = np.asarray(crop(image)).transpose(2, 0, 1)
    return images, broken


def start_worker() -> None:
    """What a decoding process does first."""
    torch.set_num_threads(1)  # the workers share the cores among themselves
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then ends the workers
    # A parent that is killed cannot end them, and they would wait for work for ever.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)
