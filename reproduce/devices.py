"""The devices of this machine, and runs beside each other that have GPUs of their own."""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

LOOK_AGAIN_SECONDS = 0.5


def devices_called(name: str) -> list[str]:
    """The devices that trainer.device names: "auto" is all GPUs where there are any."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())] if name == "cuda" else [name]


@contextmanager
def held(devices: Sequence[str], wanted: int) -> Iterator[list[str]]:
    """Holds as many of `devices` as are wanted, or all if there are fewer; waits while other runs have them.

    CPUs are not held. A hold is a lock in a file, which the system lets go of when the process dies, so that the runs
    of a sweep need not know of each other. Only runs of one user on one machine see each other's.
    """
    if not devices[0].startswith("cuda"):
        yield list(devices)
        return
    folder = Path(tempfile.gettempdir()) / f"critical-batch-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    wanted = min(wanted, len(devices))
    while True:
        with ExitStack() as locks:
            free = []
            for device in devices:
                if len(free) < wanted and _locked(folder / physical_name(device), locks):
                    free.append(device)
            if len(free) == wanted:
                yield free
                return
        time.sleep(LOOK_AGAIN_SECONDS)  # with none of them: two runs that wait for each other's rest never end


def physical_name(device: str) -> str:
    """What a device is called outside of CUDA_VISIBLE_DEVICES, which may differ between runs."""
    index = int(device.partition(":")[2])
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"gpu-{visible.split(',')[index].strip() if visible else index}"


def _locked(path: Path, locks: ExitStack) -> bool:
    file = locks.enter_context(open(path, "a"))  # noqa: SIM115 (held until the run ends)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
