"""Value specs as the paper's tables write them."""

SOURCES = {"stream": "V", "first_layer": "V1", "embedding": "x0·W_V", "bank": "E_V[i]"}
SYMBOLS = {"gamma": "γ", "alpha": "α", "beta": "β", "ratio": "|β/α|", "gate_mean": "mean of g", "gate_std": "spread of g"}


def split_head(name):
    """("gamma", 3) of "gamma_3", the coefficient of head 3; ("gamma", None) of one for all heads."""
    stem, _, head = name.rpartition("_")
    return (stem, int(head)) if stem and head.isdecimal() else (name, None)


def symbol(name):
    """ "γ" of "gamma", "γ_3" of "gamma_3"; an unknown name itself."""
    stem, head = split_head(name)
    return SYMBOLS.get(stem, stem) + ("" if head is None else f"_{head}")


def is_standard(value):
    return (value["combine"], value["source"], value["coefficient"]) == ("replace", "stream", 1)


def formula(value):
    """ "V", "γ·V1", "0.5·V + 0.5·x0·W_V", "α·V + β·E_V[i]", "V + g·E_V[i]"; a shared table is E[i]; no spec is ""."""
    if not value:
        return ""
    source = "E[i]" if value.get("shared") else SOURCES.get(value["source"], value["source"])
    added, coefficient = value["combine"] == "add", value["coefficient"]
    if coefficient == "learned":
        return f"α·V + β·{source}" if added else f"γ·{source}"
    if coefficient == "learned_per_head":
        return f"α_h·V + β_h·{source}" if added else f"γ_h·{source}"
    if coefficient == "gated":
        return f"V + g·{source}" if added else f"g·{source}"
    factor = "" if coefficient == 1 else f"{coefficient:g}·"
    return f"{factor}V + {factor}{source}" if added else factor + source


def target_layers(value, n_layer):
    """Layers whose values the spec changes, ascending; none for standard attention. Layer 0 makes V1."""
    if not value or is_standard(value):
        return []
    rule = value["layers"]
    rules = {"last_third": lambda i: i >= 2 * n_layer // 3, "every_other": lambda i: i % 2 == (n_layer - 1) % 2,
             "every": lambda i: True, "second_half": lambda i: i >= n_layer // 2,
             "last_two_thirds": lambda i: i >= n_layer // 3}
    chosen = sorted(rule) if isinstance(rule, list) else [i for i in range(n_layer) if rules[rule](i)]
    return [i for i in chosen if i > 0 or value["source"] != "first_layer"]


def layer_text(layers):
    """ "1,3,8-11"; "-" for none."""
    parts = []
    for layer in layers:
        if parts and parts[-1][1] == layer - 1:
            parts[-1][1] = layer
        else:
            parts.append([layer, layer])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts) or "-"


def coefficient_text(value):
    coefficient = value.get("coefficient", "")
    return "-" if value and is_standard(value) else f"{coefficient:g}" if isinstance(coefficient, (int, float)) else coefficient
