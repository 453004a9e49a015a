"""Checks bov::value_gather from Python; see operator_library.py."""

from operator_library import check, load, torch


def samples():
    """Arguments of every kind the schema allows; float64 leaves also go to gradcheck."""
    ids = torch.tensor([[3, 0, 3], [6, 3, 1]])
    table = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    yield table, ids, scale, None
    yield table, ids, None, None
    yield table, ids.int(), scale.detach().reshape(1).requires_grad_(), torch.float64
    yield table.detach(), ids.t(), scale, None
    yield table, ids[:0], scale, None
    yield torch.randn(7, 5, dtype=torch.bfloat16, requires_grad=True), ids, scale.detach().float(), torch.float32
    yield torch.randn(7, 5, requires_grad=True), ids, None, torch.float16


if __name__ == "__main__":
    check(load().value_gather, samples())
