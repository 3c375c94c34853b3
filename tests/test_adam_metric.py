"""Adam's metric against numbers computed by hand; the noise scale in it against gradients divided by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW

from reproduce.adam_metric import AdamMetric
from reproduce.estimator import NoiseScaleError, unbiased_moments
from reproduce.noise_scale import NoiseScale


def stepped(gradients: list[list[float]], **options) -> tuple[nn.Parameter, Adam]:
    """A parameter whose optimizer has seen these gradients."""
    parameter = nn.Parameter(torch.zeros(len(gradients[0])))
    optimizer = Adam([parameter], lr=0.1, **options)
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
    return parameter, optimizer


def test_divisor_is_the_bias_corrected_root_of_v_and_eps():
    parameter, optimizer = stepped([[1.0, 2.0], [3.0, -1.0]], betas=(0.9, 0.75), eps=0.5)
    # v = 1/4 (3/4 g1^2 + g2^2), over 1 - (3/4)^2 = 7/16: (9.75, 4) / 4 * 16 / 7
    expected = [math.sqrt(9.75 / 4 * 16 / 7) + 0.5, math.sqrt(4 / 4 * 16 / 7) + 0.5]
    assert AdamMetric(optimizer).divisor(parameter).tolist() == pytest.approx(expected, rel=1e-6)


def test_divisor_is_the_one_that_adam_steps_with():
    """Of a step with the same v: with beta1 = 0 and g = sqrt(v), v stays, and w moves by lr g / divisor."""
    parameter, optimizer = stepped([[0.5, 2.0]], betas=(0.0, 0.9), eps=0.3)
    divisor = AdamMetric(optimizer).divisor(parameter)
    before = parameter.detach().clone()
    optimizer.step()
    torch.testing.assert_close(before - parameter.detach(), 0.1 * torch.tensor([0.5, 2.0]) / divisor)


def test_amsgrad_divides_by_the_largest_v():
    parameter, optimizer = stepped([[4.0], [0.0], [0.0]], betas=(0.9, 0.5), eps=0.0, amsgrad=True)
    assert AdamMetric(optimizer).divisor(parameter).tolist() == pytest.approx([math.sqrt(16 / 2 / (7 / 8))], rel=1e-6)


def test_a_weight_without_a_gradient_so_far_is_left_out():
    parameter, optimizer = stepped([[2.0, 0.0]], eps=0.0)
    (divided,) = AdamMetric(optimizer).divided([parameter], [torch.tensor([3.0, 5.0])])
    assert divided.tolist() == pytest.approx([1.5, 0.0], rel=1e-5)


def test_half_precision_gradients_are_divided_in_float32():
    parameter, optimizer = stepped([[1e-3]], eps=0.0)
    (divided,) = AdamMetric(optimizer).divided([parameter], [torch.tensor([600.0], dtype=torch.float16)])
    assert divided.tolist() == pytest.approx([6e5], rel=1e-3)  # above float16's 65,504


def test_state_is_read_from_a_checkpoint_too():
    parameter, optimizer = stepped([[1.0, 2.0]])
    metric = AdamMetric(optimizer)
    optimizer.load_state_dict(stepped([[3.0, 4.0]], eps=1.0)[1].state_dict())
    assert metric.divisor(parameter).tolist() == pytest.approx([4.0, 5.0], rel=1e-5)


def test_only_adam_is_taken():
    parameter = nn.Parameter(torch.zeros(2))
    assert not AdamMetric(AdamW([parameter])).has_stepped()
    with pytest.raises(NoiseScaleError, match=r"SGD: only torch\.optim\.Adam"):
        NoiseScale(nn.Linear(2, 2), precondition=SGD([parameter]))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def halves(step: int) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(16, 5, generator=generator)
    return list(zip(inputs.split(8), inputs[:, :3].argmax(1).split(8), strict=True))


def flat_gradient(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    gradients = torch.autograd.grad(F.cross_entropy(model(inputs), labels), list(model.parameters()))
    return torch.cat([g.flatten() for g in gradients]).double()


def one_step(model: nn.Module, noise_scale: NoiseScale, step: int) -> None:
    model.zero_grad()
    for inputs, labels in halves(step):
        (F.cross_entropy(model(inputs), labels) / 2).backward()
        noise_scale.micro_batch(8, weight=1 / 2)
    noise_scale.update()


def test_micro_batches_in_adams_metric_before_each_step():
    """Three steps: the first has no v, the others are divided by the v of the gradients before."""
    model = network()
    optimizer = Adam(model.parameters(), lr=0.01, betas=(0.9, 0.9), eps=1e-3)
    noise_scale = NoiseScale(model, micro_batches=True, precondition=optimizer)
    v, expected = 0.0, []
    for step in range(3):
        first, second = (flat_gradient(model, *half) for half in halves(step))
        mean = (first + second) / 2
        if step > 0:
            divisor = (v / (1 - 0.9**step)).sqrt() + 1e-3
            small = ((first / divisor).square().sum() + (second / divisor).square().sum()) / 2
            expected.append(unbiased_moments(float(small), float((mean / divisor).square().sum()), 8, 16))
        v = 0.9 * v + 0.1 * mean.square()
        one_step(model, noise_scale, step)
        optimizer.step()
    estimate = noise_scale.estimate()
    assert estimate.updates == 2
    assert (estimate.grad_sq, estimate.trace) == pytest.approx(torch.tensor(expected).mean(0).tolist(), rel=1e-4)


def test_the_same_v_everywhere_leaves_the_noise_scale_as_it_is():
    moments = {}
    for precondition in (False, True):
        model = network()
        optimizer = Adam(model.parameters())
        for parameter in model.parameters():
            optimizer.state[parameter] = {"step": torch.tensor(5000.0), "exp_avg_sq": torch.full_like(parameter, 0.04)}
        noise_scale = NoiseScale(model, micro_batches=True, precondition=optimizer if precondition else None)
        for step in range(30):
            one_step(model, noise_scale, step)
        moments[precondition] = noise_scale.estimate()
    plain, divided = moments[False], moments[True]
    scale = 0.04 / (1 - 0.999**5000)
    assert divided.trace == pytest.approx(plain.trace / scale, rel=1e-5)
    assert divided.grad_sq == pytest.approx(plain.grad_sq / scale, rel=1e-5)
    assert (divided.value, divided.low, divided.high) == pytest.approx((plain.value, plain.low, plain.high), rel=1e-5)
