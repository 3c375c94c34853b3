"""Readers of MNIST, SVHN and CIFAR-10, on tiny files in the real layouts: what they give, and what they say."""

import gzip
import http.client
import os
import pickle
import tarfile
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
from scipy.io import savemat
from test_tasks import write_idx
from torchvision import datasets

from tasks.data.torchvision_sets import full_cifar10, full_mnist, full_svhn
from tasks.task import TaskError

SCREEN = 24 * 80
LOADERS = {"MNIST": full_mnist, "SVHN": full_svhn, "CIFAR-10": full_cifar10}
FILES = {
    "MNIST": [f"MNIST/raw/{a}-{b}-ubyte" for a in ("train", "t10k") for b in ("images-idx3", "labels-idx1")],
    "SVHN": ["train_32x32.mat", "test_32x32.mat"],
    "CIFAR-10": [f"cifar-10-batches-py/{name}" for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")],
}


@pytest.fixture(autouse=True)
def nothing_is_remembered_or_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    for loader in LOADERS.values():
        loader.cache_clear()
    monkeypatch.setattr("urllib.request.urlopen", refuse)


def refuse(*_args, **_options):
    raise URLError("no route to host")


def svhn_file(path: Path, images: np.ndarray, labels: list[int]) -> None:
    """(n, 3, height, width) as SVHN stores them: (height, width, 3, n), and labels from 1 to 10 in a column."""
    column = np.array(labels, np.uint8)[:, None]
    savemat(path, {"X": images.transpose(2, 3, 1, 0), "y": column}, do_compression=True)


class Python2Pickler(pickle._Pickler):
    """Writes text and arrays as Python 2 and its numpy did, which wrote CIFAR-10: as byte strings, by old names."""

    dispatch = dict(pickle._Pickler.dispatch)  # noqa: RUF012

    def save_text(self, text) -> None:
        raw = text if isinstance(text, bytes) else text.encode()
        self.write(pickle.BINSTRING + len(raw).to_bytes(4, "little") + raw)
        self.memoize(text)

    def save_global(self, obj, name=None) -> None:
        module = "numpy.core.multiarray" if obj.__name__ == "_reconstruct" else "numpy"
        self.write(f"c{module}\n{obj.__name__}\n".encode())
        self.memoize(obj)

    dispatch[bytes] = dispatch[str] = save_text
    dispatch[type] = dispatch[type(np.sum)] = save_global


def cifar_file(path: Path, images: np.ndarray, labels: list[int]) -> None:
    content = {"batch_label": "training batch", "labels": labels, "data": images.reshape(len(images), -1)}
    with path.open("wb") as file:
        Python2Pickler(file, protocol=2).dump(content)


def random_images(n: int, *size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *size), np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data_dir that holds all three sets: 10 training and 5 test images each, CIFAR-10's two in each batch."""
    for name in FILES["MNIST"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        n = 10 if "train" in name else 5
        write_idx(tmp_path / name, random_images(n, 28, 28) if "images" in name else np.arange(n))
    svhn_file(tmp_path / FILES["SVHN"][0], random_images(10, 3, 32, 32), list(range(1, 11)))
    svhn_file(tmp_path / FILES["SVHN"][1], random_images(5, 3, 32, 32, seed=1), [10, 10, 1, 9, 5])
    for i, name in enumerate(FILES["CIFAR-10"]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        n = 5 if "test" in name else 2
        cifar_file(tmp_path / name, random_images(n, 3, 32, 32, seed=i), [i, 9, 0, 1, 2][:n])
    return tmp_path


def told(loader, folder: Path, download: bool = False) -> str:
    """What the TaskError says; it fits a screen."""
    with pytest.raises(TaskError) as error:
        loader(str(folder), download)
    assert len(str(error.value)) < SCREEN
    return str(error.value)


@pytest.mark.parametrize("name", LOADERS)
def test_sets_are_read_as_contiguous_bytes_with_labels_from_0_to_9(folder, name):
    split = LOADERS[name](str(folder), False)
    size = (28, 28) if name == "MNIST" else (3, 32, 32)
    for part, n in ((split.train, 10), (split.test, 5)):
        assert part.pixels.shape == (n, *size)
        assert part.pixels.dtype == torch.uint8
        assert part.pixels.is_contiguous()
        assert part.labels.shape == (n,)
        assert part.labels.dtype == torch.int64


def test_mnist_keeps_pixels_with_their_labels(folder):
    split = full_mnist(str(folder), False)
    assert np.array_equal(split.train.pixels, random_images(10, 28, 28))
    assert split.test.labels.tolist() == [0, 1, 2, 3, 4]


def test_svhn_has_rows_columns_and_colours_in_place_and_ten_is_the_digit_0(folder):
    split = full_svhn(str(folder), False)
    assert np.array_equal(split.train.pixels, random_images(10, 3, 32, 32))
    assert split.train.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    assert split.test.labels.tolist() == [0, 0, 1, 9, 5]


def test_svhn_labels_that_count_from_0_stay(folder):
    svhn_file(folder / "test_32x32.mat", random_images(3, 3, 32, 32), [0, 1, 9])
    assert full_svhn(str(folder), False).test.labels.tolist() == [0, 1, 9]


def test_cifar10_batches_are_joined_in_order(folder):
    split = full_cifar10(str(folder), False)
    assert np.array_equal(split.train.pixels, np.concatenate([random_images(2, 3, 32, 32, seed=i) for i in range(5)]))
    assert split.train.labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
    assert np.array_equal(split.test.pixels, random_images(5, 3, 32, 32, seed=5))
    assert split.test.labels.tolist() == [5, 9, 0, 1, 2]


@pytest.mark.parametrize("name", ["SVHN", "CIFAR-10"])
def test_sets_are_read_as_torchvision_reads_them(folder, monkeypatch, name):
    monkeypatch.setattr("torchvision.datasets.svhn.check_integrity", lambda *_: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    (folder / "cifar-10-batches-py/batches.meta").write_bytes(pickle.dumps({"label_names": ["plane"] * 10}))
    ours = LOADERS[name](str(folder), False)
    for split, part in (("train", ours.train), ("test", ours.test)):
        if name == "SVHN":
            theirs = datasets.SVHN(str(folder), split)
            pixels, labels = theirs.data, theirs.labels
        else:
            theirs = datasets.CIFAR10(str(folder), split == "train")
            pixels, labels = theirs.data.transpose(0, 3, 1, 2), theirs.targets
        assert np.array_equal(part.pixels, pixels)
        assert part.labels.tolist() == list(labels)


@pytest.mark.parametrize("name", LOADERS)
def test_files_that_are_there_are_used_whatever_download_says(folder, name):
    assert len(LOADERS[name](str(folder), True).train.labels) == 10


@pytest.mark.parametrize("name", LOADERS)
def test_missing_files_are_named_with_their_folder_and_both_ways_out(tmp_path, name):
    message = told(LOADERS[name], tmp_path / "none")
    for file in FILES[name]:
        assert Path(file).name in message
    assert str((tmp_path / "none" / FILES[name][0]).parent) in message
    assert "are missing" in message
    assert ("unpacked from cifar-10-python.tar.gz" in message) == (name == "CIFAR-10")
    assert "task.download=true" in message
    assert "task.data_dir=FOLDER" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", LOADERS)
def test_one_missing_file_is_the_only_one_called_missing(folder, name):
    last = folder / FILES[name][-1]
    last.unlink()
    assert f"{name} cannot be read: {last.name} is missing in {last.parent}." in told(LOADERS[name], folder)


@pytest.mark.parametrize("name", LOADERS)
def test_truncated_file_is_named_and_kept(folder, name):
    file = folder / FILES[name][1]
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    message = told(LOADERS[name], folder)
    assert f"{file.name} in {file.parent} is damaged" in message or name == "MNIST"
    assert file.name in message
    assert "delete" in message
    assert file.read_bytes() == whole[: len(whole) // 2]


@pytest.mark.parametrize(
    ("name", "write", "shape"),
    [("SVHN", svhn_file, "(10, 3, 28, 28)"), ("CIFAR-10", cifar_file, f"(10, {3 * 28 * 28})")],
)
def test_images_of_another_size_are_told_with_their_shape(folder, name, write, shape):
    file = folder / FILES[name][0]
    write(file, random_images(10, 3, 28, 28), list(range(10)))
    message = told(LOADERS[name], folder)
    assert f"{file.name} in {file.parent}" in message
    assert f"shape {shape}" in message
    assert "32, 32" in message or "32 x 32" in message


def test_damaged_and_missing_files_are_told_together(folder):
    (folder / "train_32x32.mat").write_bytes(b"torn")
    (folder / "test_32x32.mat").unlink()
    message = told(full_svhn, folder)
    assert f"train_32x32.mat in {folder} is damaged" in message
    assert f"test_32x32.mat is missing in {folder}." in message


def test_mnist_of_another_size_is_told(folder):
    write_idx(folder / FILES["MNIST"][0], random_images(10, 32, 32))
    assert "(10, 32, 32)" in told(full_mnist, folder)


@pytest.mark.parametrize(
    ("labels", "message"),
    [([1] * 9, "10 images but 9 labels"), ([1] * 9 + [11], "labels go from 1 to 11, expected 0 to 9")],
)
def test_labels_that_do_not_fit_are_told(folder, labels, message):
    svhn_file(folder / "train_32x32.mat", random_images(10, 3, 32, 32), labels)
    assert message in told(full_svhn, folder)


def test_pickle_that_would_run_code_is_refused(folder):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(folder / "attacked"),)

    (folder / FILES["CIFAR-10"][2]).write_bytes(pickle.dumps({b"data": Attack(), b"labels": []}))
    message = told(full_cifar10, folder)
    assert "data_batch_3" in message
    assert "mkdir, which images and labels do not need" in message
    assert not (folder / "attacked").exists()


@pytest.mark.parametrize("name", LOADERS)
def test_refused_download_tells_how_to_place_the_files_by_hand(tmp_path, name):
    message = told(LOADERS[name], tmp_path, download=True)
    assert message.startswith(f"{name} cannot be read: ")
    assert "no route to host" in message
    assert all(Path(file).name in message for file in FILES[name])
    assert "there by hand" in message
    assert str((tmp_path / FILES[name][0]).parent) in message
    assert "leave task.download off" in message


def test_damaged_file_that_cannot_be_fetched_again_is_named(folder):
    (folder / "train_32x32.mat").write_bytes(b"MATLAB 5.0 torn")
    message = told(full_svhn, folder, download=True)
    assert f"train_32x32.mat in {folder} is damaged" in message
    assert "no route to host" in message


def test_download_of_another_file_than_the_published_is_refused(tmp_path, monkeypatch):
    """torchvision compares its MD5."""
    monkeypatch.setattr("torchvision.datasets.utils._get_redirect_url", lambda url, **_: url)
    monkeypatch.setattr("torchvision.datasets.utils._urlretrieve", lambda _, path: Path(path).write_bytes(b"page"))
    message = told(full_svhn, tmp_path, download=True)
    assert "File not found or corrupted" in message
    assert "Delete what is damaged" in message


@pytest.mark.parametrize("name", LOADERS)
def test_what_is_missing_is_downloaded(folder, monkeypatch, name):
    def give(url, path) -> None:
        asked = url.rsplit("/", 1)[1]
        if asked.endswith(".tar.gz"):
            (folder / "cifar-10-batches-py/batches.meta").write_bytes(pickle.dumps({"label_names": []}))
            with tarfile.open(path, "w:gz") as archive:
                archive.add(folder / "cifar-10-batches-py", "cifar-10-batches-py")
            return
        (file,) = folder.rglob(asked.removesuffix(".gz"))
        Path(path).write_bytes(gzip.compress(file.read_bytes()) if asked.endswith(".gz") else file.read_bytes())

    monkeypatch.setattr("torchvision.datasets.utils._get_redirect_url", lambda url, **_: url)
    monkeypatch.setattr("torchvision.datasets.utils.check_md5", lambda *_: True)
    monkeypatch.setattr("torchvision.datasets.utils._urlretrieve", give)
    fetched, placed = LOADERS[name](str(folder / "new"), True), LOADERS[name](str(folder), False)
    assert torch.equal(fetched.train.pixels, placed.train.pixels)
    assert torch.equal(fetched.test.labels, placed.test.labels)


@pytest.mark.parametrize("name", LOADERS)
def test_folder_that_cannot_be_written_is_told(tmp_path, name):
    (tmp_path / "file").write_text("kept")
    message = told(LOADERS[name], tmp_path / "file", download=True)
    assert f"{name} cannot be written to {(tmp_path / 'file' / FILES[name][0]).parent}" in message
    assert "choose another folder with task.data_dir=FOLDER" in message


@pytest.mark.parametrize("name", LOADERS)
def test_folder_without_permission_is_told(tmp_path, monkeypatch, name):
    def forbidden(path, *_args, **_options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.makedirs", forbidden)
    message = told(LOADERS[name], tmp_path / "theirs", download=True)
    assert f"{name} cannot be written to" in message
    assert "Permission denied" in message


@pytest.mark.parametrize("error", [http.client.IncompleteRead(b""), ConnectionResetError(104, "reset"), TimeoutError()])
def test_download_that_breaks_off_is_told(tmp_path, monkeypatch, error):
    def broken(*_args, **_options):
        raise error

    monkeypatch.setattr("urllib.request.urlopen", broken)
    assert f"It cannot be downloaded either ({type(error).__name__}" in told(full_svhn, tmp_path, download=True)
