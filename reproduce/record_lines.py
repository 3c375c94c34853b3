"""What the lines of a record hold, checked: a file can be torn, edited by hand, or written to by something else.

Whatever is wrong is a ValueError that names the field. Lines are held against their neighbours too, so that one that
is missing, doubled or out of order is not taken for the run's.
"""

import json
import math
import sys
from collections.abc import Callable
from typing import Any

from reproduce.goals import next_evaluation

OUTCOMES = ("reached", "given_up", "exhausted", "diverged", "failed")
"""reached: all goals. given_up: could no longer be the best for any goal left. exhausted: its budget is spent.
diverged: non-finite, or worse than untrained for long. failed: an exception, kept in the record's "error"."""


LARGEST = sys.float_info.max


def _number(value: Any, least: float = -math.inf, whole: bool = False) -> bool:
    """True for a number as the writer writes it: one that a float can be, and no bool, which is an int in Python."""
    kinds = int if whole else int | float
    return isinstance(value, kinds) and not isinstance(value, bool) and abs(value) <= LARGEST and value >= least


def _count(value: Any) -> bool:
    return _number(value, least=0, whole=True)


def _seconds(value: Any) -> bool:
    return _number(value, least=0)


def _measured(value: Any) -> bool:
    """A measurement, or null where it was not finite."""
    return value is None or _number(value)


def _steps(value: Any) -> bool:
    return isinstance(value, list) and all(step is None or _number(step, least=0) for step in value)


def _noise(value: Any) -> bool:
    """Moments of a noise scale, with the examples or updates that they are of."""
    if not isinstance(value, dict) or not {"grad_sq", "trace"} <= value.keys():
        return False
    return all(_measured(entry) if key in ("grad_sq", "trace") else _count(entry) for key, entry in value.items())


# What the lines of a run hold. A line search keeps what it measures in records too, of other fields.
EVALUATION = {"step": _count, "examples": _count, "score": _measured, "loss": _measured, "seconds": _seconds}
NOISE = ("probe", "curvature", "training")
OUTCOME = {
    "steps_to_goals": _steps,
    "step": _count,
    "examples": _count,
    "probed_examples": _count,
    "limits": _steps,
    "seconds": _seconds,
}


def _check_fields(entry: dict, fields: dict[str, Callable[[Any], bool]]) -> None:
    for name, holds in fields.items():
        if name not in entry:
            raise ValueError(f"{name} is missing")
        if not holds(entry[name]):
            raise ValueError(f"{name} is {entry[name]!r:.60}")


def check_header(header: dict) -> None:
    run = header["identity"].get("run")
    if not isinstance(run, dict):
        raise ValueError("identity.run is missing")
    positive = {"batch_size": _seconds, "learning_rate": _seconds, "seed": _count}
    _check_fields(run, positive)
    if not isinstance(header.get("commit"), str | None):
        raise ValueError(f"commit is {header['commit']!r:.60}")


def check_evaluation(entry: dict, before: dict | None, identity: dict) -> None:
    """`before`: the evaluation on the line before. `identity`: of the run, which says when it is evaluated."""
    _check_fields(entry, EVALUATION)
    _check_fields(entry, {name: _noise for name in NOISE if name in entry})
    step, batch_size = entry["step"], identity["run"]["batch_size"]
    if "trainer" in identity:
        spacing, last = identity["trainer"]["evaluation_spacing"], identity["max_steps"]
        expected = min(next_evaluation(before["step"], spacing), last) if before else 0
        if step != expected:
            raise ValueError(f"step is {step} where {expected} is evaluated")
    if "adaptive_batch" not in identity and entry["examples"] != step * batch_size:
        raise ValueError(f"examples are {entry['examples']}, of {step} steps of {batch_size}")
    for name in ("step", "examples"):
        if before and entry[name] <= before[name]:
            raise ValueError(f"{name} {entry[name]} does not follow {before[name]}")
    if before and entry["seconds"] < before["seconds"]:
        raise ValueError(f"seconds {entry['seconds']} do not follow {before['seconds']}")


def check_outcome(outcome: dict, last: dict | None) -> None:
    """`last`: the last evaluation."""
    _check_fields(outcome, {"status": lambda status: status in OUTCOMES})
    if outcome["status"] == "failed":
        return
    _check_fields(outcome, OUTCOME)
    if last is None or any(outcome[name] != last[name] for name in ("step", "examples")):
        raise ValueError("it is not where the last evaluation is")
    reached = [step for step in outcome["steps_to_goals"] if step is not None]
    in_order = reached == sorted(reached) == outcome["steps_to_goals"][: len(reached)]
    if not in_order or (reached and reached[-1] > outcome["step"]):
        raise ValueError(f"steps_to_goals are {outcome['steps_to_goals']}, of {outcome['step']} steps")
    if (outcome["status"] == "reached") > (len(reached) == len(outcome["steps_to_goals"])):
        raise ValueError("its status is reached, but a goal was not")


def _refuse(name: str) -> float:
    raise ValueError(f"it holds {name}")


def parsed(line: bytes) -> dict:
    entry = json.loads(line, parse_constant=_refuse)
    if not isinstance(entry, dict) or entry.get("kind") not in ("header", "evaluation", "outcome"):
        raise ValueError("not a line of a record")
    return entry
