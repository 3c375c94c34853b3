"""Rows of curves.csv: the evaluations of a run, as figures show them."""

import math
from collections.abc import Sequence

from reproduce.goals import smooth
from reproduce.records import Record

CURVE_COLUMNS = (
    "batch_size", "learning_rate", "seed", "step", "examples", "score", "smoothed_score", "loss", "b_simple", "b_noise",
)  # fmt: skip
PROBES_IN_CURVE = 10  # probes pooled for a curve's noise scale; one alone is too noisy to plot


def pooled_ratio(entries: Sequence[dict]) -> float | None:
    """Noise scale of several probes: sums first, ratio last; None unless |G|^2 came out positive."""
    grad_sq = sum(e["examples"] * e["grad_sq"] for e in entries)
    trace = sum(e["examples"] * e["trace"] for e in entries)
    return trace / grad_sq if grad_sq > 0 and trace > 0 else None


def curve(record: Record, window: int) -> list[dict]:
    """Rows of curves.csv for one run."""
    smoothed = smooth([e["score"] if e["score"] is not None else math.nan for e in record.evaluations], window)
    rows, recent = [], {"probe": [], "curvature": []}
    for entry, value in zip(record.evaluations, smoothed, strict=True):
        for kind, kept in recent.items():
            if entry.get(kind) and entry[kind]["grad_sq"] is not None:
                kept.append(entry[kind])
                del kept[:-PROBES_IN_CURVE]
        rows.append(
            {
                "batch_size": record.batch_size,
                "learning_rate": record.learning_rate,
                "seed": record.seed,
                **{key: entry[key] for key in ("step", "examples", "score", "loss")},
                "smoothed_score": float(value),
                "b_simple": pooled_ratio(recent["probe"]) if entry.get("probe") else None,
                "b_noise": pooled_ratio(recent["curvature"]) if entry.get("curvature") else None,
            }
        )
    return rows
