"""Renders a document as Markdown, one line per table row and unpadded, so that a diff shows changed numbers only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reproduce.report.document import Block, Bullets, Code, Heading, Link, Paragraph, Picture, Table, Text


def render_markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(_block(block) for block in blocks) + "\n"


def escape(text: str) -> str:
    """Plain text as Markdown that shows it unchanged.

    Only what would act is escaped, so that the file also reads well as it stands: an underscore inside a word and
    brackets that begin no link are left alone.
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    text = re.sub(r"([\\`*|])", r"\\\1", text).replace("](", "]\\(")
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    return " ".join(text.split())


def _block(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {escape(text)}"
        case Paragraph(text):
            return _text(text)
        case Bullets(items):
            return "\n".join(f"- {_text(item)}" for item in items)
        case Code(text):
            return "\n".join(f"    {line}" for line in text.splitlines())
        case Picture(stem, description, caption):
            return f"![{escape(description)}]({stem.as_posix()}.png)\n\n{escape(caption)}"
        case Table():
            return _table(block)


def _text(text: Text) -> str:
    return f"[{escape(text.text)}]({text.target})" if isinstance(text, Link) else escape(text)


def _table(table: Table) -> str:
    lines = [_row(table.header), "|" + " --- |" * len(table.header), *(_row(row) for row in table.rows)]
    body = "\n".join(lines)
    caption = escape(table.caption)
    if table.folded:
        return f"<details><summary>{caption}</summary>\n\n{body}\n\n</details>"
    return f"**{caption}**\n\n{body}"


def _row(cells: Sequence[Text]) -> str:
    return "| " + " | ".join(_text(cell) for cell in cells) + " |"
