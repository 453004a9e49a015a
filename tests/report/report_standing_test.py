"""Whether a run counts: scripts/report and `bov compare` say the same of every run, whatever is wrong with it.

Usage: report_standing_test.py BOV [UNITTEST_ARGUMENT...]     (BOV: the program that was built)
"""

import report_packages  # noqa: F401  first: finds the packages

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from report_packages import RECORDS
from reporting import records


def replace(path, old, new):
    path.write_text(path.read_text().replace(old, new))


def record_data(run, data):
    path = run / "environment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data": data}))


# What is done to every so-many-th run, so that some runs get several of them.
DAMAGES = [
    (5, lambda run: record_data(run, None)),
    (19, lambda run: record_data(run, {"train": "22", "validation": "33"})),
    (6, lambda run: replace(run / "config.yaml", "qk_scale: 1.2", "qk_scale: 1.3")),
    (8, lambda run: replace(run / "config.yaml", "every: 1", "every: 2")),
    (10, lambda run: (run / "result.json").unlink()),
    (11, lambda run: (run / "config.yaml").unlink()),
    (12, lambda run: (run / "config.yaml").write_text("")),
    (13, lambda run: (run / "environment.json").write_text("[]")),
    (9, lambda run: (run / "result.json").write_text('{"status": "completed", "validation_bpb": 1, "coefficients": null}')),
    (16, lambda run: (run / "result.json").rename(run / "failure.json")),
    (14, shutil.rmtree),
]


class Standing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.grid = pathlib.Path(folder.name) / "small"
        shutil.copytree(RECORDS, self.grid)
        self.runs = sorted(self.grid.glob("*/seed-*"))

    def compared(self, *paths):
        """The states in the order of rows and seeds, by the program and by the report."""
        result = subprocess.run([BOV, "compare", *paths, "--json"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        program = [run["status"] for row in json.loads(result.stdout)["rows"] for run in row["runs"]]
        return program, [run.status for grid in records.read_sources(paths) for run in grid.runs()]

    def test_a_grid(self):
        for run in self.runs:
            record_data(run, {"train": "11", "validation": "33"})
        for interval, damage in DAMAGES:
            for run in self.runs[interval // 2::interval]:
                try:
                    damage(run)
                except OSError:
                    pass  # the file is gone already
        program, report = self.compared(self.grid)
        self.assertEqual(program, report)
        self.assertEqual(set(report), {"complete", "unfinished", "failed", "missing", "another config", "other data", "unreadable records"})

    def test_single_runs(self):
        record_data(self.grid / "bov/seed-1", {"train": "11"})
        record_data(self.grid / "fig5b_add_stream/seed-1", {"train": "22"})
        paths = [self.grid / row / "seed-1" for row in ("t1_01_standard", "bov", "fig5b_add_stream")]
        program, report = self.compared(*paths)
        self.assertEqual(program, report)
        self.assertEqual(report, ["complete", "complete", "other data"])


if __name__ == "__main__":
    BOV = sys.argv.pop(1)
    unittest.main()
