"""Renders a document as one self-contained HTML file: style, script and figures are inside, nothing is fetched.

Figures are inline SVG, which a diff can read and which stays sharp in print.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape as escape_markup
from importlib import resources
from pathlib import Path

from reproduce.report.document import Block, Bullets, Code, Heading, Link, Paragraph, Picture, Table, Text

SCRIPTS = ("page.js", "tips.js")
SHORT_CELL = 32


def render_html(blocks: Sequence[Block], folder: Path) -> str:
    """The page; `folder` is where the pictures' stems start."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Report")
    assets = resources.files("reproduce.report")
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape_markup(title)}</title>",
            f"<style>\n{(assets / 'page.css').read_text(encoding='utf-8')}</style>",
            "</head>",
            "<body>",
            "<main>",
            *(_block(block, folder) for block in blocks),
            "</main>",
            *(f"<script>\n{(assets / name).read_text(encoding='utf-8')}</script>" for name in SCRIPTS),
            "</body>",
            "</html>",
            "",
        ]
    )


def escape(text: str) -> str:
    """Plain text as HTML, with the paper's symbols set as such: B_crit becomes B with a subscript."""
    return re.sub(r"\b([BSE])_(crit|simple|noise|min)\b", r"\1<sub>\2</sub>", escape_markup(text))


def _block(block: Block, folder: Path) -> str:
    match block:
        case Heading(level, text):
            return f'<h{level} id="{escape_markup(block.anchor)}">{escape(text)}</h{level}>'
        case Paragraph(text):
            return f"<p>{_text(text)}</p>"
        case Bullets(items):
            return _list(items)
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Picture(stem, description, caption):
            image = _inline_svg(folder, stem, description)
            return f"<figure>\n<div>{image}</div>\n<figcaption>{escape(caption)}</figcaption>\n</figure>"
        case Table():
            return _table(block)


def _text(text: Text) -> str:
    if isinstance(text, Link):
        return f'<a href="{escape_markup(text.target)}">{escape(text.text)}</a>'
    return escape(text)


def _list(items: Sequence[Text]) -> str:
    body = "<ul>\n" + "\n".join(f"<li>{_text(item)}</li>" for item in items) + "\n</ul>"
    # A list of nothing but links is there to find one's way.
    return f"<nav>{body}</nav>" if all(isinstance(item, Link) for item in items) else body


def _inline_svg(folder: Path, stem: Path, description: str) -> str:
    """The SVG element of a figure, with ids of its own: Matplotlib numbers them per file, and here many files meet."""
    svg = (folder / stem.with_name(f"{stem.name}.svg")).read_text(encoding="utf-8")
    svg = svg[svg.index("<svg") :].strip()  # what stands before is XML's, and has no place inside HTML
    prefix = re.sub(r"[^A-Za-z0-9]+", "-", stem.as_posix()) + "-"
    svg = re.sub(r'(\bid="|xlink:href="#|url\(#)', lambda match: match[0] + prefix, svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape_markup(description)}"', 1)


def _table(table: Table) -> str:
    header = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    rows = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in table.rows)
    caption = escape(table.caption)
    # The wrapper scrolls, so that a wide table does not make the page wide; it takes focus for keyboard scrolling.
    wrapper = f'<div class="table" tabindex="0" role="region" aria-label="{escape_markup(table.caption)}">'
    body = f"{wrapper}<table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>"
    if table.folded:
        return f"<details><summary>{caption}</summary>\n{body}\n</details>"
    return f'<p class="caption">{caption}</p>\n{body}'


def _cell(cell: Text) -> str:
    # A number and its interval stay on one line; only prose wraps.
    short = len(cell.text if isinstance(cell, Link) else cell) <= SHORT_CELL
    return f'<td class="short">{_text(cell)}</td>' if short else f"<td>{_text(cell)}</td>"
