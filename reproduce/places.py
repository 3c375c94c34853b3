"""Places on disk: one sweep at a time in a folder of records, results that can be written, paths as users see them."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reproduce.records import RecordError


@contextmanager
def only_sweep_in(folder: Path) -> Iterator[None]:
    """Holds the folder's lock, which the system lets go of when the process dies.

    Raises:
        RecordError: if another sweep runs there, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "a+")  # noqa: SIM115 (held until the sweep ends)
    except OSError as error:
        raise RecordError(
            f"{folder} cannot be written: {error.strerror}. Name another folder with outputs=FOLDER."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            raise RecordError(
                f"Another sweep is running in {folder} (process {lock.read().strip() or 'unknown'}). Wait for it, or "
                "name another folder with outputs=FOLDER."
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def check_writable(folder: Path) -> None:
    """Raises RecordError unless results can be written to `folder`: told before the sweep, not after it."""
    probe = folder / ".writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RecordError(
            f"Results cannot be written to {folder}: {error.strerror}. Make it writable, or name another folder "
            "with results=FOLDER."
        ) from error


def relative(path: Path) -> str:
    """`path` as seen from where the user stands, if it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
