"""The C++ example of docs/decoding.md is docs/examples/decode_bov.cpp, which compiles and decodes.

Usage: decode_example_test.py PROGRAM     (PROGRAM: the example, built)
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class DecodeExample(unittest.TestCase):
    def test_the_page_shows_the_file(self):
        example = (ROOT / "docs/examples/decode_bov.cpp").read_text()
        self.assertLessEqual(len(example.partition("int main() {\n")[2].splitlines()), 16)
        self.assertIn(f"```cpp\n{example}```", (ROOT / "docs/decoding.md").read_text())

    def test_it_decodes(self):
        output = subprocess.run([PROGRAM], capture_output=True, text=True, check=True).stdout
        tokens, numbers = output.splitlines()
        self.assertEqual(len(tokens.split()), 8)
        self.assertTrue(all(0 <= int(token) < 1000 for token in tokens.split()))
        keys, values, token_ids = map(int, re.findall(r"\d+", numbers))
        # Six layers of 256 positions of 96 floats, of which two keep no values; history, and row numbers for two windows, two bytes each.
        self.assertEqual((keys, values, token_ids), (6 * 256 * 96 * 4, 4 * 256 * 96 * 4, 3 * 2 * 256))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
