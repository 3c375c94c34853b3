"""The linear scaling rule beside tuned learning rates: the contents of linear_rule.json."""

from __future__ import annotations

from dataclasses import dataclass

from reproduce.report.estimates import Estimate
from reproduce.report.fields import Fields

KEEPS_UP = 1.5  # times the steps of the best rate: seeds and a grid refined to sqrt(2) leave about that open


@dataclass(frozen=True)
class ScaledPoint:
    """One batch size: steps to the goal at the scaled rate and at the sweep's best one. steps: None unless all seeds
    arrived; then `ratio` is their quotient."""

    batch_size: float
    learning_rate: float
    steps: float | None
    seeds: int
    seeds_reached: int
    tuned_learning_rate: float
    tuned_steps: float
    ratio: float | None

    @property
    def keeps_up(self) -> bool:
        return self.ratio is not None and self.ratio <= KEEPS_UP


@dataclass(frozen=True)
class LinearRule:
    """The contents of linear_rule.json. Rates are base_learning_rate * B / base_batch_size; points rise in B."""

    unit: str
    goal: float
    seeds: int
    base_batch_size: float
    base_learning_rate: float
    b_crit: Estimate
    points: tuple[ScaledPoint, ...]
    command: str
    commit: str

    @property
    def holds_to(self) -> float:
        """The largest batch size up to which all keep up; the base where none does."""
        size = self.base_batch_size
        for point in self.points:
            if not point.keeps_up:
                break
            size = point.batch_size
        return size

    @property
    def fails_from(self) -> float | None:
        """The smallest batch size from which on none keeps up; None where the largest one does."""
        size = None
        for point in reversed(self.points):
            if point.keeps_up:
                break
            size = point.batch_size
        return size


def parse_linear_rule(record: object) -> LinearRule:
    """Raises FieldError, which names the field."""
    fields = Fields.of(record)
    base = fields.fields("base")
    return LinearRule(
        unit=fields.text("unit"),
        goal=fields.number("goal"),
        seeds=fields.required_count("seeds"),
        base_batch_size=base.positive("batch_size"),
        base_learning_rate=base.positive("learning_rate"),
        b_crit=fields.estimate("b_crit"),
        points=tuple(
            ScaledPoint(
                batch_size=point.positive("batch_size"),
                learning_rate=point.positive("learning_rate"),
                steps=point.optional_positive("steps"),
                seeds=point.required_count("seeds"),
                seeds_reached=point.required_count("seeds_reached"),
                tuned_learning_rate=point.positive("tuned_learning_rate"),
                tuned_steps=point.positive("tuned_steps"),
                ratio=point.optional_positive("ratio"),
            )
            for point in fields.list_of_fields("points")
        ),
        command=fields.optional_text("command"),
        commit=fields.optional_text("commit"),
    )
