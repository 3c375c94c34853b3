"""MNIST, SVHN and CIFAR-10 as their authors publish them: read from a folder, fetched by torchvision if asked."""

import errno
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from tasks.data.images import Images, ImageSplit
from tasks.task import TaskError

CLASSES = 10

# What a folder that cannot be written to answers; other system errors of a download are the network's.
UNWRITABLE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
)


@dataclass(frozen=True)
class _Files:
    """One set on disk.

    Attributes:
        name: as messages call it. subfolder: of data_dir, in torchvision's layout.
        train, test: names of the files of each part. origin: where these come from, if not from files of that name.
        read: one file's content. join: a part from its files' contents. Both raise any error on wrong content.
        fetch: makes torchvision download into a data_dir what it misses there or finds damaged.
    """

    name: str
    subfolder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    origin: str
    read: Callable[[Path], Any]
    join: Callable[[list], Images]
    fetch: Callable[[str], object]


class _NotReadable(Exception):
    """Which files are missing or damaged, as a sentence."""


def _one_line(error: BaseException) -> str:
    """An error in brackets behind a file's name: torchvision's can be lists of mirrors, scipy's whole paragraphs."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else f"{text[:300]}..."


def _parts(files: _Files, folder: Path) -> ImageSplit:
    """Both parts, from the files in `folder`.

    The files are read here rather than by torchvision's classes, which say only that something is wrong, not with
    which file, and which know one MD5 alone, so that neither a subset nor a copy saved anew could be trained on.
    """
    contents, missing, damaged = {}, [], {}
    for name in (*files.train, *files.test):
        try:
            contents[name] = files.read(folder / name)
        except (FileNotFoundError, NotADirectoryError):
            missing.append(name)
        except Exception as error:  # whatever a reader of formats stumbles on in a damaged file
            damaged[name] = error
    if not missing and not damaged:
        parts = []
        for names in (files.train, files.test):
            try:
                parts.append(files.join([contents[name] for name in names]))
            except Exception as error:
                damaged |= dict.fromkeys(names, error)
        if not damaged:
            return ImageSplit(*parts)
    problems = []
    if damaged:
        one, reason = len(damaged) == 1, _one_line(next(iter(damaged.values())))
        problems.append(
            f"{', '.join(damaged)} in {folder} {'is' if one else 'are'} damaged or of another kind ({reason}): "
            f"delete {'it' if one else 'them'}."
        )
    if missing:
        problems.append(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing in {folder}.")
    raise _NotReadable(" ".join(problems))


def _load(files: _Files, data_dir: str, download: bool) -> ImageSplit:
    """The set in `data_dir`, downloaded first if it is missing or damaged there and `download` is on.

    Raises:
        TaskError: with what is wrong, and how to place the files by hand or have them fetched.
    """
    root = Path(data_dir).expanduser().resolve()
    folder = root / files.subfolder
    by_hand = f"put what is needed{files.origin} there by hand"
    try:
        return _parts(files, folder)
    except _NotReadable as error:
        found = f"{files.name} cannot be read: {error}"
        if not download:
            raise TaskError(
                f"{found} Either {by_hand}, or have torchvision fetch it with task.download=true; "
                "task.data_dir=FOLDER names another folder."
            ) from error
    try:
        files.fetch(str(root))
        return _parts(files, folder)
    except Exception as error:  # urllib, ssl, gzip, tarfile and torchvision raise what they like; all end a download
        if getattr(error, "errno", None) in UNWRITABLE:
            raise TaskError(
                f"{files.name} cannot be written to {folder} ({_one_line(error)}): choose another folder with "
                f"task.data_dir=FOLDER, or leave task.download off and {by_hand}."
            ) from error
        raise TaskError(
            f"{found} It cannot be downloaded either ({_one_line(error)}). Delete what is damaged and run again, or, "
            f"without a network, {by_hand} and leave task.download off."
        ) from error


def _images(pixels: Tensor, labels: Tensor, size: tuple[int, ...]) -> Images:
    """Checked, contiguous images.

    Raises:
        ValueError: unless they are uint8 of `size`, one for each label, and the labels are 0 to 9.
    """
    if pixels.dtype != torch.uint8 or pixels.shape[1:] != size or not len(pixels):
        raise ValueError(f"images are {pixels.dtype} of shape {tuple(pixels.shape)}, expected uint8 of (n, *{size})")
    labels = labels.flatten().long()
    if len(labels) != len(pixels):
        raise ValueError(f"{len(pixels)} images but {len(labels)} labels")
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise ValueError(f"labels go from {int(labels.min())} to {int(labels.max())}, expected 0 to {CLASSES - 1}")
    return Images(pixels.contiguous(), labels)


@lru_cache(maxsize=1)
def full_mnist(data_dir: str, download: bool) -> ImageSplit:
    """60,000 and 10,000 images of shape (n, 28, 28), from `data_dir`/MNIST/raw.

    Raises:
        TaskError: if the files are missing and `download` is off, or cannot be downloaded or read.
    """
    from torchvision.datasets import MNIST  # costs half a second, and the embedded images do without
    from torchvision.datasets.mnist import read_image_file, read_label_file

    files = _Files(
        name="MNIST",
        subfolder="MNIST/raw",
        train=("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        test=("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
        origin="",
        read=lambda path: (read_image_file if "images" in path.name else read_label_file)(path),
        join=lambda contents: _images(*contents, (28, 28)),
        fetch=lambda root: MNIST(root, download=True),
    )
    return _load(files, data_dir, download)


@lru_cache(maxsize=1)
def full_svhn(data_dir: str, download: bool) -> ImageSplit:
    """SVHN's cropped digits: 73,257 and 26,032 images of shape (n, 3, 32, 32), from .mat files in `data_dir`.

    The 531,131 easier images of its "extra" part are not read.

    Raises:
        TaskError: if the files are missing and `download` is off, or cannot be downloaded or read.
    """
    from scipy.io import loadmat
    from torchvision.datasets import SVHN

    def read(path: Path) -> Images:
        with path.open("rb") as file:
            content = loadmat(file, variable_names=("X", "y"))
        pixels = torch.from_numpy(content["X"])
        if pixels.ndim != 4:
            raise ValueError(f"X has shape {tuple(pixels.shape)}, expected (32, 32, 3, n)")
        labels = torch.from_numpy(content["y"].astype(np.int64))
        labels[labels == 10] = 0  # the authors count the digits from 1 to 10
        return _images(pixels.permute(3, 2, 0, 1), labels, (3, 32, 32))

    files = _Files(
        name="SVHN",
        subfolder="",
        train=("train_32x32.mat",),
        test=("test_32x32.mat",),
        origin="",
        read=read,
        join=lambda contents: contents[0],
        fetch=lambda root: [SVHN(root, split=split, download=True) for split in ("train", "test")],
    )
    return _load(files, data_dir, download)


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles numbers, text, containers and numpy arrays, and nothing else.

    A pickle can run any code. torchvision's MD5s guard against that only where they are checked and the file is the
    published one, and MD5 no longer resists forgery; what a batch of CIFAR-10 consists of can be listed instead.
    """

    # The modules' names have changed with numpy's versions, the parts of a pickled array have not.
    PARTS = {"_reconstruct": np.empty(0).__reduce__()[0], "ndarray": np.ndarray, "dtype": np.dtype}  # noqa: RUF012

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="bytes")  # written by Python 2

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in self.PARTS:
            return self.PARTS[name]
        raise pickle.UnpicklingError(f"holds {module}.{name}, which images and labels do not need")


@lru_cache(maxsize=1)
def full_cifar10(data_dir: str, download: bool) -> ImageSplit:
    """50,000 and 10,000 images of shape (n, 3, 32, 32), from `data_dir`/cifar-10-batches-py.

    Raises:
        TaskError: if the files are missing and `download` is off, or cannot be downloaded or read.
    """
    from torchvision.datasets import CIFAR10

    def read(path: Path) -> Images:
        with path.open("rb") as file:
            content = _ArrayUnpickler(file).load()
        pixels, labels = torch.from_numpy(content[b"data"]), torch.tensor(content[b"labels"])
        if pixels.shape[1:] != (3 * 32 * 32,):
            raise ValueError(f"data has shape {tuple(pixels.shape)}, expected (n, {3 * 32 * 32}): 32 x 32 x 3 pixels")
        return _images(pixels.reshape(-1, 3, 32, 32), labels, (3, 32, 32))

    files = _Files(
        name="CIFAR-10",
        subfolder=CIFAR10.base_folder,
        train=tuple(name for name, _ in CIFAR10.train_list),
        test=tuple(name for name, _ in CIFAR10.test_list),
        origin=f" (unpacked from {CIFAR10.filename})",
        read=read,
        join=lambda contents: Images(
            torch.cat([part.pixels for part in contents]), torch.cat([part.labels for part in contents])
        ),
        fetch=lambda root: CIFAR10(root, download=True),
    )
    return _load(files, data_dir, download)
