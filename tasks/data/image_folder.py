"""A tree of images too large for memory, as ImageNet's: decoded and cropped by worker processes, ahead of need.

python -m tasks.data.image_folder FOLDER --workers 8   measures how many images a second that gives
"""

import argparse
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from tasks.data.decoding import Decoded, decode, start_worker
from tasks.task import TaskError

SPLITS = ("train", "val")

CHUNK = 32  # images a task of a worker: some tenths of a second, so that handing them over costs next to nothing

MAX_BROKEN_IN_A_ROW = 100  # a few files of any large set are damaged; so many are a damaged set

NAMES_SHOWN = 5  # of folders at fault, in a message

LAYOUT = """Expected, with the same class folders in both and images in each:
  FOLDER/train/<class>/<image>.JPEG
  FOLDER/val/<class>/<image>.JPEG
Name the folder with task.data_dir=FOLDER. ImageNet's val images come unsorted: put them into class folders first."""


class ImageFolders:
    """The images of `data_dir`/train/<class>/ and `data_dir`/val/<class>/.

    An image that cannot be decoded is replaced by the next of its split that can (with that one's label), so that
    what is drawn depends on the files alone, and is reported once on stderr.

    Args:
        data_dir: the folder that holds train and val.
        image_size: side of the crops, in pixels.
        workers: processes that decode; 0 decodes in this one. They start with the first request.

    Attributes:
        classes: names of the class folders, in the order of the labels.
        train_count, val_count: images in each split.
        broken: path -> reason, of the images met so far that cannot be decoded.

    Raises:
        TaskError: if the tree is not laid out like that, with the same classes in both and images in each.
    """

    def __init__(self, data_dir: str, image_size: int, workers: int) -> None:
        if image_size < 1:
            raise TaskError(f"The size of images must be at least 1 pixel, got {image_size}.")
        if workers < 0:
            raise TaskError(f"The number of decoding processes must be 0 or more, got {workers}.")
        self.image_size, self.workers = image_size, workers
        self.classes, self._paths, self._labels = _index(Path(data_dir).expanduser().resolve())
        self.train_count, self.val_count = (len(self._paths[split]) for split in SPLITS)
        self.broken: dict[str, str] = {}
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, split: str, indices: Tensor, seeds: Tensor | None = None) -> "Crops":
        """Starts decoding, and returns at once; `result()` of what it returns waits for the images.

        Args:
            split: "train" or "val".
            indices: (n,) integers, of images of the split.
            seeds: (n,) int64, one for the random crop and flip of each image, which depend on nothing else; None
                takes the centre of each image, after resizing it to a margin of 1/8 or so.
        """
        if split not in SPLITS:
            raise ValueError(f"split must be one of {', '.join(SPLITS)}, got '{split}'")
        if seeds is not None and seeds.shape != indices.shape:
            raise ValueError(f"{tuple(indices.shape)} indices but {tuple(seeds.shape)} seeds")
        count = len(self._paths[split])
        if not all(0 <= index < count for index in indices.tolist()):
            raise IndexError(f"{split} has {count} images, and one of the indices is not from 0 to {count - 1}")
        return Crops(self, split, indices.tolist(), None if seeds is None else seeds.tolist())

    def crops(self, split: str, indices: Tensor, seeds: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The images and labels now: `submit(...).result()`."""
        return self.submit(split, indices, seeds).result()

    def close(self) -> None:
        """Ends the workers, and what they have not begun; a later request starts new ones."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _run(self, paths: list[str], seeds: list[int] | None) -> Callable[[], Decoded]:
        """Has a worker decode; what is returned waits for it."""
        if self.workers == 0:
            return partial(decode, paths, seeds, self.image_size)
        if self._pool is None:
            # Workers of joblib have a start method of their own, which new processes would be told and not know.
            known = (None, *multiprocessing.get_all_start_methods())
            if multiprocessing.get_start_method(allow_none=True) not in known:
                multiprocessing.set_start_method("spawn", force=True)
            # Spawned, since a process that has used a GPU, or has threads, must not be forked.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, context, initializer=start_worker)
        return self._pool.submit(decode, paths, seeds, self.image_size).result

    def _note_broken(self, path: str, reason: str) -> None:
        if path not in self.broken:
            self.broken[path] = reason
            count = f"{len(self.broken)} image(s) cannot be read and are replaced by their neighbours"
            print(f"{count}: {path} ({reason})", file=sys.stderr)

    def _readable(self, split: str, index: int) -> int:
        """`index`, or the next after it whose image is not known to be broken."""
        paths = self._paths[split]
        tries = min(MAX_BROKEN_IN_A_ROW, len(paths))
        for place in range(index, index + tries):
            if paths[place % len(paths)] not in self.broken:
                return place % len(paths)
        raise TaskError(
            f"{tries} images in a row cannot be read, the first of them {paths[index]} ({self.broken[paths[index]]}). "
            "Replace the damaged files, or name another folder with task.data_dir=FOLDER."
        )


class Crops:
    """Images being decoded; `result()` gives them."""

    def __init__(self, folders: ImageFolders, split: str, indices: list[int], seeds: list[int] | None) -> None:
        self._folders, self._split, self._indices, self._seeds = folders, split, indices, seeds
        self._places = [0] * len(indices)  # where each image is taken from, once broken ones are passed over
        self._parts = self._start(list(range(len(indices))))

    def result(self) -> tuple[Tensor, Tensor]:
        """Waits for the images.

        Returns:
            images (n, 3, image_size, image_size) as uint8, labels (n,) as int64.
        Raises:
            TaskError: if a file cannot be opened, 100 images in a row cannot be decoded, or a worker is killed.
        """
        size, parts = self._folders.image_size, self._parts
        pixels = torch.empty(len(self._indices), 3, size, size, dtype=torch.uint8)
        while parts:
            failed = []
            for rows, paths, wait in parts:
                with _failures_told(self._folders):
                    images, broken = wait()
                pixels[rows] = torch.from_numpy(images)
                for row, reason in broken.items():
                    self._folders._note_broken(paths[row], reason)
                    failed.append(rows[row])
            parts = self._start(failed)
        return pixels, self._folders._labels[self._split][self._places]

    def _start(self, rows: list[int]) -> list[tuple[list[int], list[str], Callable[[], Decoded]]]:
        """Has the images of these rows decoded, in chunks small enough to give every worker some."""
        folders, parts = self._folders, []
        for row in rows:
            self._places[row] = folders._readable(self._split, self._indices[row])
        size = max(1, min(CHUNK, math.ceil(len(rows) / max(folders.workers, 1))))
        for chosen in (rows[start : start + size] for start in range(0, len(rows), size)):
            paths = [folders._paths[self._split][self._places[row]] for row in chosen]
            seeds = None if self._seeds is None else [self._seeds[row] for row in chosen]
            with _failures_told(folders):
                parts.append((chosen, paths, folders._run(paths, seeds)))
        return parts


@contextmanager
def _failures_told(folders: ImageFolders) -> Iterator[None]:
    """Turns what can happen to workers into TaskError."""
    try:
        yield
    except BrokenProcessPool as error:
        folders.close()
        raise TaskError(
            f"One of {folders.workers} processes that decode images ended abruptly, most often for lack of memory: "
            "use fewer, with task.workers."
        ) from error
    except OSError as error:
        raise TaskError(
            f"{error.filename} cannot be opened any more ({error.strerror}). Once it can, give the same command again: "
            "the run goes on from its last checkpoint."
        ) from error


def _index(folder: Path) -> tuple[list[str], dict[str, list[str]], dict[str, Tensor]]:
    """Classes, paths and labels of both splits.

    Raises:
        TaskError: as ImageFolders says.
    """
    from torchvision.datasets import ImageFolder  # costs half a second, and most tasks do without

    def fail(problem: str) -> TaskError:
        return TaskError(f"{folder} does not hold images as expected: {problem}.\n{LAYOUT}")

    def some(names: list[str]) -> str:
        more = len(names) - NAMES_SHOWN
        return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")

    missing = [f"{split}/" for split in SPLITS if not (folder / split).is_dir()]
    if missing:
        raise fail(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    found = {}
    for split in SPLITS:
        try:
            # Empty folders are let through here, since torchvision would list all of them.
            found[split] = ImageFolder(str(folder / split), allow_empty=True)
        except OSError as error:
            raise fail(f"{split}/ has no class folders or cannot be read ({error})") from error
    train, val = (set(found[split].classes) for split in SPLITS)
    for name, extra, other in (("train", train - val, "val"), ("val", val - train, "train")):
        if extra:
            raise fail(f"{name}/ has class folders that {other}/ has not: {some(sorted(extra))}")
    classes = found["train"].classes
    for split in SPLITS:
        filled = set(found[split].targets)
        empty = [f"{split}/{name}" for label, name in enumerate(classes) if label not in filled]
        if empty:
            raise fail(f"there are no images in {some(empty)}")
    paths = {split: [path for path, _ in found[split].samples] for split in SPLITS}
    return classes, paths, {split: torch.tensor(found[split].targets) for split in SPLITS}


def main() -> None:
    parser = argparse.ArgumentParser(description="How many training images a second are decoded and cropped.")
    parser.add_argument("folder", help="holds train/<class>/ and val/<class>/")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--image-size", type=int, default=224, help="pixels")
    parser.add_argument("--images", type=int, default=4096)
    arguments = parser.parse_args()
    try:
        folders = ImageFolders(arguments.folder, arguments.image_size, arguments.workers)
        indices = torch.randint(folders.train_count, (arguments.images,))
        folders.crops("train", indices[: 2 * CHUNK], indices[: 2 * CHUNK])  # starts the workers
        started = time.perf_counter()
        for crops in [folders.submit("train", part, part) for part in indices.split(256)]:
            crops.result()
        seconds = time.perf_counter() - started
        folders.close()
    except TaskError as error:
        sys.exit(f"error: {error}")
    print(
        f"{arguments.images / seconds:.0f} images/s: {arguments.images} random crops of {arguments.image_size} pixels "
        f"in {seconds:.1f} s with {arguments.workers} workers, {len(folders.broken)} images unreadable"
    )


if __name__ == "__main__":
    main()
