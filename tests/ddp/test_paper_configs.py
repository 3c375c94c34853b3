"""The paper's configs without the paper's data: random images through the real samplers, on one rank and on two."""

from dataclasses import dataclass

import pytest
import torch
from conftest import composed
from omegaconf import OmegaConf
from torch import Tensor, nn

from reproduce.distributed import Ranks, run_on_ranks
from reproduce.probe import gradient
from reproduce.settings import build_task, settings_from_config
from reproduce.trainer import Trainer
from tasks.data.images import Images, ImageSplit
from tasks.data.sources import ImageSet
from tasks.mnist import MNIST
from tasks.task import Batch, Task

pytestmark = pytest.mark.slow

STEPS = 10


@dataclass(frozen=True)
class Case:
    """batch_size: images in a step. group: images in a sample. size: of an image."""

    batch_size: int
    learning_rate: float
    size: tuple[int, ...] = (3, 32, 32)
    group: int = 1
    overrides: tuple[str, ...] = ()


CASES = {
    "mnist": Case(8, 0.05, (28, 28)),
    "svhn": Case(8, 0.05),
    "svhn_autoencoder": Case(8, 3e-5),
    "svhn_vae": Case(8, 3e-5),
    "cifar10": Case(64, 0.01, group=32, overrides=("task.blocks=1",)),  # ResNet-32 itself trains in test_image_tasks.py
    # ResNet-50 itself, on images that a CPU takes in seconds; bfloat16 would hide differences between ranks.
    "imagenet": Case(4, 0.001, (3, 64, 64), 2, ("task.image_size=64", "task.group=2", "trainer.precision=float32")),
}
NAMES = list(CASES)


def with_random_images(task: Task, size: tuple[int, ...]) -> Task:
    """The task as if its data were 64 random images of 4 x 4 squares, the same in every process."""
    generator = torch.Generator().manual_seed(0)
    squares = torch.randint(256, (64, *size[:-2], 4, 4), generator=generator, dtype=torch.uint8)
    pixels = squares.repeat_interleave(size[-2] // 4, -2).repeat_interleave(size[-1] // 4, -1)
    images = Images(pixels, torch.randint(10, (64,), generator=generator))
    split = ImageSplit(images, images)
    if isinstance(task, MNIST):
        task.split = split
    else:
        task.source = ImageSet(task.data, lambda: split)
    return task


def begin_as_shallow(model: nn.Module) -> None:
    """Residual branches begin at zero (Goyal et al. 2017, arXiv 1706.02677).

    A fresh ResNet-50 answers a change of its weights by 1e-7 with one of its gradient by some percent, which no two
    orders of summation survive.
    """
    for block in model.modules():
        last = {"Bottleneck": "bn3", "Block": "norm2"}.get(type(block).__name__)
        if last:
            nn.init.zeros_(getattr(block, last).weight)


def layout(batch: Batch) -> list[tuple]:
    return [(tuple(t.shape), t.dtype, t.is_contiguous()) for t in batch]


def gradients_of_halves(trainer: Trainer) -> list[Tensor]:
    """What two ranks should find at the first step, each from its half of the batch."""
    batch = trainer.sampler.draw(1, trainer.samples, trainer.model)
    parameters = list(trainer.model.parameters())
    halves = zip(*(tensor.chunk(2) for tensor in batch), strict=True)
    found = [gradient(trainer.loss(trainer.model, half), parameters) for half in halves]
    return [torch.cat([g.flatten() for g in gradients]) for gradients in found]


def flat_weights(trainer: Trainer) -> Tensor:
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def train(ranks: Ranks, name: str, config: dict) -> dict | None:
    """A run as the first rank sees it."""
    composed_config = OmegaConf.create(config)
    task = with_random_images(build_task(composed_config), CASES[name].size)
    trainer = Trainer(task, settings_from_config(composed_config, task), ranks, None)
    begin_as_shallow(trainer.model)
    result = {
        "unit": (task.units_per_sample, task.unit),
        "drawn": layout(trainer.sampler.draw(1, trainer.samples, trainer.model)),
        "fake": layout(task.fake_batch(trainer.samples // ranks.size)),
    }
    if ranks.size == 1:
        first, second = gradients_of_halves(trainer)
        result |= {"product": float((first * second).sum()), "distance_sq": float((first - second).square().sum())}
        result["start"] = flat_weights(trainer).numpy()
    outcome = trainer.train()
    if not ranks.is_first:
        return None
    return result | {
        "outcome": outcome,
        "evaluations": trainer.evaluations,
        "weights": flat_weights(trainer).numpy(),
    }


def train_all(ranks: Ranks, configs: dict[str, dict]) -> dict[str, dict | None]:
    torch.set_num_threads(1)
    return {name: train(ranks, name, config) for name, config in configs.items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, dict]]:
    """Results of `train` by ranks and task."""
    folder = tmp_path_factory.mktemp("paper")
    results = {}
    for size in (1, 2):
        configs = {}
        for name, case in CASES.items():
            overrides = [
                f"trainer.ranks={size}",
                "trainer.device=cpu",
                "trainer.evaluation_spacing=10",  # after steps 1 and 10
                "task.evaluation_images=2",
                f"grid.budget={{steps: {STEPS}, examples: 0}}",
                *case.overrides,
            ]
            run = {"batch_size": case.batch_size, "learning_rate": case.learning_rate}
            configs[name] = OmegaConf.to_container(composed(f"{name}/paper", folder, *overrides, **run), resolve=True)
        results[size] = run_on_ranks(train_all, size, "cpu", configs)
    return results


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_run_takes_its_ten_steps_with_finite_losses(trained, name, ranks):
    result = trained[ranks][name]
    assert (result["outcome"]["status"], result["outcome"]["step"]) == ("exhausted", STEPS)
    assert result["outcome"]["examples"] == STEPS * CASES[name].batch_size
    assert [e["step"] for e in result["evaluations"]] == [0, 1, STEPS]
    losses = torch.tensor([e["loss"] for e in result["evaluations"][1:]])
    assert losses.isfinite().all()
    assert losses.min() > 0


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_fake_batch_has_the_layout_of_a_drawn_one(trained, name, ranks):
    result, case = trained[ranks][name], CASES[name]
    assert result["fake"] == result["drawn"]
    grouping = () if case.group == 1 else (case.group,)
    channels = (1,) if name == "mnist" else ()
    assert result["drawn"][0][0] == (case.batch_size // case.group // ranks, *grouping, *channels, *case.size)


@pytest.mark.parametrize("name", NAMES)
def test_two_ranks_train_the_weights_of_one(trained, name):
    """Compared with how far training has moved them."""
    start, alone = (torch.tensor(trained[1][name][key]) for key in ("start", "weights"))
    together = torch.tensor(trained[2][name]["weights"])
    moved = (alone - start).norm()
    assert moved > 1e-3 * start.norm()
    assert (together - alone).norm() < 1e-3 * moved


@pytest.mark.parametrize("name", NAMES)
def test_two_ranks_record_the_losses_of_one(trained, name):
    alone, together = ([e["loss"] for e in trained[ranks][name]["evaluations"][1:]] for ranks in (1, 2))
    assert together == pytest.approx(alone, rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_noise_scale_of_two_ranks_is_recorded_in_units_of_images(trained, name):
    """Of ranks with gradients g and h over b images each, |G|^2 is g'h, and the trace of one image b |g - h|^2 / 2."""
    result, case = trained[2][name], CASES[name]
    assert result["unit"] == (case.group, "image")
    first, rest = (e["training"] for e in result["evaluations"][1:])
    trace = case.batch_size / 2 * trained[1][name]["distance_sq"] / 2
    assert first["updates"] == 1
    assert first["trace"] == pytest.approx(trace, rel=1e-3)
    assert first["grad_sq"] == pytest.approx(trained[1][name]["product"], rel=1e-3, abs=1e-4 * trace)
    assert rest["updates"] == STEPS - 1
    assert torch.tensor([rest["trace"], rest["grad_sq"]]).isfinite().all()
    assert rest["trace"] > 0
