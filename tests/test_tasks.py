"""Every task config builds and trains from fake batches; what MNIST and the noisy quadratic promise."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import conf
from reproduce.run import run
from reproduce.settings import build_task
from tasks.data.images import Images
from tasks.data.mnist import embedded_mnist
from tasks.data.sources import crops
from tasks.mnist import MNIST
from tasks.noisy_quadratic import NoisyQuadratic
from tasks.task import TaskError, check_goals, rank_share

CONFIGS = sorted(f"{path.parent.name}/{path.stem}" for path in (Path(conf.__file__).parent / "task").glob("*/*.yaml"))
CPU = torch.device("cpu")
SMALLER = {"imagenet/paper": ["task.image_size=64", "task.group=2"]}  # seconds instead of minutes on a CPU
MINI = [name for name in CONFIGS if name.endswith("/mini")]
SMALLER |= {name: ["task.start_states=16"] for name in MINI if name.startswith("atari_")}
# Where the model acts samples depend on all that it did before: tests/atari and test_dota.py have what holds there.
SUPERVISED = [name for name in MINI if not name.startswith(("atari_", "dota_"))]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_trains_on_fake_batches(config, name):
    task = build_task(config(name, *SMALLER.get(name, [])))
    torch.manual_seed(0)
    model = task.build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        loss = task.loss(model, task.fake_batch(4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.shape == ()
    assert math.isfinite(loss.item())
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("name", MINI)
def test_fake_batch_has_the_shapes_and_types_of_a_real_one(config, name):
    task = build_task(config(name, *SMALLER.get(name, [])))
    task.prepare()
    model = task.build_model()
    real, fake = task.sampler(0, 0, 1, CPU).draw(1, 4, model), task.fake_batch(4)
    assert [(t.shape, t.dtype, t.is_contiguous(memory_format=torch.contiguous_format)) for t in real] == [
        (t.shape, t.dtype, t.is_contiguous(memory_format=torch.contiguous_format)) for t in fake
    ]


@pytest.mark.parametrize("name", SUPERVISED)
@pytest.mark.parametrize("ranks", [2, 4])
def test_samples_depend_on_seed_and_step_alone(config, name, ranks):
    task = build_task(config(name))
    task.prepare()
    model = task.build_model()
    whole = task.sampler(3, 0, 1, CPU).draw(7, 16, model)
    shares = [task.sampler(3, rank, ranks, CPU).draw(7, 16, model) for rank in range(ranks)]
    for tensor, parts in zip(whole, zip(*shares, strict=True), strict=True):
        assert torch.equal(tensor, torch.cat(parts))
    again = task.sampler(3, 0, 1, CPU)
    again.draw(2, 16, model)
    assert all(torch.equal(a, b) for a, b in zip(again.draw(7, 16, model), whole, strict=True))
    for other in (task.sampler(4, 0, 1, CPU).draw(7, 16, model), task.sampler(3, 0, 1, CPU).draw(8, 16, model)):
        assert not torch.equal(other[0], whole[0])


def test_embedded_mnist_is_whole_balanced_and_split_without_overlap():
    split = embedded_mnist()
    assert split.train.pixels.shape == (4000, 28, 28)
    assert split.test.pixels.shape == (1000, 28, 28)
    assert split.train.labels.bincount().tolist() == [400] * 10
    assert split.test.labels.bincount().tolist() == [100] * 10
    train = {image.numpy().tobytes() for image in split.train.pixels}
    assert not train & {image.numpy().tobytes() for image in split.test.pixels}
    # The images are digits: a ring has a hole where a one has its stroke.
    mean = torch.stack([split.train.pixels[split.train.labels == d].float().mean(0) for d in (0, 1)])
    assert mean[0, 14, 14] < 0.25 * mean[1, 14, 14]


def test_crops_move_images_by_whole_pixels_and_fills_with_black():
    image = torch.zeros(1, 5, 5, dtype=torch.uint8)
    image[0, 2, 2] = 9
    padded = torch.nn.functional.pad(image, [1] * 4)
    offsets = torch.tensor([[0, 0], [1, 1], [2, 1]])  # down-right by one, in place, up by one
    moved = crops(padded, torch.zeros(3, dtype=torch.long), offsets, 5)
    assert [tuple(torch.nonzero(m)[0].tolist()) for m in moved] == [(3, 3), (2, 2), (1, 2)]
    assert moved.sum(dim=(1, 2)).tolist() == [9, 9, 9]


def test_training_images_keep_their_labels_and_dropout_its_rate(config):
    task = build_task(config("mnist/mini"))
    task.max_shift = 0
    images, labels, masks = task.sampler(0, 0, 1, CPU).draw(1, 2000, None)
    lookup = {}
    for image, label in zip(task.split.train.pixels, task.split.train.labels, strict=True):
        lookup[image.numpy().tobytes()] = int(label)
    raw = (images[:, 0] * (255 * 0.3081) + 255 * 0.1307).round().to(torch.uint8)
    assert [lookup[image.contiguous().numpy().tobytes()] for image in raw[:200]] == labels[:200].tolist()
    assert masks.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert float(masks.mean()) == pytest.approx(1.0, abs=0.01)


def test_score_is_the_error_rate_on_a_fixed_set_without_augmentation(config):
    task = build_task(config("mnist/mini"))
    model = task.build_model()
    assert task.evaluate(model) == task.evaluate(model)
    images = task.evaluation_set
    assert len(images.labels) == 1000

    class Oracle(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.seen = 0

        def forward(self, batch):
            part = images.labels[self.seen : self.seen + len(batch)].clone()
            self.seen += len(batch)
            part[: len(batch) // 10] = (part[: len(batch) // 10] + 1) % 10  # one in ten wrong
            return torch.nn.functional.one_hot(part, 10).float()

    assert task.evaluate(Oracle()) == pytest.approx(0.1)


def test_test_score_uses_held_out_images(config):
    task = build_task(config("mnist/mini", "task.score=test"))
    assert task.score == "test error"
    assert torch.equal(task.evaluation_set.pixels, embedded_mnist().test.pixels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "web"}, "embedded"),
        ({"score": "validation"}, "train"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_mnist_refuses_wrong_settings(changes, message):
    settings = {"source": "embedded", "channels": [1, 1], "hidden": 4, "dropout": 0.0, "max_shift": 0, "goals": [0.5]}
    with pytest.raises(TaskError, match=message):
        MNIST(**settings | changes)


def test_damaged_embedded_file_is_named(monkeypatch, tmp_path):
    embedded_mnist.cache_clear()
    folder = tmp_path / "data" / "data"
    folder.mkdir(parents=True)
    (folder / "mnist_5k.csv.gz").write_bytes(b"not gzip")
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: spec)
        with pytest.raises(TaskError, match=r"mnist_5k\.csv\.gz cannot be read.*reinstall"):
            embedded_mnist()
    assert isinstance(embedded_mnist().train, Images)


def quadratic() -> NoisyQuadratic:
    return NoisyQuadratic(dimensions=64, condition_number=100, noise=20, goals=[0.5, 0.2])


def test_quadratic_moments_are_those_of_its_gradients():
    task = quadratic()
    model = task.build_model()
    xi = task.sampler(0, 0, 1, CPU).draw(1, 40_000, model)[0].double()
    h, c = task.curvature, task.covariance
    gradients = h * model.theta.detach().double() + c.sqrt() * xi
    mean, exact = gradients.mean(0), task.exact_moments(1, 0.1, 0)
    centred = gradients - mean
    assert exact.grad_sq == pytest.approx(float(mean.square().sum()), rel=0.02)
    assert exact.trace == pytest.approx(float(centred.square().sum(1).mean()), rel=0.01)
    assert exact.curvature_grad_sq == pytest.approx(float((h * mean.square()).sum()), rel=0.02)
    assert exact.curvature_trace == pytest.approx(float((h * centred.square()).sum(1).mean()), rel=0.01)


def test_quadratic_loss_gradient_is_h_theta_plus_noise():
    task = quadratic()
    model = task.build_model()
    (xi,) = batch = task.sampler(0, 0, 1, CPU).draw(1, 3, model)
    (gradient,) = torch.autograd.grad(task.loss(model, batch), [model.theta])
    h, c = task.curvature.float(), task.covariance.float()
    torch.testing.assert_close(gradient, h * model.theta + c.sqrt() * xi.mean(0))


def test_quadratic_steps_to_goal_invert_the_expected_loss():
    task = quadratic()
    assert task.expected_loss_terms(8, 0.1, 0).sum() == pytest.approx(1.0)
    steps = task.steps_to_goal(8, 0.1, 0.5)
    assert task.expected_loss_terms(8, 0.1, steps).sum() == pytest.approx(0.5, rel=1e-6)
    assert task.steps_to_goal(1, 1.0, 0.001) == math.inf
    assert task.steps_to_goal(8, 2.0, 0.5) == math.inf


def test_quadratic_best_steps_are_not_beaten_by_any_rate():
    task = quadratic()
    best = task.exact_steps(16, 0.3)
    tried = [task.steps_to_goal(16, rate, 0.3) for rate in np.geomspace(0.01, 1.99, 400)]
    assert best <= min(tried) * 1.0001
    assert best == pytest.approx(min(tried), rel=0.01)


@pytest.mark.parametrize(
    ("goals", "rising"), [([0.2, 0.5], False), ([0.5, 0.2], True), ([0.5, 0.5], False), ([], False)]
)
def test_goals_out_of_order_are_refused(goals, rising):
    task = quadratic()
    task.goals, task.higher_is_better = tuple(goals), rising
    with pytest.raises(TaskError, match=r"task\.goals|no goals"):
        check_goals(task)


def test_batch_that_cannot_be_shared_is_refused():
    assert [rank_share(12, rank, 3) for rank in range(3)] == [slice(0, 4), slice(4, 8), slice(8, 12)]
    with pytest.raises(TaskError, match="multiple of 5"):
        rank_share(12, 0, 5)


def write_idx(path: Path, values: np.ndarray) -> None:
    """An array of uint8 in the format of MNIST's files."""
    header = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    path.write_bytes(header + values.astype(np.uint8).tobytes())


def test_paper_scale_trains_from_files_in_the_real_layout(config, tmp_path):
    folder = tmp_path / "data" / "MNIST" / "raw"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, images in (("train", 40), ("t10k", 20)):
        write_idx(folder / f"{part}-images-idx3-ubyte", rng.integers(0, 256, (images, 28, 28)))
        write_idx(folder / f"{part}-labels-idx1-ubyte", np.arange(images) % 10)
    cfg = config("mnist/paper", f"task.data_dir={tmp_path}/data", "grid.budget={steps: 3, examples: 0}", batch_size=8)
    outcome = run(cfg)
    assert (outcome["status"], outcome["step"]) == ("exhausted", 3)
    task = build_task(cfg)
    assert not task.embedded
    assert task.data == "MNIST"
    assert len(task.evaluation_set.labels) == 40
    # Two convolutions of 5x5 with 32 and 64 filters, 1,024 hidden units, ten classes.
    weights = (25 + 1) * 32 + (25 * 32 + 1) * 64 + (7 * 7 * 64 + 1) * 1024 + (1024 + 1) * 10
    assert sum(p.numel() for p in task.build_model().parameters()) == weights
