"""Ranks: who we are, starting several on one machine, joining those that a launcher started."""

import gc
import logging
import multiprocessing
import os
import signal
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from reproduce.devices import devices_called, held


class RankError(RuntimeError):
    """One of the ranks failed; the message is that of the first to fail."""


class RankKilled(RankError):
    """One of the ranks was killed (SIGKILL): nothing is wrong with the run, and it can go on from its checkpoint."""


@dataclass(frozen=True)
class Ranks:
    """This process among `size` that train together."""

    rank: int
    size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Rank 0 alone writes."""
        return self.rank == 0


def launched_from_outside() -> bool:
    """True under torchrun, or another launcher that sets its variables (Slurm's srun through torchrun)."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def warn_of_kept_addresses() -> None:
    """Where torchrun restarts ranks with one store for all restarts, new ones may read the addresses of killed ones."""
    restarts = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))
    if restarts and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and os.environ["RANK"] == "0":
        warnings.warn(
            "torchrun keeps the addresses of killed ranks, and a restart that meets one fails: set "
            f"TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the environment of torchrun --max-restarts={restarts}.",
            stacklevel=2,
        )


def with_process_group(function: Callable[..., Any], devices: Sequence[str], *arguments: Any) -> Any:
    """Joins the process group that the environment describes, calls function(ranks, *arguments), leaves it.

    Nothing may hold the group afterwards: its threads end with it, and one of gloo's that lets go of a tensor while the
    interpreter ends aborts the process. torch._dynamo, which DDP imports, takes the group there is for default
    arguments, so it is imported before there is one.
    """
    import torch._dynamo  # seconds, which one process without ranks need not wait for

    on = torch.device(devices[int(os.environ.get("LOCAL_RANK", "0")) % len(devices)])
    dist.init_process_group("nccl" if on.type == "cuda" else "gloo")
    try:
        return function(Ranks(dist.get_rank(), dist.get_world_size(), on), *arguments)
    finally:
        gc.collect()
        dist.destroy_process_group()


def run_on_ranks(function: Callable[..., Any], ranks: int, device: str, *arguments: Any) -> Any:
    """Calls function(Ranks, *arguments) on every rank and returns what the first one returned.

    One rank runs in this process without a process group. Under torchrun this process joins the ranks that are
    there. Otherwise `ranks` processes are started here, at a port that the rendezvous finds free.

    Args:
        device: as trainer.device; "auto" is a GPU for each rank where there are any, of those that no other run holds.
    Raises:
        RankError: if one of the processes fails. RankKilled: if one of them is killed.
    """
    devices = devices_called(device)
    if launched_from_outside():
        warn_of_kept_addresses()
        return with_process_group(function, devices, *arguments)
    with held(devices, ranks) as devices:
        if ranks == 1:
            return function(Ranks(0, 1, torch.device(devices[0])), *arguments)
        return started_here(function, ranks, devices, *arguments)


def started_here(function: Callable[..., Any], ranks: int, devices: Sequence[str], *arguments: Any) -> Any:
    """As run_on_ranks, on processes of its own."""
    from torch.distributed.elastic.multiprocessing.api import SignalException  # a second of imports
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # A worker of joblib names a start method of its own, which the interpreter of a new rank does not know.
    multiprocessing.set_start_method("spawn", force=True)
    # What the launcher would log of a failed rank, with its traceback, is in the error raised below.
    logging.getLogger("torch.distributed.elastic.multiprocessing.api").setLevel(logging.CRITICAL)
    config = LaunchConfig(
        run_id=uuid.uuid4().hex,
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.1,
    )
    try:
        return elastic_launch(config, with_process_group)(function, devices, *arguments)[0]
    except ChildFailedError as error:
        # The others fail too when one is killed, and may be seen first.
        killed = [failure for failure in error.failures.values() if failure.exitcode == -signal.SIGKILL]
        failure = killed[0] if killed else error.get_first_failure()[1]
        told = failure.message
        text = told["message"] if isinstance(told, dict) else told
        raise (RankKilled if killed else RankError)(f"Rank {failure.local_rank} failed: {text}") from error
    except SignalException as error:  # an Exception to the launcher, which to us is the user's interrupt
        raise KeyboardInterrupt from error


def from_first_rank(value: Any, ranks: Ranks) -> Any:
    """The first rank's value, on every rank, so that all take the same decision."""
    if ranks.size == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]
