"""States in which environments begin: up to 500 random steps into a game, so that they are not alike (App. A.4).

Made once for a game and kept beside the other data: a run of 512 environments would spend as long on its random steps
as on its training. Chains of random play are each cut at several random times, so that each state is some uniformly
drawn number of steps from a beginning.
"""

import io
import math
import pickle
from dataclasses import dataclass
from pathlib import Path

import ale_py
import numpy as np
from ale_py import ALEState

from tasks.atari.console import NO_OPS, RAM, Console
from tasks.data.cache import alone_in, progress_bar, write_whole
from tasks.task import TaskError

RANDOM_STEPS = 500
CUTS = 4  # of a chain of random play
FORMAT = 1


@dataclass(frozen=True)
class Starts:
    """Start states of one game, and mean and standard deviation of the RAM features during random play, (2 RAM,)."""

    states: tuple[ALEState, ...]
    mean: np.ndarray
    std: np.ndarray


def ram_features(ram: np.ndarray, previous: np.ndarray) -> np.ndarray:
    """The RAM and its change over the last step: (n, RAM) uint8 each; (n, 2 RAM) float32."""
    now = ram.astype(np.float32)
    return np.concatenate([now, now - previous], axis=-1)


def starts_path(game: str, count: int, folder: Path) -> Path:
    return folder / f"{game}-{count}-ale{ale_py.__version__}-v{FORMAT}.starts"


def prepare_starts(game: str, count: int, folder: Path) -> None:
    """Makes `count` start states of `game` unless they are there; half a minute for a thousand.

    Raises:
        TaskError: if the folder cannot be written.
    """
    path = starts_path(game, count, folder)
    if path.exists():
        return
    try:
        with alone_in(folder):
            if not path.exists():
                made = make_starts(game, count)
                buffer = io.BytesIO()
                pickle.dump((made.states, made.mean, made.std), buffer)
                write_whole(path, buffer.getvalue())
    except OSError as error:
        raise TaskError(
            f"Start states cannot be written to {folder}: {error.strerror or error}. Make room there or name another "
            "folder with task.data_dir."
        ) from error


def load_starts(game: str, count: int, folder: Path) -> Starts:
    """Raises TaskError unless `prepare_starts` has made them."""
    path = starts_path(game, count, folder)
    try:
        states, mean, std = pickle.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise TaskError(f"{path} is missing: Task.prepare() makes it.") from error
    except (OSError, EOFError, pickle.UnpicklingError, ValueError, TypeError) as error:
        raise TaskError(f"{path} cannot be read ({error}): delete it.") from error
    return Starts(tuple(states), mean, std)


def make_starts(game: str, count: int) -> Starts:
    """`count` states, the same each time."""
    console = Console(game)
    states: list[ALEState] = []
    sums, squares, steps = np.zeros(2 * RAM), np.zeros(2 * RAM), 0
    chains = math.ceil(count / CUTS)
    progress = progress_bar(chains, f"Start states of {game}", "chain")
    for chain in range(chains):
        rng = np.random.default_rng((chain, 0))
        console.begin(chain % NO_OPS)
        previous = console.ram()
        cuts = set(rng.choice(RANDOM_STEPS, CUTS, replace=False).tolist())
        for step in range(max(cuts) + 1):
            if console.play(int(rng.integers(len(console.actions)))).over:
                console.begin(int(rng.integers(NO_OPS)))
                previous = console.ram()
            ram = console.ram()
            features = ram_features(ram[None], previous[None])[0].astype(np.float64)
            sums, squares, steps, previous = sums + features, squares + features**2, steps + 1, ram
            if step in cuts:
                states.append(console.ale.cloneState())
        progress.update()
    progress.close()
    mean = sums / steps
    std = np.sqrt(np.maximum(squares / steps - mean**2, 0))
    return Starts(tuple(states[:count]), mean.astype(np.float32), std.astype(np.float32))
