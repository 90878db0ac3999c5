"""Charts as pictures. The colors differ in brightness too, and lines and bars in their pattern, so prints stay readable."""

import textwrap
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.tables.records import Record
from bench.tables.table import Chart

COLORS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000", "#999999")
"""Okabe and Ito's, which color-blind readers tell apart."""

LINES: Final = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
HATCHES: Final = ("", "//", "..", "\\\\", "xx", "--", "++", "oo")
MARKERS: Final = "osD^vPX*"

FEW: Final = 12
"""Points of a line up to which each has a mark, and its interval as a bar. Beyond, the interval is a band."""

LABELED: Final = 18
"""Bars up to which each shows its number."""

NEAR: Final = 0.7
"""Of the largest bar: if the smallest is above it, marks replace bars, which would all look alike."""

LETTERS: Final = 96
"""That fit below the axis, side by side. Longer places are broken into lines."""

SHORTEST: Final = 8
"""Letters of a line below which places are written at an angle instead."""

SETTINGS: Final[dict[Any, Any]] = {
    "svg.hashsalt": "bench",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.6,
}


def draw(record: Record, folder: Path, kind: str = "svg") -> list[str]:
    """A file for each chart of the table; their names."""
    count = len(record.table.charts)
    names = [f"{record.name}{f'-{turn}' if count > 1 else ''}.{kind}" for turn in range(1, count + 1)]
    for name, chart in zip(names, record.table.charts, strict=True):
        with mpl.rc_context(SETTINGS):
            _draw(chart, folder / name)
    return names


def _draw(chart: Chart, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    if any(isinstance(x, str) for series in chart.series for x in series.x):
        _bars(axes, chart)
    else:
        _lines(axes, chart)
    axes.set(xlabel=chart.x, ylabel=chart.y)
    if len(chart.series) > 1:
        figure.legend(loc="outside upper center", ncols=min(4, len(chart.series)), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def _lines(axes: Axes, chart: Chart) -> None:
    for turn, series in enumerate(chart.series):
        x, y = [float(place) for place in series.x], list(series.y)
        look: dict[str, Any] = {
            "color": COLORS[turn % len(COLORS)],
            "ls": LINES[turn % len(LINES)],
            "lw": 1.6,
            "label": series.name,
        }
        few = len(x) <= FEW
        if few:
            look |= {"marker": MARKERS[turn % len(MARKERS)], "ms": 4.5}
        if series.error and few:
            axes.errorbar(x, y, list(series.error), capsize=3, **look)
            continue
        axes.plot(x, y, **look)
        if series.error:
            low, high = zip(
                *((at - by, at + by) for at, by in zip(y, series.error, strict=True)), strict=True
            )
            axes.fill_between(x, low, high, color=look["color"], alpha=0.15, lw=0)
    values = [value for series in chart.series for value in series.y]
    if values and 0 <= min(values) < max(values) / 2:
        axes.set_ylim(bottom=0)


def _bars(axes: Axes, chart: Chart) -> None:
    places = list(dict.fromkeys(str(x) for series in chart.series for x in series.x))
    values = [value for series in chart.series for value in series.y]
    near = len(values) > LABELED and min(values) > NEAR * max(values)
    width = 0.8 / len(chart.series)
    for turn, series in enumerate(chart.series):
        offset = (turn - (len(chart.series) - 1) / 2) * width
        x, error = [places.index(str(place)) + offset for place in series.x], list(series.error) or None
        look: dict[str, Any] = {"color": COLORS[turn % len(COLORS)], "label": series.name, "capsize": 3}
        if near:
            axes.errorbar(x, series.y, error, ls="", marker=MARKERS[turn % len(MARKERS)], ms=5, **look)
            continue
        look |= {"hatch": HATCHES[turn % len(HATCHES)], "edgecolor": "white", "lw": 0}
        bars = axes.bar(x, series.y, width * 0.92, yerr=error, **look)
        if len(values) <= LABELED:
            axes.bar_label(bars, [_short(value) for value in series.y], padding=2, fontsize=8)
    fit = LETTERS // len(places)
    if fit < SHORTEST:
        axes.set_xticks(range(len(places)), places, rotation=30, ha="right")
    else:
        axes.set_xticks(range(len(places)), [textwrap.fill(place, fit) for place in places])
    axes.grid(visible=near, axis="x")


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
