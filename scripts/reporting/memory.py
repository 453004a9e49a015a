"""Bytes of the K and V caches with and without a bank; the paper's Equation 6 where every layer attends to all tokens."""

import math

from . import values


def saved_share(tokens, n_layer, n_embd, targets, vocab_size, tables, rows=lambda layer, tokens: tokens, size=2):
    """What dropping the V cache of `targets` layers saves of the whole K and V cache of one sequence, less the tables.

    rows: tokens that a layer's cache holds when `tokens` were read. Negative where the tables outweigh the cache.
    """
    cache = sum(2 * rows(layer, tokens) * n_embd * size for layer in range(n_layer))
    dropped = sum(rows(layer, tokens) * n_embd * size for layer in targets)
    return (dropped - tables * vocab_size * n_embd * size) / cache


def window_rows(model):
    """Rows of a cache that keeps no more than the layer's window reaches, the token itself included."""
    length, pattern, n_layer = model["sequence_length"], model["window_pattern"], model["n_layer"]
    short = math.ceil(math.ceil(length / 4) / 128) * 128

    def rows(layer, tokens):
        long = layer == n_layer - 1 or pattern[layer % len(pattern)] == "L"
        return min(tokens, (length if long else short) + 1)

    return rows


def saved_share_of(row, tokens, windowed=False):
    """saved_share of a row of a grid that replaces values with a bank."""
    model = row.config["model"]
    targets = values.target_layers(row.value, row.n_layer)
    tables = 1 if row.value.get("shared") else len(targets)
    width = model["n_kv_head"] * (model["n_embd"] // model["n_head"])
    cached = window_rows(model) if windowed else lambda layer, tokens: tokens
    return saved_share(tokens, row.n_layer, width, targets, model["vocab_size"], tables, cached)
