"""How a run stands, and whether it counts: the rule of find_mismatch in experiments/ablation/run_state.h.

A run counts if its config.yaml computes the same as its row's and the data that its environment.json has recorded are those
of the others: what the first finished run of the same data folder has recorded. Data that are not recorded, in older records, are no
mismatch.
"""

COMPLETE, UNFINISHED, FAILED, MISSING = "complete", "unfinished", "failed", "missing"
OTHER_CONFIG, OTHER_DATA, UNREADABLE = "another config", "other data", "unreadable records"
# Of no row: in no curve and no mean.
NOT_COUNTED = (MISSING, OTHER_CONFIG, OTHER_DATA, UNREADABLE)

# What two configs may differ in and still compute the same (decides_result in experiments/config/fields.h).
NOT_COMPARED = ("name", "paper", "log", "checkpoint", "data.shards")


def config_mismatch(run, planned):
    """(state, reason) if the run is not one of the config `planned`, or does not tell; None if it is, or has not begun."""
    if not run.config:
        records = [name for name in ("result.json", "metrics.jsonl") if (run.folder / name).exists()]
        if (run.folder / "config.yaml").exists():
            return UNREADABLE, "config.yaml holds no config"
        return (UNREADABLE, f"{records[0]} without config.yaml") if records else None
    if run.environment is None:
        return UNREADABLE, "environment.json holds no environment"
    other = differences(planned, run.config)
    return (OTHER_CONFIG, "differs from the row in " + ", ".join(other)) if other else None


def mark_other_data(runs):
    """Marks those that read other data than the first finished one of their data folder; a grid's `runs` come seed by seed."""
    known = {}
    for run in runs:
        if run.status == COMPLETE and run.data is not None:
            known.setdefault(run.shards, run.data)
    for run in runs:
        here = known.get(run.shards)
        if run.status in NOT_COUNTED or run.data is None or here is None:
            continue
        other = data_difference(run.data, here)
        if other:
            run.status = OTHER_DATA
            run.notes.append(other)


def data_difference(there, here):
    """ "train is 1f.. there and 2e.. here" for the first entry of `here` that is another there; None if none is."""
    if not isinstance(there, dict) or not isinstance(here, dict):
        return None if there == here else f"data is {there!r} there and {here!r} here"
    return next((f"{key} is {there.get(key)} there and {value} here" for key, value in here.items() if there.get(key) != value), None)


def flatten(config, prefix=""):
    """{"model": {"n_layer": 12}} as {"model.n_layer": 12}."""
    flat = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def differences(left, right):
    """The fields in which two configs compute something else; a field that one of them does not have yet is none."""
    left, right = flatten(left), flatten(right)
    return [key for key in left if key in right and str(left[key]) != str(right[key])
            and not any(key == skipped or key.startswith(skipped + ".") for skipped in NOT_COMPARED)]
