"""How files of results/ are written: numbers rounded, files whole or not at all."""

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from reproduce.records import RecordError, to_json

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
    write_whole(path, (json.dumps(rounded(value), indent=2, allow_nan=False) + "\n").encode())


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[dict]) -> None:
    """Rows with rounded numbers; what is None or not finite is left empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: rounded(row[key]) for key in columns} for row in rows)
    write_whole(path, text.getvalue().encode())


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file such that at every moment it is as before or as it shall be.

    Raises:
        RecordError: if it cannot be written.
    """
    temporary = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise RecordError(
            f"{path} cannot be written: {error.strerror}. It is as it was before, and all runs are kept: make room or "
            "mend the folder, and start the same command again."
        ) from error
