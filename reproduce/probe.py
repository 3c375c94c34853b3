"""B_simple and B_noise at fixed weights: fresh samples in groups, no update (App. A.1, eq. 2.8 and 2.9).

Runs of every batch size, and single processes, get the same measurement this way; the groups of a probe are to each
other what ranks are in data-parallel training. Gradients are taken with torch.autograd.grad, so neither
parameters' .grad nor DistributedDataParallel notice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from reproduce.norms import squared_norm
from tasks.task import Batch

Loss = Callable[[nn.Module, Batch], Tensor]


@dataclass(frozen=True)
class ProbeNorms:
    """Squared norms at two batch sizes, ready for NoiseScaleEstimator.update.

    Attributes:
        sq_small: mean over groups of g'g (or g'Hg). sq_big: the same of the mean of all groups' gradients.
        n_small, n_big: samples in a group, and in all of them.
    """

    sq_small: float
    sq_big: float
    n_small: int
    n_big: int


def gradient(loss: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """d loss / d parameters; zeros for a parameter that the loss does not use."""
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients, strict=True)]


def hessian_vector_product(
    model: nn.Module, loss: Loss, batch: Batch, vectors: Sequence[Sequence[Tensor]]
) -> list[list[Tensor]]:
    """H v for each vector v, H the Hessian of the batch's loss, by differentiating the gradient twice.

    Args:
        vectors: each a list of tensors of the parameters' shapes.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    with torch.backends.cudnn.flags(enabled=False):  # its LSTM cannot be differentiated twice
        value = loss(model, batch)
    first = torch.autograd.grad(value, parameters, create_graph=True, allow_unused=True)
    used = [i for i, g in enumerate(first) if g is not None and g.requires_grad]
    products = []
    for vector in vectors:
        second = torch.autograd.grad(
            [first[i] for i in used],
            parameters,
            grad_outputs=[vector[i] for i in used],
            retain_graph=True,
            allow_unused=True,
        )
        products.append([torch.zeros_like(p) if h is None else h for p, h in zip(parameters, second, strict=True)])
    return products


def _sum_over_ranks(values: Tensor) -> None:
    if dist.is_initialized() and dist.get_world_size() > 1:
        dist.all_reduce(values)


def _dot(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    return torch.stack([(a.double() * b.double()).sum() for a, b in zip(first, second, strict=True)]).sum()


def probe(
    model: nn.Module,
    loss: Loss,
    batch: Batch,
    groups: int,
    curvature_batch: Batch | None = None,
) -> tuple[ProbeNorms, ProbeNorms | None]:
    """Norms of B_simple and, given a batch for the Hessian, of B_noise.

    Args:
        model: the module itself, not its DistributedDataParallel wrapper.
        batch: the same samples on every rank; its groups are shared out among the ranks.
        groups: groups of equal size, at least 2.
        curvature_batch: other samples, the same on every rank, for H. Independent of `batch`, or g'Hg would be
            biased by the noise that g and H share.
    Returns:
        (norms of the gradient, norms in the metric of the Hessian or None). Collective over ranks.
    """
    samples = len(batch[0])
    if groups < 2 or samples % groups:
        raise ValueError(f"A probe of {samples} samples cannot be cut into {groups} equal groups (at least 2).")
    parameters = [p for p in model.parameters() if p.requires_grad]
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    size = samples // groups
    total = [torch.zeros_like(p) for p in parameters]
    sum_sq = torch.zeros((), dtype=torch.float64, device=parameters[0].device)
    kept: list[list[Tensor]] = []  # gradients of this rank's groups, for the Hessian
    for group in range(rank, groups, ranks):
        part = tuple(tensor[group * size : (group + 1) * size] for tensor in batch)
        g = gradient(loss(model, part), parameters)
        sum_sq += squared_norm(g)
        torch._foreach_add_(total, g)
        if curvature_batch is not None:
            kept.append(g)
    for tensor in [sum_sq, *total]:
        _sum_over_ranks(tensor)
    mean = [tensor / groups for tensor in total]
    simple = ProbeNorms(float(sum_sq) / groups, float(squared_norm(mean)), size, samples)
    if curvature_batch is None:
        return simple, None
    # One graph of the gradient serves every product.
    *products, h_mean = hessian_vector_product(model, loss, curvature_batch, [*kept, mean])
    sum_curvature = torch.zeros_like(sum_sq)
    for g, hg in zip(kept, products, strict=True):
        sum_curvature += _dot(g, hg)
    _sum_over_ranks(sum_curvature)
    return simple, ProbeNorms(float(sum_curvature) / groups, float(_dot(mean, h_mean)), size, samples)
