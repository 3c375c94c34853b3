"""What a figure says about a mark when a reader points at it; it is kept in the figure's SVG.

In the SVG each tip is a circle without paint over its mark, titled with the text: browsers show that by themselves, and
page.js at once. Nothing that is seen changes, neither there nor in the PNG.
"""

from __future__ import annotations

from html import escape

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Transform

POINTS_PER_INCH = 72  # the unit of Matplotlib's SVG
RADIUS = 6  # points: a little more than the largest mark's


class Tip(Artist):
    """Text for one place in the axes; draws nothing."""

    def __init__(self, x: float, y: float, text: str) -> None:
        super().__init__()
        self.set_in_layout(False)
        self.place = (x, y)
        self.text = text


def add_tip(ax: Axes, x: float, y: float, text: str, place: Transform | None = None) -> None:
    """Shows `text`, of one or more lines, at a mark in data coordinates, or in `place`."""
    tip = Tip(x, y, text)
    if place is not None:
        tip.set_transform(place)
    ax.add_artist(tip)


def with_tips(figure: Figure, svg: str) -> str:
    """The figure's SVG with its tips in the order in which they were added; unchanged without any.

    The figure has to be laid out as in the SVG.
    """
    tips = figure.findobj(Tip)
    if not tips:
        return svg
    group = "\n".join(['<g class="tips" fill="none" pointer-events="all">', *map(_circle, tips), "</g>"])
    body, _ = svg.rsplit("</svg>", 1)
    return f"{body}{group}\n</svg>\n"


def _circle(tip: Tip) -> str:
    pixels = tip.get_transform().transform(tip.place)
    x, y = pixels * POINTS_PER_INCH / tip.figure.dpi
    height = tip.figure.get_figheight() * POINTS_PER_INCH  # an SVG's y runs downwards
    title = f"<title>{escape(tip.text)}</title>"
    return f'<circle class="tip" cx="{x:.2f}" cy="{height - y:.2f}" r="{RADIUS}">{title}</circle>'
