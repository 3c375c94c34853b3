"""Norms from micro-batches and probes, against gradients computed by hand; one process."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reproduce.estimator import NoiseScaleError, unbiased_moments
from reproduce.noise_scale import MicroBatchNorms, NoiseScale
from reproduce.norms import squared_norm
from reproduce.probe import hessian_vector_product, probe
from tasks.noisy_quadratic import NoisyQuadratic


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def examples(samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(samples, 5, generator=generator), torch.randint(3, (samples,), generator=generator)


def loss(model: nn.Module, batch) -> torch.Tensor:
    inputs, labels = batch
    return F.cross_entropy(model(inputs), labels)


def flat_gradient(model: nn.Module, batch) -> torch.Tensor:
    gradients = torch.autograd.grad(loss(model, batch), list(model.parameters()))
    return torch.cat([g.flatten() for g in gradients]).double()


def accumulate(model, noise_scale, batch, parts: list[int], scale: float = 1.0) -> None:
    """One step in micro-batches of the given sizes, with a loss scale as mixed precision has it."""
    model.zero_grad()
    start, total = 0, sum(parts)
    for size in parts:
        part = tuple(t[start : start + size] for t in batch)
        (loss(model, part) * size / total * scale).backward()
        noise_scale.micro_batch(size, weight=size / total)
        start += size
    noise_scale.update(loss_scale=scale)


@pytest.mark.parametrize("parts", [[8, 8], [4, 4, 4, 4], [2] * 8])
def test_micro_batches_give_the_moments_of_their_gradients(parts):
    model, batch = network(), examples(16)
    noise_scale = NoiseScale(model, micro_batches=True)
    accumulate(model, noise_scale, batch, parts)
    chunks = [tuple(t[i : i + parts[0]] for t in batch) for i in range(0, 16, parts[0])]
    small = torch.stack([flat_gradient(model, c).square().sum() for c in chunks]).mean()
    whole = flat_gradient(model, batch).square().sum()
    estimate = noise_scale.estimate()
    expected = unbiased_moments(float(small), float(whole), parts[0], 16)
    assert (estimate.grad_sq, estimate.trace) == pytest.approx(expected, rel=1e-5)


def test_gradients_that_are_not_added_up_are_not_counted():
    """A probe between two steps, or a gradient penalty, goes through torch.autograd.grad."""
    model, batch = network(), examples(16)
    noise_scale = NoiseScale(model, micro_batches=True)
    traces = []
    for _ in range(2):
        accumulate(model, noise_scale, batch, [8, 8])
        traces.append(noise_scale.estimate().trace)
        noise_scale.estimator.reset()
        flat_gradient(model, batch)
    assert traces[0] == traces[1]


def test_unequal_micro_batches_count_as_their_harmonic_mean():
    """On pure noise, E|g_n|^2 = tr Sigma / n, the estimate of tr Sigma is unbiased for unequal shares too."""
    torch.manual_seed(0)
    model = nn.Linear(50, 1, bias=False)
    noise_scale = NoiseScale(model, micro_batches=True)
    for _ in range(400):
        xi = torch.randn(12, 50)
        model.zero_grad()
        for part in (xi[:2], xi[2:12]):
            (model(part).mean() * len(part) / 12).backward()
            noise_scale.micro_batch(len(part), weight=len(part) / 12)
        noise_scale.update()
    estimate = noise_scale.estimate()
    assert estimate.trace == pytest.approx(50, rel=0.05)
    assert estimate.grad_sq == pytest.approx(0, abs=0.2)


def test_loss_scale_is_taken_out_of_both_norms():
    model, batch = network(), examples(16)
    plain, scaled = NoiseScale(model, micro_batches=True), None
    accumulate(model, plain, batch, [8, 8])
    plain.micro.remove()
    scaled = NoiseScale(model, micro_batches=True)
    model.zero_grad()
    accumulate(model, scaled, batch, [8, 8], scale=1024.0)
    # The weight of a micro-batch is the factor on its mean loss without the loss scale.
    assert scaled.estimate().trace == pytest.approx(plain.estimate().trace, rel=1e-4)


@pytest.mark.parametrize(("noisy_steps", "refused"), [(0, True), (1, False)])
def test_shares_that_are_alike_are_refused_from_the_start_and_not_where_a_run_diverges(noisy_steps, refused):
    model = nn.Linear(4, 1, bias=False)
    noise_scale = NoiseScale(model, micro_batches=True)
    for step in range(noisy_steps + 12):
        model.zero_grad()
        shares = torch.randn(2, 4) if step < noisy_steps else torch.full((2, 4), 10.0**step)
        for share in shares:
            (model(share).sum() / 2).backward()
            noise_scale.micro_batch(1, weight=1 / 2)
        noise_scale.update()
    if refused:
        with pytest.raises(NoiseScaleError, match="every rank or micro-batch draws the same samples"):
            noise_scale.flush()
    else:
        noise_scale.flush()


def test_half_precision_gradients_are_squared_in_float32():
    gradient = torch.full((65_536,), 300.0, dtype=torch.float16)  # its norm, 76,800, is above float16's 65,504
    assert float(squared_norm([gradient])) == pytest.approx(300.0**2 * 65_536)
    assert float(squared_norm([torch.full((4096,), 3.0, dtype=torch.bfloat16)])) == pytest.approx(9.0 * 4096)


def test_norms_of_many_weights_are_exact_to_a_millionth():
    gradient = torch.randn(5_000_000, generator=torch.Generator().manual_seed(0))
    exact = float(gradient.double().square().sum())
    assert float(squared_norm([gradient])) == pytest.approx(exact, rel=1e-6)
    assert float(squared_norm(gradient.split(1_000_000))) == pytest.approx(exact, rel=1e-6)


def test_measured_before_clipping():
    model, batch = network(), examples(16)
    noise_scale = NoiseScale(model, micro_batches=True)
    accumulate(model, noise_scale, batch, [8, 8])
    before = noise_scale.pending[0][1].clone()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    assert float(before) == pytest.approx(float(flat_gradient(model, batch).square().sum()), rel=1e-5)
    assert float(noise_scale.pending[0][1]) == float(before)


def test_frozen_and_unused_parameters():
    model, batch = network(), examples(16)
    model.register_parameter("unused", nn.Parameter(torch.ones(3)))
    model[0].weight.requires_grad_(False)
    noise_scale = NoiseScale(model, micro_batches=True)
    accumulate(model, noise_scale, batch, [8, 8])
    used = [p for p in model.parameters() if p.grad is not None]
    assert len(used) == 3
    assert float(noise_scale.pending[0][1]) == pytest.approx(float(sum(p.grad.square().sum() for p in used)), rel=1e-5)


def test_non_finite_gradient_is_skipped():
    model, batch = network(), examples(16)
    noise_scale = NoiseScale(model, micro_batches=True)
    accumulate(model, noise_scale, batch, [8, 8])
    expected = NoiseScale(model, micro_batches=True)
    poisoned = (batch[0].clone(), batch[1])
    poisoned[0][3, 2] = float("nan")
    accumulate(model, noise_scale, poisoned, [8, 8])
    assert noise_scale.estimate().updates == 1
    assert noise_scale.estimator.skipped == 1
    assert expected.estimate().value is None


def test_the_same_samples_in_every_micro_batch_are_refused():
    model, batch = network(), examples(8)
    noise_scale = NoiseScale(model, micro_batches=True)
    for _ in range(10):
        accumulate(model, noise_scale, tuple(torch.cat([t, t]) for t in batch), [8, 8])
    with pytest.raises(NoiseScaleError, match="draws the same samples"):
        noise_scale.estimate()


def test_one_batch_size_measures_nothing_and_wrong_calls_say_what_to_do():
    model, batch = network(), examples(8)
    noise_scale = NoiseScale(model)
    loss(model, batch).backward()
    noise_scale.update(samples=8)
    assert str(noise_scale.estimate()) == "not measured"
    with pytest.raises(NoiseScaleError, match="samples="):
        noise_scale.update()
    with pytest.raises(NoiseScaleError, match="micro_batches=True"):
        noise_scale.micro_batch(8, 1.0)
    with pytest.raises(NoiseScaleError, match="after each backward"):
        MicroBatchNorms(model.parameters()).pop()


def test_probe_gives_the_norms_of_its_groups_and_leaves_gradients_alone():
    model, batch = network(), examples(32)
    simple, curvature = probe(model, loss, batch, groups=4)
    chunks = [tuple(t[i : i + 8] for t in batch) for i in range(0, 32, 8)]
    gradients = torch.stack([flat_gradient(model, c) for c in chunks])
    assert simple.sq_small == pytest.approx(float(gradients.square().sum(1).mean()), rel=1e-5)
    assert simple.sq_big == pytest.approx(float(gradients.mean(0).square().sum()), rel=1e-5)
    assert (simple.n_small, simple.n_big) == (8, 32)
    assert curvature is None
    assert all(p.grad is None for p in model.parameters())


def test_hessian_vector_products_against_the_whole_hessian():
    model, batch = network(), examples(16)
    parameters = list(model.parameters())
    names = [name for name, _ in model.named_parameters()]
    shapes = [p.shape for p in parameters]
    sizes = [p.numel() for p in parameters]

    def loss_of(flat: torch.Tensor) -> torch.Tensor:
        pieces = [piece.reshape(shape) for piece, shape in zip(flat.split(sizes), shapes, strict=True)]
        outputs = torch.func.functional_call(model, dict(zip(names, pieces, strict=True)), batch[0])
        return F.cross_entropy(outputs, batch[1])

    flat = torch.cat([p.detach().flatten() for p in parameters])
    hessian = torch.autograd.functional.hessian(loss_of, flat)
    vectors = torch.randn(2, len(flat), generator=torch.Generator().manual_seed(4))
    split = [[piece.reshape(s) for piece, s in zip(v.split(sizes), shapes, strict=True)] for v in vectors]
    products = hessian_vector_product(model, loss, batch, split)
    for vector, product in zip(vectors, products, strict=True):
        torch.testing.assert_close(torch.cat([p.flatten() for p in product]), hessian @ vector, rtol=1e-4, atol=1e-6)


def test_probe_of_the_noisy_quadratic_finds_both_noise_scales():
    task = NoisyQuadratic(dimensions=64, condition_number=10, noise=2.0, goals=[0.5])
    model = task.build_model()
    exact = task.exact_moments(1, 0.1, 0)
    sampler = task.sampler(0, 0, 1, torch.device("cpu"))
    sums = torch.zeros(4, dtype=torch.float64)
    for step in range(60):
        batch, other = sampler.draw(2 * step, 256, model), sampler.draw(2 * step + 1, 8, model)
        norms = probe(model, task.loss, batch, 8, other)
        for i, n in enumerate(norms):
            sums[2 * i : 2 * i + 2] += torch.tensor(unbiased_moments(n.sq_small, n.sq_big, n.n_small, n.n_big))
    grad_sq, trace, curvature_grad_sq, curvature_trace = (sums / 60).tolist()
    assert trace / grad_sq == pytest.approx(exact.b_simple, rel=0.05)
    assert curvature_trace / curvature_grad_sq == pytest.approx(exact.b_noise, rel=0.05)


def test_probe_needs_equal_groups():
    with pytest.raises(ValueError, match="equal groups"):
        probe(network(), loss, examples(10), groups=4)
