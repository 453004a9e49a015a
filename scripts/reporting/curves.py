"""Loss and bits per byte over training."""

import pandas

from . import estimates, values
from .chart import Chart, Panel, Series, style

AXES = {"tokens": "training tokens", "flops": "training FLOPs"}
LOSS = "training loss (nats per token)"
BITS = "validation bits per byte"
LOSS_DIFFERENCE = "loss difference (nats per token)"
MOST_LINES = 6  # in one panel, with their bands


def loss_charts(grid):
    charts = [training_chart(grid), validation_chart(grid), difference_chart(grid)]
    return [chart for chart in charts if any(panel.series for panel in chart.panels)]


def training_chart(grid):
    panels = [Panel(f"against {axis if axis == 'tokens' else 'FLOPs'}", label, LOSS,
                    [series for index, row in enumerate(grid.rows) for series in run_curves(row, "training", axis, "loss", index)])
              for axis, label in AXES.items()]
    return Chart("training_loss", "Training loss", "One line a run; runs of a row share a colour. The loss is that of single "
                 "batches, which runs of one seed share.", panels, log_switch=True)


def validation_chart(grid):
    panels = [Panel(f"against {axis if axis == 'tokens' else 'FLOPs'}", label, BITS,
                    [series for index, row in enumerate(grid.rows)
                     for series in run_curves(row, "evaluations", axis, "bits_per_byte", index)])
              for axis, label in AXES.items()]
    return Chart("validation", "Validation", "One line a run, one marker an evaluation. A run with a single marker was only "
                 "evaluated at its end.", panels, log_switch=True)


def run_curves(row, table, axis, column, index):
    for run in row.runs:
        frame = getattr(run, table)
        if run.usable and not frame.empty:
            yield Series(row.name, frame[axis], frame[column], style(index), points=table == "evaluations",
                         row=row.name, seed=run.seed)


def difference_chart(grid):
    """Runs of one seed see the same batches, so their loss at equal tokens is compared batch by batch."""
    baseline = grid.row(grid.baseline)
    curves = [(row, curve) for index, row in enumerate(grid.rows)
              if (curve := difference_curve(row, baseline, style(index), row.name))]
    panels = [difference_panel("", [curve for _, curve in curves])]
    if len(curves) > MOST_LINES:
        panels = [difference_panel(f"values from {name}", part) for source, name in values.SOURCES.items()
                  if (part := [curve for row, curve in curves if row.value["source"] == source])]
        for panel in panels:
            for place, curve in enumerate(panel.series):
                curve.style = style(place)
    return Chart("loss_difference", "Training loss, difference to the baseline",
                 f"Loss minus that of {grid.baseline} on the same batch, paired by seed: mean over seeds, with the 95 % interval as a "
                 "band where there are several. Below zero is better than the baseline."
                 + (" A panel for each source of values, all on one scale." if len(panels) > 1 else ""),
                 panels, legend_each=len(panels) > 1, shared_y=True)


def difference_panel(title, series):
    return Panel(title, AXES["tokens"], LOSS_DIFFERENCE, series, bands=len(series) <= MOST_LINES, level=0.0)


def difference_curve(row, baseline, look, name):
    """Mean over seeds and its 95 % interval, at the steps that all seeds of both rows have logged; None without any."""
    if baseline is None or row is baseline:
        return None
    references = {run.seed: losses(run) for run in baseline.runs if run.usable}
    pairs = [losses(run) - references[run.seed] for run in row.averaged() if run.seed in references]
    table = pandas.concat(pairs, axis=1).dropna().sort_index() if pairs else pandas.DataFrame()
    if table.empty:
        return None
    means = [estimates.estimate(differences) for differences in table.to_numpy()]
    several = len(pairs) > 1
    return Series(name, table.index, [mean.mean for mean in means], look, row=row.name,
                  low=[mean.mean - mean.half_width for mean in means] if several else None,
                  high=[mean.mean + mean.half_width for mean in means] if several else None)


def losses(run):
    return run.training.drop_duplicates("tokens", keep="last").set_index("tokens").loss
