"""The paper's Figures 4, 5a and 5b from the runs of a grid, with the paper's values beside them; and final differences."""

import numpy
import pandas

from . import curves, estimates, memory
from .chart import Chart, Panel, Series, Style, style

# Rows of the paper, as its legends name them.
FIGURE_4 = {"T1-1": "V (standard)", "T1-9": "γ·x0·W_V", "T1-6": "γ·V1", "T1-3": "V1, every layer", "BoV": "γ·E_V[i] (BoV)"}
FIGURE_5B = {"BoV": "γ·E_V[i] (BoV)", "F5b every layer": "every layer", "F5b add V": "α·V + β·E_V[i]",
             "F5b no coeff.": "without γ", "F5b shared table": "one shared table"}


# As in the paper, the steep beginning is left out, which would hide the differences.
SHOWN_FROM = 0.4
# Figure 5a's context lengths.
TOKEN_TICKS = [16e3, 32e3, 64e3, 128e3, 256e3, 512e3, 1e6]


def curve_figure(grid, name, title, labels, published):
    """Ours: validation, and training loss against the first of `labels`; the paper's: validation."""
    rows = {label: (row, style(index)) for index, (paper_row, label) in enumerate(labels.items())
            if (row := grid.row_of_paper(paper_row))}
    if len(rows) < 2:
        return None
    depth = next((row.n_layer for row, _ in rows.values() if row.n_layer in published), 12)
    validation = [series for label, (row, look) in rows.items() if (series := mean_validation(row, label, look))]
    if not validation:
        return None
    reference = labels[next(iter(labels))]
    panels = [Panel("these runs", curves.AXES["tokens"], curves.BITS, validation)]
    if reference in rows:
        panels.append(Panel(f"these runs, against {reference}", curves.AXES["tokens"], curves.LOSS_DIFFERENCE,
                            [series for label, (row, look) in rows.items()
                             if (series := curves.difference_curve(row, rows[reference][0], look, label))], level=0.0))
    panels.append(Panel(f"the paper, {depth} layers", curves.AXES["tokens"], curves.BITS,
                        list(published_curves(labels, published[depth]))))
    once = all(len(series.x) == 1 for series in validation)
    return Chart(name, title, "Left: means over seeds" + (", evaluated at the end of the runs alone" if once else f", from {SHOWN_FROM:.0%} of training on") +
                 ". Middle: loss on the same batch, paired by seed, with the 95 % interval where there are several seeds. "
                 "Right: values read off the paper's figure, single runs.", panels)


def mean_validation(row, label, look):
    tables = [run.evaluations.drop_duplicates("tokens", keep="last").set_index("tokens").bits_per_byte
              for run in row.averaged() if not run.evaluations.empty]
    if not tables:
        return None
    # Where a run has no value, the mean would be of other seeds.
    means = pandas.concat(tables, axis=1).dropna().mean(axis=1).sort_index()
    means = means[means.index >= SHOWN_FROM * means.index.max()]
    return Series(label, means.index, means, look, points=True, row=row.name) if len(means) else None


def published_curves(labels, published):
    for index, (paper_row, label) in enumerate(labels.items()):
        points = published.get(paper_row)
        if points:
            look = style(index)
            yield Series(label, [step * published["tokens_per_step"] for step in points], list(points.values()),
                         Style(look.colour, look.dash, look.marker, filled=False), points=True)


def figure_5a(grid, published):
    tokens = numpy.geomspace(16e3, 1e6, 121)
    series = []
    for index, vocabulary in enumerate(published):
        points = published[vocabulary]
        series.append(Series(f"{vocabulary:,} ids", tokens,
                             100 * numpy.array([memory.saved_share(t, 12, 768, range(8, 12), vocabulary, 4) for t in tokens]),
                             style(index + 1)))
        series.append(Series(f"{vocabulary:,} ids, paper", list(points), list(points.values()),
                             Style(style(index + 1).colour, "solid", style(index + 1).marker, filled=False), line=False, points=True))
    row = grid.row_of_paper("BoV")
    caption = ("What a bank in the last third of the layers saves of the whole K and V cache, less the tables, if every layer attends "
               "to all tokens: 1/6·(1 − |V|/T) for one sequence, Equation 6.")
    if row:
        model = row.config["model"]
        series.append(Series(f"{model['vocab_size']:,} ids, {row.name}", tokens,
                             100 * numpy.array([memory.saved_share_of(row, t) for t in tokens]), style(0), row=row.name))
        caption += (f" A cache that keeps no more than the windows of {row.name} reach is so small that its tables add "
                    f"{-100 * memory.saved_share_of(row, 1e6, windowed=True):,.0f} % for one sequence of any length.")
    visible = [part for part in series if clip(part)]
    return Chart("figure_5a", "Figure 5a: cache memory saved", caption,
                 [Panel("", "context length T (tokens)", "saved of the K and V cache (%)", visible, x_log=True, x_ticks=TOKEN_TICKS, level=100 / 6)])


def clip(series, lowest=-8.0):
    """Leaves out, as the paper's plot does, what lies below; False if nothing is left."""
    kept = series.y >= lowest
    series.x, series.y = series.x[kept], series.y[kept]
    return kept.any()


def final_differences(grid):
    """Every row's final bits per byte against the baseline, beside the paper's difference."""
    baseline = grid.row(grid.baseline)
    rows = [row for row in grid.rows if row is not baseline] if baseline else []
    ours, paper = [], []
    for place, row in enumerate(rows):
        found = estimates.paired_difference(row, baseline)
        if found.count:
            several = found.count > 1
            ours.append(Series("these runs", [place], [found.mean], style(1), line=False, points=True, row=row.name,
                               low=[found.mean - found.half_width] if several else None,
                               high=[found.mean + found.half_width] if several else None))
        if row.paper_value and baseline.paper_value:
            paper.append(Series("the paper", [place], [row.paper_value - baseline.paper_value],
                                Style("#555555", "solid", "diamond", filled=False), line=False, points=True, row=row.name))
    if not ours:
        return None
    return Chart("final_difference", "Final bits per byte, difference to the baseline",
                 f"Validation bits per byte minus those of {grid.baseline}, paired by seed, with the 95 % interval where there are "
                 "several seeds. Below zero is better. Hollow: the paper's published values, single runs at its size.",
                 [Panel("", "", "difference of bits per byte", ours + paper, level=0.0, x_names=[row.name for row in rows])])


def paper_charts(grid, paper):
    charts = [curve_figure(grid, "figure_4", "Figure 4: validation over training", FIGURE_4, paper["figure_4"]),
              figure_5a(grid, paper["figure_5a"]),
              curve_figure(grid, "figure_5b", "Figure 5b: forms of the bank", FIGURE_5B, paper["figure_5b"])]
    return [chart for chart in charts if chart]
