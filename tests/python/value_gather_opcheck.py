"""token_index and value_gather from Python: opcheck, gradcheck, torch.compile and the errors for bad input.

How it is started: bov_ops.py.
"""

import unittest

import bov_ops
import torch

IDS = torch.tensor([[3, 0, 3], [6, 3, 1]])
ROWS = 7


def table(dtype=torch.float64, grad=True):
    return torch.randn(ROWS, 5, dtype=dtype, requires_grad=grad)


def scale(grad=True):
    return torch.tensor(1.3, dtype=torch.float64, requires_grad=grad)


def value_gather_samples():
    yield table(), IDS, scale(), None
    yield table(), IDS, None, None
    yield table(), IDS.int(), scale().detach().reshape(1).requires_grad_(), torch.float64
    yield table(grad=False), IDS.t(), scale(), None
    yield table(), IDS[:0], scale(), None
    yield table(torch.bfloat16), IDS, scale(grad=False).float(), torch.float32
    yield table(torch.float32), IDS, None, torch.float16


def layers_samples():
    index = torch.ops.bov.token_index(IDS, ROWS)
    yield [table(), table()], IDS, [scale(), scale()], list(index)
    yield [table(), table(grad=False)], IDS, [], []
    yield [table()], IDS, [scale(grad=False)], list(index)


class ValueGather(unittest.TestCase):
    def test_token_index(self):
        for ids in (IDS, IDS.int(), IDS.t(), IDS[:0]):
            bov_ops.check(torch.ops.bov.token_index, (ids, ROWS))
        positions, offsets, distinct, count = torch.ops.bov.token_index(IDS, ROWS)
        self.assertEqual(positions.tolist(), [1, 5, 0, 2, 4, 3])
        self.assertEqual(offsets.tolist(), [0, 1, 2, 5, 6, 6, 6])
        self.assertEqual(distinct.tolist(), [0, 1, 3, 6, 7, 7])
        self.assertEqual(count.tolist(), [4])

    def test_value_gather(self):
        for arguments in value_gather_samples():
            bov_ops.check(torch.ops.bov.value_gather, arguments)

    def test_value_gather_layers(self):
        for arguments in layers_samples():
            bov_ops.check(torch.ops.bov.value_gather_layers, arguments)

    def test_its_backward_pass(self):
        """Without gradients of gradients: there are none."""
        for tables, ids, scales, index in layers_samples():
            tables, scales = [x.detach() for x in tables], [x.detach() for x in scales]
            grads = [torch.randn(*ids.shape, rows.shape[1], dtype=torch.float64) for rows in tables]
            for wanted in ((True, bool(scales)), (True, False), (False, bool(scales))):
                bov_ops.check(torch.ops.bov._value_gather_layers_backward, (grads, tables, ids, scales, index, *wanted))
        with self.assertRaisesRegex(RuntimeError, r"grad must be \[2, 3, 5\], got \[2, 3, 4\]"):
            torch.ops.bov._value_gather_layers_backward([grads[0][..., :4]], tables, ids, scales, index, True, False)

    def test_compiled_equals_eager(self):
        def values(rows, factor):
            return torch.ops.bov.value_gather(rows, IDS, factor).tanh().square().sum()

        rows, factor = table(), scale()
        results = []
        for function in (values, torch.compile(values, backend="aot_eager", fullgraph=True)):
            loss = function(rows, factor)
            results.append([loss, *torch.autograd.grad(loss, [rows, factor])])
        for eager, compiled in zip(*results, strict=True):
            torch.testing.assert_close(compiled, eager, rtol=0, atol=0)

    def test_autocast(self):
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual(torch.ops.bov.value_gather(table(torch.float32), IDS).dtype, torch.bfloat16)

    def test_errors(self):
        rows = table(torch.float32)
        gather, index = torch.ops.bov.value_gather, torch.ops.bov.token_index
        for inference in (False, True):
            for call, error, message in [
                (lambda: gather(rows, IDS + 1), IndexError, r"value_gather: id 7 at ids\[1, 0\] is outside the table of 7"),
                (lambda: gather(rows, IDS - 1), IndexError, r"value_gather: id -1 at ids\[0, 1\] is outside the table of 7"),
                (lambda: gather(rows[:0], IDS), IndexError, r"id 3 at ids\[0, 0\] is outside the table of 0 rows"),
                (lambda: gather(rows[0], IDS), RuntimeError, r"table must be \[rows, width\], got \[5\]"),
                (lambda: gather(rows, IDS.float()), RuntimeError, "ids must be int64 or int32, got Float"),
                (lambda: gather(rows, IDS, torch.ones(2)), RuntimeError, r"scale must have one element, got \[2\]"),
                (lambda: gather(rows, IDS, None, torch.int32), RuntimeError, "dtype must be float64, float32"),
                (lambda: gather(rows, IDS.to("meta")), RuntimeError, "ids are on meta but table is on cpu"),
                (lambda: index(IDS, 6), IndexError, r"token_index: id 6 at ids\[1, 0\] is outside the table of 6 rows"),
            ]:
                with torch.inference_mode(inference), self.assertRaisesRegex(error, message):
                    call()


if __name__ == "__main__":
    bov_ops.main()
