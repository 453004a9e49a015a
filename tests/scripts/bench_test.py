"""`bov bench`: its list, one short measurement with its table and JSON, and its errors.

Usage: bench_test.py BOV [UNITTEST_ARGUMENT...]     (BOV: the program that was built)
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest


def bench(*arguments):
    return subprocess.run([BOV, "bench", *arguments], capture_output=True, text=True)


class Bench(unittest.TestCase):
    def test_list_names_problems_of_the_operator(self):
        result = bench("value_gather", "--list")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("value_gather: forward, 2048 ids x 768, fp32 to fp32\n", result.stdout)
        self.assertNotIn("copy:", result.stdout)
        self.assertIn("copy: 64 MiB\n", bench("--list").stdout)

    def test_measures_and_writes_everything(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bench.json")
            result = bench("value_gather", "--filter", "forward, 2048 ids", "--repetitions", "3", "--min-time", "0.001",
                           "--threads", "1", "--json", str(path))
            self.assertEqual(result.returncode, 0, result.stderr)
            written = json.loads(path.read_text())
        self.assertEqual(written["environment"]["threads"], 1)
        by_method = {m["method"]: m for m in written["measurements"]}
        self.assertEqual(set(by_method), {"embedding, multiply, cast", "bov", "memcpy"})
        for method, measured in by_method.items():
            self.assertIn(method, result.stdout)
            self.assertEqual(len(measured["seconds"]), 3)
            self.assertGreater(min(measured["seconds"]), 0)
        baseline, own = by_method["embedding, multiply, cast"], by_method["bov"]
        self.assertEqual(baseline["speedup"], 1)
        self.assertAlmostEqual(own["speedup"], baseline["median_seconds"] / own["median_seconds"])
        # One pass holds the result alone, three hold an intermediate beside it.
        self.assertEqual(own["peak_extra_bytes"], 2048 * 768 * 4)
        self.assertGreaterEqual(baseline["peak_extra_bytes"], 2 * 2048 * 768 * 4)
        self.assertEqual(by_method["memcpy"]["peak_extra_bytes"], 0)

    def test_decoding_says_how_many_tokens_and_bytes(self):
        # A step decodes with the paper's 12-layer model.
        for work, methods in [("target layers' attention", 5), ("step", 4)]:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "bench.json")
                result = bench("decode", "--filter", f"{work}, SSSL, T 2K, batch 1", "--repetitions", "1", "--min-time", "0.001",
                               "--json", str(path))
                self.assertEqual(result.returncode, 0, result.stderr)
                measured = {m["method"]: m for m in json.loads(path.read_text())["measurements"]}
            self.assertEqual(len(measured), methods)
            for m in measured.values():
                self.assertEqual((m["work"], m["windows"], m["context_tokens"], m["batch"]), (work, "SSSL", 2048, 1))
                self.assertAlmostEqual(m["tokens_per_second"], 1 / m["median_seconds"])
        # Nine S layers keep 513 positions and three L layers 2,049, in 2,304 slots as they grow by blocks; a target keeps no V.
        short, long = 513 * 768 * 4, 2304 * 768 * 4
        values, bank = measured["V cache"], measured["bov, automatic"]
        self.assertEqual((values["key_bytes"], values["value_bytes"]), (9 * short + 3 * long,) * 2)
        self.assertEqual(values["key_bytes"] - bank["value_bytes"], 3 * short + long)
        # History, and row numbers for both windows; an id takes two bytes.
        self.assertEqual((values["token_id_bytes"], bank["token_id_bytes"]), (2 * 2304, 2 * (2304 + 513 + 2304)))
        self.assertEqual((values["table_bytes"], bank["table_bytes"]), (0, 4 * 32768 * 768 * 4))
        self.assertEqual(bank["cache_bytes"], bank["key_bytes"] + bank["value_bytes"] + bank["token_id_bytes"])

    def test_errors_are_one_line(self):
        for arguments, message in [
            (["nothing"], "there is no benchmark of 'nothing'; expected one of "),
            (["--filter", "nothing"], "no benchmark has 'nothing' in its name"),
        ]:
            result = bench(*arguments)
            self.assertEqual(result.returncode, 1)
            self.assertIn(message, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1)


if __name__ == "__main__":
    BOV = sys.argv.pop(1)
    unittest.main()
