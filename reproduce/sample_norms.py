"""Squared norms of every sample's own gradient, layer by layer, from inputs and output gradients.

A layer's gradient is a sum over samples, and each sample's term can be squared before the sum is taken: Goodfellow
(arXiv 1510.01799) for linear layers, Gray et al. (arXiv 2411.00999) for normalisation.

Each rule takes the calls of one layer in a forward pass, [(input, gradient of the output), ...], samples along the
first axis and at least in float32, and returns the squared norms, shape (samples,), by parameter that is trained. Of a
layer that is called twice a sample's gradient is the sum over both calls, and its square has their cross term.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Calls = Sequence[tuple[Tensor, Tensor]]

CHUNK_ELEMENTS = 1 << 24  # held at once beyond inputs and output gradients: 64 MB in float32


def _square(gradients: Tensor) -> Tensor:
    return gradients.flatten(1).square().sum(1)


def _trained(layer: nn.Module, name: str) -> bool:
    parameter = getattr(layer, name, None)
    return parameter is not None and parameter.requires_grad


def _joined(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """torch.cat, which copies a single tensor too."""
    return torch.cat(tensors, axis) if len(tensors) > 1 else tensors[0]


def squared_outer_sums(left: Tensor, right: Tensor) -> Tensor:
    """|sum_t left_t right_t'|^2 of every sample, by whichever way multiplies less.

    Either the sum itself, q x p entries, or the sum over pairs of positions of (left_t . left_s)(right_t . right_s).

    Args:
        left: shape (samples, groups, positions, q).
        right: shape (samples, groups, positions, p).
    Returns:
        shape (samples,), groups added up.
    """
    groups, positions, q, p = left.shape[1], left.shape[2], left.shape[3], right.shape[3]
    pairs = positions * (p + q) < p * q
    chunk = max(1, CHUNK_ELEMENTS // (groups * (2 * positions**2 if pairs else p * q)))
    squares = []
    for some_left, some_right in zip(left.split(chunk), right.split(chunk), strict=True):
        if pairs:
            squares.append(((some_left @ some_left.mT) * (some_right @ some_right.mT)).flatten(1).sum(1))
        else:
            squares.append(_square(some_left.mT @ some_right))
    return torch.cat(squares)


def linear(layer: nn.Linear, calls: Calls) -> dict[str, Tensor]:
    """Inputs of shape (samples, ..., features); every axis between counts positions."""
    gradients = _joined([g.reshape(len(g), -1, layer.out_features) for _, g in calls], 1)
    norms = {}
    if _trained(layer, "weight"):
        inputs = _joined([x.reshape(len(x), -1, layer.in_features) for x, _ in calls], 1)
        norms["weight"] = squared_outer_sums(gradients[:, None], inputs[:, None])
    if _trained(layer, "bias"):
        norms["bias"] = _square(gradients.sum(1))
    return norms


def _patches(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """What each output position sees, shape (samples, groups, positions, channels of a group x kernel)."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    # The layer's own account of its sides: padding="same" may add one more at the right and at the bottom.
    images = F.pad(images, layer._reversed_padding_repeated_twice, mode=mode)
    columns = F.unfold(images, layer.kernel_size, dilation=layer.dilation, stride=layer.stride)
    return columns.unflatten(1, (layer.groups, -1)).mT


def conv2d(layer: nn.Conv2d, calls: Calls) -> dict[str, Tensor]:
    """Inputs of shape (samples, channels, height, width)."""
    norms = {}
    if _trained(layer, "weight"):
        gradients = _joined([g.flatten(2).unflatten(1, (layer.groups, -1)).mT for _, g in calls], 2)
        norms["weight"] = squared_outer_sums(gradients, _joined([_patches(layer, x) for x, _ in calls], 2))
    if _trained(layer, "bias"):
        norms["bias"] = _square(sum(g.sum((2, 3)) for _, g in calls))
    return norms


def embedding(layer: nn.Embedding, calls: Calls) -> dict[str, Tensor]:
    """Inputs of shape (samples, ...), whole numbers; a token that a sample repeats has one row in its gradient."""
    tokens = _joined([x.flatten(1) if x.dim() > 1 else x[:, None] for x, _ in calls], 1)
    gradients = _joined([g.reshape(len(g), -1, layer.embedding_dim) for _, g in calls], 1)
    if layer.padding_idx is not None:  # torch gives that row no gradient
        gradients = gradients.masked_fill((tokens == layer.padding_idx)[..., None], 0)
    first_row = layer.num_embeddings * torch.arange(len(tokens), device=tokens.device)[:, None]
    _, row = torch.unique(first_row + tokens, return_inverse=True)
    rows = torch.zeros_like(gradients).flatten(0, 1).index_add_(0, row.flatten(), gradients.flatten(0, 1))
    # Each position's gradient times its row's sum: over a sample's positions, the squares of its rows.
    return {"weight": (gradients * rows[row]).flatten(1).sum(1)}


def _affine(layer: nn.Module, terms: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """Of y = normalised * weight + bias, from (normalised, gradient of y), both (samples, ..., *shape of weight)."""

    def summed(products: Sequence[Tensor]) -> Tensor:
        return sum(product.reshape(len(product), -1, *layer.weight.shape).sum(1) for product in products)

    norms = {}
    if _trained(layer, "weight"):
        norms["weight"] = _square(summed([normalised * g for normalised, g in terms]))
    if _trained(layer, "bias"):
        norms["bias"] = _square(summed([g for _, g in terms]))
    return norms


def layer_norm(layer: nn.LayerNorm, calls: Calls) -> dict[str, Tensor]:
    """Inputs of shape (samples, ..., *normalized_shape)."""
    return _affine(layer, [(F.layer_norm(x, layer.normalized_shape, eps=layer.eps), g) for x, g in calls])


def rms_norm(layer: nn.RMSNorm, calls: Calls) -> dict[str, Tensor]:
    """Inputs of shape (samples, ..., *normalized_shape)."""
    return _affine(layer, [(F.rms_norm(x, layer.normalized_shape, eps=layer.eps), g) for x, g in calls])


def group_norm(layer: nn.GroupNorm, calls: Calls) -> dict[str, Tensor]:
    """Inputs of shape (samples, channels, ...)."""
    normalised = [(F.group_norm(x, layer.num_groups, eps=layer.eps), g) for x, g in calls]
    return _affine(layer, [(x.movedim(1, -1), g.movedim(1, -1)) for x, g in normalised])


# By exact type: a subclass may compute something else.
RULES: dict[type[nn.Module], Callable[[nn.Module, Calls], dict[str, Tensor]]] = {
    nn.Linear: linear,
    nn.Conv2d: conv2d,
    nn.Embedding: embedding,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: rms_norm,
    nn.GroupNorm: group_norm,
}
