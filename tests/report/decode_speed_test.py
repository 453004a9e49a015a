"""scripts/plot_decode on numbers that `bov bench decode --filter "T 2K, batch 1"` wrote."""

import report_packages  # noqa: F401  first: finds the packages

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from report_packages import ROOT
from reporting import decode_speed

FILE = ROOT / "tests/report/decode_speed.json"
METHODS = ["V cache", "as published", "bov, indirect", "bov, aggregated", "bov, automatic"]


class DecodeSpeed(unittest.TestCase):
    def setUp(self):
        self.measurements = json.loads(FILE.read_text())["measurements"]

    def test_a_panel_for_each_problem_and_a_series_for_each_method(self):
        panels = decode_speed.decode_chart(self.measurements).panels
        attention, step = "target layers' attention", "step"
        self.assertEqual([panel.title for panel in panels],
                         [f"{attention}\nall long", f"{attention}\nSSSL", f"{step}\nall long", f"{step}\nSSSL"])
        self.assertEqual([[series.name for series in panel.series] for panel in panels],
                         [METHODS] * 2 + [[method for method in METHODS if method != "as published"]] * 2)
        looks = {(series.name, str(series.style)) for panel in panels for series in panel.series}
        self.assertEqual(len(looks), len(METHODS))
        shown = [(series.x[0], series.y[0]) for panel in panels for series in panel.series]
        self.assertEqual(shown, [(2048, 1 / measured["median_seconds"]) for measured in self.measurements])

    def test_contexts_are_in_order_and_batches_apart(self):
        longer = [{**measured, "context_tokens": 512} for measured in self.measurements]
        batches = [{**measured, "batch": 8} for measured in self.measurements]
        panels = decode_speed.decode_chart(self.measurements + longer + batches).panels
        self.assertEqual(len(panels), 8)
        for panel in panels[:4]:
            self.assertTrue(all(list(series.x) == [512, 2048] for series in panel.series))
        self.assertTrue(all(panel.title.endswith(", batch 8") for panel in panels[4:]))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "reporting.decode_speed", FILE, "--out", folder], check=True,
                           stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")})
            files = {path.name: path.stat().st_size for path in pathlib.Path(folder).iterdir()}
        self.assertEqual(set(files), {"decode_speed.png", "decode_speed.svg"})
        self.assertGreater(min(files.values()), 10_000)

    def test_other_benchmarks(self):
        with self.assertRaisesRegex(SystemExit, "no measurement of decode"):
            decode_speed.decode_chart([{**measured, "op": "copy"} for measured in self.measurements])


if __name__ == "__main__":
    unittest.main()
