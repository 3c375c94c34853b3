"""python -m reproduce.line_search task=...: loss drops and best steps along gradients at fixed weights (Fig. 5).

At several goals of one well-tuned run: for each batch size the learning rate that lowers the loss most, averaged over
batches, and by how much. By eq. 2.6 and 2.7 both go as 1 / (1 + B_noise / B). The fitted B_noise stands beside B_noise
from products with the Hessian and B_simple, at the same weights. Direction and step are those of plain gradient
descent whatever the task's optimiser, since that is what the theory speaks of.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import hydra
import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from reproduce.__main__ import command
from reproduce.chosen_run import with_run
from reproduce.devices import devices_called
from reproduce.distributed import launched_from_outside
from reproduce.estimator import NoiseScaleEstimate
from reproduce.line_search_result import MeasuredPoint, point_entry
from reproduce.loss_drop import PROBE_GROUPS, FixedWeights, batches_in_block, predicted_rate
from reproduce.noise_law import DropCurve
from reproduce.places import check_writable, relative
from reproduce.points_of_training import TrainedPoint, spread_goals, trained_points
from reproduce.records import RecordWriter, complete_lines
from reproduce.report import format_line_search, write_task_report
from reproduce.report.reading import SummaryError
from reproduce.results import write_json
from reproduce.run import commit, failure_text, origin, versions
from reproduce.settings import (
    ConfigError,
    LineSearchSettings,
    Settings,
    build_task,
    settings_from_config,
    task_and_scale,
)
from reproduce.time_left import TimeLeft
from reproduce.validation import parse, section
from tasks.task import Task

OCTAVES = 11  # of batch sizes where none are named: from 1 sample to 2,048
# For the time left: what a sample costs in a gradient and in a product with the Hessian, against a forward pass, and
# how many of those a search takes, one a learning rate.
GRADIENT_COST, HESSIAN_COST, USUAL_RATES = 3, 8, 4


def sample_counts(options: LineSearchSettings, task: Task) -> tuple[int, ...]:
    """Samples in a batch of each size; ConfigError unless the sizes are whole samples."""
    unit = task.units_per_sample
    if options.batch_sizes is None:
        return tuple(2**octave for octave in range(OCTAVES + 1))
    for size in options.batch_sizes:
        if size % unit:
            raise ConfigError(f"line_search.batch_sizes: {size} is no multiple of {unit} {task.unit}s, one sample.")
    if not options.batch_sizes:
        raise ConfigError("line_search.batch_sizes must not be empty.")
    return tuple(sorted({size // unit for size in options.batch_sizes}))


class Search:
    """One line search, from its config to line_search.json.

    Raises:
        ConfigError: naming what is wrong, before anything is written.
    """

    def __init__(self, config: DictConfig) -> None:
        if OmegaConf.select(config, "trainer.ranks") != 1 or launched_from_outside():
            raise ConfigError("A line search runs in one process: use trainer.ranks=1, without torchrun.")
        self.task = build_task(config)
        self.options = parse(LineSearchSettings, "line_search", section(config, "line_search"))
        self.name, self.scale = task_and_scale(str(config.name))
        self.results = Path(str(config.results)).absolute() / self.name / self.scale
        config, self.from_summary = with_run(config, self.results / "summary.json")
        self.settings: Settings = settings_from_config(config, self.task)
        self.samples = sample_counts(self.options, self.task)
        if self.settings.trainer.device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("trainer.device=cuda, but torch sees no GPU on this machine: use trainer.device=auto.")
        self.device = torch.device(devices_called(self.settings.trainer.device)[0])
        self.folder = self.settings.folder.with_name("line_search")
        self.header = {"versions": versions(), "commit": commit(), "ranks": 1, "device": str(self.device)}
        self.progress = TimeLeft(f"{self.name}/{self.scale}, line search")

    def run(self) -> dict:
        """Trains, measures what is not there yet, and writes the result; returns it."""
        torch.set_num_threads(self.settings.trainer.threads)
        self.task.prepare()
        check_writable(self.results)
        goals = spread_goals(len(self.task.goals), self.options.points)
        points = trained_points(
            self.task, self.settings, self.device, self.folder, goals, self.header, self.progress.tell
        )
        if not points:
            raise ConfigError(
                f"The run at batch size {self.settings.run.batch_size} and learning rate "
                f"{self.settings.run.learning_rate} reached no goal: name another one with run.batch_size=... "
                "run.learning_rate=..."
            )
        self.progress.expect(len(points) * (self.probe_cost() + sum(self.cost(s) for s in self.samples)))
        measured = [self.measure(point) for point in points]
        self.progress.end()
        result = self.result(measured)
        write_json(self.results / "line_search.json", result)
        return result

    def measure(self, trained: TrainedPoint) -> MeasuredPoint:
        """One point, from its record as far as that goes: the probes, then batch sizes from small to large."""
        identity = self.settings.identity() | {
            "line_search": {k: v for k, v in asdict(self.options).items() if k not in ("points", "batch_sizes")},
            "samples": list(self.samples),
            "goal": self.task.goals[trained.goal],
            "step": trained.step,
        }
        with RecordWriter(self.folder, identity, self.header) as writer:
            writer.truncate(sum(len(line) + 1 for line in complete_lines(writer.path)))  # a torn line is measured again
            entries = list(writer.existing.evaluations) if writer.existing else []
            model = self.task.build_model().to(self.device)
            model.load_state_dict(trained.model)
            weights = FixedWeights(
                self.task,
                model,
                self.options,
                self.settings.run.seed,
                trained.goal,
                self.device,
                self.settings.trainer.max_samples,
            )
            where = f"{self.task.score} {self.task.goals[trained.goal]:g}"
            if entries:
                self.progress.skip(self.probe_cost())
            else:
                entries.append(self.probe(weights, where))
                writer.append("evaluation", **entries[0])
                self.progress.add(self.probe_cost(), f"{where}: probes done")
            simple, curvature = (NoiseScaleEstimate(**entries[0][key]) for key in ("b_simple", "b_noise"))
            curves, off = [], 1.0
            for number, samples in enumerate(self.samples, 1):
                size = samples * self.task.units_per_sample
                start = predicted_rate(size, simple, curvature, self.settings.run.learning_rate)
                if number < len(entries):
                    self.progress.skip(self.cost(samples))
                else:
                    entries.append(self.drop_entry(weights, samples, start * off))
                    writer.append("evaluation", **entries[-1])
                    self.progress.add(self.cost(samples), f"{where}: batch size {size:,} done")
                curve = DropCurve(
                    size,
                    entries[number]["batches"],
                    np.array(entries[number]["learning_rates"]),
                    np.array(entries[number]["drops"], dtype=float),  # null, where a loss was not finite, becomes nan
                )
                curves.append(curve)
                off = _off(curve, start, off)
            seconds = sum(entry["seconds"] for entry in entries)
            if not (writer.existing and writer.existing.outcome):
                writer.append("outcome", status="reached", seconds=round(seconds, 3))
            made_by = (writer.existing.header if writer.existing else self.header).get("commit")
        return MeasuredPoint(trained, tuple(curves), simple, curvature, seconds, made_by)

    def probe(self, weights: FixedWeights, where: str) -> dict:
        began, blocks = time.monotonic(), iter(range(1, self.options.blocks + 1))

        def tell() -> None:
            self.progress.tell(f"{where}: probe {next(blocks)} of {self.options.blocks}")

        simple, curvature = weights.noise_scales(tell)
        return {
            "b_simple": asdict(simple),
            "b_noise": asdict(curvature),
            "seconds": round(time.monotonic() - began, 3),
        }

    def drop_entry(self, weights: FixedWeights, samples: int, start: float) -> dict:
        began = time.monotonic()
        curve = weights.search(samples, start)
        return {
            "samples": samples,
            "batches": curve.batches,
            "learning_rates": curve.learning_rates.tolist(),
            "drops": curve.drops.tolist(),
            "seconds": round(time.monotonic() - began, 3),
        }

    def cost(self, samples: int) -> float:
        """Of a batch size, in forward passes of one sample."""
        per_batch = GRADIENT_COST * samples + USUAL_RATES * self.options.evaluation_samples
        return self.options.blocks * batches_in_block(self.options, samples) * per_batch

    def probe_cost(self) -> float:
        gradients = PROBE_GROUPS * self.options.probe_samples * GRADIENT_COST
        return self.options.blocks * (gradients + (PROBE_GROUPS + 1) * self.options.curvature_samples * HESSIAN_COST)

    def result(self, measured: Sequence[MeasuredPoint]) -> dict:
        """The contents of line_search.json: numbers or null."""
        goals = spread_goals(len(self.task.goals), self.options.points)
        reached = {point.trained.goal for point in measured}
        run = self.settings.run
        return {
            "task": self.name,
            "scale": self.scale,
            "unit": self.task.unit,
            "score": self.task.score,
            "run": {
                "batch_size": run.batch_size,
                "learning_rate": run.learning_rate,
                "seed": run.seed,
                "from_summary": self.from_summary,
            },
            "points": [point_entry(point, self.task.goals[point.trained.goal]) for point in measured],
            "not_reached": [self.task.goals[goal] for goal in goals if goal not in reached],
            "settings": asdict(self.options),
            "seconds": sum(point.seconds for point in measured),
            "command": " ".join(["python -m reproduce.line_search", *sys.argv[1:]]),
            **origin(),
            "commit": ", ".join(sorted({point.commit or "unknown" for point in measured})),
        }


def _off(curve: DropCurve, predicted: float, before: float) -> float:
    """By what factor the best rate is off the predicted one, so that the next search begins nearer to its own."""
    mean = np.nan_to_num(curve.drops.mean(0), nan=-np.inf)
    return float(curve.learning_rates[mean.argmax()] / predicted) if mean.max() > 0 else before


@hydra.main(config_path="pkg://conf", config_name="config", version_base="1.3")
def main(config: DictConfig) -> None:
    try:
        search = Search(config)
        result = search.run()
        written = [search.results / "line_search.json"]
        if (search.results / "summary.json").exists():
            written += write_task_report(search.results)
    except SummaryError as error:
        sys.exit(f"error: the line search is written, but not its figure: {error}")
    except Exception as error:
        sys.exit(f"error: {failure_text(error)}")
    except KeyboardInterrupt:
        print(
            "\nInterrupted. All that was measured is kept: the same command goes on from here.",
            file=sys.stderr,
        )
        sys.exit(130)
    print(format_line_search(result))
    print("\nWritten:", *(f"  {relative(path)}" for path in written), sep="\n")


def from_command_line() -> None:
    if {"-m", "--multirun"} & set(sys.argv[1:]):
        sys.exit("error: a line search is held in one run: leave out -m.")
    command(main)


if __name__ == "__main__":
    from_command_line()
