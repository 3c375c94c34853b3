"""Checkpoints of a run in progress, beside its record; removed when the run ends."""

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from reproduce.trainer import Trainer


def checkpoint_path(record: Path) -> Path:
    return record.with_suffix(".checkpoint")


def save_checkpoint(trainer: "Trainer") -> None:
    """Writes the state of model, optimiser, samplers and counters, atomically. Collective over ranks.

    Samplers may differ between ranks (environments), so each rank's state is gathered to the first.
    """
    sampler_states = [trainer.sampler.state_dict()]
    if trainer.ranks.size > 1:
        box = [None] * trainer.ranks.size if trainer.ranks.is_first else None
        dist.gather_object(sampler_states[0], box)
        sampler_states = box
    if trainer.writer is None:
        return
    path = checkpoint_path(trainer.writer.path)
    state = {
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "samplers": sampler_states,
        "probe_sampler": trainer.probe_sampler.state_dict(),
        "step": trainer.step,
        "seconds": trainer.seconds,
        "probed": trainer.probed,
        "evaluations": trainer.evaluations,
        "record_bytes": trainer.writer.file.tell(),
    }
    temporary = path.with_suffix(".partial")
    torch.save(state, temporary)
    os.replace(temporary, path)


def load_checkpoint(trainer: "Trainer") -> dict | None:
    """The last checkpoint, with the record cut back to it; None, with the record cut back to its header, without one.

    On the first rank only: the others get the state from it. A checkpoint that cannot be read is as good as none.
    """
    writer = trainer.writer
    path = checkpoint_path(writer.path)
    state = None
    if path.exists():
        try:
            state = torch.load(path, map_location="cpu", weights_only=False)
        except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
            state = None
    size = writer.path.stat().st_size
    if state is not None and state["record_bytes"] <= size:
        writer.truncate(state["record_bytes"])
        return state
    writer.truncate(writer.header_size())
    return None


def remove_checkpoint(record: Path) -> None:
    checkpoint_path(record).unlink(missing_ok=True)
    checkpoint_path(record).with_suffix(".partial").unlink(missing_ok=True)
