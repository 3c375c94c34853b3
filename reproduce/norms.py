"""Squared norms of gradients, plain or in an optimiser's metric."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from reproduce.adam_metric import AdamMetric
from reproduce.estimator import NoiseScaleError

PART = 2**15  # elements that are added up one after the other in float32


def squared_norm(tensors: Iterable[Tensor]) -> Tensor:
    """Sum of squares over all tensors, at least in float32: half precision would overflow."""
    tensors = list(tensors)
    if not tensors:
        raise NoiseScaleError("No parameter has a gradient: call this after backward(), before zero_grad().")
    sums = [_sum_of_squares(t.to(torch.promote_types(t.dtype, torch.float32))) for t in tensors]
    return torch.stack([total.float().to(sums[0].device) for total in sums]).sum()


def _sum_of_squares(tensor: Tensor) -> Tensor:
    """Exact to a millionth; on CPUs torch.linalg.vector_norm is a percent low at ten million float32."""
    if tensor.device.type != "cpu":
        return tensor.square().sum()
    # A single pass over memory, a quarter of the time of square().sum(); short parts keep float32 exact.
    parts = tensor.reshape(-1).split(PART)
    return torch.stack([torch.dot(part, part) for part in parts]).sum()


def metric_norm(metric: AdamMetric | None, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> Tensor:
    """Squared norm of the parameters' gradients, in a metric if there is one; 0 where it has no scale yet."""
    if metric is not None and gradients:
        gradients = metric.divided(parameters, gradients) or [torch.zeros((), device=gradients[0].device)]
    return squared_norm(gradients)
