"""Checkpoints of a run in progress, beside its record; removed when the run ends."""

import os
import pickle
from pathlib import Path

import torch

from reproduce.records import RecordError


def checkpoint_path(record: Path) -> Path:
    return record.with_suffix(".checkpoint")


def save_checkpoint(record: Path, state: dict) -> None:
    """Writes `state` beside the record: at every moment there is the last checkpoint or this one.

    Raises:
        RecordError: if it cannot be written.
    """
    path = checkpoint_path(record)
    temporary = path.with_suffix(".partial")
    try:
        torch.save(state, temporary)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:  # torch's own writer has no OSError
        temporary.unlink(missing_ok=True)
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise RecordError(
            f"{path} cannot be written: {reason}. The last checkpoint is kept: make room or mend the folder, and start "
            "the same command again."
        ) from error


def load_checkpoint(record: Path) -> dict | None:
    """The state last saved, with its tensors on the CPU; None if there is none, or it cannot be read."""
    try:
        # Written by this suite, beside its own records; it holds samplers' states, which may be any object.
        return torch.load(checkpoint_path(record), map_location="cpu", weights_only=False)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
        return None


def remove_checkpoint(record: Path) -> None:
    checkpoint_path(record).unlink(missing_ok=True)
    checkpoint_path(record).with_suffix(".partial").unlink(missing_ok=True)
