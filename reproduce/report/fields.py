"""Typed access to a JSON object, with errors that name the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reproduce.report.estimates import Estimate

# No quantity of a training run comes near these, and products and quotients of such numbers are numbers too.
LEAST, MOST = 1e-100, 1e100


class FieldError(ValueError):
    """A field that is missing or holds something else. The message names it, as in goals[2].points[0].steps."""


class Fields:
    """The fields of one JSON object; `where` is its path from the top, for error messages.

    The optional_... readers take a missing field and null alike.
    """

    def __init__(self, record: Mapping[str, Any], where: str = "") -> None:
        self.record = record
        self.where = where

    @classmethod
    def of(cls, record: object) -> Fields:
        """The fields of a whole file's record."""
        if not isinstance(record, Mapping):
            raise FieldError(f"should hold a JSON object, not {type(record).__name__}")
        return cls(record)

    def text(self, key: str) -> str:
        return self._required(key, self.optional_text(key))

    def optional_text(self, key: str) -> str:
        """The text, or "" where there is none."""
        value = self.record.get(key)
        if value is not None and not is_text(value):
            raise self._wrong(key, "text")
        return value or ""

    def texts(self, key: str) -> tuple[str, ...]:
        values = self._list(key)
        if not all(map(is_text, values)):
            raise self._wrong(key, "a list of texts")
        return tuple(values)

    def numbers(self, key: str) -> tuple[float, ...]:
        entries = {f"{key}[{index}]": value for index, value in enumerate(self._list(key))}
        return tuple(Fields(entries, self.where).number(name) for name in entries)

    def pairs(self, key: str) -> tuple[tuple[float, float], ...]:
        """A list of lists of two numbers."""
        entries = [Fields({"pair": pair}, f"{self._path(key)}[{i}]") for i, pair in enumerate(self._list(key))]
        pairs = tuple(entry.numbers("pair") for entry in entries)
        if not all(len(pair) == 2 for pair in pairs):
            raise self._wrong(key, "a list of pairs")
        return pairs

    def flag(self, key: str) -> bool:
        value = self.record.get(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def number(self, key: str) -> float:
        return self._required(key, self.optional_number(key))

    def optional_number(self, key: str) -> float | None:
        value = self.record.get(key)
        if value is None:
            return None
        if not is_number(value):
            raise self._wrong(key, "a finite number or null")
        return value

    def positive(self, key: str) -> float:
        return self._required(key, self.optional_positive(key))

    def optional_positive(self, key: str) -> float | None:
        value = self.optional_number(key)
        if value is not None and value <= 0:
            raise self._wrong(key, "above 0")
        return value

    def optional_not_negative(self, key: str) -> float | None:
        value = self.optional_number(key)
        if value is not None and value < 0:
            raise self._wrong(key, "at least 0")
        return value

    def estimate(self, name: str) -> Estimate:
        """A number with its interval: `name`, `name`_low and `name`_high, each of which may be missing."""
        value = self.optional_positive(name)
        low, high = self.optional_number(f"{name}_low"), self.optional_number(f"{name}_high")
        if value is None and low is not None and low <= 0:
            low = None  # these quantities are positive, so "at least 0" says nothing
        if value is None and low is None and high is not None and high <= 0:
            raise self._wrong(f"{name}_high", "above 0")
        if None not in (low, high) and low > high:
            raise self._wrong(f"{name}_low", f"at most {self._path(name)}_high")
        return Estimate(value, low, high)

    def count(self, key: str) -> int | None:
        """How many there are."""
        quantity = self.optional_not_negative(key)
        if quantity is not None and quantity != int(quantity):
            raise self._wrong(key, "a whole number")
        return quantity

    def required_count(self, key: str) -> int:
        return int(self._required(key, self.count(key)))

    def fields(self, key: str) -> Fields:
        return self._required(key, self.optional_fields(key))

    def optional_fields(self, key: str) -> Fields | None:
        value = self.record.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(key, "an object")
        return Fields(value, self._path(key))

    def list_of_fields(self, key: str) -> list[Fields]:
        values = self._list(key)
        if not all(isinstance(value, Mapping) for value in values):
            raise self._wrong(key, "a list of objects")
        return [Fields(value, f"{self._path(key)}[{index}]") for index, value in enumerate(values)]

    def pair(self, key: str, read: Callable[[object], Any]) -> tuple[Any, Any]:
        """Two values, each through `read`, which raises ValueError."""
        values = self._list(key)
        if len(values) != 2:
            raise self._wrong(key, "a list of two")
        try:
            return read(_numbers_only(values[0])), read(_numbers_only(values[1]))
        except ValueError as error:
            raise FieldError(f"{self._path(key)}: {error}") from error

    def _list(self, key: str) -> list:
        value = self.record.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise self._wrong(key, "a list")
        return list(value)

    def _required(self, key: str, value: Any) -> Any:
        if value is None or value == "":
            raise FieldError(f"{self._path(key)} is missing")
        return value

    def _path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def _wrong(self, key: str, expected: str) -> FieldError:
        found = "missing" if key not in self.record else f"{self.record[key]!r:.60}"
        return FieldError(f"{self._path(key)} should be {expected}, but is {found}")


def is_number(value: object) -> bool:
    """True for a number that can be reckoned with. bool is an int in Python, and json reads 1e999 as infinity."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and (value == 0 or LEAST <= abs(value) <= MOST)


def is_text(value: object) -> bool:
    """True for text that can be written to a file: json reads half a surrogate pair as text too."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _numbers_only(value: object) -> object:
    """`value`; ValueError for a number in it that is none."""
    entries = value if isinstance(value, list) else value.values() if isinstance(value, Mapping) else [value]
    for entry in entries:
        if isinstance(entry, int | float) and not is_number(entry):
            raise ValueError(f"{entry!r:.60} is not a number")
    return value
