"""What a report consists of, apart from how it is written: the Markdown and the HTML render the same blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Link:
    """Text that leads to a file, by its path below the folder of the report, or to "#" and a heading's anchor."""

    text: str
    target: str


Text = str | Link


@dataclass(frozen=True)
class Heading:
    level: int
    text: str

    @property
    def anchor(self) -> str:
        """The heading's name in links, made as GitHub makes it, so that links hold in report.md too."""
        return re.sub(r"[^\w\- ]", "", self.text.lower()).replace(" ", "-")

    def link(self, text: str = "") -> Link:
        """Leads here; the text is the heading's own if none is given."""
        return Link(text or self.text, f"#{self.anchor}")


@dataclass(frozen=True)
class Paragraph:
    text: Text


@dataclass(frozen=True)
class Bullets:
    items: tuple[Text, ...]


@dataclass(frozen=True)
class Code:
    """A command to be copied as it stands."""

    text: str


@dataclass(frozen=True)
class Table:
    """Cells are texts; numbers in them are already formatted. `folded` hides a long table behind its caption."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    folded: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure by its path without suffix, below the folder of the report; .png and .svg exist there."""

    stem: Path
    description: str
    caption: str


Block = Heading | Paragraph | Bullets | Code | Table | Picture
