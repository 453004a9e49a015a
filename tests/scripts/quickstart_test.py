"""The README's first command on a small scale: text, tokenizer, shards, the rows of the quickstart, their table.

Usage: quickstart_test.py BOV [UNITTEST_ARGUMENT...]     (BOV: the program that was built)

The grid is experiments/configs/quickstart.yaml with a small model and budget.
"""

import json
import os
import pathlib
import pty
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "experiments/configs"
WORDS = """the of and to in is that it was for on are with as his they at be this from have or by one had not but what all
were when we there can an your which their said if do will each about how up out them then she many some so these would other
into has more her two like him see time could no make than first been its who now people my made over did down only way find use
may water long little very after words called just where most know""".split()


def write_documents(path):
    """Sentences in which a word depends on the one before it, so that there is something to learn."""
    draw = random.Random(1)
    with open(path, "w") as out:
        for _ in range(300):
            word = draw.randrange(len(WORDS))
            words = []
            for _ in range(120):
                words.append(WORDS[word])
                word = (5 * word + draw.randrange(4)) % len(WORDS)
            out.write(json.dumps({"text": " ".join(words)}) + "\n")


def small_grid(shards):
    """The text of the quickstart's grid with each of these settings replaced once."""
    text = (CONFIGS / "quickstart.yaml").read_text()
    for pattern, replacement, count in [
        (r"^prepare:\n(  .*\n)+", "", 1),
        (r"n_layer: \d+", "n_layer: 3", 1),
        (r"n_embd: \d+", "n_embd: 32", 1),
        (r"sequence_length: \d+", "sequence_length: 64", 1),
        (r"vocab_size: \d+", "vocab_size: 320", 1),
        (r"shards: .*", f"shards: {shards}", 1),
        (r"flops: .*", "flops: 3e9", 1),
        (r"tokens_per_step: \d+", "tokens_per_step: 256", 1),
        (r"micro_batch: \d+", "micro_batch: 4", 1),
        (r"seeds: .*", "seeds: [1]", 1),
        (r"file: rows/", f"file: {CONFIGS}/rows/", 5),
    ]:
        text, found = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        assert found == count, f"{pattern} was found {found} times in quickstart.yaml"
    return text


class Quickstart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bov(self, *arguments):
        # As a user starts it: the program itself then sets how idle threads wait.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_WAIT", "GOMP"))}
        result = subprocess.run([BOV, *map(str, arguments)], cwd=self.folder, env=environment, capture_output=True, text=True,
                                errors="replace")
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_from_text_to_table(self):
        write_documents(self.folder / "text.jsonl")
        self.bov("tokenizer", "train", "--input", "text.jsonl", "--vocab-size", "320", "--output", "tokenizer",
                 "--validation-per-mille", "100")
        self.bov("data", "build", "--tokenizer", "tokenizer", "--input", "text.jsonl", "--output", "shards",
                 "--validation-per-mille", "100")
        result = subprocess.run([BOV, "data", "build", "--tokenizer", "tokenizer", "--input", "text.jsonl", "--output", "tokenizer"],
                                cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("--output 'tokenizer' is the tokenizer's folder", result.stderr)
        (self.folder / "grid.yaml").write_text(small_grid("shards"))

        table = json.loads(self.bov("ablate", "grid.yaml", "--out", "out", "--jobs", "2", "--json"))
        names = ["t1_01_standard", "t1_03_replace_first_layer_every", "t1_09_replace_embedding_learned", "bov",
                 "t1_06_replace_first_layer_learned"]
        self.assertEqual([row["name"] for row in table["rows"]], names)
        for row in table["rows"]:
            with self.subTest(row=row["name"]):
                self.assertEqual([run["status"] for run in row["runs"]], ["complete"])
                # A byte has 8 bits; the next word has four choices, and a word about four letters.
                self.assertGreater(row["bits_per_byte"]["mean"], 0.4)
                self.assertLess(row["bits_per_byte"]["mean"], 6)
                run = self.folder / "out" / row["name"] / "seed-1"
                self.assertGreaterEqual({entry.name for entry in run.iterdir()},
                                        {"config.yaml", "environment.json", "metrics.jsonl", "checkpoints", "result.json"})
        self.assertLessEqual({"(i)", "(ii)", "(iii)", "(iv)"}, {finding["id"] for finding in table["findings"]})
        markdown = (self.folder / "out/table.md").read_text()
        for name in names:
            self.assertIn(name, markdown)

        # Everything is finished: the same command only prints the table again.
        newest = max(path.stat().st_mtime_ns for path in (self.folder / "out").rglob("metrics.jsonl"))
        again = json.loads(self.bov("ablate", "grid.yaml", "--out", "out", "--jobs", "2", "--json"))
        self.assertEqual(again, table)
        self.assertEqual(max(path.stat().st_mtime_ns for path in (self.folder / "out").rglob("metrics.jsonl")), newest)
        environment = json.loads((self.folder / "out/bov/seed-1/environment.json").read_text())
        self.assertEqual(environment["threads"], max(1, os.cpu_count() // 2), "two rows side by side share the threads")
        self.check_progress(self.folder / "out/bov/seed-1/config.yaml")
        self.check_generation(self.folder / "out/bov/seed-1")
        self.check_the_folder_loses_nothing(names)

    def check_the_folder_loses_nothing(self, names):
        def ablate(grid, *options):
            return json.loads(self.bov("ablate", grid, "--out", "out", "--json", *options))

        # Another seed of one row: the other rows and the first seed stay in the table.
        table = ablate("grid.yaml", "--only", "bov", "--seeds", "2")
        self.assertEqual([row["name"] for row in table["rows"]], names)
        states = {row["name"]: {run["seed"]: run["status"] for run in row["runs"]} for row in table["rows"]}
        self.assertEqual(states.pop("bov"), {1: "complete", 2: "complete"})
        self.assertTrue(all(state == {1: "complete", 2: "missing"} for state in states.values()))
        compared = json.loads(self.bov("compare", "out", "--json"))
        self.assertEqual(compared["rows"], table["rows"])

        # What is refused changes nothing.
        def refused(grid, *options):
            before = (self.folder / "out/grid.yaml").read_text(), (self.folder / "out/table.json").read_text()
            result = subprocess.run([BOV, "ablate", grid, "--out", "out", *options], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertEqual(((self.folder / "out/grid.yaml").read_text(), (self.folder / "out/table.json").read_text()), before)
            return result.stderr

        text = (self.folder / "grid.yaml").read_text()
        (self.folder / "fewer.yaml").write_text(text.replace(f"  - file: {CONFIGS}/rows/bov.yaml\n", ""))
        self.assertIn("out/grid.yaml has rows that fewer.yaml lacks: bov;", refused("fewer.yaml"))
        (self.folder / "shards").rename(self.folder / "moved")
        self.assertIn("bov seed 3 missing; no finished data in 'shards'", refused("grid.yaml", "--only", "bov", "--seeds", "3"))

        # A finished grid makes no data: this corpus is nowhere to be had.
        (self.folder / "prepared.yaml").write_text(
            text + "prepare: {corpus: quick, corpus_folder: text/missing, tokenizer: text/missing/tokenizer}\n")
        self.assertEqual(ablate("prepared.yaml", "--seeds", "1")["rows"], table["rows"])
        self.assertFalse((self.folder / "text").exists())

        self.check_processes_in_one_folder()

    def check_processes_in_one_folder(self):
        """Two that start at the same time, each with a seed of its own, in a folder that has no grid yet."""
        shutil.copytree(self.folder / "out/bov", self.folder / "both/bov")
        programs = [subprocess.Popen([BOV, "ablate", "grid.yaml", "--out", "both", "--only", "bov", "--seeds", seed, "--json"],
                                     cwd=self.folder, stdout=subprocess.PIPE, text=True) for seed in ("1", "2")]
        for program in programs:
            program.communicate()
            self.assertEqual(program.returncode, 0)
        table = json.loads((self.folder / "both/table.json").read_text())
        row, = (row for row in table["rows"] if row["name"] == "bov")
        self.assertEqual({run["seed"]: run["status"] for run in row["runs"]}, {1: "complete", 2: "complete"})

    def check_progress(self, config):
        """A bar on a terminal, lines elsewhere."""
        command = [BOV, "train", config, "--threads", "1", "--run-dir"]
        lines = subprocess.run([*command, "piped"], cwd=self.folder, capture_output=True, text=True, check=True).stderr
        progress = r"step \d+/\d+  loss [\d.]+ .* tokens/s  \d+s left"
        self.assertRegex(lines, progress)
        self.assertNotIn("\r", lines)

        terminal, stderr = pty.openpty()
        with subprocess.Popen([*command, "terminal"], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=stderr) as program:
            os.close(stderr)
            shown = b""
            try:
                while piece := os.read(terminal, 4096):
                    shown += piece
            except OSError:  # the program has closed the terminal
                pass
        os.close(terminal)
        self.assertEqual(program.returncode, 0)
        self.assertRegex(shown.decode(), r"\r\[#+\.*\] " + progress)

    def check_generation(self, run):
        def generate(checkpoint, tables):
            return json.loads(self.bov("generate", "--checkpoint", checkpoint, "--prompt", "the and of", "--tables", tables,
                                       "--samples", "2", "--max-new-tokens", "30", "--seed", "3", "--json"))

        device, host, file = (generate(run, tables) for tables in ("device", "host", "file"))
        self.assertEqual(len(device["texts"]), 2)
        self.assertEqual((device["tokens"], device["tokens"]), (host["tokens"], file["tokens"]))
        # One table of 320 rows of 32 floats.
        self.assertEqual([device["table_bytes"]["device"], host["table_bytes"]["host"], file["table_bytes"]["file"]],
                         [320 * 32 * 4] * 3)
        text = self.bov("generate", "--checkpoint", run, "--prompt", "the and of", "--max-new-tokens", "30", "--seed", "3")
        # A small model may write bytes that are no UTF-8: the terminal gets them as they are, JSON a replacement.
        self.assertEqual(text.replace("\ufffd", ""), "the and of" + device["texts"][0].replace("\ufffd", "") + "\n")

        # Without the run's record nobody knows its tokenizer: the user is told.
        shutil.copytree(run, self.folder / "unrecorded")
        (self.folder / "unrecorded/environment.json").unlink()
        result = subprocess.run([BOV, "generate", "--checkpoint", "unrecorded", "--prompt", "the", "--max-new-tokens", "1"],
                                cwd=self.folder, capture_output=True)
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"unrecorded does not record its tokenizer", result.stderr)

        quantized = json.loads(self.bov("convert", "quantize", run, "--out", "int8", "--json"))
        self.assertEqual(quantized["table_bytes_after"], 320 * (32 + 4))
        # Rounding a value by at most 1/254 of its row's largest moves no prediction by much.
        self.assertAlmostEqual(quantized["bits_per_byte_after"], quantized["bits_per_byte_before"], delta=0.01)
        self.assertEqual(json.loads(self.bov("eval", "int8", "--json"))["validation_bpb"], quantized["bits_per_byte_after"])
        device, file = generate("int8", "device"), generate("int8", "file")
        self.assertEqual([device["table_bytes"]["device"], file["table_bytes"]["file"]], [320 * (32 + 4)] * 2)
        self.assertEqual(device["tokens"], file["tokens"])
        # What cannot be measured leaves nothing behind, and a folder that is there stays.
        for out, data, message in [("unmeasured", "tokenizer", "tokenizer"), ("int8", "shards", "int8 exists")]:
            before = sorted(self.folder.rglob("*"))
            result = subprocess.run([BOV, "convert", "quantize", run, "--out", out, "--data", data], cwd=self.folder,
                                    capture_output=True, text=True)
            self.assertEqual(result.returncode, 1)
            self.assertIn(message, result.stderr)
            self.assertEqual(sorted(self.folder.rglob("*")), before)


if __name__ == "__main__":
    BOV = os.path.abspath(sys.argv.pop(1))
    unittest.main()
