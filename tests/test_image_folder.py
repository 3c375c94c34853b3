"""Trees of images: what their readers give whatever the workers and the order, and what they say."""

import io
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from test_real_data import SCREEN

from tasks.data.image_folder import ImageFolders
from tasks.task import TaskError

COLOURS = {"blue": (0, 0, 255), "green": (0, 200, 0), "red": (255, 0, 0), "white": (255, 255, 255)}
SIZE = 16


def picture(colour: tuple[int, int, int], seed: int) -> Image.Image:
    """60 x 40 pixels of a colour's shades, brighter to the right: crops differ, and so do mirrored ones."""
    ramp = np.linspace(0.2, 1, 60)[None, :, None] * np.ones((40, 1, 1))
    ramp = ramp * (1 - 0.02 * seed)
    return Image.fromarray((ramp * np.array(colour)).astype(np.uint8))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Four classes with three images each in train and two in val; train/green's second is broken."""
    for split, images in (("train", 3), ("val", 2)):
        for name, colour in COLOURS.items():
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(images):
                picture(colour, i).save(tmp_path / split / name / f"{i}.JPEG", quality=95)
    broken = tmp_path / "train/green/1.JPEG"
    broken.write_bytes(broken.read_bytes()[:-100])
    return tmp_path


@pytest.fixture
def folders(tree: Path) -> Iterator[ImageFolders]:
    opened = ImageFolders(str(tree), SIZE, workers=0)
    yield opened
    opened.close()


def seeds(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def test_classes_and_counts_are_those_of_the_folders(folders):
    assert folders.classes == ["blue", "green", "red", "white"]
    assert (folders.train_count, folders.val_count) == (12, 8)


def test_crops_are_bytes_of_the_asked_size_with_the_labels_of_their_folders(folders):
    pixels, labels = folders.crops("val", torch.arange(8))
    assert pixels.shape == (8, 3, SIZE, SIZE)
    assert pixels.dtype == torch.uint8
    assert labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    brightest = pixels.float().mean(dim=(2, 3))
    assert brightest[[0, 2, 4]].argmax(1).tolist() == [2, 1, 0]  # channels are red, green, blue


def test_centre_crop_is_the_middle_of_the_image_resized_to_a_margin_of_a_seventh(folders):
    pixels, _ = folders.crops("val", torch.tensor([6]))
    # 60 x 40 becomes 27 x 18 (18 = 16 * 256 / 224), whose middle 16 columns are from 5.5 of 27 to 21.5.
    ramp = 255 * (0.2 + 0.8 * (np.arange(5.5, 21.5) + 0.5) / 27)
    assert np.allclose(pixels[0, 0, 8].numpy(), ramp, atol=8)


def test_crops_depend_on_index_and_seed_alone(folders):
    indices, keys = torch.tensor([0, 6, 0, 11]), seeds(1, 2, 3, -4)
    pixels, labels = folders.crops("train", indices, keys)
    torch.manual_seed(5)
    order = torch.tensor([3, 0, 2, 1])
    again, labels_again = folders.crops("train", indices[order], keys[order])
    assert torch.equal(again, pixels[order])
    assert torch.equal(labels_again, labels[order])
    assert torch.equal(folders.crops("train", indices[1:2], keys[1:2])[0], pixels[1:2])
    assert not torch.equal(pixels[0], pixels[2])  # one image, two seeds


def test_random_crops_are_mirrored_half_of_the_time_and_vary_in_scale(folders):
    pixels, _ = folders.crops("train", torch.full((400,), 9), torch.arange(400))
    rows = pixels[:, 0, SIZE // 2].float()
    rise = rows[:, -1] - rows[:, 0]
    assert float((rise < 0).float().mean()) == pytest.approx(0.5, abs=0.08)
    # A crop of share s of the area and the image's own ratio spans sqrt(s) of its range of 204 shades.
    spans = rise.abs() / 204
    assert float(spans.min()) < 0.35
    assert float(spans.max()) > 0.8


def test_random_state_of_the_caller_is_left_alone(folders):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    folders.crops("train", torch.arange(3), torch.arange(3))
    assert torch.equal(torch.rand(3), expected)


def test_requests_ahead_give_the_same_in_any_order(folders):
    first = folders.submit("train", torch.tensor([0, 4]), seeds(1, 2))
    second = folders.submit("train", torch.tensor([4, 5]), seeds(3, 4))
    late = second.result()[0]
    assert torch.equal(first.result()[0], folders.crops("train", torch.tensor([0, 4]), seeds(1, 2))[0])
    assert torch.equal(first.result()[0], folders.crops("train", torch.tensor([0, 4]), seeds(1, 2))[0])
    assert torch.equal(late, folders.crops("train", torch.tensor([4, 5]), seeds(3, 4))[0])


def test_broken_image_is_replaced_by_its_neighbour_and_reported_once(folders, tree, capfd):
    path = str(tree / "train/green/1.JPEG")
    pixels, labels = folders.crops("train", torch.tensor([4, 0, 4]), seeds(7, 8, 9))
    neighbour, _ = folders.crops("train", torch.tensor([5, 5]), seeds(7, 9))
    assert torch.equal(pixels[[0, 2]], neighbour)
    assert labels.tolist() == [1, 0, 1]
    assert list(folders.broken) == [path]
    assert "truncated" in folders.broken[path]
    assert folders.crops("train", torch.tensor([4]))[1].tolist() == [1]
    told = capfd.readouterr().err
    assert told.startswith(f"1 image(s) cannot be read and are replaced by their neighbours: {path} (OSError: ")
    assert len(told.splitlines()) == 1


def test_broken_image_far_down_a_large_request_is_replaced(folders):
    pixels, labels = folders.crops("train", torch.tensor([0] * 70 + [4, 0]))
    assert torch.equal(pixels[70:], folders.crops("train", torch.tensor([5, 0]))[0])
    assert labels.tolist() == [0] * 70 + [1, 0]


def test_last_image_is_replaced_by_the_first_with_its_label(tree):
    (tree / "train/white/2.JPEG").write_bytes(b"")
    folders = ImageFolders(str(tree), SIZE, workers=0)
    pixels, labels = folders.crops("train", torch.tensor([11]))
    assert labels.tolist() == [0]
    assert torch.equal(pixels, folders.crops("train", torch.tensor([0]))[0])


def test_hundred_broken_images_in_a_row_end_it(tree):
    for i in range(3, 110):
        (tree / f"train/blue/{i:04}.JPEG").write_bytes(b"not a picture")
    folders = ImageFolders(str(tree), SIZE, workers=0)
    names = sorted(path.name for path in (tree / "train/blue").iterdir())
    pixels, _ = folders.crops("train", torch.tensor([names.index("0011.JPEG")]))  # 99, and then 1.JPEG
    assert torch.equal(pixels, folders.crops("train", torch.tensor([names.index("1.JPEG")]))[0])
    with pytest.raises(
        TaskError, match=r"100 images in a row cannot be read, the first of them .*0010\.JPEG \(of no kn"
    ):
        folders.crops("train", torch.tensor([names.index("0010.JPEG")]))


def test_set_without_a_single_good_image_ends_it(tree):
    for path in (tree / "val").rglob("*.JPEG"):
        path.write_bytes(b"")
    with pytest.raises(TaskError, match="8 images in a row"):
        ImageFolders(str(tree), SIZE, workers=0).crops("val", torch.tensor([3]))


def test_file_that_has_gone_is_a_fault_and_not_a_broken_image(folders, tree):
    (tree / "train/red/0.JPEG").unlink()
    with pytest.raises(TaskError, match=r"red/0\.JPEG cannot be opened any more \(No such file"):
        folders.crops("train", torch.tensor([6]))
    assert folders.broken == {}


def saved(image: Image.Image, form: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        saved(picture((255, 0, 0), 0), "PNG"),
        saved(picture((255, 0, 0), 0).convert("CMYK"), "JPEG", quality=95),
        saved(
            picture((255, 0, 0), 0),
            "JPEG",
            quality=95,
            exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x03\0\0",
        ),
    ],
    ids=["png", "cmyk", "turned by its tags"],
)
def test_images_of_other_kinds_under_the_name_of_jpeg_are_read(folders, tree, content):
    expected = folders.crops("train", torch.tensor([6]))[0].int()
    (tree / "train/red/0.JPEG").write_bytes(content)
    assert (folders.crops("train", torch.tensor([6]))[0].int() - expected).abs().max() <= 12


def test_grey_images_have_three_equal_channels(folders, tree):
    picture((255, 255, 255), 0).convert("L").save(tree / "train/red/0.JPEG")
    pixels, _ = folders.crops("train", torch.tensor([6]))
    assert torch.equal(pixels[0, 0], pixels[0, 1])
    assert torch.equal(pixels[0, 0], pixels[0, 2])


def scatter(path: Path) -> None:
    """ImageNet's val as it comes: images without folders."""
    shutil.rmtree(path)
    path.mkdir()
    picture((255, 0, 0), 0).save(path / "ILSVRC2012_val_00000001.JPEG")


@pytest.mark.parametrize(
    ("spoil", "parts"),
    [
        (lambda tree: (tree / "val").rename(tree / "test"), ["val/ is missing", "FOLDER/val/<class>/"]),
        (lambda tree: [file.unlink() for file in (tree / "train/red").iterdir()], ["no images in train/red"]),
        (
            lambda tree: (tree / "val/red").rename(tree / "val/rad"),
            ["train/ has class folders that val/ has not: red."],
        ),
        (lambda tree: [(tree / f"val/{i}").mkdir() for i in range(7)], ["val/", "has not: 0, 1, 2, 3, 4 and 2 more"]),
        (lambda tree: scatter(tree / "val"), ["val/ has no class folders", "come unsorted"]),
    ],
    ids=["no val", "empty class", "other class", "seven more classes", "unsorted val"],
)
def test_trees_of_another_layout_are_told(tree, spoil, parts):
    spoil(tree)
    with pytest.raises(TaskError) as error:
        ImageFolders(str(tree), SIZE, workers=0)
    for part in (str(tree), *parts, "task.data_dir=FOLDER"):
        assert part in str(error.value)
    assert len(str(error.value)) < SCREEN


def test_missing_tree_is_told(tmp_path):
    with pytest.raises(TaskError, match="train/ and val/ are missing"):
        ImageFolders(str(tmp_path / "none"), SIZE, workers=0)


@pytest.mark.parametrize(("size", "workers", "message"), [(0, 0, "at least 1 pixel"), (SIZE, -1, "0 or more")])
def test_sizes_and_workers_below_their_least_are_refused(tree, size, workers, message):
    with pytest.raises(TaskError, match=message):
        ImageFolders(str(tree), size, workers)


def test_requests_that_make_no_sense_are_refused(folders):
    for index in (-1, 12):
        with pytest.raises(IndexError, match="train has 12 images"):
            folders.crops("train", torch.tensor([0, index]))
    with pytest.raises(ValueError, match="train, val"):
        folders.crops("test", torch.tensor([0]))
    with pytest.raises(ValueError, match="seeds"):
        folders.crops("train", torch.tensor([0, 1]), seeds(1))
    assert folders.crops("train", torch.tensor([], dtype=torch.int64))[0].shape == (0, 3, SIZE, SIZE)


@pytest.mark.slow
def test_workers_give_what_one_process_gives_and_end_when_closed(folders, tree, capfd):
    several = ImageFolders(str(tree), SIZE, workers=2)
    indices = torch.arange(100) % 12
    ahead = [several.submit("train", indices, torch.arange(100) + step) for step in range(3)]
    for step in (2, 0, 1):
        for ours, theirs in zip(
            ahead[step].result(), folders.crops("train", indices, torch.arange(100) + step), strict=True
        ):
            assert torch.equal(ours, theirs)
    assert torch.equal(several.crops("val", torch.arange(8))[0], folders.crops("val", torch.arange(8))[0])
    assert several.broken.keys() == folders.broken.keys()
    processes = list(several._pool._processes.values())
    assert len(processes) == 2
    several.close()
    assert not any(process.is_alive() for process in processes)
    assert several.crops("val", torch.tensor([0]))[1].tolist() == [0]  # starts new ones
    for process in several._pool._processes.values():
        process.kill()
    with pytest.raises(TaskError, match=r"ended abruptly.*task\.workers"):
        several.crops("val", torch.arange(8))
    assert several.crops("val", torch.tensor([7]))[1].tolist() == [3]
    several.close()


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed(tree):
    code = (
        "import torch; from tasks.data.image_folder import ImageFolders\n"
        "if __name__ == '__main__':\n"
        f"    folders = ImageFolders({str(tree)!r}, 16, 1)\n"
        "    folders.crops('val', torch.tensor([0]))\n"
        "    print(*folders._pool._processes, flush=True)\n"
        "    input()\n"
    )
    (tree / "script.py").write_text(code)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    parent = subprocess.Popen([sys.executable, tree / "script.py"], env=environment, text=True, **pipes)
    worker = int(parent.stdout.readline())
    assert alive(worker)
    parent.kill()
    parent.communicate()
    until = time.monotonic() + 20
    while alive(worker) and time.monotonic() < until:
        time.sleep(0.1)
    assert not alive(worker)


def alive(process: int) -> bool:
    """False for one that has ended, even if nobody has asked for its status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
