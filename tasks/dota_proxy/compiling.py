"""Compilation by numba, paid once: kept on disk until any module of this package changes."""

import hashlib
from collections.abc import Callable
from pathlib import Path

try:
    from numba import njit
except ImportError as error:
    raise ImportError("The backend 'numba' needs numba: pip install numba, or choose backend='torch'.") from error

# Without error_model="numpy" every // checks for 0; without nogil other threads wait.
OPTIONS = {"error_model": "numpy", "nogil": True}


def sources_digest(folder: Path) -> str:
    """A hash of the text of all modules in `folder`."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


SOURCES = sources_digest(Path(__file__).parent)


def inlined(function: Callable) -> Callable:
    """A part of a kernel. LLVM inlines it: calls would copy the shape and strides of every array, half of all time.

    Not numba's inline="always", which rewrites the caller's source instead and compiles for minutes.
    """
    return njit(forceinline=True, **OPTIONS)(function)


def kernel(function: Callable) -> Callable:
    """A loop over games that Python calls, compiled and kept on disk.

    numba's cache looks at the file that a function stands in, and at no other: after a change of a rule's constant it
    would go on playing by the old rules. So the name under which it keeps a kernel has a hash of the whole package.
    """
    function.__qualname__ += f"_{SOURCES}"
    try:
        return njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder to write to, neither beside the module nor in the user's home
        return njit(**OPTIONS)(function)
