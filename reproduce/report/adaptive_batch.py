"""Adaptive batch sizes beside constant ones: the contents of adaptive_batch.json."""

from __future__ import annotations

from dataclasses import dataclass

from reproduce.report.estimates import Estimate, LearningRateFit
from reproduce.report.fields import Fields


@dataclass(frozen=True)
class ScheduledRuns:
    """Runs of one constant batch size, or of one r in B = sqrt(r B_simple): geometric means over those that arrived.

    gamma: (S / S_min - 1)(E / E_min - 1). schedule: (step, batch size until then) of one adaptive run.
    """

    value: float
    steps: float | None
    examples: float | None
    seeds: int
    seeds_reached: int
    gamma: float | None
    schedule: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class AdaptiveBatch:
    """b_crit, s_min, e_min: of the constant batch sizes here. predicted_gamma: from the sweep's noise scales."""

    unit: str
    goal: float
    seeds: int
    learning_rate: LearningRateFit
    b_crit: Estimate
    s_min: float | None
    e_min: float | None
    constant: tuple[ScheduledRuns, ...]
    adaptive: tuple[ScheduledRuns, ...]
    gamma: Estimate
    predicted_gamma: float | None
    command: str
    commit: str


def parse_adaptive_batch(record: object) -> AdaptiveBatch:
    """Raises FieldError, which names the field."""
    fields = Fields.of(record)
    law = fields.fields("learning_rate")
    return AdaptiveBatch(
        unit=fields.text("unit"),
        goal=fields.number("goal"),
        seeds=fields.required_count("seeds"),
        learning_rate=LearningRateFit(law.positive("eps"), law.number("knee"), law.number("alpha")),
        b_crit=fields.estimate("b_crit"),
        s_min=fields.optional_positive("s_min"),
        e_min=fields.optional_positive("e_min"),
        constant=tuple(_runs(entry, "batch_size") for entry in fields.list_of_fields("constant")),
        adaptive=tuple(_runs(entry, "r") for entry in fields.list_of_fields("adaptive")),
        gamma=fields.estimate("gamma"),
        predicted_gamma=fields.optional_positive("predicted_gamma"),
        command=fields.optional_text("command"),
        commit=fields.optional_text("commit"),
    )


def _runs(fields: Fields, value: str) -> ScheduledRuns:
    return ScheduledRuns(
        value=fields.positive(value),
        steps=fields.optional_positive("steps"),
        examples=fields.optional_positive("examples"),
        seeds=fields.required_count("seeds"),
        seeds_reached=fields.required_count("seeds_reached"),
        gamma=fields.optional_positive("gamma"),
        schedule=fields.pairs("schedule"),
    )
