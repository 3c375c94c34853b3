"""Sections of the config as dataclasses whose fields say what they may hold: one place that tells what is wrong."""

import math
from dataclasses import MISSING, field, fields
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

SectionType = TypeVar("SectionType")


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the field and what it should be."""


def above(bound: float) -> Any:
    """A field whose number, or each of whose numbers, is above `bound`."""
    return field(metadata={"above": bound})


def least(bound: float, default: Any = MISSING) -> Any:
    """A field whose number, or each of whose numbers, is at least `bound`."""
    return field(default=default, metadata={"least": bound})


def one_of(*choices: str, default: Any = MISSING) -> Any:
    """A field with one of these words."""
    return field(default=default, metadata={"choices": choices})


def _number(value: Any, name: str, hint: type, above: float = -math.inf, least: float = -math.inf) -> float:
    """`value` as a finite number within bounds, whole if `hint` is int."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value <= above or value < least or (hint is int and value != int(value)):
        kind = "whole" if hint is int else "finite"
        bound = f" above {above:g}" if above > -math.inf else f" of at least {least:g}" if least > -math.inf else ""
        raise ConfigError(f"{name} must be a {kind} number{bound}, got {value!r}.")
    return hint(value)


def checked_value(value: Any, name: str, hint: Any, bounds: dict) -> Any:
    """`value` as the type `hint`, or a ConfigError that calls it `name`. `bounds`: above, least, or choices."""
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"{name} must be a list, such as {name}=[1,2], got {value!r}.")
        return tuple(checked_value(entry, f"{name}[{i}]", get_args(hint)[0], bounds) for i, entry in enumerate(value))
    if type(None) in get_args(hint):
        return None if value is None else checked_value(value, name, get_args(hint)[0], bounds)
    if hint in (int, float):
        return _number(value, name, hint, **bounds)
    choices = (True, False) if hint is bool else bounds.get("choices", ())
    if (choices and value not in choices) or not isinstance(value, hint):
        expected = " or ".join(str(choice).lower() for choice in choices) or "a word"
        raise ConfigError(f"{name} must be {expected}, got {value!r}.")
    return value


def section(config: DictConfig, name: str) -> dict:
    """The part of the config called `name` ("trainer", "grid.budget") as plain values; ConfigError without it."""
    try:
        part = OmegaConf.select(config, name)
        if isinstance(part, DictConfig):
            return OmegaConf.to_container(part, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"The config's section '{name}' cannot be resolved: {error}") from error
    raise ConfigError(
        f"The config has no section '{name}'. A task's file sets task, optimizer and grid, and begins with the "
        "line '# @package _global_' (see README, 'Add a task')."
    )


def parse(kind: type[SectionType], name: str, values: dict) -> SectionType:
    """The section called `name` as a `kind`, a dataclass whose fields say what they may hold.

    Raises:
        ConfigError: naming the field that is unknown, missing or wrong.
    """
    hints = get_type_hints(kind)
    for key in values:
        if key not in hints:
            raise ConfigError(f"{name}.{key} is no setting: {name} has {', '.join(hints)}.")
    checked = {}
    for entry in fields(kind):
        if entry.name in values:
            full_name = f"{name}.{entry.name}"
            checked[entry.name] = checked_value(values[entry.name], full_name, hints[entry.name], entry.metadata)
        elif entry.default is MISSING:
            raise ConfigError(f"{name}.{entry.name} is missing: {name} has {', '.join(hints)}.")
    return kind(**checked)
