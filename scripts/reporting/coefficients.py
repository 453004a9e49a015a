"""Value coefficients: their way through training, and their final values as in the paper's Figure 2."""

import matplotlib
import numpy
import pandas

from . import estimates, values
from .chart import COLOURS, MARKERS, Chart, Panel, Series, Style

ORDER = ["gamma", "alpha", "beta", "ratio", "gate_mean", "gate_std"]


def trajectory_charts(grid):
    """A chart for each row with learned coefficients: one panel a coefficient, one line a layer, or a layer and head."""
    for row in grid.rows:
        table = coefficients_of(row)
        if table.empty:
            continue
        names = sorted(set(table.coefficient), key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
        lines = sorted(set(zip(table.layer, table["head"])))
        panels = [Panel(values.symbol(name), "training tokens", values.symbol(name),
                        [trajectory(row, part, line, lines) for line in lines
                         if not (part := table[(table.coefficient == name) & (table.layer == line[0]) & (table["head"] == line[1])]).empty])
                  for name in names]
        band = "Mean over seeds; bands reach from the lowest to the highest seed." if table.seed.nunique() > 1 else "One seed."
        yield Chart(f"coefficients_{row.name}", f"{row.name}: {values.formula(row.value)}", band, panels)


def coefficients_of(row):
    """Every logged coefficient of the row's runs, with the derived |β/α|.

    Columns: seed, tokens, layer, head (-1 for a coefficient of all heads), coefficient, value.
    """
    index = ["seed", "tokens", "layer", "head"]
    tables = [run.coefficients.assign(seed=run.seed) for run in row.averaged() if not run.coefficients.empty]
    if not tables:
        return pandas.DataFrame(columns=[*index, "coefficient", "value"])
    table = pandas.concat(tables)
    parts = [values.split_head(name) for name in table.coefficient]
    table = table.assign(coefficient=[stem for stem, _ in parts], head=[-1 if head is None else head for _, head in parts])
    wide = table.pivot_table(index=index, columns="coefficient", values="value", aggfunc="last")
    if {"alpha", "beta"} <= set(wide.columns):
        wide["ratio"] = (wide.beta / wide.alpha).abs().replace(numpy.inf, numpy.nan)
    return wide.stack().dropna().rename("value").reset_index()


def trajectory(row, table, line, lines):
    by_seed = table.pivot_table(index="tokens", columns="seed", values="value").dropna()
    layer, head = line
    place = lines.index(line)
    shade = matplotlib.colormaps["viridis"](0.85 * place / max(1, len(lines) - 1))
    several = by_seed.shape[1] > 1
    return Series(f"layer {layer}" + (f", head {head}" if head >= 0 else ""), by_seed.index, by_seed.mean(axis=1),
                  Style(matplotlib.colors.to_hex(shade), ["solid", "dash", "dot"][place % 3]),
                  low=by_seed.min(axis=1) if several else None, high=by_seed.max(axis=1) if several else None, row=row.name)


# Panels of Figure 2: rows of the paper with the names that its legend gives them.
FIGURE_2 = [("(a) replaced by c·Ṽ", [("T1-6", "gamma", "γ of V1"), ("T1-9", "gamma", "γ of x0·W_V"), ("T1-2", "gamma", "γ of V"),
                                     ("BoV", "gamma", "γ of E_V[i]")]),
            ("(b) α·V + β·V1", [("T1-11", "alpha", "α of V"), ("T1-11", "beta", "β of V1")]),
            ("(c) α·V + β·x0·W_V", [("T1-13", "alpha", "α of V"), ("T1-13", "beta", "β of x0·W_V")])]
LOOKS = {"γ of V1": 2, "γ of x0·W_V": 1, "γ of V": 0, "γ of E_V[i]": 3, "α of V": 0, "β of V1": 2, "β of x0·W_V": 1}


def figure_2(grid, paper):
    published = paper["figure_2"]
    same_depth = all(row.n_layer == published["n_layer"] for row in grid.rows)
    panels, found = [], False
    for title, lines in FIGURE_2:
        series = []
        for paper_row, name, label in lines:
            look = LOOKS[label]
            row = grid.row_of_paper(paper_row)
            ours = final_coefficients(row, name, label, look, same_depth) if row else None
            series += [ours] if ours else []
            found |= ours is not None
            if paper_row in published:
                x = [layer if same_depth else layer / published["n_layer"] for layer in published["layers"]]
                series.append(Series(f"{label}, paper", x, published[paper_row][name],
                                     Style(COLOURS[look], "dot", MARKERS[look], filled=False), points=True))
        ticks = sorted({float(x) for line in series for x in line.x})
        panels.append(Panel(title, "layer" if same_depth else "layer / number of layers", "final coefficient",
                            series, y_signed_log=True, x_ticks=ticks, level=0.0))
    if not found:
        return None
    return Chart("figure_2", "Figure 2: final coefficients by layer",
                 "Filled and solid: these runs, mean over seeds with the 95 % interval. Hollow and dotted: the paper's runs of 12 "
                 "layers. The vertical axis is linear near zero and logarithmic beyond one. Signs of γ and β are arbitrary: the "
                 "output projection can take them.", panels, legend_each=True)


def final_coefficients(row, name, label, look, same_depth):
    runs = [run.result.get("coefficients", {}) for run in row.complete()]
    layers = sorted({int(layer) for run in runs for layer, found in run.items() if name in found})
    if not layers:
        return None
    means = [estimates.estimate(run[str(layer)][name] for run in runs if name in run.get(str(layer), {})) for layer in layers]
    several = all(mean.count > 1 for mean in means)
    return Series(label, [layer if same_depth else layer / row.n_layer for layer in layers], [mean.mean for mean in means],
                  Style(COLOURS[look], "solid", MARKERS[look]), points=True, row=row.name,
                  low=[mean.mean - mean.half_width for mean in means] if several else None,
                  high=[mean.mean + mean.half_width for mean in means] if several else None)
