"""Loss drops along gradients at fixed weights, where the answer is known: the noisy quadratic at its own weights."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from reproduce.loss_drop import RATE_FACTOR, FixedWeights, predicted_rate
from reproduce.noise_law import fit_line_search
from reproduce.settings import LineSearchSettings
from tasks.noisy_quadratic import NoisyQuadratic

OPTIONS = LineSearchSettings(
    points=2,
    batch_sizes=None,
    blocks=16,
    batches=6,
    block_samples=256,
    evaluation_samples=128,
    probe_samples=64,
    curvature_samples=4,  # the Hessian is the same for all samples
)


class Answer:
    """What the theory says at these weights of the quadratic (eq. 2.6 to 2.9)."""

    def __init__(self, task: NoisyQuadratic, model: nn.Module) -> None:
        h, c = task.curvature.numpy(), task.covariance.numpy()
        g = h * model.theta.detach().double().numpy()
        self.b_noise = (h * c).sum() / (h * g * g).sum()
        self.b_simple = c.sum() / (g @ g)
        self.rate_max = (g @ g) / (h * g * g).sum()
        self.drop_max = (g @ g) ** 2 / (2 * (h * g * g).sum())


def quadratic(weights: float = 0.4) -> tuple[NoisyQuadratic, nn.Module]:
    """The task with its directions of high curvature learnt, as they are soon; then B_noise is not B_simple."""
    task = NoisyQuadratic(dimensions=512, condition_number=3000, noise=20, goals=[0.5])
    model = task.build_model()
    with torch.no_grad():
        model.theta.mul_(1 - (1 - weights) * task.curvature.float() ** 0.5)
    return task, model


def point(task: NoisyQuadratic, model: nn.Module, options: LineSearchSettings = OPTIONS, **changes) -> FixedWeights:
    settings = {"seed": 0, "point": 0, "device": torch.device("cpu"), "max_samples": 8192} | changes
    return FixedWeights(task, model, options, **settings)


def test_the_quadratic_gives_its_closed_form():
    task, model = quadratic()
    answer, weights = Answer(task, model), point(task, model)
    assert abs(math.log(answer.b_noise / answer.b_simple)) > 0.25  # else the wrong one would pass
    simple, curvature = weights.noise_scales(lambda: None)
    starts = [predicted_rate(2**octave, simple, curvature, 1.0) for octave in range(11)]
    found = fit_line_search([weights.search(2**octave, start) for octave, start in enumerate(starts)])
    for law, limit in ((found.drops, answer.drop_max), (found.learning_rates, answer.rate_max)):
        assert law.b_noise.value == pytest.approx(answer.b_noise, rel=0.1)
        assert law.b_noise.low < answer.b_noise < law.b_noise.high
        assert law.limit.value == pytest.approx(limit, rel=0.05)
        assert law.rms < 0.04
    for step in found.peaks:
        share = 1 / (1 + answer.b_noise / step.batch_size)
        tolerance = 0.05 if step.batch_size >= 32 else 0.25  # small batches are noisy
        assert step.measured
        assert step.drop.value == pytest.approx(answer.drop_max * share, rel=tolerance)
        assert step.learning_rate.value == pytest.approx(answer.rate_max * share, rel=tolerance)
    assert curvature.value == pytest.approx(answer.b_noise, rel=0.15)
    assert curvature.low < answer.b_noise < curvature.high
    assert simple.value == pytest.approx(answer.b_simple, rel=0.1)


def test_the_start_does_not_change_the_answer():
    task, model = quadratic()
    weights = point(task, model, replace(OPTIONS, blocks=4))
    best = weights.search(64, 1.0)
    for steps in (-5, 4):
        other = weights.search(64, RATE_FACTOR**steps)
        assert len(other.learning_rates) > 3
        highest, known = int(other.drops.mean(0).argmax()), int(best.drops.mean(0).argmax())
        assert 0 < highest < len(other.learning_rates) - 1
        assert other.learning_rates[highest] == pytest.approx(best.learning_rates[known])
        np.testing.assert_allclose(other.drops[:, highest], best.drops[:, known], rtol=1e-3, atol=1e-7)


def test_weights_stay_where_they_were():
    task, model = quadratic()
    before = model.theta.detach().clone()
    weights = point(task, model, replace(OPTIONS, blocks=2))
    weights.search(8, 0.1)
    weights.noise_scales(lambda: None)
    assert torch.equal(model.theta, before)


def test_a_cut_batch_has_the_same_gradient_and_loss():
    task, model = quadratic()
    weights = point(task, model, max_samples=8192)
    cut = point(task, model, max_samples=48)
    batch = weights.draw(256, 0, 0)
    torch.testing.assert_close(weights.batch_gradient(batch), cut.batch_gradient(batch))
    whole = weights.loss(weights.weights, batch, 0)
    assert cut.loss(cut.weights, batch, 0) == pytest.approx(whole, rel=1e-5)


class Recorded(NoisyQuadratic):
    """Notes what is drawn, and at what batch a loss is taken without a gradient."""

    def __init__(self, **settings) -> None:
        super().__init__(**settings)
        self.draws: list[tuple[int, int, int]] = []
        self.evaluated: set[float] = set()

    def sampler(self, seed, rank, world_size, device):
        inner, draws = super().sampler(seed, rank, world_size, device), self.draws
        draw = inner.draw

        def noted(step, samples, model):
            draws.append((seed, step, samples))
            return draw(step, samples, model)

        inner.draw = noted
        return inner

    def loss(self, model, batch):
        if not torch.is_grad_enabled():
            self.evaluated.add(float(batch[0].sum()))
        return super().loss(model, batch)


def test_samples_are_fresh_and_evaluation_samples_common_to_all_sizes():
    task = Recorded(dimensions=8, condition_number=10, noise=1, goals=[0.5])
    options = replace(OPTIONS, blocks=3, batches=2, block_samples=16)
    weights = point(task, task.build_model(), options)
    for samples in (1, 4, 8, 16):
        weights.drops(samples, [0.1, 0.2])
    assert len(task.evaluated) == 3  # one set a block
    gradients = [draw for draw in task.draws if draw[2] != options.evaluation_samples]
    assert len(gradients) == len(set(gradients)) == 3 * (2 + 2 + 2 + 1)
    steps = {step for _, step, samples in task.draws if samples == options.evaluation_samples}
    assert steps.isdisjoint(step for _, step, _ in gradients)
    weights.noise_scales(lambda: None)
    assert len({seed for seed, _, _ in task.draws}) == 2
    assert min(seed for seed, _, _ in task.draws) > 1_000_003 + 1000  # training's seeds, and its probes'


def test_batches_of_a_size_take_a_share_of_samples():
    task, model = quadratic()
    weights = point(task, model, replace(OPTIONS, blocks=2, batches=6, block_samples=64))
    counts = {samples: weights.search(samples, 0.5).batches for samples in (4, 16, 32, 64, 256)}
    assert counts == {4: 12, 16: 8, 32: 4, 64: 2, 256: 2}


def test_batch_sizes_are_in_units():
    task, model = quadratic()
    task.units_per_sample = 5
    weights = point(task, model, replace(OPTIONS, blocks=4))
    assert weights.search(8, 0.5).batch_size == 40
    simple, _ = weights.noise_scales(lambda: None)
    assert simple.value == pytest.approx(5 * Answer(task, model).b_simple, rel=0.3)


class Drawing(NoisyQuadratic):
    """A loss with noise of the model's own, as nn.Dropout has: large against any drop."""

    def loss(self, model, batch):
        return super().loss(model, batch) + 100 * torch.randn(()) * (1 + 0 * model.theta.sum())


def test_a_model_that_draws_draws_the_same_before_and_after_the_step():
    task = Drawing(dimensions=64, condition_number=10, noise=1, goals=[0.5])
    weights = point(task, task.build_model(), replace(OPTIONS, blocks=2))
    drops = weights.drops(256, [0.1])
    assert np.abs(drops).max() < 1


def test_a_gradient_lost_in_noise_ends_the_search():
    """At the minimum no step lowers the loss: the search gives up, and the size is censored."""
    task, model = quadratic()
    with torch.no_grad():
        model.theta.mul_(1e-4)
    weights = point(task, model, replace(OPTIONS, blocks=6, evaluation_samples=16))
    curves = [weights.search(samples, 1.0) for samples in (1, 2, 4)]
    assert all(len(curve.learning_rates) <= 24 for curve in curves)
    found = fit_line_search(curves)
    assert not any(step.measured for step in found.peaks)
    assert "no batch size lowered the loss" in found.drops.reason


def test_a_rate_that_diverges_is_a_bad_rate():
    task, model = quadratic()
    weights = point(task, model, replace(OPTIONS, blocks=2))
    curve = weights.search(64, 1e30)  # losses beyond float32
    assert not np.isfinite(curve.drops[:, -1]).any()


def test_predictions_fall_back_where_the_moments_are_no_numbers():
    task, model = quadratic()
    simple, curvature = point(task, model, replace(OPTIONS, blocks=2)).noise_scales(lambda: None)
    assert math.isfinite(predicted_rate(8, simple, curvature, 0.7))
    assert predicted_rate(8, simple, replace(curvature, grad_sq=-1.0), 0.7) == 0.7
