"""Networks: sizes by hand and from the literature, what is normalised with what, and gradients of gradients."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models import resnet50

from reproduce.settings import build_task
from tasks.networks.autoencoder import Decoder, Encoder
from tasks.networks.convolutional import ConvNet
from tasks.networks.grouped_batch_norm import GroupedBatchNorm2d
from tasks.networks.residual import Block, ResNet, group_norm
from tasks.task import Task

GROUP = 4


def weights(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(autouse=True)
def same_weights() -> None:
    torch.manual_seed(0)


@pytest.fixture
def model_of(config: Callable) -> Callable[[str], nn.Module]:
    return lambda name: build_task(config(name)).build_model()


def test_resnet_32_has_the_weights_and_shapes_of_he_et_al(model_of):
    def block(inputs: int, outputs: int) -> int:
        return 9 * inputs * outputs + 9 * outputs * outputs + 2 * 2 * outputs

    stem, classes = 9 * 3 * 16 + 2 * 16, (64 + 1) * 10
    stages = 5 * block(16, 16) + block(16, 32) + 4 * block(32, 32) + block(32, 64) + 4 * block(64, 64)
    assert stem + stages + classes == 464_154  # 0.46 M in their Table 6
    model = model_of("cifar10/paper")
    assert weights(model) == 464_154
    assert weights(ResNet((16, 32, 64), 5, 10, nn.BatchNorm2d)) == 464_154
    shapes = []
    for module in (model.norm, model.blocks[4], model.blocks[9], model.blocks[14]):
        module.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(output.shape[1:])))
    assert model.eval()(normal(2, 3, 32, 32)).shape == (2, 10)
    assert shapes == [(16, 32, 32), (16, 32, 32), (32, 16, 16), (64, 8, 8)]


@pytest.mark.parametrize(("name", "classes"), [("cifar10/mini", 10), ("imagenet/mini", 100)])
def test_mini_resnets_have_a_block_a_stage_and_a_stem_of_stride_2(model_of, name, classes):
    model = model_of(name)
    norms = 2 * (3 * 16 + 2 * 32 + 2 * 64)
    convolutions = 9 * (3 * 16 + 2 * 16 * 16 + 16 * 32 + 32 * 32 + 32 * 64 + 64 * 64)
    assert weights(model) == norms + convolutions + (64 + 1) * classes
    assert model.blocks(model.stem(normal(2, 3, 32, 32))).shape == (2, 64, 4, 4)
    assert [m.num_groups for m in model.modules() if isinstance(m, nn.GroupNorm)] == [2, 2, 2, 4, 4, 8, 8]


def test_shortcut_takes_every_second_pixel_and_adds_channels_of_zeros():
    block = Block(2, 4, 2, group_norm)
    nn.init.zeros_(block.norm2.weight)
    images = normal(3, 2, 8, 8)
    expected = torch.cat([images[:, :, ::2, ::2].relu(), torch.zeros(3, 2, 4, 4)], 1)
    assert torch.equal(block(images), expected)


def test_convolutional_networks_have_the_papers_weights(model_of):
    # Two convolutions of 5x5 with 32 and 64 filters, 8 x 8 x 64 numbers to 1,024 hidden units, ten classes.
    paper = (25 * 3 + 1) * 32 + (25 * 32 + 1) * 64 + (8 * 8 * 64 + 1) * 1024 + (1024 + 1) * 10
    assert weights(model_of("svhn/paper")) == paper == 4_259_274
    mini = (25 * 3 + 1) * 8 + (25 * 8 + 1) * 16 + (8 * 8 * 16 + 1) * 64 + (64 + 1) * 10
    assert weights(model_of("svhn/mini")) == mini == 70_074
    for stride in (1, 2):  # in place of the first pooling: the same sizes
        model = ConvNet((1, 28), (2, 3), 5, 7, stride)
        assert weights(model) == (25 + 1) * 2 + (25 * 2 + 1) * 3 + (7 * 7 * 3 + 1) * 5 + (5 + 1) * 7
        assert model(normal(4, 1, 28, 28)).shape == (4, 7)


def test_dropout_mask_multiplies_the_hidden_units():
    model, images = ConvNet((1, 28), (2, 3), 5, 7), normal(2, 1, 28, 28)
    assert torch.equal(model(images, torch.zeros(2, 5)), model.classes.bias.expand(2, 7))
    torch.testing.assert_close(model(images, torch.ones(2, 5)), model(images))
    doubled = 2 * (model(images) - model.classes.bias) + model.classes.bias
    torch.testing.assert_close(model(images, torch.full((2, 5), 2.0)), doubled)


def test_resnet_50_has_its_published_weights_whatever_batch_norm_couples():
    with torch.device("meta"):  # sizes without numbers
        plain, grouped = resnet50(), resnet50(norm_layer=partial(GroupedBatchNorm2d, group=2))
    assert weights(grouped) == weights(plain) == 25_557_032
    state, other = ({name: t.shape for name, t in model.state_dict().items()} for model in (plain, grouped))
    assert state == other  # published weights fit it
    assert sum(isinstance(m, GroupedBatchNorm2d) for m in grouped.modules()) == 53


def test_encoder_and_decoder_have_infogans_channels(model_of):
    model = model_of("svhn_autoencoder/paper")
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d)]
    assert [m.out_channels for m in convolutions] == [64, 128, 256, 256, 128, 64, 3]
    assert [m.in_channels for m in convolutions] == [3, 64, 128, 448, 256, 128, 64]
    assert {(m.kernel_size, m.stride) for m in convolutions} == {((4, 4), (2, 2))}
    assert (model.encoder.hidden.in_features, model.encoder.hidden.out_features) == (256 * 4 * 4, 128)
    assert model.decoder.seed.out_features == 448 * 2 * 2
    assert (model.encoder.code.out_features, model.decoder.seed.in_features) == (64, 64)
    assert model_of("svhn_vae/paper").encoder.code.out_features == 128  # means and ln variances
    images, codes = model(normal(2, 3, 32, 32))
    assert (images.shape, codes.shape) == ((2, 3, 32, 32), (2, 64))


def test_autoencoder_has_as_many_weights_as_by_hand():
    encoder = (16 * 3 + 1) * 8 + (16 * 8 + 1) * 16 + (16 * 16 + 1) * 32
    assert weights(Encoder(8, 64, 10)) == encoder + (16 * 32 + 1) * 64 + (64 + 1) * 10
    decoder = (16 * 56 * 32 + 32) + (16 * 32 * 16 + 16) + (16 * 16 * 8 + 8) + (16 * 8 * 3 + 3)
    assert weights(Decoder(8, 10)) == (10 + 1) * 4 * 56 + decoder


def test_decoded_images_lie_in_the_unit_interval_and_reach_its_ends():
    decoder = Decoder(4, 6)
    with torch.no_grad():
        decoder.up4.weight.mul_(1000)
        images = decoder(normal(20, 6))
    assert (images.shape, float(images.min()), float(images.max())) == ((20, 3, 32, 32), 0.0, 1.0)
    nn.init.zeros_(decoder.up4.weight)
    nn.init.zeros_(decoder.up4.bias)
    assert (decoder(normal(2, 6)) == 0.5).all()


@pytest.mark.parametrize("name", ["svhn/mini", "cifar10/mini", "imagenet/mini", "svhn_autoencoder/mini"])
def test_output_for_an_image_does_not_depend_on_the_others(model_of, name):
    model, images = model_of(name), normal(6, 3, 32, 32)

    def outputs(batch: Tensor) -> Tensor:
        result = model(batch)
        return torch.cat([part.flatten(1) for part in result], 1) if isinstance(result, tuple) else result

    together = outputs(images)
    alone = torch.cat([outputs(image[None]) for image in images])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)
    others = torch.cat([images[:1], 100 * normal(5, 3, 32, 32, seed=1)])
    torch.testing.assert_close(outputs(others)[0], together[0], atol=1e-4, rtol=1e-4)


def grouped_norm(features: int = 3) -> GroupedBatchNorm2d:
    """With scales, offsets and running statistics of its own."""
    norm = GroupedBatchNorm2d(features, GROUP)
    with torch.no_grad():
        norm.weight.copy_(1 + 0.5 * normal(features, seed=1))
        norm.bias.copy_(normal(features, seed=2))
        norm.running_mean.copy_(normal(features, seed=3))
        norm.running_var.copy_(normal(features, seed=4).square() + 0.5)
    return norm


def plain_norm(norm: GroupedBatchNorm2d) -> nn.BatchNorm2d:
    """The same in float64, by PyTorch."""
    plain = nn.BatchNorm2d(norm.num_features)
    plain.load_state_dict(norm.state_dict())
    return plain.double()


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("size", [5, 1])
def test_grouped_norm_is_batch_norm_on_each_group_on_its_own(memory_format, size):
    norm, out_weights = grouped_norm(), normal(3 * GROUP, 3, size, size, seed=5)
    plain = plain_norm(norm)
    images = (3 + 2 * normal(3 * GROUP, 3, size, size)).to(memory_format=memory_format).requires_grad_()
    reference = images.detach().double().requires_grad_()
    actual = norm(images)
    expected = torch.cat([plain(part) for part in reference.split(GROUP)])
    torch.testing.assert_close(actual.double(), expected, atol=1e-5, rtol=1e-5)
    assert actual.is_contiguous(memory_format=memory_format)
    inputs, references = (images, *norm.parameters()), (reference, *plain.parameters())
    ours = torch.autograd.grad((actual**2 * out_weights).sum(), inputs, create_graph=True)
    theirs = torch.autograd.grad((expected**2 * out_weights).sum(), references, create_graph=True)
    for gradient, exact in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient.double(), exact, atol=1e-3, rtol=1e-3)
    ours, theirs = (torch.autograd.grad(g[0].pow(2).sum(), p) for g, p in ((ours, inputs), (theirs, references)))
    for product, exact in zip(ours, theirs, strict=True):  # of the Hessian
        torch.testing.assert_close(product.double(), exact, atol=1e-2, rtol=1e-2)


def test_running_statistics_move_to_the_mean_over_groups_and_are_used_in_evaluation():
    norm, images = grouped_norm(), 3 + 2 * normal(3 * GROUP, 3, 5, 5)
    mean, variance = norm.running_mean.clone(), norm.running_var.clone()
    groups = images.split(GROUP)
    norm(images)
    group_mean = torch.stack([part.mean((0, 2, 3)) for part in groups]).mean(0)
    group_variance = torch.stack([part.var((0, 2, 3)) for part in groups]).mean(0)  # unbiased, as PyTorch's
    torch.testing.assert_close(norm.running_mean, 0.9 * mean + 0.1 * group_mean)
    torch.testing.assert_close(norm.running_var, 0.9 * variance + 0.1 * group_variance)
    assert norm.num_batches_tracked == 1
    one = grouped_norm()
    plain = plain_norm(one)
    for module, batch in ((one, groups[0]), (plain, groups[0].double())):
        module(batch)
    torch.testing.assert_close(one.running_mean.double(), plain.running_mean)
    torch.testing.assert_close(one.running_var.double(), plain.running_var)
    # Evaluation takes any number of images, and leaves the statistics as they are.
    single = one.eval()(images[:1])
    torch.testing.assert_close(single.double(), plain.eval()(images[:1].double()), atol=1e-5, rtol=1e-5)
    assert torch.equal(single, one(images)[:1])
    assert one.num_batches_tracked == 1


def test_partial_groups_are_refused():
    with pytest.raises(ValueError, match="6 images do not make whole groups of 4"):
        grouped_norm()(normal(6, 3, 5, 5))


def test_bfloat16_comes_back_and_is_normalised_in_single_precision():
    norm, images = grouped_norm(), (100 + normal(2 * GROUP, 3, 5, 5)).bfloat16()
    actual = norm(images)
    assert actual.dtype == torch.bfloat16
    assert torch.equal(actual, norm(images.float()).bfloat16())
    assert norm.eval()(images).dtype == torch.bfloat16


def test_gradient_of_a_batch_is_the_mean_of_its_groups_gradients():
    model = ResNet((8, 16), 1, 5, partial(GroupedBatchNorm2d, group=GROUP), stem_stride=2)
    images, labels = normal(4 * GROUP, 3, 16, 16), torch.arange(4 * GROUP) % 5

    def gradients(images: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(F.cross_entropy(model(images), labels), list(model.parameters()))

    whole = gradients(images, labels)
    groups = [gradients(*group) for group in zip(images.split(GROUP), labels.split(GROUP), strict=True)]
    for gradient, *parts in zip(whole, *groups, strict=True):
        torch.testing.assert_close(gradient, torch.stack(parts).mean(0), atol=1e-5, rtol=1e-4)
    # Images are not samples on their own: the same ones in other groups have another gradient.
    regrouped = gradients(images.roll(1, 0), labels.roll(1))
    assert (regrouped[0] - whole[0]).norm() > 0.05 * whole[0].norm()


MINI = ["mnist", "svhn", "cifar10", "imagenet", "svhn_autoencoder", "svhn_vae", "noisy_quadratic"]


@pytest.mark.parametrize("name", [f"{name}/mini" for name in MINI])
def test_hessian_vector_product_is_the_slope_of_the_gradient(config, name):
    task: Task = build_task(config(name))
    model = task.build_model().double()
    batch = tuple(normal(*t.shape).double() if t.is_floating_point() else t for t in task.fake_batch(3))
    parameters = list(model.parameters())
    vector = [normal(*p.shape, seed=index).double() for index, p in enumerate(parameters)]

    def gradient(create_graph: bool = False) -> tuple[Tensor, ...]:
        return torch.autograd.grad(task.loss(model, batch), parameters, create_graph=create_graph)

    products = torch.autograd.grad(gradient(create_graph=True), parameters, vector)

    def moved(step: float) -> Tensor:
        with torch.no_grad():
            for p, v in zip(parameters, vector, strict=True):
                p.add_(v, alpha=step)
        return torch.cat([g.flatten() for g in gradient()])

    step = 1e-9  # so small that no activation changes sides
    ahead, behind = moved(step), moved(-2 * step)
    slope = (ahead - behind) / (2 * step)
    exact = torch.cat([p.flatten() for p in products])
    assert exact.norm() > 0
    assert (slope - exact).norm() < 1e-3 * exact.norm()
