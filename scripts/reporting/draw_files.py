"""Charts as PNG and SVG files, with matplotlib."""

import os

import matplotlib
import numpy

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402
import matplotlib.ticker as ticker  # noqa: E402

from .chart import units  # noqa: E402

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^", "cross": "X"}
LOOK = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
        "axes.titlesize": 8, "lines.linewidth": 1.2, "lines.markersize": 4, "legend.frameon": False, "legend.fontsize": 7.5,
        "legend.handlelength": 2.6, "legend.columnspacing": 1.2,
        "svg.hashsalt": "bov", "axes.formatter.limits": (-3, 6), "axes.formatter.use_mathtext": True}


def save(chart, folder, formats=("png", "svg")):
    """Writes <folder>/<chart.name>.<format>, each whole or not at all; returns the paths."""
    paths = []
    with matplotlib.rc_context(LOOK):
        figure = draw(chart)
        # The layout is found once: each format would move it by a rounding error.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for ending in formats:
            path = folder / f"{chart.name}.{ending}"
            part = path.with_name(f".{path.name}.part")
            # Without a date, equal records give equal files.
            figure.savefig(part, format=ending, dpi=200, metadata={"Date": None} if ending == "svg" else None)
            os.replace(part, path)
            paths.append(path)
        pyplot.close(figure)
    return paths


def draw(chart):
    names = chart.names()
    width = 3.3 * chart.columns if chart.columns > 1 else 6.0
    legends = [{series.name: series for series in panel.series} for panel in chart.panels] if chart.legend_each else [names]
    columns = min(legend_columns(legend, width / (chart.columns if chart.legend_each else 1)) for legend in legends)
    lines = max(-(-len(legend) // columns) if len(legend) > 1 else 0 for legend in legends)
    named_places = any(panel.x_names for panel in chart.panels)
    figure, axes = pyplot.subplots(chart.rows, chart.columns, squeeze=False, layout="constrained", sharey=chart.shared_y,
                                   figsize=(width, chart.rows * (2.9 + 0.16 * lines + 1.3 * named_places)))
    for axis in axes.flat[len(chart.panels):]:
        axis.remove()
    for axis, panel in zip(axes.flat, chart.panels):
        draw_panel(axis, panel)
    if chart.legend_each:
        for axis, legend in zip(axes.flat, legends):
            axis.legend(handles=handles(legend), loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns)
    elif len(names) > 1:
        figure.legend(handles=handles(names), loc="outside lower center", ncols=columns)
    return figure


def legend_columns(names, width):
    """How many entries fit side by side into `width` inches."""
    return max(1, min(len(names), int(width / (0.058 * max(map(len, names), default=1) + 0.5))))


def draw_panel(axis, panel):
    for series in panel.series:
        draw_series(axis, series, min(0.15, 0.9 / len(panel.series)) if panel.bands else 0)
    if panel.level is not None:
        axis.axhline(panel.level, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axis.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.x_log:
        axis.set_xscale("log")
        axis.xaxis.set_minor_locator(ticker.NullLocator())
    elif not panel.x_names:
        axis.xaxis.set_major_locator(ticker.MaxNLocator(5))
    if panel.x_ticks:
        axis.xaxis.set_major_locator(ticker.FixedLocator(panel.x_ticks))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: units(value)))
    if panel.y_log:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.yaxis.set_minor_locator(ticker.NullLocator())
    if panel.y_signed_log:
        axis.set_yscale("asinh", linear_width=1.0)
        axis.yaxis.set_major_locator(ticker.FixedLocator([-30, -10, -3, -1, 0, 1, 3, 10, 30]))
        axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.yaxis.set_minor_locator(ticker.NullLocator())
        shown = numpy.arcsinh(numpy.concatenate([[0.0], *(part for series in panel.series for part in (series.y, series.low, series.high)
                                                 if part is not None)]))
        margin = 0.07 * numpy.ptp(shown)
        axis.set_ylim(numpy.sinh(shown.min() - margin), numpy.sinh(shown.max() + margin))
    if panel.x_names:
        axis.set_xticks(range(len(panel.x_names)), panel.x_names, rotation=40, ha="right", rotation_mode="anchor")
        axis.set_xlim(-0.5, len(panel.x_names) - 0.5)


def draw_series(axis, series, band_opacity):
    look = line_style(series)
    if series.low is None or not (series.points or band_opacity):
        axis.plot(series.x, series.y, **look)
    elif series.points:
        spread = numpy.stack([series.y - series.low, series.high - series.y])
        axis.errorbar(series.x, series.y, yerr=spread, capsize=2, elinewidth=0.9, **look)
    else:
        axis.plot(series.x, series.y, **look)
        axis.fill_between(series.x, series.low, series.high, color=series.style.colour, alpha=band_opacity, linewidth=0)


def line_style(series):
    look = series.style
    return {"color": look.colour, "linestyle": DASHES[look.dash] if series.line else "none",
            "marker": MARKERS[look.marker] if series.points else "none",
            "markerfacecolor": look.colour if look.filled else "white"}


def handles(legend):
    return [matplotlib.lines.Line2D([], [], label=name, **line_style(series)) for name, series in legend.items()]
