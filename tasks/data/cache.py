"""Files that are made once and kept: written as a whole, by one process at a time."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Waits until no other process holds this folder; the system lets go of it when a process dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def progress_bar(total: int, title: str, unit: str) -> tqdm:
    """With an estimate of the time left; in a file, where each state of it is a line, only now and then."""
    interval = 0.5 if sys.stderr.isatty() else 30
    return tqdm(total=total, desc=title, unit=unit, unit_scale=total > 10_000, mininterval=interval)


def write_whole(path: Path, content: bytes) -> None:
    """As a whole or not at all."""
    partial = path.with_name(f"{path.name}.part")
    partial.write_bytes(content)
    os.replace(partial, path)
