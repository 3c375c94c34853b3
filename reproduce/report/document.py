"""What a report consists of, apart from how it is written: the Markdown and the HTML render the same blocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """A command to be copied as it stands."""

    text: str


@dataclass(frozen=True)
class Table:
    """Cells are text; numbers in them are already formatted. `folded` hides a long table behind its caption."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure by its path without suffix, below the folder of the report; .png and .svg exist there."""

    stem: Path
    description: str
    caption: str


Block = Heading | Paragraph | Bullets | Code | Table | Picture
