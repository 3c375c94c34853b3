"""One look for every figure: palette, axes, bounds drawn as arrows, and files that are byte-equal when redrawn."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator
from matplotlib.transforms import Transform, offset_copy

from reproduce.report.estimates import Estimate
from reproduce.report.formatting import count, data_name
from reproduce.report.summaries import Summary
from reproduce.report.tips import add_tip, with_tips
from reproduce.results import write_whole

# Okabe and Ito 2008: eight colours that the common kinds of colour blindness tell apart.
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C8C00")
B_CRIT_COLOUR, B_SIMPLE_COLOUR, B_NOISE_COLOUR = OKABE_ITO[:3]
MUTED = "#8A8A8A"

_RC = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.3,
    "savefig.facecolor": "white",
    "svg.hashsalt": "reproduce.report",  # ids in an SVG are random without it
}
PNG_DPI = 150
AXIS_CHARACTERS = 46  # that fit side by side below the axes of a task's figure

Colour = str | tuple[float, float, float, float]


@contextmanager
def figure_style() -> Iterator[None]:
    """Matplotlib's settings for the suite's figures; nothing leaks into the caller's."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change committed figures
        matplotlib.rcParams.update(_RC)
        yield


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Writes stem.png and stem.svg, without dates or versions in them; the SVG has the figure's tips."""
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    pixels, drawing = io.BytesIO(), io.StringIO()
    with figure_style():
        figure.savefig(pixels, format="png", dpi=PNG_DPI, metadata={"Software": None})
        figure.set_layout_engine("none")  # found once, and the same in both files
        figure.savefig(drawing, format="svg", metadata={"Date": None, "Creator": None})
    write_whole(png, pixels.getvalue())
    write_whole(svg, with_tips(figure, drawing.getvalue()).encode())
    return [png, svg]


def task_figure(summary: Summary, what: str, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure with its heading: what it shows, of which task and scale, on which data."""
    figure = Figure(figsize=(6.4, 4.8) if panels == 1 else (10.4, 4.8), layout="constrained")
    heading = f"{what}: {summary.title}, {summary.scale} scale"
    width = 82 if panels == 1 else 140
    subheading = textwrap.fill(f"Data: {data_name(summary)}", width)
    figure.suptitle(f"{heading}\n{subheading}", x=0.01, ha="left", fontsize=9.5)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    return figure, list(axes)


def shades(colormap: str, quantity: int) -> list[Colour]:
    """Colours in order for ordered things (goals, batch sizes); the palest end, illegible on white, is left out."""
    scale = matplotlib.colormaps[colormap]
    return [scale(0.85 * index / max(quantity - 1, 1)) for index in range(quantity)]


def log_axis(ax: Axes, which: str) -> None:
    """Makes axis "x" or "y" logarithmic: labelled at powers of ten, and between them where those are too few."""
    axis = _set_log(ax, which)
    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low) if low > 0 else 1.0
    if decades > 3:
        subdivisions = (1.0,)
    elif decades > 1:
        subdivisions = (1.0, 2.0, 5.0)
    else:
        subdivisions = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=subdivisions, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def batch_size_axis(ax: Axes, batch_sizes: Sequence[float]) -> None:
    """A logarithmic x axis labelled at the batch sizes that were run, or every so many of them where they are many."""
    axis = _set_log(ax, "x")
    sizes = sorted(set(batch_sizes))
    width = sum(len(short_count(size)) + 2 for size in sizes)
    axis.set_major_locator(FixedLocator(sizes[:: math.ceil(width / AXIS_CHARACTERS) or 1]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))


def short_count(value: float) -> str:
    """Batch sizes on an axis: digits that matter, so 1,024 and not 1k; from 100,000 on, 131k."""
    return f"{value / 1000:,.0f}k" if value >= 1e5 else count(value)


def short_number(value: float) -> str:
    """Tick labels: 0.05, 20, 5k, 3M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def score_axis(ax: Axes, summary: Summary, which: str) -> None:
    """Scores on axis "x" or "y": logarithmic for errors and losses that fall a lot, in the order of training on x.

    Training runs from left to right on x also where the score falls.
    """
    goals = [goal.goal for goal in summary.goals]
    ax.set(**{f"{which}label": f"{summary.score} ({summary.score_unit})" if summary.score_unit else summary.score})
    if not summary.higher_is_better and min(goals) > 0 and max(goals) / min(goals) > 2:
        log_axis(ax, which)
    else:
        ax.locator_params(axis=which, nbins=6)
    if which == "x" and not summary.higher_is_better:
        ax.invert_xaxis()


def draw_estimate(
    ax: Axes, x: float, value: Estimate, colour: Colour, marker: str, shift: float = 0, tip: str = ""
) -> None:
    """A number with its interval, upright at x; a bound is hollow, with an arrow to where the number may be.

    `shift` moves it sideways by so many points (1/72 inch), for quantities that would cover each other; `tip` is what a
    reader sees who points at it.
    """
    place = offset_copy(ax.transData, ax.figure, x=shift, units="points")
    style = {"color": colour, "transform": place}
    bound = value.at_least if value.at_least is not None else value.at_most
    if value.measured:
        low = value.value if value.low is None else max(value.low, value.value / 100)
        high = value.value if value.high is None else value.high
        lines = [
            Line2D([x, x], [low, high], linewidth=1.1, **style),
            Line2D([x], [value.value], marker=marker, markersize=5, linestyle="none", **style),
        ]
    elif bound is not None:
        low = high = bound
        end = bound * (1.6 if value.at_least is not None else 1 / 1.6)
        draw_arrow(ax, (x, bound), (x, end), colour, place)
        lines = [Line2D([x], [bound], marker=marker, markersize=5, linestyle="none", markerfacecolor="white", **style)]
    else:
        return
    for line in lines:
        ax.add_artist(line)
    if tip:
        add_tip(ax, x, value.value if value.measured else bound, tip, place)
    # By hand: Matplotlib would work the shift into the limits, with the scale that the axes have before they are
    # logarithmic.
    ax.update_datalim([(x, low), (x, high)])
    ax.autoscale_view()


def draw_arrow(
    ax: Axes, start: tuple[float, float], tip: tuple[float, float], colour: Colour, place: Transform | None = None
) -> None:
    """An arrow in data coordinates, or in `place`; the axes make room for its tip."""
    arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8}
    ax.annotate("", xy=tip, xytext=start, xycoords=place or "data", textcoords=place or "data", arrowprops=arrow)
    ax.update_datalim([start, tip])
    ax.autoscale_view()


def _set_log(ax: Axes, which: str) -> Axis:
    ax.set(**{f"{which}scale": "log"})
    axis = ax.xaxis if which == "x" else ax.yaxis
    if not math.isfinite(axis.get_minpos()):  # no data: a logarithmic axis needs positive limits all the same
        ax.set(**{f"{which}lim": (1, 10)})
        if which == "y":
            ax.text(0.5, 0.5, "nothing measured", transform=ax.transAxes, ha="center", color=MUTED)
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    return axis
