"""How far one step along a batch's gradient lowers the loss, at fixed weights (section 2.2 of arXiv 1812.06162).

For a batch gradient g and a learning rate eps this is L(theta) - L(theta - eps g), with L on other samples than g's.
Its mean over batches has the theory's eps_opt and dL_opt (eq. 2.6, 2.7) at its maximum over eps.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from reproduce.estimator import NoiseScaleEstimate, NoiseScaleEstimator
from reproduce.noise_law import DropCurve
from reproduce.probe import ProbeNorms, gradient, probe
from reproduce.settings import LineSearchSettings
from tasks.task import Batch, Task, random_generator

# Seeds of their own, apart from training's and its probes' (reproduce.trainer); a point of training adds its number.
DROP_SEED_OFFSET, PROBE_SEED_OFFSET = 2_000_003, 3_000_017
RATE_FACTOR = math.sqrt(2)  # between learning rates tried: their parabola then gives the drop to half a percent
FURTHEST = 24  # a search goes on for at most so many rates: a factor 4,000
PROBE_GROUPS = 4  # a probe's products with the Hessian are one more than its groups


def batches_in_block(options: LineSearchSettings, samples: int) -> int:
    """Batches of so many samples: small ones are noisy and cheap, so there are more of them."""
    return max(1, min(options.batches, options.block_samples // samples))


class FixedWeights:
    """One point of training: a model whose weights stay, and samples that no training step has drawn.

    A block is one independent repeat of everything: evaluation samples of its own, and batches of its own at every
    size, whose drops are measured on them. The evaluation samples are the same for all batch sizes and learning rates,
    so that what is special about them cancels in comparisons. A batch is a pure function of (point, size, block,
    number), so a search that goes on at other rates steps along the same gradients again; a sampler that holds
    environments draws others instead.

    Losses are taken in training mode, since that is the loss that training steps down, in float32, whatever
    trainer.precision, since drops are small differences.

    Args:
        model: with the weights; they are moved while drops are measured, and back. seed: of the run. point: its number.
        max_samples: samples in one forward pass.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        options: LineSearchSettings,
        seed: int,
        point: int,
        device: torch.device,
        max_samples: int,
    ) -> None:
        self.task, self.model, self.options, self.device, self.max_samples = task, model, options, device, max_samples
        self.key = (seed, point)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.weights = [p.detach().clone() for p in self.parameters]
        self.sampler = task.sampler(seed + DROP_SEED_OFFSET + point, 0, 1, device)
        self.probe_sampler = task.sampler(seed + PROBE_SEED_OFFSET + point, 0, 1, device)
        model.train()

    def draw(self, samples: int, block: int, batch: int) -> Batch:
        step = (samples * self.options.blocks + block) * self.options.batches + batch
        return self.sampler.draw(step, samples, self.model)

    def draw_evaluation(self, block: int) -> Batch:
        # Steps below those of any batch, which has at least one sample.
        return self.sampler.draw(block, self.options.evaluation_samples, self.model)

    def batch_gradient(self, batch: Batch) -> list[Tensor]:
        total = [torch.zeros_like(p) for p in self.parameters]
        for part, share in self.parts(batch):
            torch._foreach_add_(total, gradient(self.task.loss(self.model, part), self.parameters), alpha=share)
        return total

    def parts(self, batch: Batch) -> Iterator[tuple[Batch, float]]:
        """What goes through the model at once, each with its share of the batch's samples."""
        for part in zip(*(tensor.split(self.max_samples) for tensor in batch), strict=True):
            yield part, len(part[0]) / len(batch[0])

    @torch.no_grad()
    def loss(self, weights: Sequence[Tensor], batch: Batch, block: int) -> float:
        """L at `weights` on a block's evaluation samples; the model is left at its own weights.

        A model that draws (dropout, a sampled latent) draws the same at all weights.
        """
        torch._foreach_copy_(self.parameters, weights)
        self._seed("evaluation", block)
        value = sum(share * float(self.task.loss(self.model, part)) for part, share in self.parts(batch))
        torch._foreach_copy_(self.parameters, self.weights)
        return value

    def drops(self, samples: int, learning_rates: Sequence[float]) -> np.ndarray:
        """Loss drops of all batches of this size, mean over each block's; shape (blocks, learning rates)."""
        count = batches_in_block(self.options, samples)
        result = np.zeros((self.options.blocks, len(learning_rates)))
        for block in range(self.options.blocks):
            evaluation = self.draw_evaluation(block)
            before = self.loss(self.weights, evaluation, block)
            for number in range(count):
                batch = self.draw(samples, block, number)
                self._seed(samples, block, number)
                step = self.batch_gradient(batch)
                for index, rate in enumerate(learning_rates):
                    after = torch._foreach_sub(self.weights, step, alpha=rate)
                    result[block, index] += (before - self.loss(after, evaluation, block)) / count
        return result

    def search(self, samples: int, start: float) -> DropCurve:
        """Drops at learning rates around `start`, going on both ways until the best mean drop has worse beside it.

        Where the mean drop is negative and would be at any smaller rate, the search ends: the batches' mean gradient
        points uphill by chance, and the batch size is one that says nothing.
        """
        rates = [start / RATE_FACTOR, start, start * RATE_FACTOR]
        drops = self.drops(samples, rates)
        while len(rates) < FURTHEST:
            mean = np.where(np.isfinite(drops), drops, -np.inf).mean(0)
            best = int(np.argmax(mean))
            if 0 < best < len(rates) - 1 or (best == 0 and _uphill(rates, mean)):
                break
            new = rates[0] / RATE_FACTOR if best == 0 else rates[-1] * RATE_FACTOR
            column = self.drops(samples, [new])
            rates = [new, *rates] if best == 0 else [*rates, new]
            drops = np.hstack([column, drops] if best == 0 else [drops, column])
        size = samples * self.task.units_per_sample
        return DropCurve(size, self.options.blocks * batches_in_block(self.options, samples), np.array(rates), drops)

    def noise_scales(self, progress: Callable[[], None]) -> tuple[NoiseScaleEstimate, NoiseScaleEstimate]:
        """B_simple and B_noise (eq. 2.9, 2.8) from probes with products with the Hessian, one a block."""
        estimators = NoiseScaleEstimator(), NoiseScaleEstimator()
        for block in range(self.options.blocks):
            batch = self.probe_sampler.draw(2 * block, PROBE_GROUPS * self.options.probe_samples, self.model)
            curvature = self.probe_sampler.draw(2 * block + 1, self.options.curvature_samples, self.model)
            self._seed("probe", block)
            for estimator, norms in zip(
                estimators, probe(self.model, self.task.loss, batch, PROBE_GROUPS, curvature), strict=True
            ):
                _update(estimator, norms, self.task.units_per_sample)
            progress()
        return estimators[0].estimate(), estimators[1].estimate()

    def _seed(self, *key: object) -> None:
        """For tasks that draw inside their model."""
        seed = random_generator("line search", *self.key, *key).initial_seed()
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)


def _update(estimator: NoiseScaleEstimator, norms: ProbeNorms, unit: int) -> None:
    estimator.update(norms.sq_small, norms.sq_big, norms.n_small * unit, norms.n_big * unit)


def _uphill(rates: Sequence[float], mean: np.ndarray) -> bool:
    """Whether drop / rate, a straight line in the rate for a quadratic loss, is negative at rate 0."""
    if not np.isfinite(mean[:2]).all():
        return False
    first, second = mean[0] / rates[0], mean[1] / rates[1]
    return first - (second - first) / (rates[1] - rates[0]) * rates[0] <= 0


def predicted_rate(
    batch_size: float, simple: NoiseScaleEstimate, curvature: NoiseScaleEstimate, otherwise: float
) -> float:
    """eps_max / (1 + B_noise / B) with eps_max = G'G / G'HG (eq. 2.6), where the measured moments are positive.

    Only where searches begin: what they find does not depend on it.
    """
    moments = (simple.grad_sq, curvature.grad_sq, curvature.trace)
    if not all(math.isfinite(m) and m > 0 for m in moments):
        return otherwise
    return simple.grad_sq / (curvature.grad_sq + curvature.trace / batch_size)
