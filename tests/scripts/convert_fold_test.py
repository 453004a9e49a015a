"""`bov convert fold` of models whose values are a function of the token, and `quantize` of tables.

Usage: convert_fold_test.py BOV [UNITTEST_ARGUMENT...]     (BOV: the program that was built)
"""

import json
import math

from convert_case import STEPS, VOCABULARY, TrainedCase, main, read_safetensors


class Fold(TrainedCase):
    def generate(self, run, *options):
        return self.bov_json("generate", "--checkpoint", run, "--prompt", "the and of", "--temperature", "0",
                             "--max-new-tokens", "20", *options)["tokens"]

    def test_a_fold_computes_the_same_and_is_a_run(self):
        self.train("dense", "{preset: replace_embedding}")
        folded = self.bov_json("convert", "fold", "dense", "--out", "folded")
        self.assertEqual(folded["layers"], [2])
        self.assertEqual(folded["checkpoint"], str(self.checkpoint("folded")))
        # Both are float32 means over thousands of tokens of losses that differ by roundings.
        self.assertAlmostEqual(folded["bits_per_byte_after"], folded["bits_per_byte_before"], delta=1e-6)
        self.assertEqual(self.generate("folded"), self.generate("dense"))
        self.assertEqual(self.generate("folded", "--tables", "file"), self.generate("dense"))
        tensors = read_safetensors(self.checkpoint("folded") / "model.safetensors")
        dense = read_safetensors(self.checkpoint("dense") / "model.safetensors")
        gamma = "blocks.2.attention.value.gamma"
        self.assertEqual(tensors[gamma], dense[gamma])
        self.assertEqual(tensors["blocks.2.attention.value.bank.table"][:2], ("F32", [VOCABULARY, 32]))
        self.assertNotIn("blocks.2.attention.value.projection", tensors)

        # In the middle of its training a run goes on, to the step where it would have ended.
        self.bov("convert", "fold", "dense/checkpoints/step-10", "--out", "middle")
        state = read_safetensors(self.checkpoint("middle", 10) / "optimizer.safetensors")
        before = read_safetensors(self.checkpoint("dense", 10) / "optimizer.safetensors")
        for entry in ["embedding.exp_avg", "blocks.0.mlp.up.momentum_buffer", f"{gamma}.exp_avg_sq"]:
            self.assertEqual(state[entry], before[entry])
        self.assertEqual(set(state["blocks.2.attention.value.bank.table.exp_avg"][2]), {0})
        result = self.bov_json("train", "middle/config.yaml", "--run-dir", "middle", "--quiet")
        self.assertEqual((result["status"], result["step"]), ("completed", STEPS))
        self.assertLess(result["validation_bpb"], self.bov_json("eval", "dense/checkpoints/step-10")["validation_bpb"])
        converted = json.loads((self.folder / "middle/environment.json").read_text())["converted"]
        self.assertEqual(converted["from"], str(self.checkpoint("dense", 10)))

    def test_what_cannot_be_folded_is_refused_and_leaves_nothing(self):
        self.train("smeared", "{preset: replace_embedding}", smear="true")
        fold = ["convert", "fold", "smeared", "--out", "out"]
        self.check_refused(fold, f"{self.checkpoint('smeared')}: ", "smear is on", "smear: false")
        self.check_refused([*fold, "--calibrate", "shards"], f"{self.checkpoint('smeared')}: ", "'embedding'", "source 'stream'")
        self.check_refused([*fold, "--calibrate", "shards", "--layers", "deep"], '--layers is "deep"', "last_third")

        name = "blocks.1.mlp.up"
        columns = read_safetensors(self.checkpoint("smeared") / "model.safetensors")[name][1][1]
        self.spoil("smeared", name, {2 * columns + 3: math.nan, 7 * columns: math.inf})
        self.check_refused(fold, f"{self.checkpoint('smeared')}: tensor '{name}'", "2 numbers", "the first at [2, 3]")

        config = self.folder / "smeared/config.yaml"
        config.write_text(config.read_text().replace("vocab_size: 320", "vocab_size: 400"))
        self.spoil("smeared", name, {2 * columns + 3: 0.5, 7 * columns: 0.5})
        for command in (fold, ["eval", "smeared"], ["generate", "--checkpoint", "smeared", "--prompt", "the"]):
            self.check_refused(command, f"{self.checkpoint('smeared')}: ",
                               "embedding is Float [320, 32], expected Float [400, 32]")
        self.check_nothing_left("out")

    def test_tables_are_quantized_once(self):
        self.train("bank", "{preset: bov}")
        quantized = self.bov_json("convert", "quantize", "bank", "--out", "int8", "--tokens", "512")
        self.assertEqual(quantized["checkpoint"], str(self.checkpoint("int8")))
        self.assertEqual(quantized["bits_per_byte_before"], self.bov_json("eval", "bank", "--tokens", "512")["validation_bpb"])
        self.assertEqual(quantized["bits_per_byte_after"], self.bov_json("eval", "int8", "--tokens", "512")["validation_bpb"])
        self.assertEqual((self.folder / "int8/config.yaml").read_text(), (self.folder / "bank/config.yaml").read_text())
        converted = json.loads((self.folder / "int8/environment.json").read_text())["converted"]
        self.assertEqual(converted["from"], str(self.checkpoint("bank")))

        for command, problem in [("quantize", "its tables are int8 already"), ("export", "its tables are quantized")]:
            self.check_refused(["convert", command, "int8", "--out", "out"], f"{self.checkpoint('int8')}: {problem}")
        for run in ("bank", "int8"):
            self.check_refused(["convert", "fold", run, "--out", "out"], f"{self.folder / run}: its value source is 'bank'")
        name = "blocks.2.attention.value.bank.table"
        self.spoil("bank", name, {32 * 300 + 9: -math.inf})
        self.check_refused(["convert", "quantize", "bank", "--out", "out"], f"{self.checkpoint('bank')}: tensor '{name}'",
                           "1 number that is NaN or infinite, the first at [300, 9]")
        self.check_nothing_left("out")


if __name__ == "__main__":
    main()
