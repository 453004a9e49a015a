"""Charts as plotly figures for the page."""

import json

import numpy
from plotly import graph_objects, subplots

from .chart import units

DASHES = {"solid": "solid", "dash": "dash", "dot": "dot", "dashdot": "dashdot"}
MARKERS = {"circle": "circle", "square": "square", "diamond": "diamond", "triangle": "triangle-up", "cross": "x"}
SIGNED_LOG_TICKS = [-30, -10, -3, -1, 0, 1, 3, 10, 30]


def figure_json(chart):
    """The figure as plotly.js takes it: {"data": [...], "layout": {...}}."""
    return json.loads(figure(chart).to_json())


def figure(chart):
    result = subplots.make_subplots(rows=chart.rows, cols=chart.columns, subplot_titles=[panel.title for panel in chart.panels],
                                    horizontal_spacing=0.24 / chart.columns, vertical_spacing=0.2 / chart.rows,
                                    shared_yaxes="all" if chart.shared_y else False)
    in_legend = set()
    for place, panel in enumerate(chart.panels):
        cell = {"row": place // chart.columns + 1, "col": place % chart.columns + 1}
        for number, series in enumerate(panel.series):
            heading = panel.title if chart.legend_each and number == 0 else None
            for trace in traces(series, panel, series.name not in in_legend, heading):
                result.add_trace(trace, **cell)
            in_legend.add(series.name)
        set_axes(result, panel, cell)
    named_places = any(panel.x_names for panel in chart.panels)
    left = 150 if named_places else 70  # slanted names reach to the left of their place
    width = max((len(name) for name in chart.names()), default=0)
    result.update_layout(template="plotly_white", height=max(chart.rows * (460 + 120 * named_places), 200 + 22 * len(in_legend)), margin={"l": left, "r": 20, "t": 60, "b": 60},
                         font={"size": 13, "color": "#111"}, hovermode="closest", showlegend=len(in_legend) > 1,
                         legend={"font": {"size": 11}, "tracegroupgap": 0, "entrywidth": 7.2 * width, "groupclick": "togglegroup"})
    if chart.log_switch:
        result.update_layout(updatemenus=list(log_switches(len(chart.panels))), margin={"t": 100})
    return result


def traces(series, panel, in_legend, heading):
    place = numpy.arcsinh if panel.y_signed_log else numpy.asarray
    y = place(series.y)
    shared = {"name": series.name, "legendgroup": series.name, "meta": {"row": series.row, "seed": series.seed}}
    look = series.style
    if series.low is not None and panel.bands and not series.points:
        yield graph_objects.Scatter(
            x=numpy.concatenate([series.x, series.x[::-1]]), y=numpy.concatenate([place(series.high), place(series.low)[::-1]]),
            fill="toself", fillcolor=translucent(look.colour), line={"width": 0}, mode="lines", hoverinfo="skip", showlegend=False,
            **shared)
    bars = series.low is not None and series.points
    mode = "+".join(part for part, used in (("lines", series.line), ("markers", series.points)) if used)
    seed = "" if series.seed is None else f", seed {series.seed}"
    yield graph_objects.Scatter(
        x=series.x, y=y, mode=mode, showlegend=in_legend, legendgrouptitle={"text": heading},
        customdata=numpy.stack([series.y] + ([series.low, series.high] if series.low is not None else []), axis=-1),
        line={"color": look.colour, "dash": DASHES[look.dash], "width": 1.6},
        marker={"symbol": MARKERS[look.marker] + ("" if look.filled else "-open"), "size": 8, "color": look.colour},
        error_y={"type": "data", "symmetric": False, "array": place(series.high) - y, "arrayminus": y - place(series.low),
                 "thickness": 1.2, "width": 4} if bars else None,
        hovertemplate=series.name + seed + "<br>%{x}<br>%{customdata[0]:.5g}"
        + ("<br>%{customdata[1]:.5g} to %{customdata[2]:.5g}" if series.low is not None else "") + "<extra></extra>",
        **shared)


def translucent(colour):
    red, green, blue = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.15)"


def set_axes(result, panel, cell):
    x = {"title_text": panel.x_label, "ticks": "outside", "showline": True, "linecolor": "#333", "exponentformat": "SI"}
    y = {"title_text": panel.y_label, "ticks": "outside", "showline": True, "linecolor": "#333", "zeroline": False,
         "title_standoff": 8}
    if panel.x_log:
        x |= {"type": "log"}
    if panel.x_ticks:
        x |= {"tickvals": panel.x_ticks, "ticktext": [units(tick) for tick in panel.x_ticks]}
    if panel.x_names:
        x |= {"tickvals": list(range(len(panel.x_names))), "ticktext": panel.x_names, "tickangle": -40,
              "range": [-0.5, len(panel.x_names) - 0.5]}
    if panel.y_signed_log:
        y |= {"tickvals": numpy.arcsinh(SIGNED_LOG_TICKS), "ticktext": [str(tick) for tick in SIGNED_LOG_TICKS]}
    result.update_xaxes(x, **cell)
    result.update_yaxes(y, **cell)
    if panel.level is not None:
        result.add_hline(panel.level, line={"color": "#888", "width": 1, "dash": "dash"}, **cell)


def log_switches(panels):
    """Buttons that make all horizontal, or all vertical, axes linear or logarithmic."""
    names = [str(i) if i > 1 else "" for i in range(1, panels + 1)]
    for place, axis in ((0.0, "x"), (0.16, "y")):
        yield {"type": "buttons", "direction": "right", "x": place, "y": 1.22, "xanchor": "left", "showactive": True,
               "pad": {"l": 0, "t": 0}, "font": {"size": 11},
               "buttons": [{"label": f"{axis} {kind}", "method": "relayout",
                            "args": [{f"{axis}axis{name}.type": kind for name in names}]} for kind in ("linear", "log")]}
