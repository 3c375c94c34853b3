"""How files of results/ are written: numbers rounded, files whole or not at all."""

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from reproduce.records import to_json

SIGNIFICANT_DIGITS = 6


def rounded(value: Any) -> Any:
    """The value with its numbers at six significant digits, so that files differ only where results do."""
    value = to_json(value)
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return [rounded(entry) for entry in value] if isinstance(value, list) else value


def write_json(path: Path, value: Any) -> None:
    """`value`, rounded, as indented JSON without NaN."""
    _write(path, json.dumps(rounded(value), indent=2, allow_nan=False) + "\n")


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[dict]) -> None:
    """Rows with rounded numbers; what is None or not finite is left empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: rounded(row[key]) for key in columns} for row in rows)
    _write(path, text.getvalue())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(path.suffix + ".partial")
    temporary.write_text(text)
    os.replace(temporary, path)
