"""scripts/tensorboard_bridge, read back with TensorBoard's own reader."""

import report_packages  # noqa: F401  first: finds the packages

import collections
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from report_packages import RECORDS, ROOT
from reporting.tensorboard_bridge import Bridge
from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator


def read_back(folder):
    """{name: [(step, value), ...]} as TensorBoard shows it."""
    events = EventAccumulator(str(folder), size_guidance={SCALARS: 0}).Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def line(step, loss, gamma=1.0):
    return json.dumps({"step": step, "tokens": 64 * step, "flops": 1e6 * step, "loss": loss, "time": 1.0, "rates": {"matrix": 0.01},
                       "coefficients": {"8": {"gamma": gamma}}}) + "\n"


class BridgeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.runs, self.out = self.folder / "runs", self.folder / "out"
        self.log = self.runs / "bov/seed-1/metrics.jsonl"
        self.log.parent.mkdir(parents=True)

    def append(self, text):
        with open(self.log, "a") as file:
            file.write(text)

    def bridge(self):
        bridge = Bridge([self.runs], self.out)
        self.addCleanup(bridge.close)
        return bridge

    def losses(self):
        return read_back(self.out / "runs/bov/seed-1")["loss"]

    def test_lines_are_followed_as_they_grow(self):
        bridge = self.bridge()
        self.assertEqual(bridge.update(), 0)
        self.append(line(1, 5.5, gamma=0.25) + line(2, 4.5)[:20])
        bridge.update()
        self.assertEqual(self.losses(), [(1, 5.5)])
        self.append(line(2, 4.5)[20:])
        bridge.update()
        self.assertEqual(self.losses(), [(1, 5.5), (2, 4.5)])
        found = read_back(self.out / "runs/bov/seed-1")
        self.assertEqual(found["coefficients/layer_08/gamma"], [(1, 0.25), (2, 1.0)])
        self.assertEqual(set(found), {"loss", "tokens", "flops", "rates/matrix", "coefficients/layer_08/gamma"})

    def test_lines_that_are_no_rows_and_numbers_that_are_none_are_left_out(self):
        self.append('not json\n{"loss": 3}\n[1]\n{"step": 3, "loss": null, "tokens": 7}\n' + line(4, 4.0))
        self.bridge().update()
        self.assertEqual(self.losses(), [(4, 4.0)])

    def test_restart_writes_nothing_twice(self):
        self.append(line(1, 5.5) + line(2, 1 / 3))
        first = self.bridge()
        first.update()
        first.close()
        second = self.bridge()
        self.assertEqual(second.update(), 0)
        self.append(line(3, 3.5))
        second.update()
        second.close()
        self.assertEqual(self.bridge().update(), 0)
        self.assertEqual([step for step, _ in self.losses()], [1, 2, 3])

    def test_cut_off_event_file(self):
        self.append(line(1, 5.5) + line(2, 4.5))
        first = self.bridge()
        first.update()
        first.close()
        events = next((self.out / "runs/bov/seed-1").iterdir())
        os.truncate(events, events.stat().st_size - 5)
        self.assertGreater(self.bridge().update(), 0)
        self.assertEqual(self.losses(), [(1, 5.5), (2, 4.5)])

    def test_resumed_run(self):
        """It drops the rows beyond its checkpoint, by replacing the file, and computes them again, not quite the same."""
        bridge = self.bridge()
        self.append(line(1, 5.5) + line(2, 4.5) + line(3, 3.5))
        bridge.update()
        part = self.log.with_name("part")
        part.write_text(line(1, 5.5))
        part.replace(self.log)
        bridge.update()
        self.append(line(2, 4.25) + line(3, 3.25) + line(4, 2.25))
        bridge.update()
        self.assertEqual(self.losses(), [(1, 5.5), (2, 4.25), (3, 3.25), (4, 2.25)])
        bridge.close()
        self.assertEqual(self.bridge().update(), 0)

    def test_rotated_log(self):
        bridge = self.bridge()
        self.append(line(1, 5.5))
        bridge.update()
        self.append(line(2, 4.5))
        self.log.rename(self.log.with_name("metrics.jsonl.1"))
        self.append(line(3, 3.5))
        bridge.update()
        self.assertEqual(self.losses(), [(1, 5.5), (2, 4.5), (3, 3.5)])

    def test_runs_that_start_later(self):
        bridge = self.bridge()
        bridge.update()
        later = self.runs / "bov/seed-2/metrics.jsonl"
        later.parent.mkdir()
        later.write_text(line(1, 6.5))
        bridge.update()
        self.assertEqual(read_back(self.out / "runs/bov/seed-2")["loss"], [(1, 6.5)])


class CommandTest(unittest.TestCase):
    """The program itself on the records of a grid, killed and started again."""

    def test_kill_and_restart(self):
        with tempfile.TemporaryDirectory() as name:
            out = pathlib.Path(name) / "out"
            command = [ROOT / "scripts/tensorboard_bridge", RECORDS, "--out", out]
            process = subprocess.Popen([*command, "--interval", "0.1"], stdout=subprocess.DEVNULL, start_new_session=True)
            deadline = time.monotonic() + 120
            while not any(out.rglob("events.*")) and time.monotonic() < deadline:
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            last = subprocess.run([*command, "--once"], capture_output=True, text=True)
            self.assertEqual((last.returncode, last.stderr), (0, ""))
            for log in RECORDS.rglob("metrics.jsonl"):
                rows = [json.loads(text) for text in log.read_text().splitlines()]
                found = read_back(out / "records" / log.parent.relative_to(RECORDS))
                for key in ("loss", "validation_bpb"):
                    expected = [(row["step"], row[key]) for row in rows if key in row]
                    self.assertEqual([step for step, _ in found[key]], [step for step, _ in expected])
                    for (_, value), (_, wanted) in zip(found[key], expected):
                        self.assertAlmostEqual(value, wanted, delta=1e-6 * abs(wanted))
                values = collections.Counter(f"coefficients/layer_{int(layer):02d}/{key}" for row in rows
                                             for layer, by_name in row.get("coefficients", {}).items() for key in by_name)
                self.assertEqual({name: len(points) for name, points in found.items() if name.startswith("coefficients/")}, values)

    def test_folder_that_is_not_there(self):
        result = subprocess.run([ROOT / "scripts/tensorboard_bridge", "/no/such", "--out", "/no/out"], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (1, "scripts/tensorboard_bridge: /no/such is no folder\n"))


if __name__ == "__main__":
    unittest.main()
