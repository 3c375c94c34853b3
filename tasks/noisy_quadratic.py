"""The noisy quadratic model: a task whose every answer is known, the suite's own calibration.

Loss of one sample: 1/2 sum_i h_i theta_i^2 + sum_i sqrt(c_i) xi_i theta_i with xi ~ N(0, 1), so H = diag(h),
G = H theta and Sigma = diag(c) at every theta. Zhang et al. 2019 (arXiv 1907.04164) give the expected loss under
SGD in closed form; from it follow steps to a goal, and with them every number that the suite measures.
"""

import math

import numpy as np
import torch
from scipy.optimize import brentq, minimize_scalar
from torch import Tensor, nn

from tasks.task import Batch, GradientMoments, Sampler, Task, random_generator, rank_share


class QuadraticModel(nn.Module):
    """The parameters theta, shape (dimensions,), beginning where every direction holds an equal share of the loss."""

    def __init__(self, curvature: Tensor) -> None:
        super().__init__()
        self.theta = nn.Parameter((2.0 / (len(curvature) * curvature)).sqrt())

    def forward(self) -> Tensor:
        # A multiplication, so that DistributedDataParallel sees theta used in a forward pass.
        return self.theta * 1.0


class NoiseSampler(Sampler):
    """Draws xi, shape (samples, dimensions)."""

    def __init__(self, seed: int, rank: int, world_size: int, device: torch.device, dimensions: int) -> None:
        self.seed, self.rank, self.world_size = seed, rank, world_size
        self.device, self.dimensions = device, dimensions

    def draw(self, step: int, samples: int, model: nn.Module) -> Batch:
        generator = random_generator("noisy_quadratic", self.seed, step)
        xi = torch.randn(samples, self.dimensions, generator=generator)
        return (xi[rank_share(samples, self.rank, self.world_size)].to(self.device),)


class NoisyQuadratic(Task):
    """Args:
    dimensions: number of parameters; many, so that the loss of one run stays close to its expectation.
    condition_number: largest over smallest curvature; the spectrum is uniform in the logarithm.
    noise: c_i = noise * h_i / dimensions, the covariance proportional to the curvature as Zhang et al. suggest.
    goals: losses, as fractions of the initial loss, which is 1.
    """

    unit = "example"
    score = "expected loss"
    higher_is_better = False
    data = "noisy quadratic model"
    embedded = True

    def __init__(self, dimensions: int, condition_number: float, noise: float, goals: list[float]) -> None:
        self.curvature = torch.logspace(0, -math.log10(condition_number), dimensions, dtype=torch.float64)
        self.covariance = noise * self.curvature / dimensions
        self.goals = tuple(goals)

    def build_model(self) -> nn.Module:
        return QuadraticModel(self.curvature.float())

    def sampler(self, seed: int, rank: int, world_size: int, device: torch.device) -> Sampler:
        return NoiseSampler(seed, rank, world_size, device, len(self.curvature))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        theta, (xi,) = model(), batch
        h, c = self.curvature.to(theta), self.covariance.to(theta)
        return 0.5 * (h * theta.square()).sum() + (c.sqrt() * xi.mean(0) * theta).sum()

    def evaluate(self, model: nn.Module) -> float:
        theta = model.theta.detach().double().cpu()
        return float(0.5 * (self.curvature * theta.square()).sum())

    def fake_batch(self, samples: int) -> Batch:
        return (torch.zeros(samples, len(self.curvature)),)

    def expected_loss_terms(self, batch_size: float, learning_rate: float, step: float) -> np.ndarray:
        """E l_i after `step` SGD steps (Zhang et al. 2019), shape (dimensions,); their sum is the expected loss."""
        h, c = self.curvature.numpy(), self.covariance.numpy()
        decay = np.abs(1 - learning_rate * h) ** (2 * step)
        floor = learning_rate * c / (2 * batch_size * (2 - learning_rate * h))
        return decay / len(h) + (1 - decay) * floor

    def steps_to_goal(self, batch_size: float, learning_rate: float, goal: float) -> float:
        """Steps after which the expected loss is `goal`; infinite where it never is."""
        if learning_rate * float(self.curvature.max()) >= 2:
            return math.inf

        def excess(log_step: float) -> float:
            return self.expected_loss_terms(batch_size, learning_rate, math.exp(log_step)).sum() - goal

        never = 40.0  # e^40 steps: the loss is at its floor
        return math.exp(brentq(excess, -5.0, never)) if excess(never) < 0 else math.inf

    def exact_steps(self, batch_size: float, goal: float) -> float:
        """Fewest expected steps to `goal` over all constant learning rates."""
        grid = np.geomspace(1e-5, 1.9999, 80) / float(self.curvature.max())
        steps = [self.steps_to_goal(batch_size, rate, goal) for rate in grid]
        best = int(np.argmin(steps))
        low, high = np.log(grid[max(best - 1, 0)]), np.log(grid[min(best + 1, len(grid) - 1)])
        refined = minimize_scalar(
            lambda log_rate: min(self.steps_to_goal(batch_size, math.exp(log_rate), goal), 1e18),
            bounds=(low, high),
            method="bounded",
        )
        return min(float(refined.fun), steps[best])

    def exact_moments(self, batch_size: float, learning_rate: float, step: float) -> GradientMoments:
        """E G'G = sum h^2 E theta^2 = 2 sum h E l; G'HG likewise with one more h."""
        terms = self.expected_loss_terms(batch_size, learning_rate, step)
        h, c = self.curvature.numpy(), self.covariance.numpy()
        return GradientMoments(
            grad_sq=float(2 * (h * terms).sum()),
            trace=float(c.sum()),
            curvature_grad_sq=float(2 * (h**2 * terms).sum()),
            curvature_trace=float((h * c).sum()),
        )
