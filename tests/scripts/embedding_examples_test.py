"""The examples of docs/embedding.md learn, and compute what plain LibTorch does.

Usage: embedding_examples_test.py LLAMA REPLACE_ATTENTION DECODE_WITH_OP     (the examples, built)
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = r"(\d+\.?\d*(?:e[-+]\d+)?)"


def output_of(program):
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


class EmbeddingExamples(unittest.TestCase):
    def check_losses(self, losses):
        """From above a uniform guess among the 11 tokens that occur, ln 11 = 2.4 nats, to the pattern, which is certain."""
        self.assertGreater(losses[0], 2.4)
        self.assertLess(losses[-1], 0.3)

    def test_llama(self):
        output = output_of(LLAMA)
        losses = [float(loss) for loss in re.findall(r"loss (\S+)", output)]
        self.assertEqual(len(losses), 3)
        self.check_losses(losses)
        gamma, difference = map(float, re.search(rf"gamma {NUMBER}; largest.* {NUMBER}", output).groups())
        self.assertNotEqual(gamma, 1)  # where it started
        self.assertEqual(difference, 0)  # one product of two float32 numbers, rounded once on both sides

    def test_replaced_attention(self):
        output = output_of(REPLACE_ATTENTION)
        for name in ("MultiheadAttention", "bov::CausalSelfAttention"):
            self.check_losses([float(loss) for loss in re.findall(rf"^{name} .*loss (\S+)", output, re.MULTILINE)])
        (difference,) = re.findall(rf"formula {NUMBER}", output)
        # Outputs are sums of 64 products of numbers below 1, in float32 in another order.
        self.assertLess(float(difference), 1e-6)

    def test_decode_with_the_operator(self):
        output = output_of(DECODE_WITH_OP)
        (difference,) = re.findall(rf"gathered values {NUMBER}", output)
        # Weighted means of 33 numbers about 1, in float32 in another order.
        self.assertLess(float(difference), 5e-6)
        keys, ids, values = map(int, re.search(r"kept: (\d+) bytes of keys, (\d+) of ids; a V cache would take (\d+)", output).groups())
        self.assertEqual((keys, ids, values), (2 * 48 * 2 * 16 * 4, 2 * 48 * 2, 2 * 48 * 2 * 16 * 4))

    def test_the_page_names_every_example(self):
        page = (ROOT / "docs/embedding.md").read_text()
        for file in (ROOT / "docs/examples").glob("*.cpp"):
            self.assertIn(f"(examples/{file.name})", page)


if __name__ == "__main__":
    _, LLAMA, REPLACE_ATTENTION, DECODE_WITH_OP = sys.argv
    unittest.main(argv=sys.argv[:1])
