"""Squared gradient norms of models sharded by torch.distributed.fsdp.fully_shard (FSDP2).

There a parameter's `.grad` is a shard of the average over ranks, and a rank's own gradient lives only until it is
reduced. Its norm is taken then, in the place that FSDP2 has for a reduce-scatter of one's own
(FSDPModule.set_custom_reduce_scatter). That of the average is a pass over this rank's shards.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from reproduce.estimator import NoiseScaleError
from reproduce.norms import squared_norm

# Newer versions of torch warn of the older name.
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class ShardedGradients:
    """A rank's own squared norm of each backward pass, and its part of that of the average.

    Args:
        model: sharded over one mesh dimension, all its parameters that are trained.
    Raises:
        NoiseScaleError: where it is sharded otherwise.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters: Sequence[nn.Parameter] = [p for p in model.parameters() if p.requires_grad]
        meshes = {p.device_mesh if isinstance(p, DTensor) else None for p in self.parameters}
        (mesh,) = meshes if len(meshes) == 1 else (None,)
        if mesh is None or mesh.ndim != 1 or mesh.size() == 1:
            raise NoiseScaleError(
                "The noise scale of fully_shard needs every parameter sharded over one and the same mesh of one "
                "dimension, with two ranks or more: end with fully_shard(model), and freeze what it is to ignore."
            )
        self.group = mesh.get_group()
        self.parts: list[Tensor] = []
        self.reductions = 0  # in one backward pass, at most
        taken: set[nn.Parameter] = set()
        for module in reversed(list(model.modules())):  # from the inside out: a module reduces what is not taken yet
            if hasattr(module, "set_custom_reduce_scatter"):
                module.set_custom_reduce_scatter(self)
                self.reductions += bool(set(module.parameters()) - taken)
                taken.update(module.parameters())

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """FSDP2's buffers, as it makes them itself."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: dist.ProcessGroup,
        op: dist.ReduceOp.RedOpType,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Reduce-scatter as without us; the argument names are FSDP2's."""
        if input_tensor.dtype not in (torch.float32, torch.bfloat16):
            # Others are divided in part before they come here.
            raise NoiseScaleError(
                f"Gradients are reduced in {input_tensor.dtype}: the noise scale needs "
                "MixedPrecisionPolicy(reduce_dtype=torch.float32) or bfloat16."
            )
        if op not in (dist.ReduceOp.AVG, dist.ReduceOp.SUM):
            raise NoiseScaleError("The noise scale needs gradients averaged over ranks: no set_gradient_divide_factor.")
        self.parts.append(squared_norm([input_tensor]))
        return _reduce_scatter(output=output_tensor, input=input_tensor, group=group, op=op, async_op=async_op)

    def pop(self) -> Tensor:
        """Squared norm of this rank's own gradient in the last backward pass that synchronised."""
        if not self.parts:
            raise NoiseScaleError(
                "No gradient was reduced: call micro_batch() (or update() without micro-batches) after each backward "
                "pass that synchronises."
            )
        parts, self.parts = self.parts, []
        if len(parts) > self.reductions:
            raise NoiseScaleError(
                "A gradient was reduced more than once: use NoiseScale(model, micro_batches=True) and micro_batch() "
                "after each backward pass, or set_requires_gradient_sync(False) before all but the last; and call no "
                "sharded module twice in a forward pass."
            )
        return torch.stack(parts).sum()

    def whole(self) -> Tensor:
        """Whose mean over ranks is the squared norm of the averaged gradient in `.grad`."""
        shards = [p.grad.to_local() for p in self.parameters if p.grad is not None]
        return squared_norm(shards) * self.group.size()
