"""What a run records of its noise scale: from its training steps at no cost, and from probes at fixed weights."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from reproduce.distributed import Ranks
from reproduce.estimator import unbiased_moments
from reproduce.noise_scale import NoiseScale
from reproduce.probe import ProbeNorms, probe
from reproduce.settings import Settings
from tasks.task import Batch, Task

PROBE_SEED_OFFSET = 1_000_003  # a seed of their own for samples that no training step sees


def moments(norms: ProbeNorms, units_per_sample: int) -> dict:
    """A probe as the record keeps it: unbiased |G|^2 and tr Sigma (per unit), and the units that it took."""
    grad_sq, trace = unbiased_moments(
        norms.sq_small, norms.sq_big, norms.n_small * units_per_sample, norms.n_big * units_per_sample
    )
    return {"grad_sq": grad_sq, "trace": trace, "examples": norms.n_big * units_per_sample}


class RunNoise:
    """The noise scale of one run, on one rank.

    Args:
        model: the wrapped one, in whose gradients training steps are measured.
        loss: the trainer's, for probes.
        micro_batches: whether steps are cut into some.

    Attributes:
        probed: examples that probes have taken.
    """

    def __init__(
        self,
        task: Task,
        settings: Settings,
        ranks: Ranks,
        model: nn.Module,
        loss: Callable[[nn.Module, Batch], Tensor],
        micro_batches: bool,
    ) -> None:
        self.task, self.settings, self.ranks, self.loss = task, settings, ranks, loss
        self.options, self.unit = settings.noise_scale, task.units_per_sample
        self.model = model.module if isinstance(model, DistributedDataParallel) else model
        # The same samples on every rank: the probe shares them out itself.
        self.probe_sampler = task.sampler(settings.run.seed + PROBE_SEED_OFFSET, 0, 1, ranks.device)
        self.probed = 0
        adapts = settings.adaptive_batch is not None
        between = micro_batches or adapts
        wanted = settings.trainer.log_noise_scale or task.on_policy or adapts
        self.scale = (
            NoiseScale(model, micro_batches=between, units_per_sample=self.unit)
            if wanted and (ranks.size > 1 or between)
            else None
        )

    def micro_batch(self, samples: int, weight: float) -> None:
        """After the backward pass of each micro-batch, as NoiseScale.micro_batch."""
        if self.scale:
            self.scale.micro_batch(samples, weight)

    def step(self, samples: int) -> None:
        """After a step's last backward pass, before gradients are clipped."""
        if self.scale:
            self.scale.update(samples)

    def measured(self, step: int, examples: int, evaluations: int, batch: Batch) -> dict:
        """The noise scale as an evaluation records it. Collective over ranks.

        Args:
            step, examples: trained on so far. evaluations: before this. batch: of the last step of an on-policy task.
        """
        training = self._training()
        if not self.task.on_policy:
            return self._probe(step, examples, evaluations) | ({"training": training} if training else {})
        if not training:
            return {}
        examples = training["updates"] * self.settings.run.batch_size
        return {"probe": training | {"examples": examples}} | self._of_parts(batch)

    def _training(self) -> dict:
        """What the training steps since the last evaluation say."""
        if not self.scale:
            return {}
        estimate = self.scale.estimate()
        self.scale.estimator.reset()
        return {"grad_sq": estimate.grad_sq, "trace": estimate.trace, "updates": estimate.updates}

    def _probe(self, step: int, examples: int, evaluations: int) -> dict:
        """A probe as large as the share of the run's examples that is still unspent allows."""
        options = self.options
        allowed = options.probe_cost * examples - self.probed
        size = min(int(allowed / self.unit), options.max_probe_samples) // options.probe_groups
        if size < 1:
            return {}
        samples = size * options.probe_groups
        batch = self.probe_sampler.draw(2 * step, samples, self.model)
        curvature_batch = None
        # Products with the Hessian cost many times what gradients do, so not every probe has them.
        if options.curvature_samples and evaluations % options.curvature_every == 0:
            curvature_batch = self.probe_sampler.draw(2 * step + 1, options.curvature_samples, self.model)
        self.probed += samples * self.unit
        simple, curvature = probe(self.model, self.loss, batch, options.probe_groups, curvature_batch)
        found = {"probe": moments(simple, self.unit)}
        return found | ({"curvature": moments(curvature, self.unit)} if curvature else {})

    def _of_parts(self, batch: Batch) -> dict:
        """Noise scales of terms of the loss, between groups of the last batch. On one rank alone."""
        samples = len(batch[0])
        groups = min(samples, self.options.probe_groups)
        if self.ranks.size > 1 or samples % groups:
            return {}
        return {
            name: moments(probe(self.model, part, batch, groups)[0], self.unit)
            for name, part in self.task.loss_parts().items()
        }
