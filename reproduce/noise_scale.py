"""The gradient noise scale of any training loop (eq. 2.8 to 2.10, App. A.1 of arXiv 1812.06162).

In a DistributedDataParallel loop:

    noise_scale = NoiseScale(ddp_model)
    ...
        loss.backward()
        noise_scale.update(samples=len(local_batch))  # before gradients are clipped
    ...
    print(noise_scale.estimate())

With gradient accumulation, on one device or on many (under no_sync), each loss weighted as it is summed:

    noise_scale = NoiseScale(model, micro_batches=True)
    ...
        for micro_batch in micro_batches:
            (loss(micro_batch) / len(micro_batches)).backward()
            noise_scale.micro_batch(samples=len(micro_batch), weight=1 / len(micro_batches))
        noise_scale.update()

The noise scale of Adam's steps, in either loop: NoiseScale(model, precondition=optimizer). A model of `fully_shard`
(FSDP2) is measured as one in DistributedDataParallel is.

The norms stay on the device until `estimate` or `flush`, which is collective: every rank must call it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from reproduce.adam_metric import AdamMetric
from reproduce.estimator import NoiseScaleError, NoiseScaleEstimate, NoiseScaleEstimator
from reproduce.norms import metric_norm, squared_norm

# Relative difference of squared norms below which shares of a batch are taken for copies of each other: far above
# float32 rounding in a sum of a billion terms, far below the noise of any real data.
SAME_DATA_TOLERANCE = 1e-6
SAME_DATA_UPDATES = 8


class GradientAverage:
    """DDP communication hook: averages gradients over ranks as DDP does, and keeps the squared norms of the local
    gradient before and of the global one after (App. A.1), with no pass over the data beyond the two norms.
    """

    def __init__(self, model: DistributedDataParallel, metric: AdamMetric | None = None) -> None:
        self.metric = metric
        self.process_group = model.process_group
        self.reset()
        model.register_comm_hook(self, GradientAverage.average)

    def reset(self) -> None:
        self.local_parts: list[Tensor] = []
        self.global_parts: list[Tensor] = []

    @staticmethod
    def average(self: "GradientAverage", bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        buffer = bucket.buffer()
        # In a metric, one by one: the gradients are views of the buffer, into which their average is written.
        views = (bucket.parameters(), bucket.gradients()) if self.metric else ([], [buffer])
        self.local_parts.append(metric_norm(self.metric, *views))
        buffer.div_(self.process_group.size())
        future = dist.all_reduce(buffer, group=self.process_group, async_op=True).get_future()

        def measure(future: torch.futures.Future) -> Tensor:
            reduced = future.value()[0]
            self.global_parts.append(metric_norm(self.metric, *views) if self.metric else squared_norm([reduced]))
            return reduced

        return future.then(measure)

    def pop(self) -> tuple[Tensor, Tensor]:
        """Squared norms (local, global) of the last synchronised backward pass."""
        if not self.local_parts or len(self.local_parts) != len(self.global_parts):
            raise NoiseScaleError(
                "No gradient was averaged: call update() once, after a backward pass that synchronises."
            )
        result = torch.stack(self.local_parts).sum(), torch.stack(self.global_parts).sum()
        self.reset()
        return result


class MicroBatchNorms:
    """Squared gradient norm of each micro-batch while gradients add up, from what autograd adds to each parameter.

    Hooked to the nodes that add to `.grad`: hooks of the parameters themselves are called by torch.autograd.grad too,
    and a probe or a gradient penalty would be counted into the next micro-batch.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], metric: AdamMetric | None = None) -> None:
        self.metric = metric
        self.parts: list[Tensor] = []
        parameters = [p for p in parameters if p.requires_grad]
        # A node lives only as long as somebody holds it, and its hooks with it.
        self.nodes = [p.view_as(p).grad_fn.next_functions[0][0] for p in parameters]
        self.handles = [
            node.register_prehook(partial(self._measure, p)) for node, p in zip(self.nodes, parameters, strict=True)
        ]

    def _measure(self, parameter: nn.Parameter, gradients: tuple[Tensor | None, ...]) -> None:
        self.parts += [metric_norm(self.metric, [parameter], [g.detach()]) for g in gradients if g is not None]

    def pop(self) -> Tensor:
        """Squared norm of the last micro-batch's gradient, as weighted in its loss."""
        if not self.parts:
            raise NoiseScaleError("No gradient was computed: call micro_batch() after each backward pass.")
        total = torch.stack(self.parts).sum()
        self.parts = []
        return total

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


class RunningNoiseScale(ABC):
    """What is measured step by step and fed to an estimator now and then.

    Args:
        units_per_sample: units in one sample (tokens in a sequence); the result is in units.
        horizon: updates over which older ones fade by 1/e; None weighs all alike.
    """

    def __init__(self, units_per_sample: float = 1, horizon: float | None = None) -> None:
        self.estimator = NoiseScaleEstimator(horizon)
        self.units_per_sample = units_per_sample

    @abstractmethod
    def flush(self) -> None:
        """Feeds the estimator with what has been measured since the last call: norms stay on the device until then.
        Collective over ranks.
        """

    def estimate(self, confidence: float = 0.95) -> NoiseScaleEstimate:
        """The noise scale so far, in units. Collective over ranks."""
        self.flush()
        return self.estimator.estimate(confidence)

    def state_dict(self) -> dict:
        """For the checkpoint, after `flush`."""
        return self.estimator.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.estimator.load_state_dict(state)


class NoiseScale(RunningNoiseScale):
    """Measures B_simple from the gradients of a training loop; see the module for the calls to make.

    Compares the gradients of ranks (DistributedDataParallel over two ranks or more), of micro-batches
    (`micro_batches=True`), or, with both, micro-batches against the whole step of all ranks. One rank without
    micro-batches has a single batch size and measures nothing: `estimate` then says so; use `reproduce.probe`.

    Args:
        model: the module whose gradients are measured; if it is DDP, its communication hook is set, and if it is
            sharded by fully_shard, its reduce-scatter.
        micro_batches: measure micro-batches; then call `micro_batch` after each backward pass.
        units_per_sample: units in one sample (tokens in a sequence); the result is in units.
        horizon: updates over which older ones fade by 1/e; None weighs all alike.
        precondition: torch.optim.Adam or AdamW whose metric gradients are measured in (`adam_metric`): with the state
            from before the step, so `update` belongs before `optimizer.step()`. Weights that it does not train or
            has not stepped yet are left out; updates before its first step are not counted.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        micro_batches: bool = False,
        units_per_sample: float = 1,
        horizon: float | None = None,
        precondition: torch.optim.Optimizer | None = None,
    ) -> None:
        super().__init__(units_per_sample, horizon)
        self.metric = None if precondition is None else AdamMetric(precondition)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        distributed = isinstance(model, DistributedDataParallel) and model.process_group.size() > 1
        self.average = GradientAverage(model, self.metric) if distributed else None
        self.group = model.process_group if distributed else None
        self.sharded = None
        if any(hasattr(module, "set_custom_reduce_scatter") for module in model.modules()):
            from reproduce.sharded import ShardedGradients  # FSDP2's modules take a while to import

            if precondition is not None:
                raise NoiseScaleError("precondition= needs whole gradients, and fully_shard keeps Adam's v in shards.")
            self.sharded = ShardedGradients(model)
            self.group = self.sharded.group
        self.micro = self.sharded or MicroBatchNorms(self.parameters, self.metric) if micro_batches else None
        self.step_micro: list[Tensor] = []
        self.step_samples: list[float] = []
        self.pending: list[tuple[Tensor, Tensor, float, float]] = []
        self.same_data, self.shares_differ = 0, False

    def micro_batch(self, samples: int, weight: float) -> None:
        """Call after the backward pass of each micro-batch.

        Args:
            samples: samples in it, on this rank.
            weight: the factor with which its mean loss entered the step's loss.
        """
        if self.micro is None:
            raise NoiseScaleError("NoiseScale(model, micro_batches=True) measures micro-batches; this one does not.")
        self.step_micro.append(self.micro.pop() / weight**2)
        self.step_samples.append(samples)

    def update(self, samples: int | None = None, *, loss_scale: float = 1.0) -> None:
        """Call once a step, after its last backward pass and before gradients are clipped.

        Args:
            samples: samples of this rank in this step; may be left out after calls of `micro_batch`.
            loss_scale: factor on the loss that is still in the gradients (mixed precision).
        Raises:
            NoiseScaleError: if `samples` is missing or disagrees with the micro-batches, or no gradient is there.
        """
        counted = sum(self.step_samples)
        if samples is None and not counted:
            raise NoiseScaleError("update() needs samples=, the number of samples of this rank in the step.")
        samples = samples if samples is not None else counted
        if counted and samples != counted:
            raise NoiseScaleError(f"update(samples={samples}), but the micro-batches held {counted} samples.")
        local, whole = self.average.pop() if self.average else (None, None)
        if self.metric and not self.metric.has_stepped():
            self.step_micro, self.step_samples = [], []
            return
        if self.sharded:
            local, whole = None if self.micro else self.sharded.pop(), self.sharded.whole()
        # A single one is all of this rank's step; where ranks are compared through shards, it still is the small one.
        if len(self.step_micro) > (0 if self.sharded else 1):
            small = torch.stack(self.step_micro).mean()
            # A mean over unequal micro-batches behaves like their harmonic mean: E |g|^2 = G'G + tr Sigma / n.
            inverse_small = sum(1 / n for n in self.step_samples) / len(self.step_samples)
        elif local is not None:
            small, inverse_small = local, 1 / samples
        else:
            self.step_micro, self.step_samples = [], []
            return
        if whole is None:
            used = [p for p in self.parameters if p.grad is not None]
            whole = metric_norm(self.metric, used, [p.grad for p in used])
        scale = loss_scale**2
        self.pending.append((small / scale, whole / scale, inverse_small, 1 / samples))
        self.step_micro, self.step_samples = [], []

    def flush(self) -> None:
        """Feeds the estimator with what has been measured since the last call. Collective over ranks.

        Raises:
            NoiseScaleError: if all shares of the batch have had the same gradient since the first steps.
        """
        if not self.pending:
            return
        ranks = self.group.size() if self.group else 1
        small = torch.stack([entry[0] for entry in self.pending]).double()
        whole = torch.stack([entry[1] for entry in self.pending]).double()
        inverse = torch.tensor([entry[2:] for entry in self.pending], dtype=torch.float64, device=small.device)
        self.pending = []
        table = torch.stack([small, inverse[:, 0], inverse[:, 1], whole])
        if self.group:
            # Means over ranks; the one place where the estimator costs communication, once per evaluation.
            dist.all_reduce(table, group=self.group)
            table /= ranks
        # DDP's gradient is the plain mean over ranks, also where their shares differ; its noise is that of
        # ranks * (harmonic mean of the shares) samples.
        small_sizes, big_sizes = 1 / table[1], ranks / table[2]
        for sq_small, sq_big, n_small, n_big in zip(
            table[0].tolist(), table[3].tolist(), small_sizes.tolist(), big_sizes.tolist(), strict=True
        ):
            self._refuse_same_data(sq_small, sq_big)
            self.estimator.update(sq_small, sq_big, n_small * self.units_per_sample, n_big * self.units_per_sample)

    def _refuse_same_data(self, sq_small: float, sq_big: float) -> None:
        # From the first step on, or not at all: where a run diverges, the noise drowns in ever larger gradients.
        if self.shares_differ or sq_small == 0:
            return
        self.shares_differ = not abs(sq_small - sq_big) <= SAME_DATA_TOLERANCE * sq_small
        self.same_data += not self.shares_differ
        if self.same_data >= SAME_DATA_UPDATES:
            raise NoiseScaleError(
                f"All shares of the batch had the same gradient in the first {SAME_DATA_UPDATES} steps: every rank or "
                "micro-batch draws the same samples. Give each its own (seed by rank, or a DistributedSampler)."
            )
