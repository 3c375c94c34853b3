"""Records of runs: one append-only file of JSON lines a run, named by its content, never by time.

A file begins with a header (everything that determines the run), goes on with one line an evaluation, and ends with
the outcome. A line that a kill tore off at the end of the file is ignored; a damaged line elsewhere is an error.
"""

import fcntl
import hashlib
import json
import math
import os
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from reproduce.record_lines import check_evaluation, check_header, check_outcome, parsed


class RecordError(RuntimeError):
    """A record cannot be read or written; the message names the file and what to do."""


def identity_hash(identity: dict) -> str:
    """Eight hex digits of everything that determines a run."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def run_name(identity: dict) -> str:
    """File name of a run, without suffix: readable first, unique by the hash."""
    run = identity["run"]
    return f"b{run['batch_size']:g}_lr{run['learning_rate']:.4g}_seed{run['seed']}_{identity_hash(identity)}"


def to_json(value: Any) -> Any:
    """The same value with non-finite numbers as null: records hold numbers or null, never NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    return value


@dataclass(frozen=True)
class Record:
    """One run as read from its file.

    Attributes:
        header: the first line. evaluations: in order of steps. outcome: the last line, None while the run goes on.
    """

    path: Path
    header: dict
    evaluations: list[dict] = field(default_factory=list)
    outcome: dict | None = None

    @property
    def batch_size(self) -> float:
        return self.header["identity"]["run"]["batch_size"]

    @property
    def learning_rate(self) -> float:
        return self.header["identity"]["run"]["learning_rate"]

    @property
    def seed(self) -> int:
        return self.header["identity"]["run"]["seed"]

    @property
    def status(self) -> str | None:
        return self.outcome["status"] if self.outcome else None

    @property
    def last_step(self) -> int:
        return self.evaluations[-1]["step"] if self.evaluations else 0


def _damaged(path: Path, number: int, error: ValueError) -> RecordError:
    return RecordError(
        f"{path}, line {number} is damaged ({error}). Nothing was changed. Delete the file to run it again, "
        "or restore it from a backup."
    )


def complete_lines(path: Path) -> list[bytes]:
    """The lines that end in a newline; a torn last line is left out.

    Raises:
        RecordError: if the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}.") from error
    return content.split(b"\n")[:-1]


def read_record(path: Path, identity: dict | None = None) -> Record | None:
    """The record in `path`; None where not even its header is complete.

    Args:
        identity: of the run that the record must be of; None takes any.
    Raises:
        RecordError: if the file cannot be read, a line that is not the torn last one is damaged, or it holds a run
            of another identity.
    """
    entries: list[dict] = []
    for number, line in enumerate(complete_lines(path), 1):
        try:
            entries.append(parsed(line))
        except ValueError as error:
            raise _damaged(path, number, error) from error
    if not entries:
        return None
    header, *rest = entries
    if header["kind"] != "header" or not isinstance(header.get("identity"), dict):
        raise RecordError(f"{path} does not begin with a header: it is no record of this suite. Move it away.")
    if identity is not None and header["identity"] != identity:
        raise RecordError(
            f"{path} holds a run of another configuration under the same name. Move it away, or name another folder "
            "with outputs=FOLDER."
        )
    # A run that fails again before it trains leaves what it ended with before where it was.
    while len(rest) > 1 and rest[-2]["kind"] == "outcome" and rest[-1].get("status") == "failed":
        del rest[-2]
    outcome = rest[-1] if rest and rest[-1]["kind"] == "outcome" else None
    evaluations = rest[:-1] if outcome else rest
    if any(entry["kind"] != "evaluation" for entry in evaluations):
        raise RecordError(f"{path} has a header or an outcome in its middle. Delete the file to run it again.")
    _check(path, header, evaluations, outcome)
    return Record(path, header, evaluations, outcome)


def _check(path: Path, header: dict, evaluations: list[dict], outcome: dict | None) -> None:
    """Raises RecordError, naming the line, unless its lines are those of one run."""
    number = 1
    try:
        check_header(header)
        if "line_search" in header["identity"]:
            return  # its lines are of another kind
        for before, entry in pairwise([None, *evaluations]):
            number += 1
            check_evaluation(entry, before, header["identity"])
        if outcome:
            number += 1
            check_outcome(outcome, evaluations[-1] if evaluations else None)
    except ValueError as error:
        raise _damaged(path, number, error) from error


class RecordWriter:
    """Appends to one record, alone: a second writer is refused while the first lives.

    Args:
        folder: where records are.
        identity: everything that determines the run (JSON values); names the file.
        header: more to keep in the first line, such as versions; does not name the file.
    Raises:
        RecordError: if the folder cannot be written, another process writes the record, or the file under this
            name belongs to another configuration.
    """

    def __init__(self, folder: Path, identity: dict, header: dict) -> None:
        self.path = folder / f"{run_name(identity)}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (held open for the run)
        except OSError as error:
            raise RecordError(
                f"{self.path} cannot be written: {error.strerror}. Make the folder writable, or name another one "
                "with outputs=FOLDER."
            ) from error
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.file.close()
            raise RecordError(
                f"Another process is writing {self.path}: two runs of one configuration at once. Wait for it to end."
            ) from error
        try:
            self.existing = read_record(self.path, identity)
            if self.existing is None:
                self.truncate(0)
                self.append("header", identity=identity, **header)
        except BaseException:
            self.file.close()
            raise

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, kind: str, **entry: Any) -> int:
        """Adds a line; returns the file's length in bytes."""
        text = json.dumps(to_json({"kind": kind, **entry}), separators=(",", ":"), allow_nan=False)
        line = text.encode() + b"\n"
        try:
            while line:  # a disk that becomes full takes a part first
                line = line[self.file.write(line) :]
        except OSError as error:
            raise RecordError(
                f"{self.path} cannot be written: {error.strerror}. What was written before is kept; make room or "
                "mend the folder, and start the same command again."
            ) from error
        return self.file.tell()

    def truncate(self, size: int) -> None:
        """Cuts the file back to `size` bytes, where a checkpoint was taken."""
        self.file.truncate(size)
        self.file.seek(0, os.SEEK_END)

    def header_size(self) -> int:
        """Length of the header line in bytes."""
        return len(complete_lines(self.path)[0]) + 1

    def close(self) -> None:
        self.file.close()
