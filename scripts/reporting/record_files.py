"""The files that a run leaves behind, read as they are: what is missing, half-written or foreign becomes a note, never an error."""

import json

import pandas
import yaml


def read_json(path, notes):
    return read_object(path, notes, json.loads)


def read_yaml(path, notes):
    return read_object(path, notes, lambda text: yaml.load(text, Loader=yaml.CSafeLoader))


def read_object(path, notes, parse):
    """The object in a file: {} if there is no file, None with a note if it holds none."""
    if not path.exists():
        return {}
    try:
        value = parse(path.read_text())
    except (ValueError, yaml.YAMLError, OSError, RecursionError):
        value = None
    if not isinstance(value, dict):
        notes.append(f"{path.name} is damaged or half-written")
        return None
    return value


def read_metrics(path, notes):
    """The log's rows by kind. A last line without its end is being written, or was when the run was killed."""
    training, evaluations, coefficients = [], [], []
    text = path.read_text(errors="replace") if path.exists() else ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        row = read_log_row(line)
        if row is None:
            notes.append(f"metrics.jsonl ends in half a line ({number})" if not line.endswith("\n")
                         else f"metrics.jsonl:{number} is no log row")
            continue
        point = {key: row[key] for key in ("step", "tokens", "flops")}
        if row.get("loss") is not None:
            training.append(point | {"loss": row["loss"], "tokens_per_second": row.get("tokens_per_second")})
        if row.get("validation_bpb") is not None:
            evaluations.append(point | {"bits_per_byte": row["validation_bpb"]})
        by_layer = row.get("coefficients") or {}
        if not is_coefficients(by_layer):
            notes.append(f"metrics.jsonl:{number} has coefficients of another form")
            continue
        coefficients += [point | {"layer": int(layer), "coefficient": name, "value": value}
                         for layer, values in by_layer.items() for name, value in values.items()]
    axes = ["step", "tokens", "flops"]
    return (pandas.DataFrame(training, columns=[*axes, "loss", "tokens_per_second"]),
            pandas.DataFrame(evaluations, columns=[*axes, "bits_per_byte"]),
            pandas.DataFrame(coefficients, columns=[*axes, "layer", "coefficient", "value"]))


def read_log_row(line):
    """The object in a line of the log; None if it is none, or its numbers are none."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or not all(is_number(row.get(key)) for key in ("step", "tokens", "flops")):
        return None
    numbers = [row.get(key) for key in ("loss", "validation_bpb", "tokens_per_second")]
    return row if all(value is None or is_number(value) for value in numbers) else None


def well_formed(result):
    """Whether what tables and figures take from a result is of the type that they take it for."""
    if not all(is_number(result[key]) for key in ("tokens_per_second", "peak_memory_bytes", "parameters", "step", "tokens", "flops")
               if key in result):
        return False
    result["coefficients"] = result.get("coefficients") or {}
    return is_coefficients(result["coefficients"])


def is_coefficients(by_layer):
    """{"8": {"gamma": 0.7}}"""
    return isinstance(by_layer, dict) and all(layer.isdecimal() and isinstance(found, dict) and all(map(is_number, found.values()))
                                              for layer, found in by_layer.items())


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def section(config, name):
    """A section of a config; empty if there is none."""
    found = config.get(name)
    return found if isinstance(found, dict) else {}
