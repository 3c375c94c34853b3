"""What one sample costs a task's own model: floating-point operations, and bytes of a checkpoint. Needs no data.

The model is built as for training and then moved to torch's meta device, where every operation has its shape and none
is carried out: ResNet-50 is counted in a second. There an LSTM is made of its matrix products, step by step, so that
these are counted, while the fused kernels of CPUs and GPUs would count as nothing.
"""

import copy
from dataclasses import dataclass

import torch
from hydra.utils import instantiate
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tasks.task import Task


@dataclass(frozen=True)
class SampleCost:
    """flops: of one sample, forward and backward; weights: of the model; checkpoint_bytes: of a run under way."""

    flops: int
    weights: int
    checkpoint_bytes: int


def sample_cost(task: Task, optimizer_config: dict) -> SampleCost:
    """Counted on one sample of `task.fake_batch`.

    FLOPs are those of matrix products, convolutions and attention, two to a multiply-add, as torch's FlopCounterMode
    has them; what is done element by element (activations, normalisation, the optimiser's own step) is left out. The
    gradient of the input is not needed, and so not counted.

    Args:
        optimizer_config: the config's section `optimizer`, whose state is part of checkpoints.
    """
    model = task.build_model()
    weights = sum(p.numel() for p in model.parameters())
    try:
        return _counted(task, on_meta(model), optimizer_config, weights, "meta")
    except (NotImplementedError, RuntimeError):
        # A loss that looks at values, as with .item(), has to be carried out; without oneDNN, whose LSTM is one kernel.
        with torch.backends.mkldnn.flags(enabled=False):
            return _counted(task, model, optimizer_config, weights, "cpu")


def _counted(task: Task, model: nn.Module, optimizer_config: dict, weights: int, device: str) -> SampleCost:
    batch = tuple(tensor.to(device) for tensor in task.fake_batch(1))
    with FlopCounterMode(display=False) as counter:
        task.loss(model, batch).backward()
    optimizer = instantiate(optimizer_config)(model.parameters(), lr=1e-3)
    optimizer.step()  # optimisers make their state at the first step
    state = [model.state_dict(), optimizer.state_dict()]
    return SampleCost(counter.get_total_flops(), weights, tensor_bytes(state))


def on_meta(model: nn.Module) -> nn.Module:
    """A copy without values. Weights that modules share stay shared, as they would not with `model.to("meta")`."""
    memo: dict[int, Tensor] = {id(p): nn.Parameter(p.to("meta"), p.requires_grad) for p in model.parameters()}
    memo |= {id(b): b.to("meta") for b in model.buffers()}
    return copy.deepcopy(model, memo)


def tensor_bytes(state: object) -> int:
    """Bytes of all tensors in nested dicts and lists; those that share memory count once for each place."""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    if isinstance(state, dict):
        return sum(map(tensor_bytes, state.values()))
    return sum(map(tensor_bytes, state)) if isinstance(state, list | tuple) else 0
