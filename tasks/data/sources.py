"""Where a task's images come from: generated, a set in memory, or a tree of files.

All give the same: training batches that are a pure function of (seed, step), whatever the number of ranks, and fixed
images for the score.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from tasks.data.composite import Composites
from tasks.data.image_folder import Crops, ImageFolders
from tasks.data.images import Images, ImageSplit
from tasks.task import TaskError, random_generator, rank_share

LabelledImages = tuple[Tensor, Tensor]
"""Images (n, 3, size, size) float in [0, 1], channels last, and labels (n,) int64."""

EVALUATION_CHUNK = 500  # images that are evaluated at once
STEPS_DECODED_AHEAD = 2  # of files, by other processes
LOOK_AHEAD = 64  # images that are generated at once where batches are smaller: calls cost more than images there


def checked_split(score: str) -> str:
    """Raises TaskError unless `score` names a split."""
    if score not in ("train", "test"):
        raise TaskError(f"task.score must be 'train' or 'test', got '{score}'.")
    return score


class ImageStream(ABC):
    """Training images of one rank."""

    @abstractmethod
    def draw(self, step: int, images: int) -> LabelledImages:
        """This rank's share of the `images` images of `step`."""


class ImageSource(ABC):
    """Attributes:
    name: of the data, as results show it. embedded: True unless it is the paper's data. score: as results call an
    error rate or a loss on the `fixed` images of a split, "train error" without its second word.
    """

    name: str
    embedded: bool

    @abstractmethod
    def prepare(self) -> None:
        """Makes the data available, or raises TaskError that says how to."""

    @abstractmethod
    def stream(self, seed: int, rank: int, world_size: int, device: torch.device) -> ImageStream: ...

    @abstractmethod
    def fixed(self, split: str, count: int) -> Iterator[LabelledImages]:
        """At most `count` images of the split ("train" or "test"), always the same, without augmentation, in parts."""


class GeneratedStream(ImageStream):
    def __init__(self, composites: Composites, seed: int, rank: int, world_size: int, device: torch.device) -> None:
        # The CPU's tables are shared by all streams of a process.
        self.composites = composites if device.type == "cpu" else copy.deepcopy(composites).to(device)
        self.seed, self.rank, self.world_size, self.device = seed, rank, world_size, device
        self.ahead: dict[tuple[int, int], LabelledImages] = {}
        self.last_step = 0

    def draw(self, step: int, images: int) -> LabelledImages:
        if (step, images) not in self.ahead:
            self.ahead = self._generate(step, images)
        self.last_step = step
        return self.ahead.pop((step, images))

    def _generate(self, step: int, images: int) -> dict[tuple[int, int], LabelledImages]:
        """Batches of this step and, where steps follow each other, of the next few."""
        steps = range(step, step + (max(1, LOOK_AHEAD // images) if step == self.last_step + 1 else 1))
        share = rank_share(images, self.rank, self.world_size)
        uniforms = torch.cat([self.composites.uniforms(self.seed, s, images)[share] for s in steps])
        pixels, labels = self.composites(uniforms.to(self.device))
        size = len(labels) // len(steps)
        batches = zip(pixels.split(size), labels.split(size), strict=True)
        return {(s, images): batch for s, batch in zip(steps, batches, strict=True)}


class GeneratedImages(ImageSource):
    """Images without end; training and test images are alike, and no image is seen twice.

    Args:
        build: makes the generator, in the process that needs it.
    """

    embedded = True

    def __init__(self, name: str, build: Callable[[], Composites]) -> None:
        self.name, self.build = name, build
        self.kept: dict[tuple[str, int], list[LabelledImages]] = {}

    def prepare(self) -> None:
        self.build()

    def stream(self, seed: int, rank: int, world_size: int, device: torch.device) -> ImageStream:
        return GeneratedStream(self.build(), seed, rank, world_size, device)

    def fixed(self, split: str, count: int) -> Iterator[LabelledImages]:
        if (split, count) not in self.kept:
            composites = self.build()
            parts = composites.uniforms(split, 0, count).split(EVALUATION_CHUNK)
            self.kept[split, count] = [composites(part) for part in parts]
        return iter(self.kept[split, count])


def as_floats(pixels: Tensor) -> Tensor:
    """uint8 (n, height, width, channels) -> float (n, channels, height, width) in [0, 1], channels last."""
    floats = pixels.permute(0, 3, 1, 2).float().mul_(1 / 255)
    return floats.contiguous(memory_format=torch.channels_last)


def channels_behind(images: Images, device: torch.device) -> Images:
    """(n, channels, height, width) -> (n, height, width, channels), on `device`."""
    return Images(images.pixels.permute(0, 2, 3, 1).contiguous().to(device), images.labels.to(device))


def crops(padded: Tensor, indices: Tensor, offsets: Tensor, size: int) -> Tensor:
    """Crops of `size` from images `padded[indices]`, each at its own offset; one gather for the batch.

    Args:
        padded: (images, height, width, ...). indices: (n,). offsets: (n, 2), row and column of the crop.
    Returns:
        (n, size, size, ...), of padded's type.
    """
    window = torch.arange(size, device=padded.device)
    rows = (offsets[:, 0, None] + window)[:, :, None]
    columns = (offsets[:, 1, None] + window)[:, None, :]
    return padded[indices[:, None, None], rows, columns]


class SetStream(ImageStream):
    """Draws with replacement from images that lie on the device as uint8, and augments them there."""

    def __init__(
        self,
        name: str,
        images: Images,
        seed: int,
        rank: int,
        world_size: int,
        device: torch.device,
        max_shift: int,
        flip: bool,
    ) -> None:
        on_device = channels_behind(images, device)
        self.size = on_device.pixels.shape[1]
        self.padded = F.pad(on_device.pixels, (0, 0, *[max_shift] * 4))
        self.labels = on_device.labels
        self.name, self.seed, self.rank, self.world_size, self.device = name, seed, rank, world_size, device
        self.max_shift, self.flip = max_shift, flip

    def draw(self, step: int, images: int) -> LabelledImages:
        generator = random_generator(self.name, self.seed, step)
        share = rank_share(images, self.rank, self.world_size)
        # Drawn for the whole batch on the CPU, so that it is the same for every number of ranks and device.
        indices = torch.randint(len(self.labels), (images,), generator=generator)[share].to(self.device)
        offsets = torch.randint(2 * self.max_shift + 1, (images, 2), generator=generator)[share].to(self.device)
        mirrored = torch.rand(images, generator=generator)[share].to(self.device) < 0.5
        pixels = crops(self.padded, indices, offsets, self.size)
        if self.flip:
            pixels = torch.where(mirrored[:, None, None, None], pixels.flip(2), pixels)
        return as_floats(pixels), self.labels[indices]


class ImageSet(ImageSource):
    """A set in memory.

    Args:
        load: reads it, in the process that needs it; raises TaskError where it is missing.
        max_shift: pixels by which training images move, at most. flip: mirror half of them.
    """

    embedded = False

    def __init__(self, name: str, load: Callable[[], ImageSplit], max_shift: int = 0, flip: bool = False) -> None:
        self.name, self.load, self.max_shift, self.flip = name, load, max_shift, flip

    @cached_property
    def images(self) -> ImageSplit:
        return self.load()

    def prepare(self) -> None:
        self.images  # noqa: B018 (loads it, and fails here if it is missing)

    def stream(self, seed: int, rank: int, world_size: int, device: torch.device) -> ImageStream:
        return SetStream(self.name, self.images.train, seed, rank, world_size, device, self.max_shift, self.flip)

    def fixed(self, split: str, count: int) -> Iterator[LabelledImages]:
        images = getattr(self.images, split)
        total = len(images.labels)
        for chosen in torch.linspace(0, total - 1, min(count, total)).long().split(EVALUATION_CHUNK):
            part = channels_behind(Images(images.pixels[chosen], images.labels[chosen]), torch.device("cpu"))
            yield as_floats(part.pixels), part.labels


class FolderStream(ImageStream):
    """Draws with replacement from a tree of files, decoded by other processes while the device trains."""

    def __init__(
        self, name: str, folders: ImageFolders, seed: int, rank: int, world_size: int, device: torch.device
    ) -> None:
        self.folders, self.name = folders, name
        self.seed, self.rank, self.world_size, self.device = seed, rank, world_size, device
        self.decoding: dict[tuple[int, int], Crops] = {}
        self.last_step = 0

    def draw(self, step: int, images: int) -> LabelledImages:
        ahead = STEPS_DECODED_AHEAD if step == self.last_step + 1 else 0
        wanted = [(s, images) for s in range(step, step + 1 + ahead)]
        self.decoding = {key: self.decoding.get(key) or self._submit(*key) for key in wanted}
        self.last_step = step
        pixels, labels = self.decoding.pop((step, images)).result()
        return as_floats(pixels.to(self.device).permute(0, 2, 3, 1)), labels.to(self.device)

    def _submit(self, step: int, images: int) -> Crops:
        generator = random_generator(self.name, self.seed, step)
        share = rank_share(images, self.rank, self.world_size)
        indices = torch.randint(self.folders.train_count, (images,), generator=generator)[share]
        seeds = torch.randint(1 << 62, (images,), generator=generator)[share]
        return self.folders.submit("train", indices, seeds)


class FolderImages(ImageSource):
    """A tree of files. The split "test" is its folder val.

    Args:
        open_folders: reads the tree's names, in the process that needs it; raises TaskError where it is missing.
        classes: that the network tells apart.
    """

    embedded = False

    def __init__(self, name: str, open_folders: Callable[[], ImageFolders], classes: int) -> None:
        self.name, self.open_folders, self.classes = name, open_folders, classes
        self.kept: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}

    @cached_property
    def folders(self) -> ImageFolders:
        folders = self.open_folders()
        if len(folders.classes) != self.classes:
            raise TaskError(
                f"task.data_dir has {len(folders.classes)} class folders, but task.classes is {self.classes}: set "
                "task.classes, or name the right folder with task.data_dir=FOLDER."
            )
        return folders

    def prepare(self) -> None:
        self.folders  # noqa: B018 (looks for the files, and fails here if they are missing)

    def stream(self, seed: int, rank: int, world_size: int, device: torch.device) -> ImageStream:
        return FolderStream(self.name, self.folders, seed, rank, world_size, device)

    def fixed(self, split: str, count: int) -> Iterator[LabelledImages]:
        if (split, count) not in self.kept:  # decoded once: scores are taken a hundred times in a run
            folder, total = ("train", self.folders.train_count) if split == "train" else ("val", self.folders.val_count)
            chosen = torch.linspace(0, total - 1, min(count, total)).long()
            self.kept[split, count] = self.folders.crops(folder, chosen)
        pixels, labels = self.kept[split, count]
        for part, answers in zip(pixels.split(EVALUATION_CHUNK), labels.split(EVALUATION_CHUNK), strict=True):
            yield as_floats(part.permute(0, 2, 3, 1)), answers
