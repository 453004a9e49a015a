"""The C++ example of README.md is docs/examples/train_bov.cpp, which compiles, and its model learns.

Usage: readme_example_test.py PROGRAM     (PROGRAM: the example, built)
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class ReadmeExample(unittest.TestCase):
    def test_readme_shows_the_file(self):
        example = (ROOT / "docs/examples/train_bov.cpp").read_text()
        self.assertIn(f"```cpp\n{example}```", (ROOT / "README.md").read_text())

    def test_the_loss_falls(self):
        output = subprocess.run([PROGRAM], capture_output=True, text=True, check=True).stdout
        losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", output)]
        self.assertEqual(len(losses), 5)
        # A uniform guess among the seven tokens that occur costs ln 7 = 1.95 nats.
        self.assertLess(losses[-1], 0.5)
        self.assertIn("table of 100 rows", output)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
