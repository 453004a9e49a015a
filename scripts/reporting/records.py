"""What runs leave behind, read as it is: missing, half-written and foreign records become notes, never errors.

A grid has rows, a row has runs (one a seed). A run's folder holds config.yaml, environment.json, metrics.jsonl and, at the
end, result.json; failure.json tells why a run of a grid failed.
"""

import dataclasses
import pathlib

import pandas
import yaml

from .record_files import is_number, read_json, read_metrics, read_yaml, section, well_formed
from .standing import (COMPLETE, FAILED, MISSING, NOT_COUNTED, UNFINISHED, config_mismatch, differences,
                       mark_other_data)


class RecordError(Exception):
    """The folder that was named holds no records at all."""


@dataclasses.dataclass
class Run:
    row: str
    seed: int
    folder: pathlib.Path
    shards: str = ""  # data folder: runs of one have read the same data
    status: str = MISSING
    notes: list = dataclasses.field(default_factory=list)
    config: dict = dataclasses.field(default_factory=dict)
    environment: dict = dataclasses.field(default_factory=dict)  # None if the file is damaged
    result: dict = dataclasses.field(default_factory=dict)
    training: pandas.DataFrame = None  # step, tokens, flops, loss, tokens_per_second
    evaluations: pandas.DataFrame = None  # step, tokens, flops, bits_per_byte
    coefficients: pandas.DataFrame = None  # step, tokens, flops, layer, coefficient, value

    @property
    def usable(self):
        """Whether the curves belong to the row: also those of a run that goes on or failed."""
        return self.status not in NOT_COUNTED

    @property
    def data(self):
        """The identity of the data that the run has recorded, or None."""
        return (self.environment or {}).get("data")

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
        """The value spec; empty if the config has none that is complete."""
        value = section(self.config, "value")
        return value if {"combine", "coefficient", "source", "layers"} <= value.keys() else {}

    @property
    def paper_rows(self):
        """["T1-6", "T2-4"]"""
        text = section(self.config, "paper").get("row") or ""
        return [part.strip() for part in str(text).split(",") if part.strip()]

    @property
    def paper_value(self):
        return section(self.config, "paper").get("value")

    @property
    def n_layer(self):
        return section(self.config, "model").get("n_layer")

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
        rows = [Row(row["name"], row, [read_run(folder / row["name"] / f"seed-{seed}", row["name"], seed, with_seed(row, seed))
                                       for seed in plan["seeds"]]) for row in plan["rows"]]
        for row in rows:
            for run in row.runs:
                run.shards = row.config["data"]["shards"]
        mark_other_data([run for seed in zip(*(row.runs for row in rows)) for run in seed])
        return Grid(plan["name"], folder, plan.get("baseline"), rows)
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise RecordError(f"{folder}/grid.yaml is no complete grid: {error}") from error


def with_seed(config, seed):
    return config | {"train": config["train"] | {"seed": seed}}


def collect_runs(folders):
    """Single runs: those of one name, and of one config but for the seed, are a row."""
    rows = {}
    for folder in folders:
        config = read_yaml(folder / "config.yaml", []) or {}
        name, seed = str(config.get("name", folder.name)), section(config, "train").get("seed", 0)
        run = read_run(folder, name, seed, config)
        while name in rows and [key for key in differences(rows[name].config, config) if key != "train.seed"]:
            name += " (other)"
        if name in rows and any(other.seed == seed for other in rows[name].runs):
            raise RecordError(f"{folder}: a run of {name} with seed {seed} is given already")
        run.row = name
        rows.setdefault(name, Row(name, config, [])).runs.append(run)
    grid = Grid("runs", None, None, list(rows.values()))
    mark_other_data(grid.runs())
    return grid


def read_run(folder, row, seed, planned):
    run = Run(row, seed, folder)
    run.config = read_yaml(folder / "config.yaml", run.notes) or {}
    run.environment = read_json(folder / "environment.json", run.notes)
    run.result = read_json(folder / "result.json", run.notes) or {}
    failure = read_json(folder / "failure.json", run.notes) or {}
    run.training, run.evaluations, run.coefficients = read_metrics(folder / "metrics.jsonl", run.notes)
    if run.result and not well_formed(run.result):
        run.notes.append("result.json has an entry of another type")
        run.result = {}
    mismatch = config_mismatch(run, planned)
    if mismatch:
        run.status = mismatch[0]
        run.notes.append(mismatch[1])
    elif run.result.get("status") == "completed" and is_number(run.result.get("validation_bpb")):
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
    budget = {key: value for key, value in section(run.config, "budget").items() if value}
    total = budget.get("steps")
    if not total and "tokens" in budget:
        total = budget["tokens"] / last.tokens * last.step
    if not total and "flops" in budget:
        total = float(budget["flops"]) / last.flops * last.step
    return f"step {last.step:.0f}" + (f" of {total:.0f}" if total else "")
