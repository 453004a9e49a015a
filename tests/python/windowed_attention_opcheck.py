"""windowed_attention from Python: opcheck, gradcheck and the errors for bad input.

How it is started: bov_ops.py.
"""

import unittest

import bov_ops
import torch


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


class WindowedAttention(unittest.TestCase):
    def test_samples(self):
        for arguments in samples():
            bov_ops.check(torch.ops.bov.windowed_attention, arguments)

    def test_the_operators_behind_it(self):
        q, k, v = (x.detach() for x in tensors((2, 100, 4, 16), 2, torch.float32))
        out, logsumexp = torch.ops.bov._windowed_attention(q, k, v, 50)
        bov_ops.check(torch.ops.bov._windowed_attention, (q, k, v, 50))
        bov_ops.check(torch.ops.bov._windowed_attention_backward, (torch.randn_like(out), q, k, v, out, logsumexp, 50))
        with self.assertRaisesRegex(RuntimeError, "logsumexp must be Float on cpu, got Double on cpu"):
            torch.ops.bov._windowed_attention_backward(out, q, k, v, out, logsumexp.double(), 50)

    def test_errors(self):
        q = torch.zeros(1, 3, 2, 4)
        for arguments, message in (((q[0], q, q, 1), r"q, k and v must be \[B, T, heads, D\], got \[3, 2, 4\]"),
                                   ((q, q, q, -1), "left must be 0 or more, got -1")):
            for device in ("cpu", "meta"):
                with self.assertRaisesRegex(RuntimeError, message):
                    torch.ops.bov.windowed_attention(
                        *[a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments])


if __name__ == "__main__":
    bov_ops.main()
