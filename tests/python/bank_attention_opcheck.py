"""bank_attention from Python: opcheck, the plain formula, autocast, torch.compile and the errors for bad input.

How it is started: bov_ops.py.
"""

import unittest

import bov_ops
import torch

BATCH, QUERIES, HEADS, KEY_HEADS, WIDTH, SLOTS, ROWS = 2, 2, 4, 2, 5, 9, 7
IDS = torch.arange(BATCH * SLOTS).view(BATCH, SLOTS) * 3 % ROWS
LENGTHS = torch.tensor([SLOTS, SLOTS - 3])


def arguments(dtype=torch.float64, ids=IDS, left=4, **optional):
    q = torch.randn(BATCH, QUERIES, HEADS, WIDTH, dtype=dtype)
    keys = torch.randn(BATCH, SLOTS, KEY_HEADS, WIDTH, dtype=dtype)
    table = torch.randn(ROWS, KEY_HEADS * WIDTH, dtype=dtype)
    return (q, keys, table, ids, LENGTHS, left), optional


def formula(q, keys, table, ids, lengths, left, scale):
    """The definition, a query at a time."""
    out = torch.zeros_like(q)
    for b in range(BATCH):
        for i in range(QUERIES):
            last = int(lengths[b]) - QUERIES + i
            seen = slice(max(0, last - left), last + 1)
            for h in range(HEADS):
                head = h // (HEADS // KEY_HEADS)
                values = scale * table[ids[b, seen], head * WIDTH:(head + 1) * WIDTH]
                weights = torch.softmax(keys[b, seen, head] @ q[b, i, h] / WIDTH**0.5, 0)
                out[b, i, h] = weights @ values
    return out


class BankAttention(unittest.TestCase):
    def setUp(self):
        self.op = torch.ops.bov.bank_attention  # there once the library is loaded

    def test_opcheck(self):
        int8 = torch.randint(-127, 128, (ROWS, KEY_HEADS * WIDTH), dtype=torch.int8)
        for positional, optional in [
            arguments(),
            arguments(torch.float32, scale=torch.tensor([1.5])),
            arguments(torch.bfloat16, IDS.int(), algorithm="aggregated"),
            arguments(torch.float16, IDS.to(torch.uint8), left=100, algorithm="indirect"),
        ]:
            torch.library.opcheck(self.op.default, positional, optional)
        (q, keys, _, ids, lengths, left), _ = arguments(torch.float32)
        torch.library.opcheck(self.op.default, (q, keys, int8, ids, lengths, left), {"row_scale": torch.rand(ROWS)})

    def test_formula(self):
        for algorithm in ("automatic", "indirect", "aggregated"):
            positional, _ = arguments()
            out = self.op(*positional, scale=torch.tensor(1.7), algorithm=algorithm)
            # γ is stored in float32.
            expected = formula(*positional, scale=float(torch.tensor(1.7)))
            torch.testing.assert_close(out, expected, rtol=1e-13, atol=1e-13)

    def test_compiled_equals_eager(self):
        positional, _ = arguments(torch.float32)

        def step(*inputs):
            return self.op(*inputs).square()

        compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(*positional), step(*positional), rtol=0, atol=0)

    def test_autocast(self):
        positional, _ = arguments(torch.float32)
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual(self.op(*positional).dtype, torch.bfloat16)

    def test_errors(self):
        (q, keys, table, ids, lengths, left), _ = arguments(torch.float32)
        for inference in (False, True):
            for call, error, message in [
                (lambda: self.op(q, keys, table, ids + 1, lengths, left), IndexError, "is outside the table of 7 rows"),
                (lambda: self.op(q, keys, table, ids, lengths + 1, left), RuntimeError, r"lengths\[0\] is 10; it must be"),
                (lambda: self.op(q, keys, table.T, ids, lengths, left), RuntimeError, r"table must be \[rows, 2 \* 5\]"),
                (lambda: self.op(q, keys, table, ids, lengths, left, algorithm="fast"), RuntimeError,
                 'algorithm must be automatic, indirect or aggregated, got "fast"'),
            ]:
                with torch.inference_mode(inference), self.assertRaisesRegex(error, message):
                    call()
        with self.assertRaisesRegex(RuntimeError, "is not differentiable, but table requires a gradient"):
            self.op(q, keys, table.requires_grad_(), ids, lengths, left)


if __name__ == "__main__":
    bov_ops.main()
