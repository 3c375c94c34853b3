"""The one training loop: draw, micro-batches, backward, average over ranks, measure, clip, step, evaluate."""

import hashlib
import math
import time
from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.distributed as dist
from hydra.utils import instantiate
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from reproduce.batch_schedule import AdaptiveBatch
from reproduce.checkpoint import load_checkpoint, remove_checkpoint, save_checkpoint
from reproduce.distributed import Ranks, from_first_rank
from reproduce.goals import next_evaluation, steps_to_goals
from reproduce.records import RecordWriter
from reproduce.run_noise import RunNoise
from reproduce.settings import Settings, TrainerSettings
from tasks.task import Batch, Task, random_generator


def weights_hash(model: nn.Module) -> str:
    """SHA-256 of all weights and buffers: two runs with the same hash ended bit-equal."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def prepared(model: nn.Module, options: TrainerSettings, device: torch.device) -> nn.Module:
    """`model` on its device, laid out and compiled as the options say."""
    model.to(device, memory_format=torch.channels_last if options.channels_last else torch.preserve_format)
    if options.compile:
        model.compile()
    return model


class Trainer:
    """Trains one run and records it.

    Args:
        task: what is learnt. settings: of the run. ranks: this process among those that train together.
        writer: the record, on the first rank; None elsewhere.
        log: called with each evaluation as it is recorded (the W&B mirror).
    """

    def __init__(
        self,
        task: Task,
        settings: Settings,
        ranks: Ranks,
        writer: RecordWriter | None,
        log: Callable[[dict], None] = lambda entry: None,
    ) -> None:
        self.task, self.settings, self.ranks, self.writer, self.log = task, settings, ranks, writer, log
        self.run, self.options, self.noise_options = settings.run, settings.trainer, settings.noise_scale
        torch.manual_seed(self.run.seed)
        self.model = prepared(task.build_model(), settings.trainer, ranks.device)
        self.wrapped = self._wrap(self.model)
        self.optimizer = instantiate(settings.optimizer_config)(self.model.parameters(), lr=self.run.learning_rate)
        self.sampler = task.sampler(self.run.seed, ranks.rank, ranks.size, ranks.device)
        self._cut_batches(self.run.batch_size)
        self.noise = RunNoise(task, settings, ranks, self.wrapped, self.loss, micro_batches=self.micro_batches > 1)
        self.batch: Batch = ()
        self.step = self.examples = 0
        self.seconds = 0.0
        self.evaluations: list[dict] = []

    def _cut_batches(self, batch_size: int) -> None:
        """Batches of `batch_size` units from here on, in micro-batches where they are too large for one pass, or where
        the noise scale is to be measured between them."""
        self.samples = batch_size // self.task.units_per_sample
        share = self.samples // self.ranks.size
        self.micro_batches = math.ceil(share / self.options.max_samples)
        if self.task.on_policy or self.settings.adaptive_batch:
            groups = math.ceil(self.noise_options.probe_groups / self.ranks.size)
            self.micro_batches = max(self.micro_batches, min(share, groups))

    def _adapt(self, schedule: AdaptiveBatch) -> None:
        """Batch size and learning rate of the next steps, from the evaluations alone: a resumed run goes on alike."""
        multiple = self.task.units_per_sample * self.ranks.size
        batch_size = schedule.batch_size(self.evaluations, self.run.batch_size, multiple)
        self._cut_batches(batch_size)
        for group in self.optimizer.param_groups:
            group["lr"] = schedule.learning_rate(self.run.learning_rate, batch_size)

    def _wrap(self, model: nn.Module) -> nn.Module:
        if self.ranks.size == 1:
            return model
        on_gpu = self.ranks.device.type == "cuda"
        return DistributedDataParallel(model, device_ids=[self.ranks.device.index] if on_gpu else None)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The task's loss, under autocast where the config asks for bfloat16."""
        autocast = self.options.precision == "bfloat16"
        with torch.autocast(self.ranks.device.type, torch.bfloat16) if autocast else nullcontext():
            return self.task.loss(model, batch)

    def train_step(self) -> Tensor:
        """One optimiser step on a new batch; returns the mean loss of this rank's share (detached)."""
        self.step += 1
        self.examples += self.samples * self.task.units_per_sample
        self._seed_step()
        batch = self.sampler.draw(self.step, self.samples, self.model)
        if self.task.on_policy:
            self.batch = batch  # for the noise scales of the loss's terms
        share = len(batch[0])
        parts = list(zip(*(tensor.tensor_split(self.micro_batches) for tensor in batch), strict=True))
        total = torch.zeros((), device=self.ranks.device)
        self.optimizer.zero_grad()
        for part in parts:
            last = part is parts[-1]
            hold = self.ranks.size > 1 and not last
            with self.wrapped.no_sync() if hold else nullcontext():
                weight = len(part[0]) / share
                loss = self.loss(self.wrapped, part) * weight
                loss.backward()
            total += loss.detach()
            if self.micro_batches > 1:
                self.noise.micro_batch(len(part[0]), weight)
        self.noise.step(share)
        if self.options.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip_norm)
        self.optimizer.step()
        return total

    def _seed_step(self) -> None:
        """For tasks that draw inside their model (nn.Dropout): a resumed run draws the same.

        Not torch.manual_seed: on a machine without a GPU it queues a call with its traceback at every step.
        """
        seed = random_generator(self.run.seed, self.step, self.ranks.rank).initial_seed()
        torch.default_generator.manual_seed(seed)
        if self.ranks.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def evaluate(self, loss: float | None) -> str | None:
        """Records an evaluation; returns the run's outcome where it ends here, else None. Collective over ranks."""
        finite = loss is None or math.isfinite(loss)
        noise = {}
        if finite and self.step > 0:
            noise = self.noise.measured(self.step, self.examples, len(self.evaluations), self.batch)
        reports = self._gathered(self.sampler.report()) if self.task.on_policy else []
        score = from_first_rank(self._score(reports) if self.ranks.is_first else None, self.ranks)
        entry = {
            "step": self.step,
            "examples": self.examples,
            "score": score,
            "loss": loss,
            "seconds": round(self.seconds, 3),
            **noise,
        }
        self.evaluations.append(entry)
        if self.writer:
            self.writer.append("evaluation", **entry)
            self.log(entry)
        return self._outcome(finite and math.isfinite(score))

    def _gathered(self, value: dict) -> list[dict]:
        """Every rank's value, in the order of ranks, on the first one; elsewhere something else. Collective."""
        if self.ranks.size == 1:
            return [value]
        box = [None] * self.ranks.size if self.ranks.is_first else None
        dist.gather_object(value, box)
        return box or []

    def _score(self, reports: list[dict]) -> float:
        training = self.model.training
        self.model.eval()
        score = float(self.task.score_run(self.model, reports))
        self.model.train(training)
        return score

    def crossings(self) -> list[float | None]:
        """Steps to each goal so far."""
        return steps_to_goals(
            [e["step"] for e in self.evaluations],
            [e["score"] for e in self.evaluations],
            self.task.goals,
            self.task.higher_is_better,
            self.task.smoothing,
        )

    def _outcome(self, finite: bool) -> str | None:
        if not finite or self._worse_than_untrained():
            return "diverged"
        reached = self.crossings()
        if all(step is not None for step in reached):
            return "reached"
        # A goal not reached by the last smoothed score is reached later than that, if ever.
        last_smoothed = len(self.evaluations) - 1 - self.task.smoothing // 2
        known_step = self.evaluations[last_smoothed]["step"] if last_smoothed >= 0 else 0
        left = [limit for step, limit in zip(reached, self.run.limits, strict=True) if step is None]
        if all(limit is not None and known_step >= limit for limit in left):
            return "given_up"
        return "exhausted" if self.step >= self.settings.max_steps else None

    def _worse_than_untrained(self) -> bool:
        """True if the last evaluations were all worse than the first, and the run is not just beginning.

        Its first steps are evaluated one by one, and at small batch sizes many pass before anything is learnt.
        """
        patience = self.options.divergence_patience
        if self.step < self.options.divergence_share * self.settings.max_steps:
            return False
        recent = [e["score"] for e in self.evaluations[1:]][-patience:]
        untrained = self.evaluations[0]["score"]
        worse = [s < untrained if self.task.higher_is_better else s > untrained for s in recent]
        return len(recent) == patience and all(worse)

    def train(self) -> dict:
        """Trains to the run's end, from its last checkpoint if there is one; returns the outcome as recorded."""
        self._resume()
        status = self.evaluate(None) if not self.evaluations else None
        last_checkpoint = time.monotonic()
        while status is None:
            began = time.monotonic()
            target = min(next_evaluation(self.step, self.options.evaluation_spacing), self.settings.max_steps)
            steps = target - self.step
            if self.settings.adaptive_batch:
                self._adapt(self.settings.adaptive_batch)
            total = torch.zeros((), device=self.ranks.device)
            for _ in range(steps):
                total += self.train_step()
            loss = self._mean_over_ranks(total / steps)
            status = self.evaluate(loss)
            self.seconds += time.monotonic() - began
            due = time.monotonic() - last_checkpoint >= self.options.checkpoint_seconds
            if status is None and from_first_rank(due, self.ranks):
                self._save()
                last_checkpoint = time.monotonic()
        return {
            "status": status,
            "steps_to_goals": self.crossings(),
            "step": self.step,
            "examples": self.examples,
            "probed_examples": self.noise.probed,
            "limits": list(self.run.limits),
            "seconds": round(self.seconds, 3),
            "weights_sha256": weights_hash(self.model),
        }

    def _mean_over_ranks(self, value: Tensor) -> float:
        if self.ranks.size > 1:
            dist.all_reduce(value)
            value = value / self.ranks.size
        return float(value)

    def _save(self) -> None:
        """Writes a checkpoint. Collective: samplers may differ between ranks (environments), so all are gathered."""
        samplers = self._gathered(self.sampler.state_dict())
        if self.writer is None:
            return
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "samplers": samplers,
            "probe_sampler": self.noise.probe_sampler.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "probed": self.noise.probed,
            "evaluations": self.evaluations,
            "record_bytes": self.writer.file.tell(),
        }
        save_checkpoint(self.writer.path, state)

    def _resume(self) -> None:
        """Goes back to the last checkpoint, or to the start, with the record cut back to it. Collective."""
        state = None
        if self.writer:
            state = load_checkpoint(self.writer.path)
            if state is not None and state["record_bytes"] > self.writer.path.stat().st_size:
                state = None  # of a record that was replaced since
            self.writer.truncate(state["record_bytes"] if state else self.writer.header_size())
        state = from_first_rank(state, self.ranks)
        if state is None:
            return
        try:
            self._restore(state)
        except Exception:
            if self.writer:
                remove_checkpoint(self.writer.path)  # of other code: the next attempt begins at the start
            raise

    def _restore(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.sampler.load_state_dict(state["samplers"][self.ranks.rank])
        self.noise.probe_sampler.load_state_dict(state["probe_sampler"])
        self.step, self.seconds, self.noise.probed = state["step"], state["seconds"], state["probed"]
        self.evaluations = state["evaluations"]
        self.examples = self.evaluations[-1]["examples"]
