"""What the tests of `bov convert` share: the program in a folder of its own, runs that it has trained on a small scale, and
their tensors.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

from quickstart_test import write_documents

VOCABULARY = 320
STEPS = 20
TOKENS_PER_STEP = 256
CONFIG = """
value: {value}
model: {{n_layer: 3, n_embd: 32, n_head: 2, n_kv_head: 2, sequence_length: 64, vocab_size: 320, smear: {smear}}}
optimizer: {{warmup_steps: 4}}
data: {{shards: shards, buffer_documents: 50, packing: {packing}}}
budget: {{steps: 20}}
train: {{tokens_per_step: 256, micro_batch: 4, device: cpu}}
evaluation: {{every: 20, tokens: 2048}}
checkpoint: {{every: 10}}
"""


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])]) for name, entry in header.items()}


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


class ConvertCase(unittest.TestCase):
    program = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def run_bov(self, *arguments):
        return subprocess.run([self.program, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              errors="replace")

    def bov(self, *arguments):
        result = self.run_bov(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def bov_json(self, *arguments):
        return json.loads(self.bov(*arguments, "--json"))

    def check_refused(self, arguments, *expected):
        """One line on standard error that holds what is expected and no name from inside the library."""
        result = self.run_bov(*arguments)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        for text in expected:
            self.assertIn(text, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for inside in ("GPTImpl", "ValueMeans", "quantize_rows"):
            self.assertNotIn(inside, result.stderr)

    def check_nothing_left(self, name):
        self.assertEqual([path for path in self.folder.glob(f"{name}*")], [])


class TrainedCase(ConvertCase):
    def setUp(self):
        super().setUp()
        write_documents(self.folder / "text.jsonl")
        self.bov("tokenizer", "train", "--input", "text.jsonl", "--vocab-size", VOCABULARY, "--output", "tokenizer",
                 "--validation-per-mille", "100")
        self.build_data("shards", "text.jsonl", 100)

    def build_data(self, name, text, validation_per_mille):
        self.bov("data", "build", "--tokenizer", "tokenizer", "--input", text, "--output", name, "--validation-per-mille",
                 validation_per_mille)

    def training_tokens(self, shards):
        return json.loads((self.folder / shards / "manifest.json").read_text())["train"]["tokens"]

    def train(self, name, value, smear="false", packing="best_fit"):
        (self.folder / f"{name}.yaml").write_text(CONFIG.format(value=value, smear=smear, packing=packing))
        self.bov("train", f"{name}.yaml", "--run-dir", name, "--quiet")

    def checkpoint(self, run, step=STEPS):
        return self.folder / run / f"checkpoints/step-{step}"

    def spoil(self, run, name, numbers):
        """Writes float32 `numbers` {place: number} into a tensor of the run's newest checkpoint, as if trained so."""
        file = self.checkpoint(run) / "model.safetensors"
        tensors = read_safetensors(file)
        dtype, shape, data = tensors[name]
        data = bytearray(data)
        for place, number in numbers.items():
            struct.pack_into("<f", data, 4 * place, number)
        write_safetensors(file, {**tensors, name: (dtype, shape, bytes(data))})
        manifest = self.checkpoint(run) / "manifest.json"
        root = json.loads(manifest.read_text())
        data = file.read_bytes()
        root["files"][file.name] = {"bytes": len(data), "crc32": f"{zlib.crc32(data):08x}"}
        manifest.write_text(json.dumps(root))


def main():
    ConvertCase.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
