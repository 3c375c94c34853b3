"""Text as a language model is trained on it: independent texts (paragraphs, sentences) in shards."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TextShard:
    """Part of a corpus, small enough to be held in memory.

    Attributes:
        name: as messages call it. read: its texts; raises TaskError on a damaged file. size: bytes, for progress.
    """

    name: str
    read: Callable[[], list[str]]
    size: int


@dataclass(frozen=True)
class Corpus:
    """Attributes:
    name: as results show it. key: for file names; changes whenever a text does.
    train, heldout: shards. Texts are in random order already, so that any shard is a fair sample.
    """

    name: str
    key: str
    train: tuple[TextShard, ...]
    heldout: tuple[TextShard, ...]
