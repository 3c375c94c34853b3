"""SVHN, its autoencoders, CIFAR-10 and ImageNet: scores and losses against closed forms, and runs from tiny files."""

import gc
import math
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import test_image_folder
import test_real_data
import torch
import torch.nn.functional as F
from omegaconf import DictConfig
from test_real_data import SCREEN
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from reproduce.records import read_record
from reproduce.run import run
from reproduce.settings import ConfigError, build_task
from tasks.cifar10 import CIFAR10
from tasks.data.images import Images, ImageSplit
from tasks.data.sources import ImageSet
from tasks.imagenet import ImageNet
from tasks.svhn import SVHN
from tasks.svhn_autoencoder import SVHNVAE, SVHNAutoencoder
from tasks.task import Task, TaskError

CPU = torch.device("cpu")
folder = test_real_data.folder  # MNIST, SVHN (with the label 10) and CIFAR-10: ten training images and five others
tree = test_image_folder.tree  # four classes, twelve training images of which one is broken, and eight in val

BATCH_SIZES = {"mnist": 8, "svhn": 8, "svhn_autoencoder": 4, "svhn_vae": 4, "cifar10": 32, "imagenet": 32}
# ResNet-50 itself, on images that a CPU takes in seconds.
SMALL = ("task.image_size=32", "task.group=2", "trainer.precision=float32")

AUTOENCODER = {"source": "generated", "width": 2, "hidden": 4, "codes": 3, "goals": [0.1]}


def with_images(task: Task, count: int = 600) -> Task:
    """The task on images of noise, of which the first tenth, and those of the test part, are marked in green."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
    labels = torch.randint(10, (count,), generator=generator)
    pixels[:, 0, 0, 0] = 20 * labels
    pixels[:, 1, 0, 0] = 0
    pixels[: count // 10, 1, 0, 0] = 255
    train = Images(pixels, labels)
    task.source = ImageSet("noise", lambda: ImageSplit(train, Images(pixels[: count // 10], labels[: count // 10])))
    return task


def cifar10(group: int = 1, **settings: object) -> Task:
    made = CIFAR10("torchvision", [8], 1, 1, [0.5], group=group, **{"evaluation_images": 1000} | settings)
    return with_images(made)


@pytest.fixture(autouse=True)
def same_weights() -> None:
    torch.manual_seed(0)


class Oracle(nn.Module):
    """Reads an image's label in its first pixel, and answers with the next one where the image is marked."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, images: Tensor) -> Tensor:
        red, green = ((images[:, :2, 0, 0] / 4 + 0.5) * 255).round().unbind(1)
        return F.one_hot((red / 20 + green / 255).long() % 10, 10).float()


@pytest.mark.parametrize("group", [1, 4])
def test_score_is_the_share_of_wrong_answers_on_the_images_of_its_split(group):
    """Of 600 images, evaluated in unequal parts, the first 60 are answered wrong: all of the test part."""
    assert cifar10(group).evaluate(Oracle()) == pytest.approx(0.1)
    assert cifar10(group, score="test").evaluate(Oracle()) == 1.0
    # Images 0, 66, 133, 199 ... 599.
    assert cifar10(group, evaluation_images=10).evaluate(Oracle()) == pytest.approx(0.1)


def test_images_of_a_group_follow_each_other_and_stay_together():
    images, labels = cifar10().sampler(0, 0, 1, CPU).draw(3, 8, None)
    grouped = cifar10(group=4)
    assert (grouped.units_per_sample, grouped.unit) == (4, "image")
    batch = grouped.sampler(0, 0, 1, CPU).draw(3, 2, None)
    assert torch.equal(batch[0], torch.stack([images[:4], images[4:]]))
    assert torch.equal(batch[1], torch.stack([labels[:4], labels[4:]]))
    second = grouped.sampler(0, 1, 2, CPU).draw(3, 2, None)  # the second rank's one sample
    assert torch.equal(second[0][0], images[4:])


def test_loss_of_groups_is_the_cross_entropy_of_their_images():
    batch = cifar10().sampler(0, 0, 1, CPU).draw(1, 12, None)
    groups = cifar10(group=4).sampler(0, 0, 1, CPU).draw(1, 3, None)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10)).double().requires_grad_(False)
    probabilities = model(batch[0].double()).softmax(1)
    expected = -sum(math.log(probabilities[i, label]) for i, label in enumerate(batch[1])) / 12
    assert float(cifar10().loss(model, (batch[0].double(), batch[1]))) == pytest.approx(expected)
    assert float(cifar10(group=4).loss(model, (groups[0].double(), groups[1]))) == pytest.approx(expected)


def test_batch_normalisation_couples_the_images_of_a_group_and_no_others():
    task = cifar10(group=4)
    model = task.build_model()
    images, labels = task.sampler(0, 0, 1, CPU).draw(1, 3, None)
    images = images * torch.tensor([0.3, 1, 3])[:, None, None, None, None]  # by group
    with torch.no_grad():
        apart = sum(float(task.loss(model, (images[i : i + 1], labels[i : i + 1]))) for i in range(3)) / 3
        whole = float(task.loss(model, (images, labels)))
        order = torch.arange(12).view(3, 4).T.flatten()
        mixed = float(task.loss(model, (images.flatten(0, 1)[order].view_as(images), labels.flatten()[order])))
    assert whole == pytest.approx(apart, rel=1e-5)
    assert abs(mixed - apart) > 0.003


def test_svhn_takes_the_mean_from_each_image_and_channel_and_keeps_the_contrast():
    images = torch.rand(5, 3, 32, 32) * torch.rand(5, 3, 1, 1) + torch.rand(5, 3, 1, 1)
    before = images.clone()
    taken = SVHN("generated", [1, 1], 4, [0.5]).normalise(images)
    assert torch.equal(images, before)
    assert taken.mean((2, 3)).abs().max() < 1e-5
    torch.testing.assert_close(taken - taken[:, :, :1, :1], 4 * (images - images[:, :, :1, :1]), atol=1e-5, rtol=0)


def test_imagenet_takes_its_published_mean_and_deviation_from_each_channel():
    task = ImageNet("generated", "small", 32, 4, [0.5])
    levels = task.normalise(torch.tensor([0.485, 0.456, 0.406])[None, :, None, None].expand(1, 3, 2, 2))
    assert levels.abs().max() < 1e-6
    white = task.normalise(torch.ones(1, 3, 1, 1)).flatten().tolist()
    assert white == pytest.approx([0.515 / 0.229, 0.544 / 0.224, 0.594 / 0.225])


@pytest.mark.parametrize("pixel_std", [0.1, 3.0])
def test_loss_of_the_vae_is_its_negative_evidence_lower_bound_per_value(pixel_std):
    task = with_images(SVHNVAE(pixel_std=pixel_std, **AUTOENCODER))
    model = task.build_model()
    model.encoder.code.weight.data *= 600  # so that codes cost something beside 3,072 pixels
    images, noise = task.sampler(0, 0, 1, CPU).draw(1, 6, model)
    mean, log_variance = model.encoder(images)[:, :3], model.encoder(images)[:, 3:]
    code = Normal(mean, log_variance.exp().sqrt())
    reconstruction = model.decoder(code.loc + code.scale * noise)
    log_likelihood = Normal(reconstruction, pixel_std).log_prob(images).sum((1, 2, 3))
    rate = kl_divergence(code, Normal(0.0, 1.0)).sum(1)
    constant = math.log(pixel_std * math.sqrt(2 * math.pi))
    bound = (rate - log_likelihood).mean().item() / (3 * 32 * 32) - constant
    assert rate.mean().item() / (3 * 32 * 32) > 1e-3
    assert task.loss(model, (images, noise)).item() == pytest.approx(bound, rel=1e-4)


def test_noise_of_the_vae_is_standard_normal_and_another_at_each_step():
    sampler = with_images(SVHNVAE(pixel_std=0.1, **AUTOENCODER), 10).sampler(0, 0, 1, CPU)
    noise = torch.stack([sampler.draw(step, 1000, None)[1] for step in (1, 2)])
    assert noise.shape == (2, 1000, 3)
    assert float(noise.mean()) == pytest.approx(0, abs=0.06)
    assert float(noise.square().mean()) == pytest.approx(1, abs=0.1)
    assert float((noise[0] * noise[1]).mean()) == pytest.approx(0, abs=0.1)


def test_loss_of_the_autoencoder_is_the_mean_squared_error():
    task = with_images(SVHNAutoencoder(**AUTOENCODER))
    model = task.build_model()
    (images,) = task.sampler(0, 0, 1, CPU).draw(1, 6, model)
    error = (model.decoder(model.encoder(images)) - images).double()
    assert task.loss(model, (images,)).item() == pytest.approx(error.square().sum().item() / (6 * 3 * 32 * 32))


@pytest.mark.parametrize("score", ["train", "test"])
@pytest.mark.parametrize(("make", "more"), [(SVHNAutoencoder, {}), (SVHNVAE, {"pixel_std": 0.1})])
def test_score_of_an_autoencoder_is_its_loss_at_the_mean_code_of_each_image(make, more, score):
    """Over 600 images in unequal parts, or the test part's 60."""
    task = with_images(make(**AUTOENCODER, **more, score=score, evaluation_images=1000))
    assert task.score == f"{score} {'nats per value' if more else 'squared error'}"
    model = task.build_model()
    images = getattr(task.source.images, score).pixels.float() / 255
    batch = (images, torch.zeros(len(images), 3)) if more else (images,)
    expected = float(task.loss(model, batch).detach())
    found = task.evaluate(model)
    assert found == pytest.approx(expected, rel=1e-5)
    torch.manual_seed(1)
    assert task.evaluate(model) == found


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("svhn", "source=web", "'generated' or 'torchvision', got 'web'"),
        ("svhn_vae", "source=embedded", "'generated' or 'torchvision', got 'embedded'"),
        ("cifar10", "source=folders", "'generated' or 'torchvision', got 'folders'"),
        ("imagenet", "source=torchvision", "'generated' or 'folders', got 'torchvision'"),
        *((name, "score=val", "'train' or 'test', got 'val'") for name in BATCH_SIZES),
        *(
            ("svhn_vae", f"pixel_std={value}", r"task\.pixel_std must be above 0")
            for value in ("0", "-1", "inf", "nan")
        ),
        ("imagenet", "network=resnet18", "'small' or 'resnet50', got 'resnet18'"),
        ("imagenet", "network=small", r"task\.group must be 1, got 32"),
        *((name, "goals=[0.1,0.2]", r"strictly falling.*expected \[0\.2, 0\.1\]") for name in BATCH_SIZES),
    ],
)
def test_wrong_settings_are_told(config, name, change, message):
    with pytest.raises(ConfigError, match=message):
        build_task(config(f"{name}/paper", f"task.{change}"))


def config_of(config: Callable, name: str, data: Path, *overrides: str, **options: float) -> DictConfig:
    three_steps = "grid.budget={steps: 3, examples: 0}"
    options = {"batch_size": BATCH_SIZES[name]} | options
    return config(f"{name}/paper", f"task.data_dir={data}", three_steps, *overrides, **options)


def scores_of_three_steps(cfg: DictConfig) -> list[float]:
    """Trains, checks the record and returns its scores."""
    outcome = run(cfg)
    (path,) = (Path(cfg.outputs) / cfg.name / "runs").glob("*.jsonl")
    record = read_record(path)
    assert record.outcome == {"kind": "outcome"} | outcome
    assert (outcome["status"], outcome["step"]) == ("exhausted", 3)
    assert outcome["examples"] == 3 * cfg.run.batch_size
    assert [e["step"] for e in record.evaluations] == [0, 1, 2, 3]
    assert all(math.isfinite(e["loss"]) and e["loss"] > 0 for e in record.evaluations[1:])
    return [e["score"] for e in record.evaluations]


@pytest.mark.parametrize("name", ["svhn", "svhn_autoencoder", "svhn_vae", "cifar10"])
def test_paper_scale_trains_from_files_in_the_real_layout(config, folder, name):
    cfg = config_of(config, name, folder, learning_rate=0.001)
    task = build_task(cfg)
    assert (task.data, task.embedded) == ("CIFAR-10" if name == "cifar10" else "SVHN", False)
    assert (task.source.max_shift, task.source.flip) == ((4, True) if name == "cifar10" else (0, False))
    scores = scores_of_three_steps(cfg)
    if name in ("svhn", "cifar10"):
        assert all(score * 10 == pytest.approx(round(score * 10)) and 0 <= score <= 1 for score in scores)
    else:
        assert all(0 < score < (1 if name == "svhn_autoencoder" else math.inf) for score in scores)
        assert len(set(scores)) == 4


def imagenet(config: Callable, tree: Path, *overrides: str) -> DictConfig:
    return config_of(config, "imagenet", tree, *SMALL, *overrides, batch_size=4)


def test_imagenet_trains_from_folders_with_a_broken_image(config, tree, capfd):
    scores = scores_of_three_steps(imagenet(config, tree, "task.classes=4", "task.workers=0"))
    assert all(score * 12 == pytest.approx(round(score * 12)) and 0 <= score <= 1 for score in scores)
    assert capfd.readouterr().err.count("cannot be read and are replaced by their neighbours") == 1


@pytest.mark.slow
def test_decoding_processes_change_nothing_and_end_with_the_run(config, tree, tmp_path):
    """They are no daemons, so that one left over would keep Python from ending."""
    hashes = []
    for workers in (0, 2):
        overrides = ("task.classes=4", "task.network=small", "task.group=1", f"task.workers={workers}")
        cfg = imagenet(config, tree, *overrides, f"outputs={tmp_path}/{workers}")
        hashes.append(run(cfg)["weights_sha256"])
    assert hashes[0] == hashes[1]
    gc.collect()
    until = time.monotonic() + 120
    while multiprocessing.active_children() and time.monotonic() < until:
        time.sleep(0.1)
    assert multiprocessing.active_children() == []


def records(cfg: DictConfig) -> list[Path]:
    return list(Path(cfg.outputs).rglob("*.jsonl"))


@pytest.mark.parametrize(("name", "ranks"), [*((name, 1) for name in BATCH_SIZES), ("cifar10", 2)])
def test_missing_data_is_told_on_one_screen_before_anything_is_recorded(config, tmp_path, name, ranks):
    cfg = config_of(config, name, tmp_path / "none", f"trainer.ranks={ranks}", batch_size=64)
    with pytest.raises(TaskError) as error:
        run(cfg)
    told = str(error.value)
    assert str(tmp_path / "none") in told
    assert "missing" in told
    assert "task.data_dir=FOLDER" in told
    assert ("FOLDER/train/<class>/" if name == "imagenet" else "task.download=true") in told
    assert len(told) < SCREEN
    assert records(cfg) == []


def test_tree_with_other_classes_than_the_config_is_told(config, tree):
    cfg = imagenet(config, tree, "task.workers=0")
    with pytest.raises(TaskError, match=r"4 class folders, but task\.classes is 1000"):
        run(cfg)
    assert records(cfg) == []


@pytest.mark.parametrize(("ranks", "batch_size"), [(1, 48), (2, 96)])
@pytest.mark.parametrize("name", ["cifar10", "imagenet"])
def test_batch_size_of_broken_groups_is_told_with_the_multiple(config, folder, name, ranks, batch_size):
    cfg = config_of(config, name, folder, f"trainer.ranks={ranks}", batch_size=batch_size)
    with pytest.raises(ConfigError, match=rf"{batch_size} images .* of 32 .*choose a multiple of {32 * ranks},"):
        run(cfg)
