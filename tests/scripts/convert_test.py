"""`bov convert fold`, `import` and `export` on runs that the program itself has trained, on a small scale.

Usage: convert_test.py BOV [UNITTEST_ARGUMENT...]     (BOV: the program that was built)
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

from quickstart_test import ROOT, write_documents

GOLDEN = ROOT / "tests/golden"
VOCABULARY = 320
STEPS = 20
CONFIG = """
value: {value}
model: {{n_layer: 3, n_embd: 32, n_head: 2, n_kv_head: 2, sequence_length: 64, vocab_size: 320, smear: {smear}}}
optimizer: {{warmup_steps: 4}}
data: {{shards: {shards}, buffer_documents: 50}}
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


class Convert(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_bov(self, *arguments):
        return subprocess.run([BOV, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, errors="replace")

    def bov(self, *arguments):
        result = self.run_bov(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def bov_json(self, *arguments):
        return json.loads(self.bov(*arguments, "--json"))

    def check_refused(self, arguments, *expected):
        result = self.run_bov(*arguments)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        for text in expected:
            self.assertIn(text, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def check_nothing_left(self, name):
        self.assertEqual([path for path in self.folder.glob(f"{name}*")], [])


class Fold(Convert):
    def setUp(self):
        super().setUp()
        write_documents(self.folder / "text.jsonl")
        self.bov("tokenizer", "train", "--input", "text.jsonl", "--vocab-size", VOCABULARY, "--output", "tokenizer",
                 "--validation-per-mille", "100")
        self.bov("data", "build", "--tokenizer", "tokenizer", "--input", "text.jsonl", "--output", "shards",
                 "--validation-per-mille", "100")

    def train(self, name, value, smear="false"):
        (self.folder / f"{name}.yaml").write_text(CONFIG.format(value=value, smear=smear, shards="shards"))
        self.bov("train", f"{name}.yaml", "--run-dir", name, "--quiet")

    def generate(self, run, *options):
        return self.bov_json("generate", "--checkpoint", run, "--prompt", "the and of", "--temperature", "0",
                             "--max-new-tokens", "20", *options)["tokens"]

    def test_a_fold_computes_the_same_and_is_a_run(self):
        self.train("dense", "{preset: replace_embedding}")
        folded = self.bov_json("convert", "fold", "dense", "--out", "folded")
        self.assertEqual(folded["layers"], [2])
        # Both are float32 means over thousands of tokens of losses that differ by roundings.
        self.assertAlmostEqual(folded["bits_per_byte_after"], folded["bits_per_byte_before"], delta=1e-6)
        self.assertEqual(self.generate("folded"), self.generate("dense"))
        self.assertEqual(self.generate("folded", "--tables", "file"), self.generate("dense"))
        tensors = read_safetensors(self.folder / f"folded/checkpoints/step-{STEPS}/model.safetensors")
        dense = read_safetensors(self.folder / f"dense/checkpoints/step-{STEPS}/model.safetensors")
        gamma = "blocks.2.attention.value.gamma"
        self.assertEqual(tensors[gamma], dense[gamma])
        self.assertEqual(tensors["blocks.2.attention.value.bank.table"][:2], ("F32", [VOCABULARY, 32]))
        self.assertNotIn("blocks.2.attention.value.projection", tensors)

        # In the middle of its training a run goes on, to the step where it would have ended.
        self.bov("convert", "fold", "dense/checkpoints/step-10", "--out", "middle")
        state = read_safetensors(self.folder / "middle/checkpoints/step-10/optimizer.safetensors")
        before = read_safetensors(self.folder / "dense/checkpoints/step-10/optimizer.safetensors")
        for entry in ["embedding.exp_avg", "blocks.0.mlp.up.momentum_buffer", f"{gamma}.exp_avg_sq"]:
            self.assertEqual(state[entry], before[entry])
        self.assertEqual(set(state["blocks.2.attention.value.bank.table.exp_avg"][2]), {0})
        result = self.bov_json("train", "middle/config.yaml", "--run-dir", "middle", "--quiet")
        self.assertEqual((result["status"], result["step"]), ("completed", STEPS))
        self.assertLess(result["validation_bpb"], self.bov_json("eval", "dense/checkpoints/step-10")["validation_bpb"])
        self.assertIn("converted", json.loads((self.folder / "middle/environment.json").read_text()))

    def test_a_standard_model_goes_on_with_tables_of_its_mean_values(self):
        self.train("standard", "{preset: standard}", smear="true")
        means = self.bov_json("convert", "fold", "standard", "--out", "means", "--calibrate", "shards", "--recover-tokens", "5120")
        self.assertEqual(means["layers"], [2])
        self.assertEqual(means["rows_seen"] + means["rows_unseen"], VOCABULARY)
        self.assertGreater(means["rows_unseen"], 0)
        tokens = json.loads((self.folder / "shards/manifest.json").read_text())["train"]["tokens"]
        self.assertTrue(tokens <= means["calibration_tokens"] < tokens + 256, (tokens, means))
        before, after, recovered = (means[f"bits_per_byte_{when}"] for when in ("before", "after", "recovered"))
        self.assertLess(abs(after - before), 0.5)
        self.assertLess(recovered, after)
        self.assertEqual(self.bov_json("eval", "means")["validation_bpb"], recovered)
        self.assertEqual(json.loads((self.folder / "means/result.json").read_text())["step"], 20)

        (self.folder / "some.txt").write_text("the and of " * 50)
        text = self.bov("convert", "fold", "standard", "--out", "text", "--calibrate", "some.txt", "--layers", "0,2")
        self.assertIn("tables in layers [0,2]", text)
        self.assertIn("filled with the mean over all tokens", text)
        self.assertEqual(sorted(path.name for path in self.folder.glob("text*")), ["text", "text.jsonl"])

    def test_what_cannot_be_folded_is_refused_and_leaves_nothing(self):
        self.train("smeared", "{preset: replace_embedding}", smear="true")
        fold = ["convert", "fold", "smeared", "--out", "out"]
        self.check_refused(fold, "smear is on", "smear: false")
        self.check_refused([*fold, "--calibrate", "shards"], "'embedding'", "source 'stream'")
        self.check_refused(["convert", "fold", "smeared", "--out", "shards"], "shards exists")
        self.check_refused([*fold, "--calibrate", "shards", "--layers", "deep"], '--layers is "deep"', "last_third")
        self.check_nothing_left("out")


class Names(Convert):
    def config(self, entry):
        value = json.dumps(entry["value"])
        shape = {"sequence_length" if key == "sequence_len" else key: size for key, size in entry["shape"].items()}
        (self.folder / "config.yaml").write_text(f"value: {value}\nmodel: {json.dumps(shape)}\nbudget: {{steps: 2}}\n"
                                                 "train: {tokens_per_step: 144, micro_batch: 1, device: cpu}\n")
        return "config.yaml"

    def entries(self, *names):
        index = json.loads((GOLDEN / "index.json").read_text())
        return [entry for entry in index if entry["file"].removesuffix(".safetensors") in names]

    def import_arguments(self, file, out, prefix="init/"):
        return ["convert", "import", file, "--prefix", prefix, "--config", "config.yaml", "--out", out]

    def test_published_files_come_back_bit_for_bit(self):
        for entry in self.entries("standard", "bank_learned_shared", "add_bank_gated_every_other", "first_layer_fixed_every"):
            with self.subTest(file=entry["file"]):
                name = entry["file"].removesuffix(".safetensors")
                self.config(entry)
                self.bov(*self.import_arguments(GOLDEN / entry["file"], name))
                self.bov("convert", "export", name, "--out", f"{name}.safetensors")
                golden = read_safetensors(GOLDEN / entry["file"])
                exported = read_safetensors(self.folder / f"{name}.safetensors")
                self.assertEqual({f"init/{key}" for key in exported}, {key for key in golden if key.startswith("init/")})
                for key, tensor in exported.items():
                    # Parameters without a gradient are read by no forward pass.
                    expected = golden[f"init/{key}"]
                    if f"grad/{key}" not in golden:
                        expected = (*expected[:2], bytes(len(expected[2])))
                    self.assertEqual(tensor, expected, key)
                # And ours come back from such a file.
                self.bov(*self.import_arguments(f"{name}.safetensors", f"{name}_again", prefix=""))
                self.assertEqual(*[(self.folder / run / "checkpoints/step-0/model.safetensors").read_bytes()
                                   for run in (name, f"{name}_again")])

    def test_a_file_that_does_not_fit_is_refused_with_the_tensor(self):
        (entry,) = self.entries("bank_learned")
        self.config(entry)
        golden = read_safetensors(GOLDEN / entry["file"])
        gamma = "init/transformer.h.4.attn.gamma_v"
        head = golden["init/lm_head.weight"]

        def refuse(changes, *expected):
            tensors = {**golden, **changes}
            write_safetensors(self.folder / "changed.safetensors",
                              {key: tensor for key, tensor in tensors.items() if tensor is not None})
            self.check_refused(self.import_arguments("changed.safetensors", "run"), "changed.safetensors", *expected)
            self.check_nothing_left("run")

        refuse({gamma: None}, "missing: transformer.h.4.attn.gamma_v")
        refuse({"init/transformer.wpe.weight": head}, "'transformer.wpe.weight' is unknown", "transformer.wte.weight")
        refuse({"init/lm_head.weight": ("F32", [64, 64], head[2])},
               "'init/lm_head.weight' is [64, 64]; the config makes it [128, 32]")
        refuse({"init/lm_head.weight": ("F64", [128, 32], head[2] * 2)}, "'init/lm_head.weight' is Double", "Float")
        self.check_refused(self.import_arguments(GOLDEN / entry["file"], "run", prefix="none/"), "begins with 'none/'")
        self.check_refused(self.import_arguments("config.yaml", "run"), "config.yaml", "header")


if __name__ == "__main__":
    BOV = os.path.abspath(sys.argv.pop(1))
    unittest.main()
