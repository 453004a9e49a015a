"""Tables of a grid as pandas frames: results, the state of each run, differences of configs, environments."""

import json
import math

import pandas

from . import estimates, standing, values


def results(grid):
    """One line a row of the grid, in numbers; NaN where there is none."""
    baseline = grid.row(grid.baseline)
    lines = []
    for row in grid.rows:
        complete = row.complete()
        bits = estimates.bits_per_byte(row)
        difference = estimates.paired_difference(row, baseline) if baseline and row is not baseline else estimates.estimate([])
        published = row.paper_value and baseline and row is not baseline and baseline.paper_value
        lines.append({
            "row": row.name, "paper row": ", ".join(row.paper_rows), "values": values.formula(row.value),
            "layers": values.layer_text(values.target_layers(row.value, row.n_layer)),
            "coefficient": values.coefficient_text(row.value),
            "parameters": first(complete, "parameters"), "steps": first(complete, "step"), "tokens": first(complete, "tokens"),
            "FLOPs": first(complete, "flops"), "finished": bits.count, "runs": len(row.runs),
            "bits per byte": bits.mean, "bits per byte ±": bits.half_width,
            "difference": difference.mean, "difference ±": difference.half_width,
            "paper": row.paper_value or math.nan,
            "paper difference": row.paper_value - baseline.paper_value if published else math.nan,
            "tokens/s": estimates.estimate(run.result["tokens_per_second"] for run in complete
                                           if run.result.get("tokens_per_second")).mean,
            "peak MiB": estimates.estimate(run.result["peak_memory_bytes"] / 2**20 for run in complete
                                           if run.result.get("peak_memory_bytes")).mean,
            "final coefficients": final_coefficients(complete)})
    return pandas.DataFrame(lines)


def first(runs, key):
    return next((run.result[key] for run in runs if key in run.result), math.nan)


def final_coefficients(runs):
    """ "α 0.969 0.963, β -0.882 -1.000": means over seeds by ascending layer."""
    samples = {}
    for run in runs:
        for layer, found in run.result.get("coefficients", {}).items():
            for name, value in found.items():
                samples.setdefault(name, {}).setdefault(int(layer), []).append(value)
    return ", ".join(" ".join([values.symbol(name)] + [f"{estimates.estimate(samples[name][layer]).mean:.3f}"
                                                                for layer in sorted(samples[name])])
                     for name in sorted(samples))


def results_text(table):
    """The same as people read it: intervals beside means, thousands apart, columns without content left out."""
    text = pandas.DataFrame({
        **{name: table[name] for name in ("row", "paper row", "values", "layers", "coefficient")},
        **{name: table[name].map(whole) for name in ("parameters", "steps", "tokens")},
        "runs": [f"{line['finished']}/{line['runs']}" for _, line in table.iterrows()],
        "bits per byte": [interval(line["bits per byte"], line["bits per byte ±"], ".4f") for _, line in table.iterrows()],
        "difference": [interval(line["difference"], line["difference ±"], "+.4f") for _, line in table.iterrows()],
        "paper": table["paper"].map(lambda value: number(value, ".3f")),
        "paper difference": table["paper difference"].map(lambda value: number(value, "+.3f")),
        "tokens/s": table["tokens/s"].map(whole), "peak MiB": table["peak MiB"].map(whole),
        "final coefficients": table["final coefficients"]})
    return text.loc[:, (text != "").any()]


def number(value, spec):
    return "" if pandas.isna(value) else format(value, spec)


def whole(value):
    return number(value, ",.0f")


def interval(mean, half_width, spec):
    return number(mean, spec) + ("" if pandas.isna(half_width) else f" ± {half_width:.4f}")


def runs(grid):
    """The state of every run: what is missing, half-written or failed, and why."""
    return pandas.DataFrame([{"row": run.row, "seed": run.seed, "state": run.status,
                              "bits per byte": number(run.bits_per_byte, ".4f") if run.bits_per_byte else "",
                              "note": "; ".join(map(str, run.notes))} for run in grid.runs()])


def incomplete(runs):
    """What `runs` has to tell beyond "complete", a line for seeds of a row of which the same is told; None if there is nothing."""
    told = runs[(runs.state != standing.COMPLETE) | (runs.note != "")]
    if told.empty:
        return None
    groups = told.groupby(["row", "state", "note"], sort=False).seed
    return groups.agg(lambda seeds: ", ".join(map(str, seeds))).rename("seeds").reset_index()[["row", "seeds", "state", "note"]]


def unknown_data(grid):
    """Says how many finished runs count although it is not known which data they read; "" if it is known of all."""
    count = sum(run.data is None for row in grid.rows for run in row.complete())
    if not count:
        return ""
    return (f"{count} run has not recorded which data it read; it counts" if count == 1
            else f"{count} runs have not recorded which data they read; they count") + " as of the same data."


def config_differences(grid):
    """One line a row, one column for each field that is not the same in all rows."""
    flat = {row.name: {key: value for key, value in standing.flatten(row.config).items()
                       if key not in ("name", "train.seed")} for row in grid.rows}
    keys = list(dict.fromkeys(key for fields in flat.values() for key in fields))
    different = [key for key in keys if len({str(fields.get(key)) for fields in flat.values()}) > 1]
    return pandas.DataFrame([{"row": name, **{key: show(fields.get(key)) for key in different}} for name, fields in flat.items()])


def show(value):
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def environments(grid):
    """One line for each different environment, with the runs that were made in it."""
    found = {}
    for run in grid.runs():
        if not run.environment:
            continue
        fields = {key: ", ".join(map(str, value)) if isinstance(value, list) else value
                  for key, value in standing.flatten({key: value for key, value in run.environment.items()
                                                     if key not in ("command", "resumed")}).items()}
        found.setdefault(json.dumps(fields, sort_keys=True), (fields, []))[1].append(f"{run.row} {run.seed}")
    return pandas.DataFrame([{"runs": f"{len(names)}: " + ", ".join(names), **{short(key): show(value) for key, value in fields.items()}}
                             for fields, names in found.values()])


def short(key):
    """ "commit" of "versions.commit" """
    return key.rpartition(".")[2].replace("_", " ")


def commands(grid):
    """The command of each run, and the steps from which it was resumed."""
    return pandas.DataFrame([{"row": run.row, "seed": run.seed, "command": joined(run.environment.get("command"), " "),
                              "resumed at step": joined([entry.get("from_step") if isinstance(entry, dict) else entry
                                                         for entry in listed(run.environment.get("resumed"))], ", ")}
                             for run in grid.runs() if run.environment])


def listed(value):
    return value if isinstance(value, list) else [] if value is None else [value]


def joined(value, separator):
    return separator.join(map(str, listed(value)))


def markdown(table):
    """A pipe table."""
    def cell(value):
        return str(value).replace("|", "\\|")
    lines = [list(table.columns), ["---"] * len(table.columns), *table.astype(object).to_numpy().tolist()]
    return "".join("| " + " | ".join(map(cell, line)) + " |\n" for line in lines)
