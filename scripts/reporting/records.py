"""What runs leave behind, read as it is: missing, half-written and foreign records become notes, never errors.

A grid has rows, a row has runs (one a seed). A run's folder holds config.yaml, environment.json, metrics.jsonl and, at the
end, result.json; failure.json tells why a run of a grid failed.
"""

import dataclasses
import json
import pathlib

import pandas
import yaml

COMPLETE, UNFINISHED, FAILED, MISSING, OTHER_CONFIG = "complete", "unfinished", "failed", "missing", "other config"
# What two configs may differ in and still compute the same; the seed tells the runs of a row apart.
NOT_COMPARED = ("name", "paper", "log", "checkpoint", "data.shards", "train.seed")


class RecordError(Exception):
    """The folder that was named holds no records at all."""


@dataclasses.dataclass
class Run:
    row: str
    seed: int
    folder: pathlib.Path
    status: str = MISSING
    notes: list = dataclasses.field(default_factory=list)
    config: dict = dataclasses.field(default_factory=dict)
    environment: dict = dataclasses.field(default_factory=dict)
    result: dict = dataclasses.field(default_factory=dict)
    training: pandas.DataFrame = None  # step, tokens, flops, loss, tokens_per_second
    evaluations: pandas.DataFrame = None  # step, tokens, flops, bits_per_byte
    coefficients: pandas.DataFrame = None  # step, tokens, flops, layer, coefficient, value

    @property
    def usable(self):
        """Whether the curves belong to the row: also those of a run that goes on or failed."""
        return self.status not in (MISSING, OTHER_CONFIG)

    @property
    def bits_per_byte(self):
        return self.result["validation_bpb"] if self.status == COMPLETE else None


@dataclasses.dataclass
class Row:
    name: str
    config: dict
    runs: list

    @property
    def value(self):
        return self.config.get("value", {})

    @property
    def paper_rows(self):
        """["T1-6", "T2-4"]"""
        text = self.config.get("paper", {}).get("row") or ""
        return [part.strip() for part in text.split(",") if part.strip()]

    @property
    def paper_value(self):
        return self.config.get("paper", {}).get("value")

    @property
    def n_layer(self):
        return self.config["model"]["n_layer"]

    def complete(self):
        return [run for run in self.runs if run.status == COMPLETE]

    def averaged(self):
        """The runs that curves of means are made from: complete ones, else those that there are."""
        return self.complete() or [run for run in self.runs if run.usable]


@dataclasses.dataclass
class Grid:
    name: str
    folder: pathlib.Path
    baseline: str  # name of a row, or None
    rows: list

    def row(self, name):
        return next((row for row in self.rows if row.name == name), None)

    def row_of_paper(self, paper_row):
        """The first row that repeats `paper_row`, for instance "T1-6"."""
        return next((row for row in self.rows if paper_row in row.paper_rows), None)

    def runs(self):
        return [run for row in self.rows for run in row.runs]


def read_sources(paths):
    """The grids in `paths`; single runs among them, row by row, come last as a grid without a baseline."""
    grids, runs = [], []
    for path in map(pathlib.Path, paths):
        if (path / "grid.yaml").exists():
            grids.append(read_grid(path))
        elif (path / "config.yaml").exists() or (path / "metrics.jsonl").exists():
            runs.append(path)
        else:
            raise RecordError(f"{path} is neither the folder of a grid (grid.yaml) nor of a run (config.yaml)")
    grids += [collect_runs(runs)] if runs else []
    for number, grid in enumerate(grids, 1):
        if any(grid.name == other.name for other in grids if other is not grid):
            grid.name += f"-{number}"
    return grids


def read_grid(folder):
    try:
        plan = yaml.load(folder.joinpath("grid.yaml").read_text(), Loader=yaml.CSafeLoader)
        rows = [Row(row["name"], row, [read_run(folder / row["name"] / f"seed-{seed}", row["name"], seed, row)
                                       for seed in plan["seeds"]]) for row in plan["rows"]]
        return Grid(plan["name"], folder, plan.get("baseline"), rows)
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise RecordError(f"{folder}/grid.yaml is no complete grid: {error}") from error


def collect_runs(folders):
    rows = {}
    for folder in folders:
        config = read_yaml(folder / "config.yaml", [])
        name = config.get("name", folder.name)
        run = read_run(folder, name, config.get("train", {}).get("seed", 0))
        # Runs of one name whose configs differ are different rows.
        while name in rows and differences(rows[name].config, config):
            name += " (other)"
        run.row = name
        rows.setdefault(name, Row(name, config, [])).runs.append(run)
    return Grid("runs", None, None, list(rows.values()))


def read_run(folder, row, seed, planned=None):
    run = Run(row, seed, folder)
    run.config = read_yaml(folder / "config.yaml", run.notes)
    run.environment = read_json(folder / "environment.json", run.notes)
    run.result = read_json(folder / "result.json", run.notes)
    failure = read_json(folder / "failure.json", run.notes)
    run.training, run.evaluations, run.coefficients = read_metrics(folder / "metrics.jsonl", run.notes)
    ended = isinstance(run.result.get("validation_bpb"), (int, float)) and run.result.get("status") == "completed"
    other = differences(planned, run.config) if planned and run.config else []
    if other:
        run.status = OTHER_CONFIG
        run.notes.append("differs from the grid in " + ", ".join(other))
    elif ended:
        run.status = COMPLETE
    elif run.result or failure:
        run.status = FAILED
        run.notes.append((run.result or failure).get("error") or run.result.get("status", "no reason given"))
    elif (folder / "metrics.jsonl").exists():
        run.status = UNFINISHED
        run.notes.append(progress(run))
    return run


def progress(run):
    """"step 20 of 148" """
    if run.training.empty:
        return "no step logged yet"
    last = run.training.iloc[-1]
    budget = {key: value for key, value in run.config.get("budget", {}).items() if value}
    total = budget.get("steps")
    if not total and "tokens" in budget:
        total = budget["tokens"] / last.tokens * last.step
    if not total and "flops" in budget:
        total = float(budget["flops"]) / last.flops * last.step
    return f"step {last.step:.0f}" + (f" of {total:.0f}" if total else "")


def read_metrics(path, notes):
    """The log's rows by kind. A last line without its end is being written, or was when the run was killed."""
    training, evaluations, coefficients = [], [], []
    text = path.read_text(errors="replace") if path.exists() else ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        try:
            row = json.loads(line)
            point = {"step": row["step"], "tokens": row["tokens"], "flops": row["flops"]}
        except (ValueError, KeyError, TypeError):
            notes.append(f"metrics.jsonl ends in half a line ({number})" if not line.endswith("\n")
                         else f"metrics.jsonl:{number} is no log row")
            continue
        if row.get("loss") is not None:
            training.append(point | {"loss": row["loss"], "tokens_per_second": row.get("tokens_per_second")})
        if row.get("validation_bpb") is not None:
            evaluations.append(point | {"bits_per_byte": row["validation_bpb"]})
        for layer, values in (row.get("coefficients") or {}).items():
            if not layer.isdecimal():
                notes.append(f"metrics.jsonl:{number} has coefficients of a layer {layer!r}")
                continue
            coefficients += [point | {"layer": int(layer), "coefficient": name, "value": value}
                             for name, value in values.items()]
    axes = ["step", "tokens", "flops"]
    return (pandas.DataFrame(training, columns=[*axes, "loss", "tokens_per_second"]),
            pandas.DataFrame(evaluations, columns=[*axes, "bits_per_byte"]),
            pandas.DataFrame(coefficients, columns=[*axes, "layer", "coefficient", "value"]))


def read_json(path, notes):
    return read_object(path, notes, json.loads)


def read_yaml(path, notes):
    return read_object(path, notes, lambda text: yaml.load(text, Loader=yaml.CSafeLoader))


def read_object(path, notes, parse):
    if not path.exists():
        return {}
    try:
        value = parse(path.read_text())
    except (ValueError, yaml.YAMLError):
        value = None
    if not isinstance(value, dict):
        notes.append(f"{path.name} is damaged or half-written")
        return {}
    return value


def flatten(config, prefix=""):
    """{"model": {"n_layer": 12}} as {"model.n_layer": 12}."""
    flat = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def differences(left, right):
    """The fields in which two configs differ; a field that one of them does not have yet is none."""
    left, right = flatten(left), flatten(right)
    return [key for key in left if key in right and str(left[key]) != str(right[key])
            and not any(key == skipped or key.startswith(skipped + ".") for skipped in NOT_COMPARED)]
