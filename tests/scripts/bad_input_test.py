"""What the program says to bad input: one line that names the thing, the value and what was expected.

Usage: bad_input_test.py BOV [UNITTEST_ARGUMENT...]     (BOV: the program that was built)
"""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

LONGEST_MESSAGE = 500
RUN = "model: {n_layer: 2, n_embd: 32, n_head: 2, n_kv_head: 2, sequence_length: 32, vocab_size: 300}\n" \
      "train: {tokens_per_step: 64, micro_batch: 1, device: cpu}\nbudget: {steps: 2}\n"


class BadInput(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def run_bov(self, *arguments):
        return subprocess.run([BOV, *arguments], cwd=self.folder, capture_output=True, text=True, errors="replace",
                              stdin=subprocess.DEVNULL)

    def check_refused(self, arguments, *expected):
        result = self.run_bov(*arguments)
        with self.subTest(arguments=arguments):
            self.assertIn(result.returncode, (1, 2), result.stderr)
            self.assertEqual(result.stdout, "")
            for text in expected:
                self.assertIn(text, result.stderr)
            self.assertLess(len(result.stderr), LONGEST_MESSAGE)
            self.assertIsNone(re.search(r"\d{25}", result.stderr), result.stderr)

    def test_numbers_out_of_bounds_name_the_bounds(self):
        config = self.write("run.yaml", RUN)
        grid = self.write("grid.yaml", "base:\n  " + RUN.replace("\n", "\n  ") + "\nrows: [{name: a}]\n")
        text = self.write("text.txt", "some text")
        tokenizer = ["tokenizer", "train", "--input", text, "--output", "t"]
        generate = ["generate", "--checkpoint", ".", "--prompt", "a"]
        data = ["data", "build", "--tokenizer", "t", "--input", text, "--output", "d"]
        for command, option, values, bounds in [
            (["train", config], "--threads", ["0", "-1", "99999999999999999999", "two"], "1 to 1024"),
            (["train", config], "--profile", ["0", "1000001"], "1 to 1000000"),
            (["eval", "."], "--threads", ["0"], "1 to 1024"),
            (["eval", "."], "--tokens", ["-1"], "0 to 1000000000000000"),
            (["doctor"], "--threads", ["0"], "1 to 1024"),
            (["ablate", grid], "--jobs", ["0", "-3"], "1 to 1024"),
            (["ablate", grid], "--seeds", ["-1"], "0 to 9223372036854775807"),
            (tokenizer, "--vocab-size", ["0", "257", "2000000000"], "258 to 1048576"),
            (tokenizer, "--max-bytes", ["0"], "1 to 1000000000000000"),
            (tokenizer, "--validation-per-mille", ["1000"], "0 to 999"),
            (tokenizer, "--character-coverage", ["2"], "0.900000 to 1.000000"),
            (data, "--threads", ["0"], "1 to 1024"),
            (data, "--shard-tokens", ["0"], "1 to 1000000000000000"),
            (data, "--validation-per-mille", ["-1"], "0 to 999"),
            (["check-golden", "."], "--tolerance", ["0"], "0.000000 to 1.000000"),
            (["bench"], "--threads", ["0"], "1 to 1024"),
            (["bench"], "--repetitions", ["0"], "1 to 1000000"),
            (["bench"], "--min-time", ["0", "nan"], "0.000001 to 3600.000000"),
            (generate, "--threads", ["0"], "1 to 1024"),
            (generate, "--samples", ["0", "1000000000000000"], "1 to 65536"),
            (generate, "--max-new-tokens", ["0"], "1 to 1000000000000000"),
            (generate, "--top-k", ["-1"], "0 to 1000000000000000"),
            (generate, "--top-p", ["2"], "0.000000 to 1.000000"),
            (generate, "--temperature", ["-1"], "0.000000 to 1000.000000"),
            (generate, "--seed", ["-1"], "0 to 9223372036854775807"),
            (["memory", config], "--batch", ["0", "9223372036854775807"], "1 to 1000000"),
            (["convert", "fold", ".", "--out", "f"], "--recover-tokens", ["0"], "1 to 1000000000000000"),
            (["convert", "quantize", ".", "--out", "q"], "--tokens", ["-1"], "0 to 1000000000000000"),
        ]:
            for value in values:
                self.check_refused([*command, f"{option}={value}"], option, bounds if value != "two" else "two")

    def test_lists_and_values_are_complete(self):
        config = self.write("run.yaml", RUN)
        grid = self.write("grid.yaml", "base:\n  " + RUN.replace("\n", "\n  ") + "\nrows: [{name: a}]\n")
        for command, option, text in [
            (["memory", config], "--context", "1K,,2K"),
            (["memory", config], "--batch", "1,8,"),
            (["ablate", grid], "--seeds", ",1"),
            (["ablate", grid], "--only", "a,"),
            (["ablate", grid], "--devices", ","),
        ]:
            self.check_refused([*command, f"{option}={text}"], f'{option}: "{text}" has an empty entry')
        self.check_refused(["memory", config, "--batch", "1,two"], '--batch: "two" is no integer from 1 to 1000000')
        self.check_refused(["memory", config, "--context", "1K,8K..1K"], "context '8K..1K'")
        # The next option is no value.
        self.check_refused(["memory", config, "--context=", "--batch", "1"], "--context: no value behind the =")
        result = self.run_bov("memory", config, "--context", "1K..2K,5", "--context", "7", "--batch", "3,2", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([(point["batch"], point["tokens"]) for point in json.loads(result.stdout)["points"]],
                         [(batch, context) for batch in (3, 2) for context in (1024, 2048, 5, 7)])

    def test_devices_are_gpus_that_exist(self):
        grid = self.write("grid.yaml", "base:\n  " + RUN.replace("\n", "\n  ").replace("cpu", "auto") + "\nrows: [{name: a}]\n")
        for devices in ["999", "x", "-1", "0,999"]:
            self.check_refused(["ablate", grid, f"--devices={devices}"], "--devices names", "CUDA devices")
        self.assertFalse((self.folder / "runs").exists())
        config = self.write("run.yaml", RUN)
        self.check_refused(["train", config, "--device", "gpu"], "expected auto, cpu, cuda or cuda:N")
        self.check_refused(["train", config, "--device", "cuda:9"], 'train.device is "cpu"', '"cuda:9"')
        anywhere = self.write("anywhere.yaml", RUN.replace("cpu", "auto"))
        for options in [[], ["--profile", "1"]]:
            self.check_refused(["train", anywhere, "--device", "cuda:9", *options], '--device is "cuda:9"; LibTorch sees')
        self.check_refused(["memory", config, "--device", "gpu"], "expected auto, cpu, cuda or cuda:N")
        # Bytes are counted for a device that is not there.
        for arguments in [[self.write("gpu.yaml", RUN.replace("cpu", "cuda:9"))], [config, "--device", "cuda:9"]]:
            result = self.run_bov("memory", *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("in the dtypes of cuda:9", result.stdout)
        self.check_refused(["eval", ".", "--device", "gpu"], "expected auto, cpu, cuda or cuda:N")
        self.check_refused(["generate", "--checkpoint", ".", "--prompt", "a", "--device", "gpu"], "expected auto, cpu, cuda or cuda:N")

    def test_data_that_is_not_there_stops_a_grid_before_any_run(self):
        grid = self.write("grid.yaml", "base:\n  data: {shards: nowhere}\n  " + RUN.replace("\n", "\n  ") + "\nrows: [{name: a}]\n")
        self.check_refused(["ablate", grid], "no finished data in 'nowhere'", "bov data build")
        self.assertFalse((self.folder / "runs").exists())

    def test_configs_that_cannot_be(self):
        self.check_refused(["train", "nowhere.yaml"], "nowhere.yaml")
        self.check_refused(["train", str(self.folder)], "CONFIG")
        self.check_refused(["train", self.write("empty.yaml", "")], "empty.yaml:1", "expected a mapping")
        self.check_refused(["inspect", self.write("binary.yaml", b"\x00\xff\xfe")], "binary.yaml:")
        self.check_refused(["train", self.write("nodata.yaml", RUN)], "data.shards is empty", "bov data build")
        huge = self.write("huge.yaml", RUN.replace("n_layer: 2", "n_layer: 1e15"))
        self.check_refused(["inspect", huge], "huge.yaml:1: model", "n_layer is 1000000000000000")
        two = self.write("two.yaml", RUN + "\n---\nname: other\n")
        self.check_refused(["inspect", two], "two.yaml:", "a second YAML document begins")
        self.check_refused(["inspect", self.write("deep.yaml", "a: " + "[" * 100000)], "deep.yaml")

    def test_tokenizers_without_text(self):
        cases = {"empty.txt": "", "empty.jsonl": "\n", "nothing.jsonl": '{"text": ""}\n', "bytes.txt": b"\xff\xfe\xff"}
        for name, content in cases.items():
            output = str(self.folder / "t")
            self.check_refused(["tokenizer", "train", "--input", self.write(name, content), "--output", output,
                                "--validation-per-mille", "0"], "there is no text to learn from")
        self.check_refused(["tokenizer", "train", "--input", self.write("short.txt", "two words"), "--output", output,
                            "--validation-per-mille", "0", "--vocab-size", "4096"], "ocabulary")

    def test_inputs_that_cannot_be_read(self):
        line = json.dumps({"text": "word " * 50}).encode() + b"\n"
        train = ["tokenizer", "train", "--output", "t", "--input"]
        garbage = self.write("garbage.jsonl.gz", gzip.compress(line) + b"garbage")
        self.check_refused([*train, garbage], "garbage.jsonl.gz goes on behind its compressed data")
        cut = self.write("cut.jsonl.gz", gzip.compress(line)[:-9])
        self.check_refused([*train, cut], "cut.jsonl.gz ends in the middle")
        (self.folder / "folder.txt").mkdir()
        self.check_refused([*train, str(self.folder / "folder.txt")], "folder.txt", "directory")
        self.check_refused([*train, "nowhere.txt"], "nowhere.txt", "No such file")

    def test_data_folders_that_are_damaged_name_the_file(self):
        for content in ["", "[]", "{", '{"format": 3}', '{"format": "bov-data"}', '{"format": "bov-data", "version": 1}',
                        '{"format": "bov-data", "version": 1, "train": 5}']:
            self.write("data/manifest.json", content)
            self.check_refused(["data", "info", "data"], "data/manifest.json")

    def test_run_folders_that_are_damaged_name_the_file(self):
        config = self.write("run.yaml", RUN)
        for content in ["", "[]", '"text"', "{}", '{"status": 3}', '{"status": "completed", "validation_bpb": "x"}']:
            self.write("run/result.json", content)
            self.check_refused(["train", config, "--run-dir", "run"], "run/result.json")
        self.check_refused(["eval", "run"], "run", "config.yaml")
        self.check_refused(["train", config, "--run-dir", config], "run.yaml")

    @unittest.skipIf(os.geteuid() == 0, "root writes everywhere")
    def test_folders_that_cannot_be_written(self):
        config = self.write("run.yaml", RUN)
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        self.check_refused(["train", config], "runs/run", "Permission denied")


if __name__ == "__main__":
    BOV = sys.argv.pop(1)
    unittest.main()
