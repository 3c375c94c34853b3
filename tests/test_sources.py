"""Streams of training images, and the fixed images of a score: of a set in memory, and of a tree of files."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import test_image_folder
import torch
from torch import Tensor

from tasks.data.image_folder import ImageFolders
from tasks.data.images import Images, ImageSplit
from tasks.data.sources import FolderImages, FolderStream, ImageSet, ImageStream, as_floats
from tasks.task import TaskError

CPU = torch.device("cpu")
IMAGES, SIZE = 12, 6  # of the set in memory
CROP = 16  # of the tree's images
tree = test_image_folder.tree  # four classes, three images each in train and two in val


def image_set(count: int = IMAGES, max_shift: int = 0, flip: bool = False) -> ImageSet:
    """Images of noise without black pixels; labels are their places, and 1,000 more in the test part."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(1, 256, (count + 5, 3, SIZE, SIZE), generator=generator, dtype=torch.uint8)
    train, test = Images(pixels[:count], torch.arange(count)), Images(pixels[count:], torch.arange(1000, 1005))
    return ImageSet("noise", lambda: ImageSplit(train, test), max_shift, flip)


def as_bytes(images: Tensor) -> Tensor:
    return (images * 255).round().to(torch.uint8)


def same(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_bytes_become_floats_from_0_to_1_with_channels_first_and_stored_last():
    pixels = torch.arange(256, dtype=torch.uint8).reshape(2, 8, 16, 1).repeat(1, 1, 1, 3)
    pixels[..., 1] = 255 - pixels[..., 1]
    images = as_floats(pixels)
    assert images.shape == (2, 3, 8, 16)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert (float(images.min()), float(images.max())) == (0.0, 1.0)
    expected = (np.arange(256) / 255).reshape(2, 8, 16)
    assert np.allclose(images[:, 0], expected, atol=1e-7)
    assert np.allclose(images[:, 1], 1 - expected, atol=1e-7)
    assert pixels.dtype == torch.uint8  # left as they were
    assert int(pixels[1, 7, 15, 0]) == 255


@pytest.mark.parametrize("ranks", [2, 4])
def test_shares_of_ranks_make_the_whole_batch(ranks):
    source = image_set(max_shift=2, flip=True)
    whole = source.stream(3, 0, 1, CPU).draw(7, 16)
    shares = [source.stream(3, rank, ranks, CPU).draw(7, 16) for rank in range(ranks)]
    assert [len(labels) for _, labels in shares] == [16 // ranks] * ranks
    assert same(whole, tuple(torch.cat(parts) for parts in zip(*shares, strict=True)))


def test_batches_depend_on_seed_and_step_alone():
    source = image_set(max_shift=2, flip=True)
    seventh = source.stream(3, 0, 1, CPU).draw(7, 16)
    stream = source.stream(3, 0, 1, CPU)
    for step in (6, 8, 2):
        assert not same(stream.draw(step, 16), seventh)
    torch.manual_seed(1)
    assert same(stream.draw(7, 16), seventh)
    assert not same(source.stream(4, 0, 1, CPU).draw(7, 16), seventh)


def test_images_are_drawn_uniformly_and_with_replacement():
    stream = image_set(10).stream(0, 0, 1, CPU)
    batches = [stream.draw(step, 10)[1].tolist() for step in range(1, 601)]
    counts = Counter(label for batch in batches for label in batch)
    assert sorted(counts) == list(range(10))
    assert max(abs(count - 600) for count in counts.values()) < 5 * (6000 * 0.1 * 0.9) ** 0.5
    # Ten independent draws from ten images hold 10 (1 - 0.9^10) = 6.513 different ones; a permutation holds ten.
    assert np.mean([len(set(batch)) for batch in batches]) == pytest.approx(6.513, abs=0.2)


def variants(image: Tensor, max_shift: int, flip: bool) -> dict[bytes, tuple[int, int, bool]]:
    """Every shifted and mirrored image over black, cut out by hand, by its bytes."""
    canvas = np.zeros((3, SIZE + 2 * max_shift, SIZE + 2 * max_shift), np.uint8)
    canvas[:, max_shift : max_shift + SIZE, max_shift : max_shift + SIZE] = image
    found = {}
    for row in range(2 * max_shift + 1):
        for column in range(2 * max_shift + 1):
            crop = canvas[:, row : row + SIZE, column : column + SIZE]
            found[crop.tobytes()] = (row, column, False)
            if flip:
                found[crop[..., ::-1].tobytes()] = (row, column, True)
    return found


@pytest.mark.parametrize(("max_shift", "flip"), [(0, False), (0, True), (2, False), (2, True)])
def test_each_drawn_image_is_a_shifted_or_mirrored_original_and_all_are_as_likely(max_shift, flip):
    source = image_set(max_shift=max_shift, flip=flip)
    originals = source.images.train.pixels
    expected = [variants(original, max_shift, flip) for original in originals]
    images, labels = source.stream(0, 0, 1, CPU).draw(1, 6000)
    assert images.shape == (6000, 3, SIZE, SIZE)
    assert images.is_contiguous(memory_format=torch.channels_last)
    drawn = [
        expected[label].get(image.contiguous().numpy().tobytes())
        for image, label in zip(as_bytes(images), labels.tolist(), strict=True)
    ]
    counts = Counter(drawn)
    share = 1 / len(expected[0])
    assert None not in counts
    assert len(counts) == len(expected[0]) == (2 * max_shift + 1) ** 2 * (1 + flip)
    assert max(abs(count - 6000 * share) for count in counts.values()) <= 5 * (6000 * share * (1 - share)) ** 0.5


def test_fixed_images_are_spread_over_the_set_and_never_augmented():
    source = image_set(100, max_shift=2, flip=True)
    ((images, labels),) = source.fixed("train", 5)
    assert labels.tolist() == [0, 24, 49, 74, 99]
    assert torch.equal(as_bytes(images), source.images.train.pixels[labels])
    assert same(next(source.fixed("train", 5)), (images, labels))
    ((images, labels),) = source.fixed("test", 1000)  # more than there are
    assert labels.tolist() == [1000, 1001, 1002, 1003, 1004]
    assert torch.equal(as_bytes(images), source.images.test.pixels)


def test_fixed_images_come_in_parts_of_500():
    parts = list(image_set(1200).fixed("train", 1100))
    assert [len(images) for images, _ in parts] == [500, 500, 100]
    labels = torch.cat([labels for _, labels in parts])
    assert (labels[0], labels[-1]) == (0, 1199)
    assert set(labels.diff().tolist()) == {1, 2}


def test_set_is_loaded_once_and_only_when_needed():
    loads = []
    split = image_set().images
    source = ImageSet("noise", lambda: loads.append(1) or split)
    assert loads == []
    source.prepare()
    source.stream(0, 0, 1, CPU).draw(1, 2)
    list(source.fixed("train", 2))
    assert loads == [1]


@pytest.fixture
def source(tree: Path) -> Iterator[FolderImages]:
    opened = FolderImages("tree", lambda: ImageFolders(str(tree), CROP, workers=0), classes=4)
    yield opened
    opened.folders.close()


@pytest.fixture
def submitted(source: FolderImages, monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """What the tree is asked to decode: (split, images, whether at random)."""
    calls = []
    submit = source.folders.submit

    def count(split, indices, seeds=None):
        calls.append((split, len(indices), seeds is not None))
        return submit(split, indices, seeds)

    monkeypatch.setattr(source.folders, "submit", count)
    return calls


def alone(source: FolderImages, step: int, images: int = 8, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A batch of a stream that has drawn nothing else."""
    return source.stream(seed, 0, 1, CPU).draw(step, images)


def draws(stream: ImageStream, steps: list[int]) -> dict[int, tuple[Tensor, Tensor]]:
    return {step: stream.draw(step, 8) for step in steps}


def test_steps_decoded_ahead_are_those_of_single_requests_in_any_order(source):
    ahead = draws(source.stream(0, 0, 1, CPU), [1, 2, 3, 4, 5])
    mixed = draws(source.stream(0, 0, 1, CPU), [4, 1, 5, 2, 3])
    for step in range(1, 6):
        assert same(ahead[step], alone(source, step))
        assert same(mixed[step], alone(source, step))
    assert not same(ahead[1], ahead[2])
    assert not same(ahead[1], alone(source, 1, seed=1))


def test_resumed_stream_goes_on_as_the_continuous_one(source):
    continuous = draws(source.stream(0, 0, 1, CPU), [1, 2, 3, 4, 5, 6])
    resumed = draws(source.stream(0, 0, 1, CPU), [4, 5, 6])
    assert all(same(resumed[step], continuous[step]) for step in resumed)


def test_two_steps_are_decoded_ahead_each_once(source, submitted):
    stream = source.stream(0, 0, 1, CPU)
    asked = []
    for step in (1, 2, 3, 4):
        stream.draw(step, 8)
        asked.append(len(submitted))
    assert asked == [3, 4, 5, 6]
    assert set(submitted) == {("train", 8, True)}


def test_work_decoded_ahead_is_dropped_when_steps_jump_or_batches_change(source, submitted):
    stream = source.stream(0, 0, 1, CPU)
    assert isinstance(stream, FolderStream)
    stream.draw(1, 8)
    assert sorted(stream.decoding) == [(2, 8), (3, 8)]
    jumped = stream.draw(9, 8)
    assert stream.decoding == {}
    assert len(submitted) == 4
    back = stream.draw(2, 8)
    assert len(submitted) == 5
    smaller = stream.draw(3, 4)
    assert sorted(stream.decoding) == [(4, 4), (5, 4)]
    assert same(jumped, alone(source, 9))
    assert same(back, alone(source, 2))
    assert same(smaller, alone(source, 3, images=4))


@pytest.mark.parametrize("ranks", [2, 4])
def test_shares_of_ranks_make_the_whole_batch_of_a_tree(source, submitted, ranks):
    shares = [source.stream(3, rank, ranks, CPU).draw(7, 8) for rank in range(ranks)]
    assert submitted == [("train", 8 // ranks, True)] * ranks  # no rank decodes what is another's
    assert same(alone(source, 7, seed=3), tuple(torch.cat(parts) for parts in zip(*shares, strict=True)))


def test_images_of_a_tree_are_drawn_uniformly_each_crop_at_random_with_its_own_label(source):
    images, labels = alone(source, 1, images=300)
    assert images.shape == (300, 3, CROP, CROP)
    assert 0 <= float(images.min()) < float(images.max()) <= 1
    counts = labels.bincount()
    assert len(counts) == 4
    assert (counts - 75).abs().max() < 5 * (300 * 0.25 * 0.75) ** 0.5
    brightest = images.mean((2, 3)).argmax(1)
    for label, channel in enumerate([2, 1, 0]):  # blue, green and red; channels are the other way round
        assert (brightest[labels == label] == channel).all()
    assert len(as_bytes(images).flatten(1).unique(dim=0)) > 200  # of twelve images


def test_images_of_a_tree_are_stored_with_channels_last(source):
    for images, _ in (alone(source, 1), *source.fixed("train", 5)):
        assert images.is_contiguous(memory_format=torch.channels_last)


def test_fixed_images_of_a_tree_are_its_centre_crops_decoded_once(source, submitted):
    first, again = (list(source.fixed("train", 5)) for _ in range(2))
    assert submitted == [("train", 5, False)]
    ((images, labels),) = first
    assert same(again[0], first[0])
    assert labels.tolist() == [0, 0, 1, 2, 3]
    assert torch.equal(as_bytes(images), source.folders.crops("train", torch.tensor([0, 2, 5, 8, 11]))[0])
    ((images, labels),) = source.fixed("test", 100)
    assert labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert torch.equal(as_bytes(images), source.folders.crops("val", torch.arange(8))[0])


def test_tree_is_opened_when_needed_and_refused_if_its_classes_are_not_as_many(tree):
    opened = []
    source = FolderImages("tree", lambda: opened.append(1) or ImageFolders(str(tree), CROP, workers=0), classes=1000)
    assert opened == []
    with pytest.raises(TaskError, match=r"4 class folders, but task\.classes is 1000: set task\.classes"):
        source.prepare()
    with pytest.raises(TaskError, match="4 class folders"):
        source.stream(0, 0, 1, CPU)
