"""Checks bov::windowed_attention from Python; see operator_library.py."""

from operator_library import check, load, torch


def tensors(shape, kv_heads, dtype=torch.float64):
    batch, length, _, width = shape
    kv_shape = (batch, length, kv_heads, width)
    return [torch.randn(s, dtype=dtype).requires_grad_() for s in (shape, kv_shape, kv_shape)]


def samples():
    yield *tensors((2, 5, 4, 3), 2), 2
    yield *tensors((1, 4, 2, 8), 2), 100
    yield *tensors((1, 4, 2, 8), 1), 0
    yield *tensors((0, 4, 2, 8), 1), 3
    q, k, v = tensors((1, 6, 2, 4), 2)
    yield q.detach(), k, v.detach(), 3
    yield *tensors((2, 100, 2, 16), 1, torch.bfloat16), 50
    yield *tensors((2, 100, 2, 16), 2, torch.float16), 50
    yield *tensors((2, 100, 2, 16), 2, torch.float32), 50


def check_errors(op):
    q = torch.zeros(1, 3, 2, 4)
    for arguments, message in (((q[0], q, q, 1), "q, k and v must be [B, T, heads, D], got [3, 2, 4]"),
                               ((q, q, q, -1), "left must be 0 or more, got -1")):
        for device in ("cpu", "meta"):
            try:
                op(*[a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments])
            except RuntimeError as error:
                assert message in str(error), error
            else:
                raise AssertionError(f"no error for {message} on {device}")


def main():
    op = load().windowed_attention
    check(op, samples())
    check_errors(op)


if __name__ == "__main__":
    main()
