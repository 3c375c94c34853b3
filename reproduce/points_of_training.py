"""Points of one training run at which something is measured later: its weights where it has reached goals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from reproduce.checkpoint import load_checkpoint, remove_checkpoint, save_checkpoint
from reproduce.distributed import Ranks
from reproduce.records import RecordError, RecordWriter, run_name
from reproduce.settings import Settings
from reproduce.trainer import Trainer
from tasks.task import Task


@dataclass(frozen=True)
class TrainedPoint:
    """The weights of a run soon after it reached a goal.

    Attributes:
        goal: index in the task's list. step, score: of the evaluation by which the smoothed score had crossed the
            goal, half a smoothing window after the crossing itself. model: state dict.
    """

    goal: int
    step: int
    score: float
    model: dict


def spread_goals(goals: int, points: int) -> tuple[int, ...]:
    """Indices of at most `points` of so many goals, evenly from the first to the last."""
    if points == 1:
        return (goals - 1,)
    return tuple(sorted({round(index) for index in np.linspace(0, goals - 1, points)}))


class TrainingWithPoints(Trainer):
    """Trains as any run does, and keeps the weights where it reaches some of the goals.

    Args:
        goals: indices of the goals. keep: is called with each point. tell: is called with a line on the progress.
    """

    def __init__(
        self,
        task: Task,
        settings: Settings,
        ranks: Ranks,
        writer: RecordWriter,
        goals: Sequence[int],
        keep: Callable[[TrainedPoint], None],
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(task, settings, ranks, writer)
        self.goals, self.keep, self.tell = goals, keep, tell

    def evaluate(self, loss: float | None) -> str | None:
        before = self.crossings()
        status = super().evaluate(loss)
        crossed = self.crossings()
        entry = self.evaluations[-1]
        for goal in self.goals:
            if before[goal] is None and crossed[goal] is not None:
                self.keep(TrainedPoint(goal, entry["step"], entry["score"], self.model.state_dict()))
        reached = sum(crossed[goal] is not None for goal in self.goals)
        self.tell(
            f"training, step {self.step}, {self.task.score} {entry['score']:.3g}, "
            f"{reached} of {len(self.goals)} goals reached"
        )
        return status


def trained_points(
    task: Task,
    settings: Settings,
    device: torch.device,
    folder: Path,
    goals: Sequence[int],
    header: dict,
    tell: Callable[[str], None],
) -> list[TrainedPoint]:
    """The run's points, from files in `folder` where they are there, else by training, resumed where it was cut off.

    Args:
        goals: indices, rising. header: of the training's record, such as versions.
    Returns:
        one for each of the goals that the run reaches before it ends.
    Raises:
        RecordError: if the folder or the record cannot be used.
    """
    name = run_name(settings.identity())
    paths = {goal: folder / f"{name}_goal{goal}.jsonl" for goal in goals}  # each a checkpoint beside no record

    def keep(point: TrainedPoint) -> None:
        save_checkpoint(paths[point.goal], {"step": point.step, "score": point.score, "model": point.model})

    with RecordWriter(folder, settings.identity(), header) as writer:
        ended = writer.existing.outcome if writer.existing else None
        # Twice, since a checkpoint may be without weights that were kept before it and deleted since.
        for _ in range(2):
            if ended and (points := _kept(paths, ended)) is not None:
                return points
            ended = TrainingWithPoints(task, settings, Ranks(0, 1, device), writer, goals, keep, tell).train()
            writer.append("outcome", **ended)
            remove_checkpoint(writer.path)
        points = _kept(paths, ended)
    if points is None:
        raise RecordError(
            f"Weights that were written to {folder} cannot be read again. Make it readable, or name another one "
            "with outputs=FOLDER."
        )
    return points


def _kept(paths: dict[int, Path], outcome: dict) -> list[TrainedPoint] | None:
    """The points that a run with this outcome reached; None if the weights at one of them are not there."""
    points = []
    for goal, path in paths.items():
        if outcome["steps_to_goals"][goal] is None:
            continue
        state = load_checkpoint(path)
        if state is None:
            return None
        points.append(TrainedPoint(goal, state["step"], state["score"], state["model"]))
    return points
